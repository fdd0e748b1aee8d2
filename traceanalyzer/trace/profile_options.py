"""The profiler's tracer levels, which TensorFlow 2.19 and later record in the trace.

Field numbers are those of profiler_options.proto and xplane.proto.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.trace import xplane
from traceanalyzer.trace.message import BrokenMessageError, as_bytes, as_text, fields

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace.columns import Trace


_PLANE: Final = "Task Environment"
_PLANES = 1  # of an XSpace
_NAME = 2  # of an XPlane
_LEVELS: Final = {  # of ProfileOptions
    2: "host_tracer_level",
    3: "device_tracer_level",
    4: "python_tracer_level",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """The tracer levels of a profiler session (profiler_options.proto)."""

    host_tracer_level: int = 0
    device_tracer_level: int = 0
    python_tracer_level: int = 0


def profile_options(trace: Trace) -> ProfileOptions | None:
    """Read the serialized ProfileOptions that TensorFlow 2.19 and later write into the trace."""
    data = (p.own_bytes("profile_options") for p in trace.planes if p.name == _PLANE)
    found = next(filter(None, data), None)
    if found is None:
        return None
    levels: dict[str, int] = {}
    with suppress(BrokenMessageError):  # cut short: keep the levels before the damage
        for number, value, _ in fields(memoryview(found)):
            if number in _LEVELS and isinstance(value, int):
                levels[_LEVELS[number]] = value
    return ProfileOptions(**levels)


def profile_options_in(file: Path) -> ProfileOptions | None:
    """Read the options from an xplane file that is not gzipped, without decoding all of it.

    Returns:
        The options; None if the file has none or cannot be read.
    """
    with suppress(OSError, ValueError, BrokenMessageError):  # ValueError: an empty file
        mapped = np.memmap(file, np.uint8, mode="r")
        begin = 0
        for number, plane, end in fields(mapped.data):
            if number == _PLANES:
                # The name comes before the large fields.
                names = (as_text(value) for k, value, _ in fields(as_bytes(plane)) if k == _NAME)
                if next(names, "") == _PLANE:
                    return profile_options(xplane.decode(np.asarray(mapped[begin:end])))
            begin = end
    return None
