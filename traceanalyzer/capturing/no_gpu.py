"""Why TensorFlow sees no GPU, asked apart from the script, whose stderr is its own.

The answer is a few lines, in TensorFlow's words where they are TensorFlow's. Without a driver there
is no more to know. With one, the script's interpreter is started again in the script's environment,
to import TensorFlow and list devices: that takes seconds.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from typing import TYPE_CHECKING, Final

from traceanalyzer.capturing.supervise import run_aside

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.capture_file.journal import Journal

_DRIVER: Final = "libcuda.so.1"
_LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
_TIME_LIMIT_S: Final = 60.0
_MOST_LINES: Final = 500
_LONGEST: Final = 1000

# Lists devices and makes none: that would take the memory of a GPU.
_PROBE: Final = "import tensorflow as tf; tf.config.list_physical_devices()"

# The two forms of TensorFlow's log lines; abseil's is the newer, from 2.18 or so on:
#     2026-11-21 12:26:08.510075: I tensorflow/core/util/dump_graph.cc:240] Dumped Graph to ...
#     I0000 00:00:1795263718.987488    4311 dump_graph.cc:245] Dumped Graph to ...
_HEADER: Final = re.compile(
    r"(?:[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
    r"[\w./+-]+:\d+\] "
)
_ABOUT_DEVICES: Final = re.compile(
    r"gpu|cuda|cudnn|cublas|cufft|curand|nvidia|nvml|nccl|tensorrt|tf-trt|onednn|\bmkl|rocm"
    r"|\bdevices?\b|cpu_feature|instructions|xla|driver|dso|dlopen|numa|compute capability",
    re.IGNORECASE,
)


def saw_no_gpu(journal: Journal) -> bool:
    """Return whether it is recorded that TensorFlow found devices, and no GPU among them."""
    physical = journal.last.get("devices", {}).get("physical")
    kinds = [each.get("type") for each in _list(physical) if isinstance(each, dict)]
    for session in journal.many["session_config"]:  # a program may have nothing but sessions
        kinds += _list(session.get("device_types"))
    return bool(kinds) and "GPU" not in kinds


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def driver_problem() -> str | None:
    """Return what keeps CUDA's driver from being loaded on this machine; None if it loads."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        return str(error)
    return None


def device_lines(
    interpreter: Sequence[str], variables: Mapping[str, str], mask: set[signal.Signals]
) -> list[str]:
    """Return what TensorFlow logs about devices when the script's interpreter lists them.

    Raises:
        OSError: It did not list its devices, and why.
    """
    words = [*interpreter, "-c", _PROBE]
    try:
        ended = run_aside(words, {**variables, _LEVEL: "0"}, mask, _TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        msg = f"TensorFlow did not list its devices within {_TIME_LIMIT_S:.0f} s"
        raise OSError(msg) from None
    if ended.returncode:
        msg = f"TensorFlow did not list its devices (exit code {ended.returncode})"
        raise OSError(msg)
    lines = [line[:_LONGEST] for line in ended.stderr.splitlines() if _is_about_devices(line)]
    return lines[:_MOST_LINES]


def _is_about_devices(line: str) -> bool:
    header = _HEADER.search(line)
    return header is not None and _ABOUT_DEVICES.search(line, header.start()) is not None
