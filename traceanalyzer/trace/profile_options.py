"""The profiler's tracer levels, which TensorFlow 2.19 and later record in the trace.

Field numbers are those of profiler_options.proto.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.trace.message import BrokenMessageError, fields

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Trace


_PLANE: Final = "Task Environment"
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
