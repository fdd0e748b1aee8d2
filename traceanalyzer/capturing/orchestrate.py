"""Captures a script: prepares the capture, runs the script, and writes the files and the report."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capture_file.journal import Journal, read_journal
from traceanalyzer.capturing import gathering
from traceanalyzer.capturing.gpus import GpuWatch
from traceanalyzer.capturing.script import KEEPS_OUT, environment, holding_signals, reason_of, run
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traceanalyzer.capturing.gathering import Recorded
    from traceanalyzer.capturing.script import Program

_ASKED_TO_END: Final = {-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGQUIT}


@dataclass(frozen=True, kw_only=True)
class Request:
    """The program to capture, and the options of the capture."""

    program: Program
    logdir: Path
    run: str | None = None  #: None for the time
    #: 1 to 3; level 3 adds shapes and cheap ops, and slows a training loop down by up to a fifth
    host_tracer_level: int = 2
    #: the part of the script to record, as in the recorder's `Settings`
    window: Mapping[str, Any] = field(default_factory=lambda: {"kind": "auto"})
    report: Path | None = None  #: the page; None for none
    source: bool = True  #: whether the text of the program's lines is kept
    command: tuple[str, ...] = ()  #: the command line, as the user typed it


def record(request: Request, say: Callable[[str], None]) -> int:
    """Run and record a script; return its exit code, or the negative number of a fatal signal.

    After the script has ended, call `say` with each line for the user.

    Raises:
        TraceAnalyzerError: The script was not started.
    """
    request.program.check()
    if option := next(filter(KEEPS_OUT.match, request.program.interpreter[1:]), None):
        msg = f"--python: {option} keeps the recorder from starting; leave out -I, -E, and -S"
        raise TraceAnalyzerError(msg)
    with (
        gathering.work_folder() as work,
        gathering.reserved_run(request.logdir, request.run) as folder,
        holding_signals() as mask,
    ):
        capture = _Capture(request=request, work=work, folder=folder, mask=mask)
        status = capture.run_script()
        try:
            for line in capture.conclude(status):
                say(line)
        except Exception as error:  # noqa: BLE001 - our fault must not become the script's
            say(f"the capture could not be finished: {type(error).__name__}: {printable(error)}")
    return status


@dataclass(kw_only=True)
class _Capture:
    request: Request
    work: Path
    folder: Path
    mask: set[signal.Signals]
    started_s: float = 0.0
    gpus: list[dict[str, Any]] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)

    def run_script(self) -> int:
        program = self.request.program
        words = [*program.interpreter, *program.words_of_script]
        variables = environment(self._write_settings())
        watch = GpuWatch()

        def started(pid: int) -> None:
            watch.start(pid)
            threading.Thread(target=_load_numpy, daemon=True).start()

        self.started_s = time.time()
        try:
            status = run(words, variables, self.mask, started)
        except OSError as error:
            msg = f"{words[0]}: cannot be started ({reason_of(error)})"
            raise TraceAnalyzerError(msg) from None
        self.gpus = watch.finish()
        self.journal = read_journal(self.work / "journal.jsonl")
        return status

    def _write_settings(self) -> Path:
        settings = gathering.recorder_settings(
            self.work,
            self.folder,
            host_tracer_level=self.request.host_tracer_level,
            window=dict(self.request.window),
        )
        file = self.work / "settings.json"
        try:
            file.write_text(json.dumps(settings), encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            why = f"cannot be written ({reason_of(error)})"
            msg = f"{file}: {why}; set TMPDIR to a folder with free space"
            raise TraceAnalyzerError(msg) from None
        return file

    def conclude(self, status: int) -> Iterator[str]:
        """Write the files after the script; yield each line for the user as soon as it is known."""
        logdir = self.folder.parents[2]
        # Left by a script that was killed while TensorFlow wrote a trace.
        shutil.rmtree(logdir / f".traceanalyzer-{self.folder.name}", ignore_errors=True)
        sessions = gathering.recorded_sessions(self.journal)
        yield from map(_line_about, sessions)
        warnings = [printable(warning) for warning in gathering.warnings_of(self.journal)]
        yield from warnings
        if "environment" not in self.journal.last:
            yield f"{self._why_nothing(status)}: nothing was recorded"
            return
        yield from self._write_capture_files(sessions, status)
        if not sessions and not any("trace" in warning for warning in warnings):
            killed = status < 0 and "finished" not in self.journal.last
            why = ": the script was killed before the trace was written" if killed else ""
            yield f"no trace was recorded{why}"
        chosen, page = gathering.session_to_report(sessions), self.request.report
        # Without a trace, the report has causes, but no times.
        recorded = self.folder if chosen is None else chosen.trace
        if page is not None and recorded.exists():
            try:
                replaced = ", which replaces an earlier one" * page.exists()
                yield from gathering.write_page(recorded, page, self.mask)
                yield f"the report: {printable(page)}{replaced}"
            except (OSError, TraceAnalyzerError) as error:
                again = f"traceanalyzer report {_near(self.folder)}"
                yield f"the report could not be written: {printable(error)}; try {again}"

    def _why_nothing(self, status: int) -> str:
        known = self.journal.last
        if "started" not in known:
            given = self.request.program.interpreter[0]
            return f"{given} did not start the recorder (is it a Python interpreter?)"
        if "attached" in known:
            return "TensorFlow could not be recorded"
        if status != 0:  # it might have imported TensorFlow later
            return "the script ended before it imported TensorFlow"
        notes = self.journal.many["note"]
        has_others = any(note.get("id") == "work_of_child_processes" for note in notes)
        others = " itself, and processes that it starts are not recorded" if has_others else ""
        return f"the script did not import TensorFlow{others}"

    def _write_capture_files(self, sessions: Sequence[Recorded], status: int) -> Iterator[str]:
        from traceanalyzer.capture_file.source_lines import SourceLines  # noqa: PLC0415

        why_no_gpu = gathering.why_no_gpu(
            self.journal,
            self.request.program.interpreter,
            ask_tensorflow=status not in _ASKED_TO_END,  # the user does not want to wait
        )
        without_trace = self.folder / f"{gathering.host_name()}.xplane.pb"
        yield from gathering.write_capture_files(
            [session.trace for session in sessions] or [without_trace],
            self.work,
            **why_no_gpu,
            gpus=self.gpus,
            source=SourceLines(since_s=self.started_s) if self.request.source else None,
            command=self.request.command,
        )


def _load_numpy() -> None:
    """Import numpy and other modules while the script runs, to save time afterwards."""
    import traceanalyzer.capture_file.build  # noqa: F401, PLC0415


def _line_about(session: Recorded) -> str:
    megabytes = f"{max(session.trace.stat().st_size / 1e6, 0.1):.1f} MB"
    where = _near(session.trace.parent)
    if session.is_the_scripts:
        return f"the script profiled itself: {where} ({megabytes})"
    reason = printable(session.reason)
    return f"recorded {session.duration_s:.1f} s ({reason}) to {where}, {megabytes}"


def _near(path: Path) -> str:
    try:
        return printable(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return printable(path)
