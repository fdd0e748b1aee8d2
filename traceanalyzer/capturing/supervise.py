"""Runs the script's process to its end as if nobody stood between it and the shell.

It shares our terminal, process group, working directory, stdin and stdout. Signals that reach us
alone are passed on, those of the whole group it has got itself; when it stops we stop, and when it
was killed we end in the same way, once everything has been written.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from traceanalyzer.capturing.witness import Witness, before_exec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traceanalyzer.capturing.channel import Channel

__all__ = ["end_like", "holding_signals", "run"]

_SENT_BY_THE_KERNEL: Final = 0x80  # si_code SI_KERNEL: by a terminal, so to its whole group
_PASSED_ON: Final = frozenset(
    {
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
        *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP),
    }
)
_HELD: Final = _PASSED_ON | {signal.SIGCHLD, signal.SIGCONT, signal.SIGWINCH}
_PR_SET_DUMPABLE: Final = 4


@contextlib.contextmanager
def holding_signals() -> Iterator[set[signal.Signals]]:
    """Hold back signals until `run` looks at them: nothing interrupts the making of the files.

    Yields:
        The signals that were blocked before, for processes to be started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    previous = signal.getsignal(signal.SIGCHLD)
    if previous == signal.SIG_IGN:  # or nobody would learn how the script ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield {signal.Signals(signum) for signum in before}
    finally:
        while signal.sigtimedwait(_HELD, 0):
            pass  # meant for a script that has ended
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if previous == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, previous)


def run(
    words: Sequence[str],
    variables: Mapping[str, str],
    mask: set[signal.Signals],
    channel: Channel | None = None,
    started: Callable[[int], None] = lambda _: None,
) -> int:
    """Run a process to its end, within `holding_signals`.

    Args:
        words: The command line.
        variables: The environment.
        mask: The signals that are to be blocked in it.
        channel: The way of its stderr; None to leave that as it is.
        started: Called with the process id.

    Returns:
        Its exit code, or the negative number of the signal that killed it.

    Raises:
        OSError: It cannot be started.
    """
    witness = Witness(_PASSED_ON)
    try:
        child = subprocess.Popen(  # noqa: S603 - what the user named
            words,
            env=variables,
            stdout=channel.descriptor_of_stdout if channel else None,
            stderr=channel.descriptor_of_stderr if channel else None,
            close_fds=False,  # what the shell opened for the script stays open
            preexec_fn=before_exec(mask),  # noqa: PLW1509 - no thread has been started yet
        )
        started(child.pid)
        if channel:
            channel.start()
        child.returncode = _wait(child.pid, witness, channel)
        if channel:
            channel.finish()
        return child.returncode
    finally:
        witness.close()


def _wait(child: int, witness: Witness, channel: Channel | None) -> int:
    while True:
        got = signal.sigwaitinfo(_HELD)
        signum = got.si_signo
        if signum == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                if channel:
                    channel.settle()
                _stop_too(os.WSTOPSIG(status))
            elif pid:
                return os.waitstatus_to_exitcode(status)
        elif signum == signal.SIGWINCH:
            if channel and channel.is_terminal:
                channel.resize()
                os.kill(child, signum)  # what it saw at the first was the old size
        elif signum == signal.SIGCONT:
            os.kill(child, signum)
        else:
            of_group = witness.saw(signum)
            if got.si_code != _SENT_BY_THE_KERNEL and not of_group:
                os.kill(child, signum)


def _stop_too(signum: int) -> None:
    """Stop as the script did, so that the shell sees it; go on when told to."""
    if signal.SIGCONT in signal.sigpending():
        return  # that is over already
    # What the terminal sent to the script it sent to us too: to stop once is enough.
    signal.sigtimedwait({signal.SIGTSTP}, 0)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    os.kill(os.getpid(), signum)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_like(status: int) -> int:
    """End as a process did: by the same signal, where one killed it.

    Args:
        status: What `run` returned.

    Returns:
        The exit code to end with, of a process that was not killed.
    """
    if status >= 0:
        return status
    signum = -status
    # The script has left its core where it was to leave one; ours would tell nothing.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no other way than its own
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signum})
    os.kill(os.getpid(), signum)
    return 128 + signum  # as a shell tells it; reached only where the signal is kept from us
