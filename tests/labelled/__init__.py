"""Programs of which is known what TensorFlow puts on the CPU, and why.

Each is a small model or tool as a user writes it: a script of a second or two that draws the same
numbers at every run. Comments say what of it is on the CPU of a machine with a GPU, and why. One
at the end of a line is of that line; one that has a line for itself is of the next line of code:

    rows = tf.gather(table, ids)  # cpu: ResourceGather = resource_on_cpu
    # cpu: MatMul = dtype_unsupported + explicit_cpu_placement(scope); Cast = explicit_cpu_placement
    hits = tf.matmul(counts, tf.cast(given, tf.int32))
    numbers = numbers.map(parse)  # cpu: * = host_pipeline

A line is that of the user's code which TensorFlow's own traceback of the op names. `*` stands for
all types that are not named on the line. Every op on the CPU has a label.

What proves a label is TensorFlow. The script is given as arguments the names of the causes to
remove (`resource_on_cpu`, or what stands in brackets, `scope`), and then does the same without:
without all that a label names, no op of the type is on the CPU at that line any more, and
something else than the CPU runs there; with any one of several left in, it stays. A cause with `!`
has no such proof: nothing a program does removes it.

A comment `# run: gpus=2 clean A_VARIABLE=1` says how the script is run: on how many emulated GPUs
(1 where it is not said), that there is nothing to mend, and variables of the environment. With
`small_gpu` it is the GPU's memory alone that does not suffice: without a GPU none runs out.

`programs/` was written while the rules were, `held_out/` after them. `questions/` asks what users
asked in public.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

__all__ = ["HELD_OUT", "PROGRAMS", "QUESTIONS", "Cause", "Label", "LabelledProgram", "named"]

_FOLDER: Final = Path(__file__).parent
_LABEL: Final = re.compile(r"# cpu: (?P<labels>.*)$")
_RUN: Final = re.compile(r"# run: (?P<words>.*)$")
_CAUSE: Final = re.compile(r"(?P<id>[a-z_0-9]+)(?:\((?P<fix>\w+)\))?(?P<stays>!)?")
_NO_CODE: Final = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)


@dataclass(frozen=True, order=True)
class Cause:
    """One cause of a label.

    Attributes:
        id: Its id.
        fix: The argument that makes the script do without; "" where nothing does.
    """

    id: str
    fix: str


@dataclass(frozen=True)
class Label:
    """Why ops of a type are on the CPU at a line.

    Attributes:
        line: The line.
        op_type: Their type, or "*".
        causes: All that keeps them there.
    """

    line: int
    op_type: str
    causes: frozenset[Cause]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the causes."""
        return frozenset(cause.id for cause in self.causes)


@dataclass(frozen=True)
class LabelledProgram:
    """One program.

    Attributes:
        path: Its file.
    """

    path: Path

    @property
    def name(self) -> str:
        """What it is called by."""
        return self.path.stem

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Its labels."""
        found: list[Label] = []
        waiting: list[str] = []
        is_code_before = False
        tokens = tokenize.generate_tokens(io.StringIO(self._source).readline)
        for token in tokens:
            if token.type == tokenize.COMMENT and (match := _LABEL.search(token.string)):
                if is_code_before:
                    found += _labels(match["labels"], token.start[0])
                else:
                    waiting.append(match["labels"])
            if token.type in {tokenize.NL, tokenize.NEWLINE}:
                is_code_before = False
            elif token.type not in {*_NO_CODE, tokenize.DEDENT}:
                for text in waiting:
                    found += _labels(text, token.start[0])
                waiting = []
                is_code_before = True
        return tuple(found)

    @cached_property
    def run_words(self) -> tuple[str, ...]:
        """What it says of how it is run."""
        found = [match["words"].split() for match in map(_RUN.search, self._lines) if match]
        return tuple(word for words in found for word in words)

    @property
    def emulated_gpus(self) -> int:
        """On how many GPUs it runs."""
        return int(self._values.get("gpus", "1"))

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to mend."""
        return "clean" in self.run_words

    @property
    def is_short_of_gpu_memory(self) -> bool:
        """Whether it needs more memory than the GPU has that it runs on."""
        return "small_gpu" in self.run_words

    @property
    def environment(self) -> dict[str, str]:
        """Variables to set."""
        return {name: value for name, value in self._values.items() if name.isupper()}

    @property
    def _values(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in self.run_words if "=" in word)
        return {name: value for name, _, value in pairs}

    @property
    def _source(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def _lines(self) -> list[str]:
        return self._source.splitlines()


def _labels(text: str, line: int) -> list[Label]:
    found = []
    for part in text.split(";"):
        types, _, causes = part.partition("=")
        matches = [_CAUSE.fullmatch(cause.strip()) for cause in causes.split("+")]
        parsed = [
            Cause(match["id"], "" if match["stays"] else match["fix"] or match["id"])
            for match in matches
            if match
        ]
        if not types.strip() or len(parsed) != len(matches):
            message = f"line {line}: not a label: {part!r}"
            raise ValueError(message)
        found += [Label(line, t.strip(), frozenset(parsed)) for t in types.split(",")]
    return found


def _programs(folder: str) -> tuple[LabelledProgram, ...]:
    return tuple(LabelledProgram(path) for path in sorted((_FOLDER / folder).glob("*.py")))


PROGRAMS: Final = _programs("programs")
HELD_OUT: Final = _programs("held_out")
QUESTIONS: Final = _programs("questions")


def named(name: str) -> LabelledProgram:
    """Return the program of a name.

    Raises:
        LookupError: There is none.
    """
    for program in (*PROGRAMS, *HELD_OUT, *QUESTIONS):
        if program.name == name:
            return program
    raise LookupError(name)
