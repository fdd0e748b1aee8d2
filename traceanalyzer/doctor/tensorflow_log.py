"""Finds the log lines of TensorFlow 2.12 to 2.21 that explain why it uses no GPU.

Lines have one of two formats. TensorFlow has used the second, Abseil's, since about 2.18:
    2026-11-21 12:26:08.510075: I tensorflow/core/util/dump_graph.cc:240] Dumped Graph to ...
    I0000 00:00:1795263718.987488    4311 dump_graph.cc:245] Dumped Graph to ...
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

_MOST_LINES: Final = 500
_LOG_LINE: Final = re.compile(
    r"(?:[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
    r"[\w./+-]+:\d+\] "
)
# What messages mean: of gpu_device.cc, cudart_stub.cc, and cuda_platform.cc (before 2.14
# cuda_driver.cc), and of the dynamic loader, which is asked as cudart_stub.cc does.
_MEANINGS: Final = (
    ("libraries_not_loaded", "Cannot dlopen some GPU libraries"),  # cuDNN, cuBLAS and the like
    ("filtered_by_tf", "Ignoring visible gpu device"),
    ("driver_not_found", "Could not find cuda drivers on your machine"),
    ("driver_not_found", "libcuda.so.1: "),
    ("cuda_init_failed", "failed call to cuInit"),
)


def log_lines(lines: Iterable[str]) -> Iterator[str]:
    """Return the first log lines in TensorFlow's stderr."""
    return islice(filter(_LOG_LINE.search, lines), _MOST_LINES)


def reasons(log: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the id and log evidence of each reason why TensorFlow uses no GPU."""
    lines = tuple(log)
    for reason, text in _MEANINGS:
        line = next((line for line in lines if text in line), None)
        if line is not None:
            said = line.partition("] ")[2].strip()
            words = f"TensorFlow said: {said}" if said else f"CUDA's driver does not load: {line}"
            yield reason, words
