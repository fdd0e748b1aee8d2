"""Manages the files of a capture: folders, traces, capture files, and the page."""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capturing.script import reason_of, run_aside
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.capture_file.journal import Journal

_STAMP: Final = "%Y_%m_%d_%H_%M_%S"
# Names of events that only ops cause; an xplane file contains names as plain text.
_OPS: Final = (b"ExecutorState::Process", b"EagerExecute", b"EagerLocalExecute", b"FunctionRun")

# Runs our command line with our own module path, wherever the user is.
_REPORT: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from traceanalyzer.cli import main
main(sys.argv[1:])
"""


def host_name() -> str:
    """Return this machine's name, without characters that a file name cannot contain."""
    return re.sub(r"[^\w.-]", "_", socket.gethostname(), flags=re.ASCII).lstrip(".") or "localhost"


@contextlib.contextmanager
def reserved_run(logdir: Path, name: str | None) -> Iterator[Path]:
    """Create the folder of a run, `LOGDIR/plugins/profile/NAME`; remove it if it stays empty.

    By default, the name is the current time, as in TensorFlow.

    Raises:
        TraceAnalyzerError: The folder exists, or cannot be created or written to.
    """
    if name is not None and (not name.strip().strip(".") or re.search(r"[/\0\n]", name)):
        msg = f"--run {name!r}: not a valid folder name; use letters and digits"
        raise TraceAnalyzerError(msg)
    made: list[Path] = []
    try:
        try:
            runs = logdir.resolve() / "plugins" / "profile"
            for folder in (*reversed(runs.parents), runs):
                if not folder.is_dir():
                    folder.mkdir(exist_ok=True)
                    made.append(folder)
            made.append(_made_run(runs, name))
            with tempfile.TemporaryFile(dir=made[-1]):
                pass
        except OSError as error:
            msg = f"{logdir}: cannot be written to ({reason_of(error)}); choose another --logdir"
            raise TraceAnalyzerError(msg) from None
        yield made[-1]
    finally:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # not empty: it contains the recording
                each.rmdir()


def _made_run(runs: Path, name: str | None) -> Path:
    """Create a run's folder. If the default name is taken, append a number."""
    stamp = time.strftime(_STAMP)
    names = itertools.chain([stamp], (f"{stamp}_{number}" for number in itertools.count(2)))
    for each in names if name is None else (name,):
        with contextlib.suppress(FileExistsError):
            (runs / each).mkdir()
            return runs / each
    msg = f"--run {name}: already exists in {runs}; choose another name, or leave out --run"
    raise TraceAnalyzerError(msg)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Create a temporary folder for the recorder's files and TensorFlow's dumps."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="traceanalyzer-")).resolve()
        (folder / "graphs").mkdir()
    except OSError as error:
        where = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a word in a message
        why = f"cannot create a temporary folder in {where} ({reason_of(error)})"
        msg = f"{why}; set TMPDIR to another folder"
        raise TraceAnalyzerError(msg) from None
    try:
        yield folder
    finally:
        # Processes that the script left behind may still be writing there.
        for _ in range(3):
            shutil.rmtree(folder, ignore_errors=True)


