"""The levels that the profiler recorded at, as TensorFlow 2.19 and later state in the trace.

Numbers of fields are those of profiler_options.proto and xplane.proto.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.trace import xplane
from traceanalyzer.trace.message import BrokenMessageError, fields

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace.columns import Trace


_PLANE: Final = "Task Environment"
_STAT: Final = "profile_options"
_PLANES = 1  # of an XSpace
_NAME = 2  # of an XPlane


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """The levels that were in force, as the trace itself recorded them (profiler_options.proto)."""

    host_tracer_level: int
    device_tracer_level: int
    python_tracer_level: int


def profile_options(trace: Trace) -> ProfileOptions | None:
    """Read the serialised ProfileOptions that TensorFlow 2.19 and later leave in the trace."""
    for plane in trace.planes:
        if plane.name == _PLANE and (data := plane.own_bytes(_STAT)):
            return _options(memoryview(data))
    return None


def profile_options_in(file: Path) -> ProfileOptions | None:
    """Read them off an xplane file, without the time that decoding all of it takes.

    Args:
        file: The file, not gzipped.

    Returns:
        The options; None where it states none, or cannot be read.
    """
    with suppress(OSError, ValueError, BrokenMessageError):  # ValueError: an empty file
        mapped = np.memmap(file, np.uint8, mode="r")
        begin = 0
        for number, plane, end in fields(mapped.data):
            if number == _PLANES and isinstance(plane, memoryview) and _name(plane) == _PLANE:
                return profile_options(xplane.decode(np.asarray(mapped[begin:end])))
            begin = end
    return None


def _name(plane: memoryview) -> str:
    """Return the name of a plane; it comes before the large fields."""
    for number, value, _ in fields(plane):
        if number == _NAME and isinstance(value, memoryview):
            return str(value, "utf-8", "replace")
    return ""


def _options(data: memoryview) -> ProfileOptions:
    numbers: dict[int, int] = {}
    with suppress(BrokenMessageError):  # cut short: keep what was read
        for number, value, _ in fields(data):
            if isinstance(value, int):
                numbers[number] = value  # noqa: PERF403 - keeps what precedes the damage
    return ProfileOptions(
        host_tracer_level=numbers.get(2, 0),
        device_tracer_level=numbers.get(3, 0),
        python_tracer_level=numbers.get(4, 0),
    )
