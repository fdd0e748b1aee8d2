"""Begins and ends profiler sessions as the window decides; yields to the program's own profiler."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any, Iterator, NamedTuple

from .auto_window import window_of
from .cpus import CpuUse
from .ending import shielded, watch_signals
from .evidence import EvidenceRecorder
from .frames import is_tracing, outwards
from .hooks import JournalWriter
from .memory import HeapGrowth, free_share, give_back
from .profiler import Profiler, ProfilerError, ProgramWatch, ScriptSession
from .program import Settings
from .windows import Action, Begin, End, Load

_TRAINING = ("fit", "train_on_batch")  # methods of Keras' models
_ENDS = {
    "exit": "until the program ended",
    "signal": "until a signal ended the program",
    "os._exit": "until the program called os._exit",
    "os.exec": "until the program called exec",
}


class _Session(NamedTuple):
    reason: str
    start_ns: int
    heap: HeapGrowth
    cpus: CpuUse


class Recording:
    """Records profiler sessions of a program. Its methods never raise an error."""

    def __init__(self, settings: Settings, journal: JournalWriter) -> None:
        self._settings = settings
        self._journal = journal
        self._window = window_of(settings.window, time.monotonic, _is_training)
        self._watch = ProgramWatch()
        self._evidence: Any = None
        self._profiler: Any = None
        # The lock protects the following.
        self._lock = threading.RLock()
        self._session: _Session | None = None
        self._script: ScriptSession | None = None
        self._scripts = 0  # running sessions of the program
        self._wanted: str | None = None  # why to begin a session as soon as possible
        self._is_used = False
        self._written = 0
        self._linked_scripts = 0
        self._index = 0  # of the next session in the journal
        self._is_ending = False  # the program ends, not only the recording
        self._looker: threading.Thread | None = None
        self._wake = threading.Event()
        # Each call of a function reads these without the lock.
        self._is_idle = True
        self._is_writing = False

    def begin(self, evidence: EvidenceRecorder) -> None:
        """Start watching the program; called after TensorFlow is imported."""
        try:
            self._evidence = evidence
            self._profiler = Profiler(self._settings, self._journal)
            self._watch.on_script_session(self._script_begins, self._script_ends)
            os.register_at_fork(after_in_child=self._is_fork)
            watch_signals()
            self._is_idle = False
            self._do(None)
            self._watch.on_first_use(self._used)
        except Exception as error:
            self._is_idle = True
            self._journal.failed("a trace", error)

    def before_function_call(self, name: str) -> None:
        """Begin or end a session, as the window decides, before a function is called eagerly."""
        if self._is_idle or self._is_writing:
            return
        action = self._window.called(name)
        if action is not None:
            self._do(action)

    def finish(self, reason: str) -> None:
        """End and write the running session; any thread may call this, more than once.

        `reason` is `exit`, `signal`, `os._exit`, `os.exec`, or a text for the user.
        """
        with self._shielded():
            was_over, self._is_idle = self._is_idle and self._window.over, True
            self._window.over = True
            self._is_ending = reason in _ENDS
            self._wake.set()
            self._wanted = None
            if self._window.is_too_short():
                self._drop_session("because it was shorter than the previous recording")
            else:
                self._end_session(_ENDS.get(reason, reason))
            self._end_script()
            self._watch.uninstall()
            if not was_over and not self._index:
                self._journal.note("no_trace", "warning", f"no trace: {self._window.why_nothing()}")
            missed = self._window.missed()
            if missed:
                self._journal.note("work_after_the_recording", "warning", missed)

    # ------------------------------------------------------------------ events

    def _used(self) -> None:
        with self._shielded():
            self._is_used = True
            if self._wanted is not None:
                self._begin_session(self._wanted)
            self._do(self._window.used())

    def _do(self, action: Action) -> None:
        with self._shielded():
            if isinstance(action, Begin):
                self._begin_session(action.reason)
            elif isinstance(action, End):
                self._wanted = None
                again = self._window.written(self._end_session(action.reason))
                if isinstance(again, Begin):
                    self._begin_session(again.reason)
            self._is_idle = self._window.over and not self._window.counts_on
            self._evidence.count_eager_ops(on=self._window.awaits_eager_ops)
            self._look_if_needed()

    def _script_begins(self, script: ScriptSession) -> None:
        """End our session before the program's own profiler begins, because only one can run."""
        with self._shielded():
            self._scripts += 1
            if self._session is not None:
                self._end_session("until the program's own profiler started")
                self._wanted = "after the program's own profiler stopped"
            if self._script is None:
                self._script = script
                self._session_started()

    def _script_ends(self, script: ScriptSession) -> None:
        with self._shielded():
            self._scripts -= 1
            if script is self._script:
                self._end_script()
            if not self._scripts and self._wanted is not None and not self._window.over:
                self._begin_session(self._wanted)
                self._look_if_needed()

    def _is_fork(self) -> None:
        """Stop in a fork, which has our state but not our threads."""
        self._is_idle = True
        self._window.over = True
        self._lock = threading.RLock()  # its owner is not in the fork
        self._session = self._script = self._wanted = None
        with contextlib.suppress(Exception):
            self._profiler.abandon()
            self._watch.uninstall()
            self._evidence.uninstall()

    # ---------------------------------------------------------------- sessions

    def _session_started(self) -> None:
        self._evidence.session_started(self._index)
        self._index += 1

    def _begin_session(self, reason: str) -> None:
        if self._session is not None:
            self._drop_session("because it contained only the program's start")
        if not self._is_used or self._scripts:
            self._wanted = reason
            return
        self._wanted = None
        start_ns = time.time_ns()
        try:
            self._profiler.start()
        except ProfilerError as error:
            message = f"the profiler could not be started: {error}"
            self._journal.note("profiler_not_started", "warning", message)
            return
        self._session = _Session(reason, start_ns, HeapGrowth(), CpuUse())
        self._session_started()

    def _end_session(self, reason: str) -> int:
        """End the session, if there is one, and return the size of its trace."""
        session, self._session = self._session, None
        if session is None:
            return 0
        stop_ns, cpus, trace = time.time_ns(), session.cpus.shares(), None
        path = self._path(f"-{self._written + 1}" if self._written else "")
        self._is_writing = True  # takes seconds: the program's calls must not wait
        try:
            self._profiler.stop(path)
            trace = path
            self._written += 1
        except ProfilerError as error:
            message = f"the trace could not be written to {path}: {error}"
            self._journal.note("trace_not_written", "warning", message)
        finally:
            self._is_writing = False
        why = f"{session.reason}, {reason}"
        self._write_session(why, session.start_ns, stop_ns, trace=trace, **cpus)
        if not self._is_ending:
            # Not in this thread, which may be the program's.
            thread = threading.Thread(target=give_back, name="traceanalyzer-memory", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads can be started
                thread.start()
        return os.path.getsize(path) if trace else 0

    def _drop_session(self, why: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._profiler.discard()
            reason = f"{session.reason}; dropped, {why}"
            self._write_session(reason, session.start_ns, time.time_ns())

    def _end_script(self) -> None:
        script, self._script = self._script, None
        if script is None:
            return
        stop_ns, found = time.time_ns(), script.trace()
        reason = "the program's own profiler"
        if not found:
            reason += ", which wrote no trace to a local folder"
        more = {"method": "script", "requested": None, "trace": found and self._linked(found)}
        self._write_session(reason, script.start_ns, stop_ns, **more)

    def _write_session(self, reason: str, start_ns: int, stop_ns: int, **more: Any) -> None:
        record = {
            "trace": None,
            "method": self._profiler.method,
            "requested": self._profiler.requested,
            "start_ns": start_ns,
            "stop_ns": stop_ns,
            "reason": reason,
        }
        self._journal.write("session", **{**record, **more})
        self._evidence.session_stopped()

    def _linked(self, found: str) -> str:
        """Link the program's trace into our log directory; return the link, or the original."""
        self._linked_scripts += 1
        place = self._path(f"-script-{self._linked_scripts}")
        for link in (os.link, os.symlink):
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(place), exist_ok=True)
                link(found, place)
                return place
        return found

    def _path(self, suffix: str) -> str:
        run, name = self._settings.run + suffix, f"{self._settings.host}.xplane.pb"
        return os.path.join(self._settings.logdir, "plugins", "profile", run, name)

    # ------------------------------------------------------------------ looking

    def _look_if_needed(self) -> None:
        if self._window.over or self._looker is not None or self._window.next_look_s() is None:
            return
        self._looker = threading.Thread(target=self._look, name="traceanalyzer-window", daemon=True)
        self._looker.start()

    def _look(self) -> None:
        while True:
            with self._shielded():
                wait_s = None if self._window.over else self._window.next_look_s()
                if wait_s is None:
                    self._looker = None
                    return
            self._wake.wait(wait_s)
            with self._shielded():
                load = Load(self._evidence.eager_ops)
                if self._session is not None:
                    load = load._replace(
                        heap_bytes=self._session.heap.bytes(),
                        free=free_share(),
                        signatures=self._evidence.signatures,
                        is_tracing=is_tracing(),
                    )
                self._do(self._window.looked(load))

    @contextlib.contextmanager
    def _shielded(self) -> Iterator[None]:
        """Hold the lock, delay signals, and catch the recorder's errors."""
        with shielded(), self._lock:
            try:
                yield
            except Exception as error:
                self._is_idle = True
                self._journal.failed("part of the trace", error)


def _is_training() -> bool:
    codes = (frame.f_code for frame in outwards(sys._getframe(1)))
    return any(code.co_name in _TRAINING and "keras" in code.co_filename for code in codes)