def recorder_settings(work: Path, run: Path, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the recorder's `Settings` for a capture in these folders."""
    logdir = str(run.parents[2])
    return {"work": str(work), "logdir": logdir, "run": run.name, "host": host_name(), **more}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A profiler session that left a trace."""

    trace: Path  #: the xplane file
    is_the_scripts: bool  #: the script profiled itself
    duration_s: float
    reason: str  #: why it began and ended

    @property
    def contains_ops(self) -> bool:
        """Whether any op ran in the session."""
        try:
            with (
                self.trace.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                return any(content.find(name) >= 0 for name in _OPS)
        except (OSError, ValueError):  # missing or empty
            return False


def recorded_sessions(journal: Journal) -> list[Recorded]:
    """Return a journal's sessions that left a trace, in order."""
    return [
        Recorded(
            trace=trace,
            is_the_scripts=record["method"] == "script",
            duration_s=(record["stop_ns"] - record["start_ns"]) / 1e9,  # type: ignore[operator]
            reason=str(record["reason"]),
        )
        for record in journal.many["session"]
        if (trace := Path(str(record["trace"]))).is_file() and trace.stat().st_size
    ]


def session_to_report(sessions: Sequence[Recorded]) -> Recorded | None:
    """Return the newest session, preferring those with ops, and then our own to the script's."""
    newest_first = [*reversed(sessions)]
    newest_first.sort(key=lambda session: session.is_the_scripts)
    with_ops = (session for session in newest_first if session.contains_ops)
    return next(with_ops, newest_first[0] if newest_first else None)


def warnings_of(journal: Journal) -> list[str]:
    """Return the recorder's warnings, one line each."""
    notes = journal.many["note"]
    return [str(note.get("message")) for note in notes if note.get("severity") == "warning"]


def write_capture_files(traces: Sequence[Path], work: Path, **facts: Any) -> Iterator[str]:  # noqa: ANN401 - of `build`
    """Write the capture file beside each trace; yield a message if that fails."""
    from traceanalyzer.capture_file.build import build  # noqa: PLC0415 - loads numpy: not before
    from traceanalyzer.capture_file.files import path_beside, write  # noqa: PLC0415

    try:
        built = build(work, host_name(), **facts)
        for trace in traces:
            sessions = (
                replace(
                    session, trace=session.trace and os.path.relpath(session.trace, trace.parent)
                )
                for session in built.sessions
            )
            write(replace(built, sessions=tuple(sessions)), path_beside(trace))
    except (OSError, TraceAnalyzerError) as error:
        yield f"the capture file was not written: {printable(error)}"


def write_page(trace: Path, page: Path, mask: Collection[int] | None = None) -> list[str]:
    """Write the page in another process, and return the lines it prints about the run.

    Raises:
        TraceAnalyzerError: The process failed.
        OSError: The process could not be started.
    """
    run = [sys.executable, "-P", "-c", _REPORT, json.dumps(sys.path)]
    ended = run_aside([*run, "report", str(trace), "-o", str(page)], os.environ, mask)
    if ended.returncode:
        last = ended.stderr.strip().rpartition("\n")[2].removeprefix("traceanalyzer: ")
        raise TraceAnalyzerError(last or f"the report failed with exit code {ended.returncode}")
    return ended.stdout.splitlines()[:-1]  # the last one names the page


# --- Why TensorFlow sees no GPU -------------------------------------------------------------------

_TIME_LIMIT_S: Final = 30.0


def saw_no_gpu(journal: Journal) -> bool:
    """Return whether TensorFlow found no GPU among its devices, according to the journal."""
    physical = journal.last.get("devices", {}).get("physical")
    kinds = [each.get("type") for each in _list(physical) if isinstance(each, dict)]
    for session in journal.many["session_config"]:  # a program may have nothing but sessions
        kinds += _list(session.get("device_types"))
    return bool(kinds) and "GPU" not in kinds


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def why_no_gpu(
    journal: Journal, interpreter: Sequence[str] = (sys.executable,), *, ask_tensorflow: bool = True
) -> dict[str, Any]:
    """Return the reasons why TensorFlow saw no GPU, as arguments of `build`; {} if it saw one.

    Examine the script's interpreter in the script's environment. Start TensorFlow again only if
    there is no other obstacle.
    """
    if not saw_no_gpu(journal):
        return {}
    from traceanalyzer.capture_file.document import MachineObstacle  # noqa: PLC0415
    from traceanalyzer.doctor.examine import Examination, examine  # noqa: PLC0415 - rarely needed

    recorded = journal.last.get("environment", {}).get("variables")
    of_script = recorded.items() if isinstance(recorded, dict) else ()
    try:
        diagnosis = examine(
            Examination(
                interpreter=interpreter,
                variables={**os.environ, **{name: str(value) for name, value in of_script}},
                tensorflow_s=_TIME_LIMIT_S if ask_tensorflow else 0.0,
                patience_s=0.0,
            )
        )
    except TraceAnalyzerError:  # the script's variables keep Python from starting
        return {}
    obstacles = [
        MachineObstacle(id=c.id, text=c.text, how=c.how, fix=c.fix, command=c.command)
        for c in diagnosis.obstacles
    ]
    return {"log": diagnosis.log, "machine_obstacles": obstacles}
