"""The capture file beside a trace, if it belongs to the trace.

A file may have been copied there, or the trace overwritten by a later run of the same name. Its
content would then be another program's: devices, lines, environment variables.
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file import files as capture_files
from traceanalyzer.errors import CaptureFileError
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, Session
    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.trace.columns import Trace
    from traceanalyzer.trace.discovery import HostFile

_log = logging.getLogger("traceanalyzer")

_ENVIRONMENT: Final = "Task Environment"
_STARTED: Final = "profile_start_time"  # nanoseconds since 1970; from TensorFlow 2.19 on
_MOST_DIGITS: Final = 19
_SLACK_NS: Final = 5_000_000_000  # between the recorder's clock and the profiler's
_LEAST_SHARE: Final = 0.05
_FEWEST: Final = 3  # ops from which a share says anything


class Beside(NamedTuple):
    """The capture file beside a trace, or why there is none."""

    capture_file: CaptureFile | None
    session: int | None = None  #: Which of its sessions wrote the trace, where that is known
    problem: str = ""  #: Why a capture file that is there is not used
    is_foreign: bool = False  #: Whether that is because it belongs to another recording
    is_timed: bool = False  #: Whether the times of trace and capture file agree


def capture_beside(file: HostFile, trace: Trace) -> Beside:
    """Read the capture file beside a trace, unless it was recorded at another time."""
    if file.capture_file is None:
        return Beside(None)
    try:
        capture_file = capture_files.read(file.capture_file)
    except CaptureFileError as error:  # without it the trace is still worth reporting
        _log.warning("%s", error)
        return Beside(None, problem=str(error))
    if capture_file is None:
        return Beside(None)
    folder = file.capture_file.parent
    traces = [s.trace and os.path.normpath(folder / s.trace) for s in capture_file.sessions]
    own = os.path.normpath(file.path).removesuffix(".gz")
    named = traces.index(own) if own in traces else 0 if len(traces) == 1 else None
    start_ns = _started_ns(trace)
    if not traces or start_ns is None:
        return Beside(capture_file, named, is_timed=start_ns is not None)
    fitting = [k for k, s in enumerate(capture_file.sessions) if _was_recording(s, start_ns)]
    if not fitting:
        recorded_ns = min(session.start_ns for session in capture_file.sessions)
        times = f"it was recorded at {_utc(recorded_ns)} and the trace at {_utc(start_ns)}"
        return foreign(times)
    return Beside(capture_file, named if named in fitting else fitting[0], is_timed=True)


def foreign(problem: str) -> Beside:
    """Leave out a capture file that belongs to another recording."""
    return Beside(None, problem=problem, is_foreign=True)


def holds_other_ops(capture_file: CaptureFile | None, tables: HostTables) -> bool:
    """Return whether hardly any op of a trace is in a capture file that recorded ops."""
    if capture_file is None or tables.joined is None:
        return False
    if not (capture_file.functions or capture_file.sequences):
        return False
    is_compute = (tables.ops["role"] == Role.COMPUTE).tolist()
    pairs = zip(tables.joined.records, is_compute, strict=True)
    found = [record is not None for record, counts in pairs if counts]
    return len(found) >= _FEWEST and sum(found) < _LEAST_SHARE * len(found)


def _started_ns(trace: Trace) -> int | None:
    """Return when the profiler began, nanoseconds since 1970; None where the trace lacks it."""
    for plane in trace.planes:
        started = plane.own.get(_STARTED, "") if plane.name == _ENVIRONMENT else ""
        if started.isdecimal() and len(started) <= _MOST_DIGITS:
            return int(started)
    return None


def _was_recording(session: Session, at_ns: int) -> bool:
    if session.start_ns <= 0:  # not recorded
        return True
    stop_ns = at_ns if session.stop_ns is None else session.stop_ns
    return session.start_ns - _SLACK_NS <= at_ns <= stop_ns + _SLACK_NS


def _utc(at_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):  # a year that no calendar has
        return "an impossible time"
