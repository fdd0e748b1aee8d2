"""TensorFlow's lines about devices, where the script had them suppressed.

`TF_CPP_MIN_LOG_LEVEL` hides why TensorFlow sees no GPU. Once the script has ended, its interpreter
is started again in its environment, without that variable, to import TensorFlow and list devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capturing.aside import run_aside
from traceanalyzer.capturing.stderr import is_about_devices

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

__all__ = ["device_lines", "is_suppressed"]

_LEVEL: Final = "TF_CPP_MIN_LOG_LEVEL"
_TIME_LIMIT_S: Final = 60.0
_MOST_LINES: Final = 500
_LONGEST: Final = 1000

# Lists what is there and makes no device: that would take the memory of a GPU.
_PROBE: Final = "import tensorflow as tf; tf.config.list_physical_devices()"


def is_suppressed(variables: Mapping[str, str]) -> bool:
    """Whether TensorFlow's information is kept from stderr."""
    try:
        return int(variables.get(_LEVEL, "0")) >= 1
    except ValueError:
        return False


def device_lines(
    interpreter: Sequence[str], variables: Mapping[str, str], mask: set[signal.Signals]
) -> list[str]:
    """Ask TensorFlow about devices in a process of its own.

    Args:
        interpreter: The script's interpreter, with its options.
        variables: The script's environment.
        mask: The signals that are to be blocked in it.

    Raises:
        OSError: It cannot be started, takes too long or fails.
    """
    ended = run_aside([*interpreter, "-c", _PROBE], {**variables, _LEVEL: "0"}, mask, _TIME_LIMIT_S)
    if ended.is_late:
        msg = f"it did not list its devices within {_TIME_LIMIT_S:.0f} s"
        raise OSError(msg)
    if ended.code:
        why = "interrupted" if ended.is_interrupted else f"exit code {ended.code}"
        msg = f"it did not list its devices ({why})"
        raise OSError(msg)
    lines = [
        line[:_LONGEST] for line in ended.err.splitlines(keepends=True) if is_about_devices(line)
    ]
    return [line.decode("utf-8", "replace").rstrip() for line in lines[:_MOST_LINES]]
