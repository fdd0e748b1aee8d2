"""The profiler sessions of a capture: which left a trace, and which of them to report."""

from __future__ import annotations

import mmap
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "Recorded",
    "delete_scratch",
    "recorded_sessions",
    "session_to_report",
    "set_aside_unfinished",
]

_BY_THE_SCRIPT: Final = "script"
_INCOMPLETE: Final = ".incomplete"

# Names of events that only ops cause; an xplane file holds names as they are.
_OPS: Final = (b"ExecutorState::Process", b"EagerExecute", b"EagerLocalExecute", b"FunctionRun")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A session that left a trace.

    Attributes:
        trace: The xplane file.
        is_the_scripts: Whether the script profiled itself.
        duration_s: How long it took; None where its end is not known.
        reason: Why it began and ended, in words.
    """

    trace: Path
    is_the_scripts: bool
    duration_s: float | None
    reason: str

    @property
    def holds_ops(self) -> bool:
        """Whether any op ran while it was recorded."""
        try:
            with (
                self.trace.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                return any(content.find(name) >= 0 for name in _OPS)
        except (OSError, ValueError):  # not there, or empty
            return False


def recorded_sessions(journal: Iterable[Mapping[str, Any]]) -> list[Recorded]:
    """Return the sessions of a journal that left a trace, in their order."""
    sessions = []
    for record in journal:
        if record["kind"] != "session" or not record.get("trace"):
            continue
        trace = Path(record["trace"])
        if not trace.is_file() or not trace.stat().st_size:
            continue
        start, stop = record.get("start_ns"), record.get("stop_ns")
        sessions.append(
            Recorded(
                trace=trace,
                is_the_scripts=record.get("method") == _BY_THE_SCRIPT,
                duration_s=(stop - start) / 1e9 if start and stop else None,
                reason=str(record.get("reason") or ""),
            )
        )
    return sessions


def session_to_report(sessions: Sequence[Recorded]) -> Recorded | None:
    """Return our newest session in which ops ran, else the script's own, else the newest."""
    newest_first = [
        *(session for session in reversed(sessions) if not session.is_the_scripts),
        *(session for session in reversed(sessions) if session.is_the_scripts),
    ]
    with_ops = (session for session in newest_first if session.holds_ops)
    return next(with_ops, newest_first[0] if newest_first else None)


def delete_scratch(logdir: Path, process: object) -> None:
    """Delete the folder that a trace is written to before it goes to its place, if one was left.

    Args:
        logdir: Log directory.
        process: Number of the script's process, as the journal has it.
    """
    if isinstance(process, int):
        shutil.rmtree(logdir / f".traceanalyzer-{process}", ignore_errors=True)


def set_aside_unfinished(run: Path, finished: Iterable[Path]) -> list[Path]:
    """Rename traces of our runs that TensorFlow did not come to finish; return their new names.

    Args:
        run: The run's folder; further windows of the same capture are in folders beside it.
        finished: The traces that the journal tells of.
    """
    whole = {path.resolve() for path in finished}
    folders = (run, *run.parent.glob(f"{run.name}-*"))
    traces = [trace for folder in folders for trace in folder.glob("*.xplane.pb")]
    return [
        trace.rename(trace.with_name(trace.name + _INCOMPLETE))
        for trace in traces
        if trace.resolve() not in whole
    ]
