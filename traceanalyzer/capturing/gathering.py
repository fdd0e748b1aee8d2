"""What a capture leaves: traces, a capture file beside each, and a page about one of them."""

from __future__ import annotations

import json
import mmap
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capturing.folders import host_name
from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.capture_file.journal import Journal
    from traceanalyzer.capture_file.source_lines import SourceLines

_BY_THE_SCRIPT: Final = "script"

# Names of events that only ops cause; an xplane file holds names as they are.
_OPS: Final = (b"ExecutorState::Process", b"EagerExecute", b"EagerLocalExecute", b"FunctionRun")

# Runs our command line with our own module path, wherever the user is.
_REPORT: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from traceanalyzer.cli import main
main(sys.argv[1:])
"""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A profiler session that left a trace."""

    trace: Path  #: the xplane file
    is_the_scripts: bool  #: the script profiled itself
    duration_s: float | None  #: None where its end is not known
    reason: str  #: why it began and ended, in words

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


def recorded_sessions(journal: Journal) -> list[Recorded]:
    """Return the sessions of a journal that left a trace, in their order."""
    sessions = []
    for record in journal.many["session"]:
        trace = Path(str(record.get("trace") or ""))
        if not trace.is_file() or not trace.stat().st_size:
            continue
        start, stop = record.get("start_ns"), record.get("stop_ns")
        duration_s = None
        if isinstance(start, int) and isinstance(stop, int):
            duration_s = (stop - start) / 1e9
        sessions.append(
            Recorded(
                trace=trace,
                is_the_scripts=record.get("method") == _BY_THE_SCRIPT,
                duration_s=duration_s,
                reason=str(record.get("reason") or ""),
            )
        )
    return sessions


def session_to_report(sessions: Sequence[Recorded]) -> Recorded | None:
    """Return our newest session in which ops ran, or the script's own, or the newest."""
    newest_first = [
        *(session for session in reversed(sessions) if not session.is_the_scripts),
        *(session for session in reversed(sessions) if session.is_the_scripts),
    ]
    with_ops = (session for session in newest_first if session.holds_ops)
    return next(with_ops, newest_first[0] if newest_first else None)


def warnings_of(journal: Journal) -> list[str]:
    """Return what the recorder warns of, a line each."""
    notes = journal.many["note"]
    return [str(note.get("message")) for note in notes if note.get("severity") == "warning"]


def delete_scratch(logdir: Path, journal: Journal) -> None:
    """Delete the folder that TensorFlow writes a trace to, if a killed script has left it."""
    pid = journal.last.get("started", {}).get("pid")
    if isinstance(pid, int):
        shutil.rmtree(logdir / f".traceanalyzer-{pid}", ignore_errors=True)


def write_capture_file(  # noqa: PLR0913 - a fact each
    trace: Path,
    work: Path,
    *,
    log: list[str],
    gpus: list[dict[str, Any]],
    source: SourceLines | None,
    command: Sequence[str] | None = None,
) -> None:
    """Write the capture file beside a trace; `log` says why TensorFlow saw no GPU."""
    from traceanalyzer.capture_file.build import build  # noqa: PLC0415 - loads numpy: not before
    from traceanalyzer.capture_file.files import path_beside, write  # noqa: PLC0415

    log_source = "probe" if log else "none"
    facts: dict[str, Any] = {"log": log, "log_source": log_source, "gpus": gpus, "source": source}
    made = build(work, host_name(), folder=trace.parent, command=command, **facts)
    write(made, path_beside(trace))


def write_page(trace: Path, page: Path, prepare: Callable[[], None] | None = None) -> list[str]:
    """Write the page, in a process that may fail; return what it says of the run.

    Raises:
        TraceAnalyzerError: It failed, and why.
        OSError: It could not be started.
    """
    run = [sys.executable, "-P", "-c", _REPORT, json.dumps(sys.path)]
    ended = subprocess.run(  # noqa: S603 - ourselves
        [*run, "report", str(trace), "-o", str(page)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=prepare,
    )
    if ended.returncode:
        last = ended.stderr.strip().rpartition("\n")[2].removeprefix("traceanalyzer: ")
        raise TraceAnalyzerError(last or f"the report ended with code {ended.returncode}")
    return ended.stdout.splitlines()[:-1]  # the last one names the page
