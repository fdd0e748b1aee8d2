"""The way of the script's stderr through this process to where it would have gone.

The script gets a terminal where it would have had one (a pseudo-terminal that changes no byte, with
the window size of the real one), a pipe else. Where stdout and stderr are one terminal, pipe or
file, the script's stdout goes the same way: what it writes to the two keeps its order.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import stat
import subprocess
import sys
import termios
import threading
import time
import tty
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceanalyzer.capturing.stderr import StderrFilter

__all__ = ["Channel"]

_STDOUT, _STDERR = 1, 2
_CHUNK: Final = 1 << 20
_HOLD_S: Final = 0.05  # how long the beginning of a log line waits for the rest
_LOOK_S: Final = 0.002
_SETTLED_S: Final = 0.05
_SILENT_S: Final = 0.1  # nothing for so long after the script's end: others hold the channel
_TALKATIVE_S: Final = 1.0  # others that go on writing are waited for no longer than this
_OUTPUT_FLAGS, _WINDOW_SIZE = 1, 8  # in what termios knows of a terminal; of a struct winsize

# Goes on passing what processes write that outlived the script, until the last of them is gone.
_GO_ON: Final = """
import os
try:
    while data := os.read(0, 1 << 16):
        while data:
            data = data[os.write(1, data):]
except OSError:
    pass
"""


class Channel:
    """Passes on what the script writes to stderr, through a filter, in a thread of its own."""

    def __init__(self, filter_: StderrFilter) -> None:
        """Open the channel.

        Args:
            filter_: What the bytes go through.

        Raises:
            OSError: stderr is closed, or the system has no pseudo-terminal to give.
        """
        self._filter = filter_
        self._is_terminal = os.isatty(_STDERR)
        os.fstat(_STDERR)
        self._source, self._script_end = os.openpty() if self._is_terminal else os.pipe()
        if self._is_terminal:
            _change_nothing(self._script_end)
        self.descriptor_of_stdout = self._script_end if _is_same(_STDOUT, _STDERR) else None
        self.descriptor_of_stderr = self._script_end
        self._wake_source, self._wake = os.pipe()
        self._last = b""
        self._is_passing = False
        self._thread = threading.Thread(target=self._run, name="stderr", daemon=True)
        self.resize()

    @property
    def is_terminal(self) -> bool:
        """Whether the script's stderr is a terminal."""
        return self._is_terminal

    def resize(self) -> None:
        """Take over the size of the real terminal's window."""
        if self._is_terminal:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(_STDERR, termios.TIOCGWINSZ, bytes(_WINDOW_SIZE))
                fcntl.ioctl(self._source, termios.TIOCSWINSZ, size)

    def start(self) -> None:
        """Begin to pass on; the script has been started and holds its end."""
        os.close(self._script_end)
        self._thread.start()

    def abandon(self) -> None:
        """Close what was opened: no script came to be started."""
        for descriptor in (self._script_end, self._source, self._wake_source, self._wake):
            os.close(descriptor)

    def settle(self) -> None:
        """Pass on what the script has written so far: this process is about to stop as it did.

        What is written to a pseudo-terminal comes out of it a little later.
        """
        until = time.monotonic() + _TALKATIVE_S
        quiet_since = time.monotonic()
        while (now := time.monotonic()) < min(until, quiet_since + _SETTLED_S):
            if self._is_passing or select.select([self._source], [], [], 0)[0]:
                quiet_since = now
            time.sleep(_LOOK_S)

    def finish(self) -> None:
        """Pass on what the script had written when it ended; wait for no other process.

        Processes that it left behind write on to where they did.
        """
        os.write(self._wake, b"!")
        self._thread.join()
        for descriptor in (self._source, self._wake_source, self._wake):
            if descriptor >= 0:
                os.close(descriptor)

    def end_line(self) -> None:
        """Begin a new line, if the script has not: ours are to stand for themselves."""
        if self._last not in (b"", b"\n"):
            with contextlib.suppress(OSError):
                self._write(b"\n")

    def _run(self) -> None:
        is_open = True
        try:
            is_open = self._pass_on()
            self._write(self._filter.flush())
        except OSError:
            is_open = False  # nobody reads our stderr: the script is to find that out
        if is_open:
            self._hand_over()
        os.close(self._source)
        self._source = -1

    def _pass_on(self) -> bool:
        """Pass on until the script has ended; return whether others still hold the channel."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._wake_source, select.POLLIN)
        last = None  # when to stop, once the script has ended
        while last is None or time.monotonic() < last:
            wait = _SILENT_S if last is not None else _HOLD_S if self._filter.is_holding else None
            ready = dict(poll.poll(None if wait is None else wait * 1000))
            if self._wake_source in ready:
                poll.unregister(self._wake_source)
                last = time.monotonic() + _TALKATIVE_S
            if self._source in ready:
                self._is_passing = True
                data = self._read()
                if not data:
                    return False
                self._write(self._filter.feed(data))
                self._is_passing = False
            elif not ready:
                self._write(self._filter.flush())
                if last is not None:
                    break
        return True

    def _read(self) -> bytes:
        try:
            return os.read(self._source, _CHUNK)
        except OSError as error:
            if error.errno == errno.EIO:  # so ends a pseudo-terminal that nobody holds
                return b""
            raise

    def _write(self, data: bytes) -> None:
        """Write to stderr, all of it, as a blocking write does."""
        self._last = data[-1:] or self._last
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(_STDERR, view) :]
            except BlockingIOError:  # somebody who shares it has made it so
                select.select([], [_STDERR], [])

    def _hand_over(self) -> None:
        """Leave the channel to a process that passes on for as long as others write."""
        with contextlib.suppress(OSError):
            subprocess.Popen(  # noqa: S603 - our own interpreter
                [sys.executable, "-I", "-S", "-c", _GO_ON],
                stdin=self._source,
                stdout=_STDERR,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ).returncode = 0  # nobody waits for it


def _is_same(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same terminal, pipe, socket or file."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    if stat.S_ISCHR(first.st_mode) and not os.isatty(one):
        return False  # /dev/null has no order
    return os.path.samestat(first, second)


def _change_nothing(terminal: int) -> None:
    """Make a terminal pass every byte as it is; the real one does what terminals do."""
    tty.setraw(terminal)
    modes = termios.tcgetattr(terminal)
    modes[_OUTPUT_FLAGS] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
