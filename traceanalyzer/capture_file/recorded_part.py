"""How much of a captured program a trace was recorded of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.format import duration_text
from traceanalyzer.units import NS_PER_S, PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile, Session

_LITTLE_S, _LITTLE_SHARE = 2.0, 0.2  # of the time after the import of TensorFlow


@dataclass(frozen=True, kw_only=True)
class RecordedPart:
    """A part of a program's run."""

    recorded_s: float  #: how long was recorded
    #: How long the program ran; None where it ended before that was written.
    program_s: float | None
    is_nearly_all: bool  #: whether hardly anything of its use of TensorFlow is missing

    def __str__(self) -> str:
        """Return `12 s of 50 s`, or `12 s`."""
        of = "" if self.program_s is None else f" of {duration_text(self.program_s * PS_PER_S)}"
        return f"{duration_text(self.recorded_s * PS_PER_S)}{of}"


def recorded_part(capture_file: CaptureFile, session: int | None) -> RecordedPart | None:
    """Return the part that a session recorded; None where its end is not known."""
    if session is None:
        return None
    found: Session = capture_file.sessions[session]
    if found.stop_ns is None:
        return None
    recorded_s = (found.stop_ns - found.start_ns) / NS_PER_S
    start, ready = (_number(capture_file.environment, k) for k in ("started_ns", "attached_ns"))
    end = _number(capture_file.devices, "ended_ns")
    if start is None or ready is None or end is None or not start <= ready <= found.start_ns <= end:
        return RecordedPart(recorded_s=recorded_s, program_s=None, is_nearly_all=True)
    used_s = (end - ready) / NS_PER_S
    missing_s = used_s - recorded_s
    return RecordedPart(
        recorded_s=recorded_s,
        program_s=(end - start) / NS_PER_S,
        is_nearly_all=missing_s <= max(_LITTLE_S, _LITTLE_SHARE * used_s),
    )


def _number(facts: Mapping[str, object] | None, name: str) -> int | None:
    found = (facts or {}).get(name)
    return found if isinstance(found, int) else None
