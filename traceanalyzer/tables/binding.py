"""Whether a capture file belongs to the trace that it lies beside.

A file may have been copied there, or the trace written over by a later run of the same name. What
it holds would then be another program's: devices, lines, variables of the environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, Session
    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.trace.columns import Trace


_ENVIRONMENT: Final = "Task Environment"
_STARTED: Final = "profile_start_time"  # nanoseconds since 1970; not before TensorFlow 2.19
_MOST_DIGITS: Final = 19
_SLACK_NS: Final = 5_000_000_000  # between the recorder's clock and the profiler's
_LEAST_SHARE: Final = 0.05
_FEWEST: Final = 3  # ops from which a share says anything


def started_ns(trace: Trace) -> int | None:
    """Return when the profiler began, nanoseconds since 1970; None where the trace lacks it."""
    for plane in trace.planes:
        stated = plane.own.get(_STARTED, "") if plane.name == _ENVIRONMENT else ""
        if stated.isdecimal() and len(stated) <= _MOST_DIGITS:
            return int(stated)
    return None


def session_by_time(capture_file: CaptureFile, named: int | None, start_ns: int) -> int | None:
    """Return the session of a capture that was under way at a time, None where none was.

    Args:
        capture_file: The capture.
        named: The session that names the trace, which is preferred; None where none does.
        start_ns: When the trace began.
    """
    fitting = [at for at, each in enumerate(capture_file.sessions) if _holds(each, start_ns)]
    return named if named in fitting else next(iter(fitting), None)


def _holds(session: Session, start_ns: int) -> bool:
    if session.start_ns <= 0:  # not recorded
        return True
    stop_ns = start_ns if session.stop_ns is None else session.stop_ns
    return session.start_ns - _SLACK_NS <= start_ns <= stop_ns + _SLACK_NS


def holds_other_ops(capture_file: CaptureFile, tables: HostTables) -> bool:
    """Return whether next to none of a trace's ops are in a capture that recorded ops."""
    if tables.joined is None or not (capture_file.functions or capture_file.sequences):
        return False
    is_compute = (tables.ops["role"] == Role.COMPUTE).tolist()
    found = [
        record is not None
        for record, counts in zip(tables.joined.records, is_compute, strict=True)
        if counts
    ]
    return len(found) >= _FEWEST and sum(found) < _LEAST_SHARE * len(found)
