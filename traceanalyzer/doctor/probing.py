"""Runs probes in child processes with a time limit, so that none can hang or crash the caller."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import IO, Any, Final

from traceanalyzer.doctor.facts import ProbeFailure

_MOST_BYTES: Final = 1_000_000  # of output
_LONGEST_LINE: Final = 1000
_POLL_S: Final = 0.02
_temporary: Final[Callable[[], IO[bytes]]] = tempfile.TemporaryFile
_AFTER_KILL_S: Final = 0.5  # a process that waits for a broken driver cannot even be killed


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The facts that a probe reported, and its failure, if any."""

    reported: tuple[dict[str, Any], ...] = ()
    failure: ProbeFailure | None = None
    log: tuple[str, ...] = ()  #: lines of stderr
    is_cut_off: bool = False  #: whether it still ran when its time was over

    @property
    def facts(self) -> dict[str, Any]:
        """The facts as one mapping; later values replace earlier ones."""
        return {key: value for each in self.reported for key, value in each.items()}


class Probe:
    """A running probe, in a process group of its own."""

    def __init__(
        self,
        name: str,
        interpreter: Sequence[str],
        variables: Mapping[str, str],
        given: Mapping[str, Any],
    ) -> None:
        self.name = name
        folder = files("traceanalyzer.doctor") / "probes"
        source = "".join((folder / f"{each}.py").read_text("utf-8") for each in ("_telling", name))
        self._stack = contextlib.ExitStack()
        # Files, and not pipes: what a killed probe leaves behind could hold a pipe open.
        self._out, self._err = map(self._stack.enter_context, (_temporary(), _temporary()))
        self._started_s = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._problem = ""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an interpreter that the user named
                [*interpreter, "-c", source, json.dumps(given)],
                env=dict(variables),
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                start_new_session=True,
            )
        except OSError as error:
            self._problem = f"cannot be started ({(error.strerror or str(error)).lower()})"

    def result(self, until_s: float) -> ProbeResult:
        """Wait for the process, killing it at `until_s` (`time.monotonic`); return its result."""
        while self.runs() and time.monotonic() < until_s:
            if signal.SIGINT in signal.sigpending():  # blocked by a capture, and not the probe's
                until_s = 0.0
            time.sleep(_POLL_S)
        problem, is_cut_off = self._problem, self.runs()
        if is_cut_off:
            problem = f"did not end within {time.monotonic() - self._started_s:.0f} s"
        self._kill()
        code = None if self._process is None else self._process.returncode
        if code and not problem:
            name = {each.value: each.name for each in signal.Signals}.get(-code)
            problem = f"crashed ({name})" if name else f"ended with code {code}"
        reported = tuple(_facts(_text(self._out)))
        log = tuple(line[:_LONGEST_LINE] for line in _text(self._err).splitlines())
        steps = [str(each["step"]) for each in reported if "step" in each]
        failure = ProbeFailure(step=steps[-1] if steps else "", text=problem) if problem else None
        return ProbeResult(reported=reported, failure=failure, log=log, is_cut_off=is_cut_off)

    def runs(self) -> bool:
        """Return whether the process is still running."""
        return self._process is not None and self._process.poll() is None

    def close(self) -> None:
        """Kill the process and all processes that it started, and delete its output."""
        self._kill()
        self._stack.close()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_AFTER_KILL_S)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_BYTES).decode("utf-8", "replace")


def _facts(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            each = json.loads(line)
            if isinstance(each, dict):
                yield each
