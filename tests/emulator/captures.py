"""Captures of programs in the oracle's forks, which all tests and workers of a test run share."""

import fcntl
import hashlib
import os
import pickle
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import traceanalyzer as ta
from tests.emulator.oracle import Outcome, the_oracle
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import SUFFIX, read
from traceanalyzer.run import Run


@dataclass(frozen=True, kw_only=True)
class Captured:
    """A captured program."""

    logdir: Path  #: to be read only: other tests read it, too
    outcome: Outcome

    def run(self) -> Run:
        """Load the run."""
        return ta.load(self.logdir)

    def capture_file(self) -> CaptureFile:
        """Read the capture file."""
        (file,) = self.logdir.rglob(f"*{SUFFIX}")
        return read(file)


def captured(
    program: Path | str,
    *arguments: str,
    level: int = 2,
    how: str = "captured_in_fork:capture",
    may_fail: bool = False,
    **options: Any,  # noqa: ANN401 - of `Oracle.run`
) -> Captured:
    """Capture a program, or return its capture if any test of this run has made it.

    Args:
        program: A Python file, or the text of one, which is called `train.py`.
        arguments: Those of its command line.
        level: The host tracer level.
        how: The function that captures it, as `module:function` of `tests.labelled`.
        may_fail: Whether it may end with another exit code than 0.
        **options: The GPUs, their memory, and the environment, as `Oracle.run` takes them.
    """
    file = _written(program) if isinstance(program, str) else program
    words = file.read_text(encoding="utf-8"), arguments, level, how, sorted(options.items())
    folder = _folder_of(repr((file, words)))
    logdir, outcome = folder / "logs", folder / "outcome"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outcome.exists():
            shutil.rmtree(logdir, ignore_errors=True)
            of = str(file), str(logdir), level, *arguments
            ended = the_oracle().run(f"tests.labelled.{how}", *of, **options)
            outcome.write_bytes(pickle.dumps(ended))
    ended = pickle.loads(outcome.read_bytes())  # noqa: S301 - our own
    assert may_fail or ended.exit_code == 0, f"{arguments}: {ended.error or ended.stderr}"
    return Captured(logdir=logdir, outcome=ended)


def _written(program: str) -> Path:
    """Write a program to a file: the same, whatever it is captured with."""
    file = _folder_of(program) / "train.py"
    if not file.exists():
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(program, encoding="utf-8")
        part.replace(file)
    return file


def _folder_of(key: str) -> Path:
    folder = _folder() / hashlib.sha256(key.encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    return folder


@cache
def _folder() -> Path:
    """Return the folder of the test run, which `conftest` has made."""
    return Path(
        os.environ.get("TRACEANALYZER_TEST_CAPTURES") or tempfile.mkdtemp(prefix="captures-")
    )
