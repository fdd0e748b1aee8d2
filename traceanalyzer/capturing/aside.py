"""Short processes of the capture's own, after the script: the user can interrupt them."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capturing.witness import before_exec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Ended", "run_aside"]

_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended.

    Attributes:
        code: Its exit code, or the negative number of the signal that killed it.
        out: What it wrote to stdout.
        err: What it wrote to stderr.
        is_late: Whether it was ended because it took too long.
        is_interrupted: Whether it was ended because somebody wants us to end.
    """

    code: int
    out: bytes
    err: bytes
    is_late: bool = False
    is_interrupted: bool = False


def run_aside(
    words: Sequence[str],
    variables: Mapping[str, str],
    mask: set[signal.Signals],
    time_limit_s: float | None = None,
) -> Ended:
    """Run a process that has no stdin, and gather what it writes.

    To be called while signals are held back; one that asks us to end, ends the process.

    Args:
        words: The command line.
        variables: The environment.
        mask: The signals that are to be blocked in it.
        time_limit_s: How long it may take.

    Raises:
        OSError: It cannot be started.
    """
    until = None if time_limit_s is None else time.monotonic() + time_limit_s
    with subprocess.Popen(  # noqa: S603 - an interpreter, ours or the script's
        words,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before_exec(mask),  # noqa: PLW1509 - signals, before anything else runs in it
    ) as process:
        is_late = is_interrupted = False
        while True:
            try:
                out, err = process.communicate(timeout=_LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                is_late = until is not None and time.monotonic() > until
                is_interrupted = signal.sigtimedwait(_ENDING, 0) is not None
                if is_late or is_interrupted:
                    process.kill()
                    out, err = process.communicate()
                    break
    return Ended(
        code=process.returncode, out=out, err=err, is_late=is_late, is_interrupted=is_interrupted
    )
