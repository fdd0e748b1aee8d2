"""Runs the script to capture, as if the shell had started it.

The script inherits stdin, stdout, stderr, the terminal, and the process group, so Ctrl-C and Ctrl-Z
reach it directly. Other signals that only `traceanalyzer` receives are passed on. If a signal kills
the script, `traceanalyzer` writes the files, and then sends itself the same signal.
"""

import contextlib
import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from traceanalyzer.errors import TraceAnalyzerError

SETTINGS_VARIABLE: Final = "TRACEANALYZER_CAPTURE"
# The folder of the `sitecustomize` that starts the recorder.
STARTUP: Final = Path(__file__).resolve().parent / "recorder" / "startup"
EDITED_PROGRAM: Final = Path(__file__).resolve().parent / "recorder" / "edited_program.py"

# Options of the interpreter that keep the recorder from starting, perhaps among others without a
# value.
KEEPS_OUT: Final = re.compile(r"-[bBdhiOPqRsuvVx?]*[IES]")
_FROM_THE_TERMINAL: Final = 0x80  # si_code SI_KERNEL: sent to the whole process group
_PASSED_ON: Final = frozenset(
    {signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
# SIGINT is not passed on: the terminal sends it to the script, and a second one would interrupt the
# script's handling of the first.
_HELD: Final = _PASSED_ON | {signal.SIGINT, signal.SIGCHLD}
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4

_libc: Final = ctypes.CDLL(None)


def reason_of(error: OSError) -> str:
    """Return the reason for a failure, for use within a sentence."""
    return (error.strerror or str(error)).lower()


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program that the user wants to run."""

    interpreter: tuple[str, ...]
    target: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def words_of_script(self) -> list[str]:
        """The command line after the interpreter and its options."""
        target = ["-m", self.target] if self.is_module else [self.target]
        return [*target, *self.arguments]

    @property
    def sources(self) -> tuple[Path, ...]:
        """Files that may contain the program; for a module, only below the working directory."""
        if self.is_module:
            path = self.target.replace(".", "/")
            return Path(f"{path}.py"), Path(path, "__main__.py")
        return Path(self.target), Path(self.target) / "__main__.py"

    def check(self) -> None:
        """Raise `TraceAnalyzerError` if the script does not exist."""
        if self.is_module or self.target == "-":
            return
        script = Path(self.target)
        is_folder = script.is_dir()
        try:
            (script / "__main__.py" if is_folder else script).stat()
        except OSError as error:
            why = "a folder without __main__.py" if is_folder else reason_of(error)
            msg = f"{script}: {why}; name a Python script, or a module with -m"
            raise TraceAnalyzerError(msg) from None


def interpreter(command: str | None) -> tuple[str, ...]:
    """Return the interpreter's command line; defaults to this interpreter."""
    if command is None:
        return (sys.executable,)
    try:
        words = [command] if Path(command).is_file() else shlex.split(command)
    except ValueError as error:
        msg = f"--python {command}: {str(error).lower()}"
        raise TraceAnalyzerError(msg) from None
    if not words:
        msg = "--python: the value is empty; name an interpreter, or leave the option out"
        raise TraceAnalyzerError(msg)
    found = shutil.which(words[0])
    if found is None:
        msg = f"--python {words[0]}: no such program; name the script's Python interpreter"
        raise TraceAnalyzerError(msg)
    return (found, *words[1:])


def environment(settings: Path) -> dict[str, str]:
    """Return an environment in which Python starts the recorder."""
    paths = [str(STARTUP), os.environ.get("PYTHONPATH")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        SETTINGS_VARIABLE: str(settings),
    }


@contextlib.contextmanager
def holding_signals() -> Iterator[set[signal.Signals]]:
    """Block signals so that they do not interrupt the writing of files; `run` waits for them.

    Yields the signals that were already blocked: the signal mask for new processes.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    of_children = signal.getsignal(signal.SIGCHLD)
    if of_children == signal.SIG_IGN:  # the system would not report how the script ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        while signal.sigtimedwait(_HELD, 0):
            pass  # meant for a script that has ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, of_children)


def run(
    words: Sequence[str],
    variables: Mapping[str, str],
    mask: Collection[int],
    started: Callable[[int], None],
) -> int:
    """Run a process to its end, within `holding_signals`; call `started` with its id.

    Returns its exit code, or the negative number of the signal that killed it.
    """
    script = subprocess.Popen(  # noqa: S603 - what the user named
        words,
        env=variables,
        close_fds=False,  # what the shell opened for the script stays open
        preexec_fn=_prepared(mask),  # noqa: PLW1509 - no thread has been started yet
    )
    started(script.pid)
    while True:
        received = signal.sigwaitinfo(_HELD)
        if received.si_signo == signal.SIGCHLD:
            if (code := script.poll()) is not None:
                return code
        elif (
            received.si_signo in _PASSED_ON
            and received.si_code != _FROM_THE_TERMINAL
            and received.si_pid != script.pid
        ):
            script.send_signal(received.si_signo)


def run_aside(
    words: Sequence[str],
    variables: Mapping[str, str],
    mask: Collection[int] | None,
    time_limit_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a short process without stdin. With the mask of `holding_signals`, Ctrl-C ends it."""
    return subprocess.run(  # noqa: S603 - an interpreter, ours or the script's
        words,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=time_limit_s,
        check=False,
        preexec_fn=None if mask is None else _prepared(mask),
    )


def _prepared(mask: Collection[int]) -> Callable[[], None]:
    """Return the function that a new process runs before its program starts (`preexec_fn`)."""
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # end with us, if we are killed
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def end_like(status: int) -> int:
    """End this process with the signal that killed the script, or return the script's exit code."""
    if status >= 0:
        return status
    number = -status
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the script left a core file; ours is useless
    with contextlib.suppress(OSError, ValueError):  # SIGKILL cannot be handled otherwise
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # as a shell reports it; reached only if the signal is blocked
