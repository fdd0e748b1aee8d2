"""A capture from beginning to end: prepare, run the script, gather, report."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capturing import command, probe
from traceanalyzer.capturing.aside import run_aside
from traceanalyzer.capturing.channel import Channel
from traceanalyzer.capturing.folders import host_name, reserved_run, work_folder
from traceanalyzer.capturing.gpus import GpuWatch
from traceanalyzer.capturing.journal import read_journal
from traceanalyzer.capturing.page import page_command, reason_of
from traceanalyzer.capturing.sessions import (
    delete_scratch,
    recorded_sessions,
    session_to_report,
    set_aside_unfinished,
)
from traceanalyzer.capturing.stderr import StderrFilter, text_of
from traceanalyzer.capturing.supervise import holding_signals, run
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.trace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traceanalyzer.capturing.command import Program
    from traceanalyzer.capturing.sessions import Recorded

__all__ = ["Request", "record"]

_FINDS_TENSORFLOW: Final = (
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
)
_PATIENCE_S: Final = 10.0
_NOTHING: Final = "nothing was recorded"
# What the recorder notes of processes.
_PROCESSES: Final = frozenset({"child_processes", "work_of_child_processes"})


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked for.

    Attributes:
        program: What to run.
        logdir: Log directory.
        run: Name of the run; None for the time.
        host_tracer_level: 1 to 3; at 3 TensorFlow also writes down the shapes of every node that
            runs, and the capture makes a training loop slower by up to a fifth.
        python_tracer: Whether calls of Python functions are recorded.
        device_tracer: Whether kernels and copies on the GPU are recorded.
        window: What part of the script is recorded, as the recorder takes it.
        report: The page to write; None for none.
        source: Whether the text of the program's lines is kept in the evidence.
    """

    program: Program
    logdir: Path
    run: str | None = None
    host_tracer_level: int = 2
    python_tracer: bool = False
    device_tracer: bool = True
    window: Mapping[str, Any] = field(default_factory=lambda: {"kind": "auto"})
    report: Path | None = None
    source: bool = True

    @property
    def words(self) -> list[str]:
        """The command line that asks for the same again, wherever the files are to go."""
        return ["traceanalyzer", "capture", *self._options(), *self.program.words_of_script]

    def _options(self) -> Iterator[str]:
        window = self.window
        if window["kind"] == "steps":
            yield from ("--steps", f"{window['first']}:{window['last']}")
        elif window["kind"] == "time":
            yield from ("--after", f"{window['after_s']:g}s", "--for", f"{window['for_s']:g}s")
        if self.host_tracer_level != Request.host_tracer_level:
            yield from ("--host-tracer-level", str(self.host_tracer_level))
        if self.python_tracer:
            yield "--python-tracer"
        if not self.device_tracer:
            yield "--no-device-tracer"
        if not self.source:
            yield "--no-source"


def record(request: Request, say: Callable[[str], None]) -> int:
    """Run a script and record it.

    Args:
        request: What to run, and what to write.
        say: Takes each line of ours, once the script has ended.

    Returns:
        How the script ended: its exit code, or the negative number of the signal that killed it.

    Raises:
        TraceAnalyzerError: It was not started, and why.
    """
    request.program.check()
    with (
        work_folder() as work,
        reserved_run(request.logdir, request.run) as folder,
        holding_signals() as mask,
    ):
        capture = _Capture(request=request, work=work, folder=folder, mask=mask)
        status = capture.run_script()
        try:
            for line in capture.conclude(status):
                say(line)
        except Exception as error:  # noqa: BLE001 - a fault of ours is not to be the script's
            say(f"the capture could not be finished: {type(error).__name__}: {printable(error)}")
    return status


