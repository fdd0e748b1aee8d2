"""The files of a capture: its folders, its traces, a capture file beside each, and the page."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import mmap
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capturing.script import reason_of, run_aside
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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

    By default, the name is the time, as for TensorFlow's runs.

    Raises:
        TraceAnalyzerError: The folder exists, or cannot be created or written to.
    """
    if name is not None and (not name.strip().strip(".") or re.search(r"[/\0\n]", name)):
        msg = f"--run {name!r}: no name for a folder; use letters and digits"
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
            msg = f"{logdir}: cannot be written to ({reason_of(error)}); name another --logdir"
            raise TraceAnalyzerError(msg) from None
        yield made[-1]
    finally:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # not empty: it contains the recording
                each.rmdir()


def _made_run(runs: Path, name: str | None) -> Path:
    """Create the folder of a run, which no other capture can create at the same time."""
    stamp = time.strftime(_STAMP)
    names = itertools.chain([stamp], (f"{stamp}_{number}" for number in itertools.count(2)))
    for each in names if name is None else (name,):
        with contextlib.suppress(FileExistsError):
            (runs / each).mkdir()
            return runs / each
    msg = f"--run {name}: {runs} already contains it; give another name, or leave --run out"
    raise TraceAnalyzerError(msg)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Create a temporary folder for the recorder's and TensorFlow's files of a running script."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="traceanalyzer-")).resolve()
        (folder / "graphs").mkdir()
    except OSError as error:
        where = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a word in a message
        why = f"no temporary folder can be created in {where} ({reason_of(error)})"
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
    """Return the sessions of a journal that left a trace, in their order."""
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
    """Return the newest session with ops, one of ours if possible; without ops, the newest."""
    newest_first = [*reversed(sessions)]
    newest_first.sort(key=lambda session: session.is_the_scripts)
    with_ops = (session for session in newest_first if session.contains_ops)
    return next(with_ops, newest_first[0] if newest_first else None)


def warnings_of(journal: Journal) -> list[str]:
    """Return the recorder's warnings, one line each."""
    notes = journal.many["note"]
    return [str(note.get("message")) for note in notes if note.get("severity") == "warning"]


def write_capture_files(traces: Sequence[Path], work: Path, **facts: Any) -> Iterator[str]:  # noqa: ANN401 - of `build`
    """Write the capture file beside each trace; yield a message for each failure."""
    from traceanalyzer.capture_file.build import build  # noqa: PLC0415 - loads numpy: not before
    from traceanalyzer.capture_file.files import path_beside, write  # noqa: PLC0415

    for trace in traces:
        try:
            write(build(work, host_name(), folder=trace.parent, **facts), path_beside(trace))
        except (OSError, TraceAnalyzerError) as error:
            yield f"the capture file was not written: {printable(error)}"


def write_page(trace: Path, page: Path, mask: Collection[int] | None = None) -> list[str]:
    """Write the page in another process, and return what that prints about the run.

    Raises:
        TraceAnalyzerError: The process failed.
        OSError: It could not be started.
    """
    run = [sys.executable, "-P", "-c", _REPORT, json.dumps(sys.path)]
    ended = run_aside([*run, "report", str(trace), "-o", str(page)], os.environ, mask)
    if ended.returncode:
        last = ended.stderr.strip().rpartition("\n")[2].removeprefix("traceanalyzer: ")
        raise TraceAnalyzerError(last or f"the report ended with code {ended.returncode}")
    return ended.stdout.splitlines()[:-1]  # the last one names the page


# --- Why TensorFlow sees no GPU -------------------------------------------------------------------
#
# If CUDA's driver cannot be loaded, the loader's message says why. Otherwise, another process of
# the script's interpreter, with the script's environment, lists TensorFlow's devices, which takes
# seconds. The script's own stderr is left alone.

_DRIVER: Final = "libcuda.so.1"
_TIME_LIMIT_S: Final = 60.0
_MOST_LINES: Final = 500
_LONGEST: Final = 1000

# Lists devices without creating any, which would take the memory of a GPU.
_PROBE: Final = "import tensorflow as tf; tf.config.list_physical_devices()"

# The two forms of TensorFlow's log lines; abseil's form is used since about 2.18:
#     2026-11-21 12:26:08.510075: I tensorflow/core/util/dump_graph.cc:240] Dumped Graph to ...
#     I0000 00:00:1795263718.987488    4311 dump_graph.cc:245] Dumped Graph to ...
_LOG_LINE: Final = re.compile(
    r"(?:[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )"
    r"[\w./+-]+:\d+\] "
)


def saw_no_gpu(journal: Journal) -> bool:
    """Return whether TensorFlow found no GPU among its devices, according to the journal."""
    physical = journal.last.get("devices", {}).get("physical")
    kinds = [each.get("type") for each in _list(physical) if isinstance(each, dict)]
    for session in journal.many["session_config"]:  # a program may have nothing but sessions
        kinds += _list(session.get("device_types"))
    return bool(kinds) and "GPU" not in kinds


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def driver_problem() -> list[str]:
    """Return why CUDA's driver cannot be loaded on this machine, if it cannot."""
    try:
        ctypes.CDLL(_DRIVER)
    except OSError as error:
        return [str(error)]
    return []


def device_lines(
    interpreter: Sequence[str], variables: Mapping[str, str], mask: Collection[int]
) -> list[str]:
    """Return the log lines that TensorFlow writes when the script's interpreter lists devices.

    Raises:
        OSError: It did not list them.
    """
    words = [*interpreter, "-c", _PROBE]
    try:
        ended = run_aside(words, {**variables, "TF_CPP_MIN_LOG_LEVEL": "0"}, mask, _TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        msg = f"TensorFlow did not list its devices within {_TIME_LIMIT_S:.0f} s"
        raise OSError(msg) from None
    if ended.returncode:
        msg = f"TensorFlow did not list its devices (exit code {ended.returncode})"
        raise OSError(msg)
    lines = (line[:_LONGEST] for line in ended.stderr.splitlines() if _LOG_LINE.search(line))
    return list(itertools.islice(lines, _MOST_LINES))
