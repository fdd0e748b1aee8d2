"""Captures part of a running program, such as notebook cells or a few training steps."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from traceanalyzer.capture_file.journal import read_journal
from traceanalyzer.capturing import gathering
from traceanalyzer.capturing.gpus import GpuWatch
from traceanalyzer.errors import TraceAnalyzerError

_RECORDER: Final = "traceanalyzer.capturing.recorder.program"
_OF_COMMAND: Final = "_traceanalyzer_recorder"  # the same, as `traceanalyzer capture` loads it
_PAGE: Final = "traceanalyzer-report.html"
_START_TIME: Final = 19  # of /proc/PID/stat: the 22nd field of proc(5), counted from after the name

_log = logging.getLogger(__name__)


class Capture:
    """Record a `with` block: TensorFlow's trace, and the facts that determine placement.

    with traceanalyzer.capture("logs/") as captured:
        train_a_few_steps()
    captured.report("report.html")

    The lines that created variables before the block are not recorded, nor those that requested a
    device in functions that were traced before it. With TensorFlow 2.20 or older, graphs of
    functions are not recorded if an op ran before it. The command `traceanalyzer capture` records
    all of this.

    Args:
        logdir: Log directory; the run is `LOGDIR/plugins/profile/RUN`.
        run: Name of the run; defaults to the current time.
        host_tracer_level: How much to record of the host, 1 to 3. Level 3 adds shapes, cheap ops,
            and ops on GPUs, and slows down a training loop by up to a fifth. Dtypes are recorded at
            every level.
        source: Whether the report shows the text of your lines. Use False for code that must not
            leave the machine.

    Attributes:
        run_path: The folder of the run.
        trace: The trace file; None before the block has ended, or if nothing was recorded.
        notes: Messages about missing data, set when the block has ended.
    """

    _under_way: ClassVar[Capture | None] = None

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        run: str | None = None,
        *,
        host_tracer_level: int = 2,
        source: bool = True,
    ) -> None:
        self._logdir, self._run = Path(logdir), run
        self._settings = {"window": {"kind": "whole"}, "host_tracer_level": host_tracer_level}
        self._source = source
        self._stack = contextlib.ExitStack()
        self._attachment: Any = None
        self._gpus = GpuWatch()
        self._work = Path()
        self.run_path = Path()
        self.trace: Path | None = None
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        if Capture._under_way is not None:
            msg = "another capture is already running in this program; end it first"
            raise TraceAnalyzerError(msg)
        self._gpus, self.trace, self.notes = GpuWatch(), None, []
        with contextlib.ExitStack() as stack:
            self._work = stack.enter_context(gathering.work_folder())
            self.run_path = stack.enter_context(gathering.reserved_run(self._logdir, self._run))
            self._attach()
            self._stack = stack.pop_all()
        Capture._under_way = self
        atexit.register(self._end)  # if the block never ends
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def report(self, path: str | os.PathLike[str] = _PAGE) -> Path:
        """Write the HTML report, and return its path.

        Raises:
            TraceAnalyzerError: There is no readable trace.
        """
        if self.trace is None:
            msg = "; ".join(self.notes) or "the captured block has not ended yet"
            raise TraceAnalyzerError(msg)
        gathering.write_page(self.trace, Path(path))
        return Path(path)

    def _attach(self) -> None:
        if _OF_COMMAND in sys.modules:
            msg = "`traceanalyzer capture` is already capturing this program"
            raise TraceAnalyzerError(msg)
        recorder = importlib.import_module(_RECORDER)
        given = gathering.recorder_settings(self._work, self.run_path, **self._settings)
        settings = recorder.Settings(**given)
        journal = recorder.JournalWriter(settings.journal)
        journal.note(
            "captured_in_code",
            "info",
            "captured in code: the lines that created variables before the block, or requested a "
            "device in functions that were traced before it, are not recorded; `traceanalyzer "
            "capture` records them",
        )
        self._attachment = recorder.Attachment(settings, journal)
        self._attachment.before_tensorflow()
        try:
            _tensorflow()
            self._gpus.start(os.getpid())
            self._attachment.after_tensorflow()
        except Exception:
            self._attachment.finish("the capture could not begin")
            raise

    def _end(self) -> None:
        if Capture._under_way is not self:
            return
        Capture._under_way = None
        atexit.unregister(self._end)
        with self._stack:
            try:
                self._conclude()
            except Exception as error:  # noqa: BLE001 - our fault must not become the block's
                self.notes.append(f"the capture could not be finished: {error}")
        for note in self.notes:
            _log.warning(note)

    def _conclude(self) -> None:
        from traceanalyzer.capture_file.source_lines import SourceLines  # noqa: PLC0415

        self._attachment.finish("until its end")
        gpus = self._gpus.finish()
        journal = read_journal(self._work / "journal.jsonl")
        sessions = gathering.recorded_sessions(journal)
        chosen = gathering.session_to_report(sessions)
        self.trace = chosen.trace if chosen else None
        self.notes += gathering.warnings_of(journal)
        lines = SourceLines(since_s=_process_start_s(), of_this_process=True)
        self.notes += gathering.write_capture_files(
            [session.trace for session in sessions],
            self._work,
            **gathering.why_no_gpu(journal, ask_tensorflow=False),
            gpus=gpus,
            source=lines if self._source else None,
        )


capture = Capture


def _tensorflow() -> Any:  # noqa: ANN401 - a module without types
    try:
        return importlib.import_module("tensorflow")
    except ImportError as error:
        msg = f"TensorFlow cannot be imported: {error}"
        raise TraceAnalyzerError(msg) from error


def capture_callback(
    logdir: str | os.PathLike[str],
    steps: tuple[int, int] = (10, 20),
    **options: Any,  # noqa: ANN401 - those of `capture`
) -> Any:  # noqa: ANN401 - a keras.callbacks.Callback, of whichever Keras
    """Return a callback for Keras that records some steps of `fit`.

    model.fit(..., callbacks=[traceanalyzer.capture_callback("logs/", steps=(10, 20))])

    The callback's attribute `captured` is the `Capture`.

    Args:
        logdir: Log directory.
        steps: First and last batch to record, counted from 1 over all epochs.
        **options: As for `capture`.

    Raises:
        TraceAnalyzerError: The steps are not in order, or TensorFlow cannot be imported.
    """
    first, last = steps
    if not 1 <= first <= last:
        msg = f"steps={steps!r}: not a range; give (first, last) with 1 <= first <= last"
        raise TraceAnalyzerError(msg)
    callback = _tensorflow().keras.callbacks.Callback
    made = type("CaptureCallback", (_StepsCapture, callback), {})
    return made(Capture(logdir, **options), first, last)


class _StepsCapture:
    """A Keras callback that captures some steps; if it fails, `fit` continues."""

    def __init__(self, captured: Capture, first: int, last: int) -> None:
        super().__init__()
        self.captured = captured
        self._first, self._last = first, last
        self._batches = 0

    def on_train_begin(self, logs: object = None) -> None:
        self.on_train_end(logs)  # of a `fit` that failed
        self._batches = 0

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:  # noqa: ARG002
        self._batches += 1
        if self._batches == self._first:
            try:
                self.captured.__enter__()
            except Exception as error:  # noqa: BLE001 - our fault must not become the program's
                _log.warning("steps are not recorded: %s", error)

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:  # noqa: ARG002
        if self._batches >= self._last:
            self.captured.__exit__()

    def on_train_end(self, logs: object = None) -> None:  # noqa: ARG002
        self.captured.__exit__()


def _process_start_s() -> float:
    """Return when this process began, in seconds since 1970; the current time if unknown."""
    now_s = time.time()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        # Rounded up: the kernel rounds down, perhaps to before the last change of a file.
        began_s = (int(fields[_START_TIME]) + 1) / os.sysconf("SC_CLK_TCK")
        return now_s - max(time.clock_gettime(time.CLOCK_BOOTTIME) - began_s, 0.0)
    except (OSError, ValueError, IndexError):
        return now_s