@dataclass(kw_only=True)
class _Capture:
    """One capture while it goes on."""

    request: Request
    work: Path
    folder: Path
    mask: set[signal.Signals]
    filter: StderrFilter | None = None
    started_s: float = 0.0
    gpus: list[dict[str, Any]] = field(default_factory=list)
    journal: list[dict[str, Any]] = field(default_factory=list)

    def run_script(self) -> int:
        """Run the script to its end."""
        program = self.request.program
        token = secrets.token_hex(8)
        channel = None
        variables: Mapping[str, str] = os.environ
        if not command.obstacle(program.interpreter):
            channel = self._channel(token)
            settings = self._write_settings(token, is_filtered=channel is not None)
            variables = command.environment(os.environ, settings)
        watch = GpuWatch()
        self.started_s = time.time()
        try:
            status = run(program.words, variables, self.mask, channel, started=watch.start)
        except OSError as error:
            if channel:
                channel.abandon()
            reason = (error.strerror or str(error)).lower()
            msg = f"{program.interpreter[0]}: this cannot be started ({reason})"
            raise TraceAnalyzerError(msg) from None
        if channel:
            channel.end_line()
        self.gpus = watch.finish()
        self.journal = read_journal(self.work / "journal.jsonl")
        return status

    def _channel(self, token: str) -> Channel | None:
        """Return the way for the script's stderr; None where it has to be left as it is."""
        self.filter = StderrFilter(
            token,
            (str(self.work / "graphs"), "/proc/self/fd/"),
            logdir=str(self.folder.parents[2]),
            with_placer="placer" not in os.environ.get("TF_CPP_VMODULE", ""),
        )
        try:
            return Channel(self.filter)
        except OSError:
            return None

    def _write_settings(self, token: str, *, is_filtered: bool) -> Path:
        request = self.request
        settings = {
            "work": str(self.work),
            "logdir": str(self.folder.parents[2]),
            "run": self.folder.name,
            "host": host_name(),
            "host_tracer_level": request.host_tracer_level,
            "python_tracer_level": int(request.python_tracer),
            "device_tracer_level": int(request.device_tracer),
            "window": dict(request.window),
            "python_path": os.environ.get("PYTHONPATH"),
            "startup": str(command.STARTUP),
            "quiet": {"fd_is_filtered": is_filtered, "token": token},
        }
        file = self.work / "settings.json"
        try:
            file.write_text(json.dumps(settings), encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            msg = f"{file}: cannot be written ({reason}); set TMPDIR to a folder with room"
            raise TraceAnalyzerError(msg) from None
        return file

    # ------------------------------------------------------------------ after the script

    def conclude(self, status: int) -> Iterator[str]:
        """Make the files, and yield what to tell the user, as soon as it is known."""
        for started in self._records("started"):
            delete_scratch(self.folder.parents[2], started.get("pid"))
        sessions = recorded_sessions(self.journal)
        yield from map(_told, sessions)
        for trace in set_aside_unfinished(self.folder, [session.trace for session in sessions]):
            yield f"{_near(trace)}: TensorFlow did not come to finish this trace"
        warnings = [
            printable(note.get("message", ""))
            for note in self._records("note")
            if note.get("severity") == "warning"
        ]
        yield from warnings
        if not self._records("environment"):
            yield f"{self._why_nothing(status)}: {_NOTHING}"
            return
        yield from self._write_capture_files(sessions, status)
        if not sessions and not any("trace" in warning for warning in warnings):
            killed = status < 0 and not self._records("finished")
            why = ": the script was killed before it could be written" if killed else ""
            yield f"no trace was recorded{why}"
        yield from self._report(sessions)

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.journal if record["kind"] == kind]

    def _why_nothing(self, status: int) -> str:
        program = self.request.program
        obstacle = command.obstacle(program.interpreter)
        if obstacle:
            return obstacle
        if not self._records("started"):
            return f"{program.interpreter[0]} did not start the recorder"
        if self._records("attached"):
            return "TensorFlow could not be recorded"
        if status >= 0 and self._is_tensorflow_missing():
            return f"TensorFlow is not installed for {program.interpreter[0]}"
        if status != 0:  # it might have imported it further on
            return "the script ended before it had imported TensorFlow"
        has_others = any(note.get("id") in _PROCESSES for note in self._records("note"))
        others = " itself, and processes that it starts are not recorded" if has_others else ""
        return f"the script did not import TensorFlow{others}"

    def _is_tensorflow_missing(self) -> bool:
        """Whether the script's interpreter would not find it; not where it does not say."""
        words = [*self.request.program.interpreter, "-c", _FINDS_TENSORFLOW]
        try:
            ended = run_aside(words, os.environ, self.mask, _PATIENCE_S)
        except OSError:
            return False
        return ended.code == 1 and not ended.is_late

    def _write_capture_files(self, sessions: Sequence[Recorded], status: int) -> list[str]:
        """Write the evidence beside each trace; return what has to be told."""
        from traceanalyzer.capture_file.build import build  # noqa: PLC0415 - loads numpy: not before
        from traceanalyzer.capture_file.files import path_beside, write  # noqa: PLC0415
        from traceanalyzer.capture_file.source_lines import SourceLines  # noqa: PLC0415

        log, source, lines = self._log(status)
        without_trace = self.folder / f"{host_name()}.xplane.pb"
        for trace in [session.trace for session in sessions] or [without_trace]:
            try:
                capture_file = build(
                    self.work,
                    host_name(),
                    log=log,
                    log_source=source,
                    gpus=self.gpus,
                    folder=trace.parent,
                    source=SourceLines(since_s=self.started_s) if self.request.source else None,
                    command=self.request.words,
                )
                write(capture_file, path_beside(trace))
            except (OSError, TraceAnalyzerError) as error:
                lines.append(f"the evidence of placement is missing: {printable(error)}")
        return lines

    def _log(self, status: int) -> tuple[list[str], str, list[str]]:
        """Return TensorFlow's lines about devices, where they are from, and what to tell."""
        of_script = self.filter.log if self.filter else []
        variables = dict(os.environ)
        for record in self._records("environment"):
            variables |= record.get("variables") or {}
        asked_to_end = status < 0 and -status in {
            *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        }
        if not probe.is_suppressed(variables) or asked_to_end:
            return of_script, "script" if of_script else "none", []
        try:
            of_probe = probe.device_lines(self.request.program.interpreter, variables, self.mask)
        except OSError as error:
            told = f"TensorFlow's lines about devices are missing: {printable(error)}"
            return of_script, "script" if of_script else "none", [told]
        known = {text_of(line) for line in of_script}
        both = [*of_script, *(line for line in of_probe if text_of(line) not in known)]
        return both, "script+probe" if of_script else "probe", []

    def _report(self, sessions: Sequence[Recorded]) -> list[str]:
        """Write the page, in a process that may fail; return what has to be told."""
        chosen = session_to_report(sessions)
        page = self.request.report
        if page is None or chosen is None:
            return []
        again = f"traceanalyzer report {_near(chosen.trace.parent)}"
        try:
            ended = run_aside(page_command(chosen.trace, page), os.environ, self.mask)
        except OSError as error:
            return [f"no report: {printable(error)}; try {again}"]
        if ended.code == 0:
            verdict = ended.out.decode("utf-8", "replace").partition("\n")[0]
            return [verdict, f"the report: {printable(page)}"]
        if ended.is_interrupted or ended.code == -signal.SIGINT:
            return [f"no report: interrupted; for one, {again}"]
        reason = reason_of(ended.err.decode("utf-8", "replace"), ended.code)
        return [f"no report: {printable(reason)}; try {again}"]


def _told(session: Recorded) -> str:
    """Return the line that tells of a session."""
    size = session.trace.stat().st_size
    megabytes = f"{max(size / 1e6, 0.1):.1f} MB"
    if session.is_the_scripts:
        return f"the script profiled itself: {_near(session.trace.parent)} ({megabytes})"
    took = "" if session.duration_s is None else f"{session.duration_s:.1f} s "
    reason = f"({printable(session.reason)}) " if session.reason else ""
    return f"recorded {took}{reason}in {_near(session.trace.parent)}, {megabytes}"


def _near(path: Path) -> str:
    """Return a path as seen from the working directory, where it is below that."""
    try:
        return printable(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return printable(path)
