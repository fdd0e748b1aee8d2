"""Scripts run with the capture and without it: what came out, and how it ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CAPTURE = (sys.executable, "-m", "traceanalyzer", "capture")
PLAIN = (sys.executable,)
OURS = b"traceanalyzer: "


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, or the negative number of a signal."""

    code: int
    out: bytes
    err: bytes

    @property
    def ours(self) -> list[str]:
        """Our lines, which are the last."""
        _, at, ours = self.err.partition(OURS)
        return [line.removeprefix(OURS.decode()) for line in (at + ours).decode().splitlines()]

    @property
    def without_ours(self) -> Done:
        """The same without our lines."""
        return Done(self.code, self.out, self.err.partition(OURS)[0])


def environment(**variables: str) -> dict[str, str]:
    """Return an environment in which nothing of ours or the developer's has a say."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | variables


def finished(
    words: Sequence[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    meanwhile: Callable[[subprocess.Popen[bytes]], None] = lambda _: None,
    **variables: str,
) -> Done:
    """Run a command to its end.

    Args:
        words: The command.
        folder: Where.
        stdin: What it reads.
        meanwhile: Called while it runs; what it reads of its output is not in the result.
        **variables: More of the environment.
    """
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        meanwhile(process)
        out, err = process.communicate(stdin, timeout=300)
    return Done(process.returncode, out, err)


def captured(words: Sequence[str], folder: Path, **more: object) -> Done:
    """Run a script under the capture, to its end."""
    return finished([*CAPTURE, *words], folder, **more)  # type: ignore[arg-type]


def plain(words: Sequence[str], folder: Path, **more: object) -> Done:
    """Run a script without the capture, to its end."""
    return finished([*PLAIN, *words], folder, **more)  # type: ignore[arg-type]


def waits_for(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Wait until a process has written a text to stdout."""
    assert process.stdout is not None
    written = b""
    until = time.monotonic() + 120
    while text not in written:
        assert time.monotonic() < until, written
        if select.select([process.stdout], [], [], 0.1)[0]:
            written += os.read(process.stdout.fileno(), 4096)


def child_of(pid: int, name: str) -> int:
    """Return the child of a process that runs a script of that name."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == pid and name.encode() in words and b"capture" not in words:
                return int(folder.name)
        time.sleep(0.01)
    raise AssertionError(name)


class Terminal:
    """A command whose stdin, stdout and stderr are a terminal of its own, in its own session."""

    def __init__(self, words: Sequence[str], folder: Path, **variables: str) -> None:
        self.written = b""
        self._pid, self._terminal = os.forkpty()
        if self._pid == 0:
            try:
                os.chdir(folder)
                os.execve(words[0], words, environment(**variables))  # noqa: S606 - no shell
            finally:
                os._exit(127)

    def types(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def shows(self, text: bytes, times: int = 1) -> None:
        """Wait until the terminal has shown a text."""
        until = time.monotonic() + 120
        while self.written.count(text) < times:
            assert time.monotonic() < until, self.written
            self._read(0.1)

    def ends(self) -> int:
        """Wait for the end; return the exit code or the negative number of the signal."""
        until = time.monotonic() + 300
        while time.monotonic() < until:
            self._read(0.05)
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                while self._read(0.05):
                    pass
                os.close(self._terminal)
                return os.waitstatus_to_exitcode(status)
        os.kill(self._pid, signal.SIGKILL)
        raise AssertionError(self.written)

    def _read(self, patience_s: float) -> bool:
        if not select.select([self._terminal], [], [], patience_s)[0]:
            return False
        try:
            data = os.read(self._terminal, 65536)
        except OSError:
            return False
        self.written += data
        return bool(data)
