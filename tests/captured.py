"""The programs of `tests/programs/`: what their lines make, and how they run, plainly and captured.

Each program is what a user might write. A comment at the end of a line names op types,

    hidden = tf.matmul(x, self.kernel)  # op: MatMul

and says that TensorFlow's own traceback of such ops names this line. A type that a program marks
is marked on all lines of that program which make ops of it, those of gradients among them: their
line is the one that asks for the gradient, or the call of `fit`. So an op of a marked type lies on
a marked line, whatever made it. `tests/op_lines.py` reads the same from TensorFlow. Ops of a saved
model have no traceback; a recorder can only name the line that loads it, which says `# loads`.
"""

import collections
import io
import os
import re
import subprocess
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).with_name("programs")
_ROOT = _FOLDER.parents[1]
_MARK = re.compile(r"# op: (?P<types>.*)$")
_LOADS = re.compile(r"# loads$")
_LONGEST = 300.0  # seconds; the programs take a few, after the import of TensorFlow
# "0.25 s", "12ms/step" (Keras' verbose=2), "1s/epoch" (Keras 2's)
_TIMING = re.compile(r"\b\d+(?:\.\d+)?(?:e[-+]?\d+)? ?(?:s|ms|us|µs|ns)(?:/(?:step|epoch))?\b")

ENDINGS = {
    "data_from_generator": 3,  # sys.exit(3): stopped early
}
"""The exit codes of those that do not end with 0."""


@dataclass(frozen=True)
class Program:
    """One program."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def exit_code(self) -> int:
        """What it ends with."""
        return ENDINGS.get(self.name, 0)

    def marks(self) -> dict[str, frozenset[int]]:
        """The lines that make ops of each type that it marks."""
        marks: dict[str, set[int]] = collections.defaultdict(set)
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT and (mark := _MARK.search(token.string)):
                for op_type in mark["types"].split(", "):
                    marks[op_type].add(token.start[0])
        return {op_type: frozenset(lines) for op_type, lines in marks.items()}

    def loading_lines(self) -> frozenset[int]:
        """The lines that load a saved model."""
        lines = enumerate(self.source.splitlines(), start=1)
        return frozenset(number for number, text in lines if _LOADS.search(text))


PROGRAMS = [Program(path) for path in sorted(_FOLDER.glob("*.py"))]


@dataclass(frozen=True)
class Outcome:
    """What a run left to whoever started it."""

    stdout: str
    stderr: str
    exit_code: int


@dataclass(frozen=True)
class Capture:
    """A captured run, and the run directory that it left: None if there is not exactly one."""

    outcome: Outcome
    run: Path | None


def mask(stdout: str) -> str:
    """What was printed, without the timings."""
    return _TIMING.sub("<time>", stdout)


def run_plainly(program: Program, python: str = sys.executable) -> Outcome:
    """Run it as its author would."""
    return _run([python, str(program.path)])


def run_captured(
    program: Program, logdir: Path, *options: str, environment: dict[str, str] | None = None
) -> Capture:
    """Run it under `traceanalyzer capture`, without a page."""
    command = [sys.executable, "-m", "traceanalyzer", "capture", "--no-report"]
    command += ["--logdir", str(logdir), *options, str(program.path)]
    outcome = _run(command, environment)
    runs = sorted((logdir / "plugins" / "profile").glob("*/"))
    return Capture(outcome, runs[0] if len(runs) == 1 else None)


def _run(command: list[str], environment: dict[str, str] | None = None) -> Outcome:
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_LONGEST,
        check=False,
    )
    return Outcome(done.stdout, done.stderr, done.returncode)
