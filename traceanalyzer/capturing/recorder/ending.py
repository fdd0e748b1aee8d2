"""Finishes the recording before the program ends or another program replaces it."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Iterator

from .hooks import preceded

# Signals that ask a program to end, except Ctrl-C, which raises a KeyboardInterrupt.
_FATAL = (signal.SIGTERM, signal.SIGHUP)
_SHIELDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE_S = 0.5  # for the main thread to return to Python
_HIGH = 200  # above the descriptors that a program expects to get


class OwnDescriptor:
    """A duplicate of a file descriptor, with a high number, closed on exec.

    A program may close any descriptor and reuse its number. So check `is_ours` before use:
    otherwise, the recorder could read or redirect one of the program's files.
    """

    def __init__(self, original: int) -> None:
        try:
            self.number = fcntl.fcntl(original, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        except OSError:  # perhaps the limit is lower than that
            self.number = os.dup(original)
        self._file = _file_of(self.number)

    def is_ours(self) -> bool:
        """Return whether the descriptor still refers to the original file."""
        return self._file is not None and _file_of(self.number) == self._file

    def point_to(self, other: int) -> None:
        """Redirect the descriptor to `other`, unless the program has reused its number."""
        if self.is_ours():
            os.dup2(other, self.number, inheritable=False)
            self._file = _file_of(self.number)


def _file_of(number: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def watch_ending(finish: Callable[[str], None]) -> None:
    """Finish the recording before the program ends, however it ends.

    Call this before the program's first line: exit handlers run in reverse order. `finish` is
    called once, with a reason: `exit`, `signal`, `os._exit`, or `os.exec`.
    """
    ending = _Ending.current = _Ending(finish)
    atexit.register(ending.at_exit)
    os._exit = ending.before(os._exit, "os._exit")
    # The other functions of the exec family call these two.
    os.execv = ending.before(os.execv, "os.exec")
    os.execve = ending.before(os.execve, "os.exec")
    os.register_at_fork(after_in_child=ending.in_child)


def watch_signals() -> None:
    """Finish the recording when SIGTERM or SIGHUP ends the program, even if it is busy.

    Call this only when there is something to finish. Without a handler, these signals end a program
    immediately, but a handler in Python waits until the main thread returns from TensorFlow, which
    can take an hour. So another thread takes over if the main thread does not react.
    """
    if _Ending.current is not None:
        _Ending.current.listen()


@contextlib.contextmanager
def shielded(*, drop: bool = False) -> Iterator[None]:
    """Delay signals in the main thread while the recorder works; with `drop`, ignore Ctrl-C."""
    arrived: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SHIELDED:
            handler = signal.getsignal(number)
            if callable(handler):
                with contextlib.suppress(ValueError):
                    signal.signal(number, lambda number, _: arrived.append(number))
                    handlers[number] = handler
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in dict.fromkeys(arrived):
            if not (drop and each == signal.SIGINT):
                signal.raise_signal(each)


class _Ending:
    current: _Ending | None = None

    def __init__(self, finish: Callable[[str], None]) -> None:
        self._finish = finish
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._is_over = False
        self._handled = threading.Event()
        self._wakeup = -1
        self._forget: Any = None  # kept for as long as Python may call it

    def run(self, reason: str) -> None:
        """Finish the recording once; a second caller waits until it is finished."""
        if os.getpid() != self._process:
            return
        with shielded(drop=reason == "exit"), self._lock:
            if not self._is_over:
                self._is_over = True
                with contextlib.suppress(Exception):
                    self._finish(reason)

    def listen(self) -> None:
        if self._wakeup >= 0 or self._is_over:
            return
        for number in _FATAL:
            with contextlib.suppress(ValueError):  # not the main thread
                if signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, self._on_signal)
        if signal.getsignal(signal.SIGTERM) != self._on_signal:
            return
        with contextlib.suppress(OSError, ValueError):
            read, write = _pipe()
            other = signal.set_wakeup_fd(write.number, warn_on_full_buffer=False)
            if other != -1:  # the program's own
                signal.set_wakeup_fd(other)
                os.close(read.number)
                os.close(write.number)
                return
            self._wakeup = write.number
            threading.Thread(
                target=self._take_over, args=(read,), name="traceanalyzer-signals", daemon=True
            ).start()

    def at_exit(self) -> None:
        self.run("exit")

    def before(self, original: Callable[..., Any], reason: str) -> Callable[..., Any]:
        def first(*args: Any, **_: Any) -> None:
            with contextlib.suppress(Exception):
                # execvp tries one folder after the other.
                if reason != "os.exec" or os.access(args[0], os.X_OK):
                    self.run(reason)

        return functools.wraps(original)(preceded(original, first))

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._handled.set()
        self.run("signal")
        if os.getpid() == self._process:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _take_over(self, read: OwnDescriptor) -> None:
        import ctypes

        while True:
            numbers = b""
            with contextlib.suppress(OSError):
                if read.is_ours():
                    numbers = os.read(read.number, 64)
            if not numbers:  # the program has closed it, and may reuse its number for a file
                # Python must no longer write signals to it, which only the main thread can set.
                self._forget = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._unset_wakeup)
                ctypes.pythonapi.Py_AddPendingCall(self._forget, None)
                return
            for number in numbers:
                if number in _FATAL and signal.getsignal(number) == self._on_signal:
                    if self._handled.wait(_PATIENCE_S):
                        continue
                    self.run("signal")
                    ctypes.CDLL(None).signal(number, None)  # `signal.signal`: main thread only
                    os.kill(os.getpid(), number)

    def _unset_wakeup(self, _: object = None) -> int:
        other = signal.set_wakeup_fd(-1)
        if other not in (-1, self._wakeup):  # the program's
            signal.set_wakeup_fd(other)
        return 0

    def in_child(self) -> None:
        """Remove our hooks in a fork, so that the child ends as if there were no recorder."""
        atexit.unregister(self.at_exit)
        with contextlib.suppress(ValueError, OSError):
            for number in _FATAL:
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, signal.SIG_DFL)
            if self._wakeup >= 0:
                self._unset_wakeup()  # signals of the child do not concern the parent


def _pipe() -> tuple[OwnDescriptor, OwnDescriptor]:
    """Return the read end and the write end of a pipe; writing never blocks."""
    ends = os.pipe()
    read, write = map(OwnDescriptor, ends)
    for end in ends:
        os.close(end)
    os.set_blocking(write.number, False)
    return read, write
