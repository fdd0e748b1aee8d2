"""Programs whose ops on the CPU are known, and why they are there.

Each is a small model or tool as a user would write it: a script that takes a second or two and
draws the same random numbers in every run. Comments label the ops that are on the CPU of a machine
with a GPU, with the causes. A comment on a line of its own is about the next line of code:

    rows = tf.gather(table, ids)  # cpu: ResourceGather = resource_on_cpu
    # cpu: MatMul = dtype_unsupported + explicit_cpu_placement(scope); Cast = explicit_cpu_placement
    hits = tf.matmul(counts, tf.cast(given, tf.int32))
    numbers = numbers.map(parse)  # cpu: * = host_pipeline

The line is that of TensorFlow's own traceback of the op. `*` stands for all types that the line
does not name. Every op on the CPU has a label.

TensorFlow confirms the labels (`python -m tests.labelled check`). The arguments of the script are
the names of causes to remove: `resource_on_cpu`, or the name in brackets, `scope`. Without the
causes of a label, no op of the type is on the CPU at that line; with any one of them, the op stays.
A cause with `!` has no such proof, because no program can remove it.

A comment `# run: gpus=2 clean A_VARIABLE=1` sets the number of emulated GPUs (default: 1) and
environment variables, and says that nothing needs fixing. With `small_gpu`, only the GPU's memory
is too small.

`programs/` was written together with the causes, `held_out/` after them. `questions/` contains
questions that users asked in public. `bare/` was written after the rules for a trace
without its capture file, to calibrate them. Before anything was changed for it, 106 of its 108 ops
were explained at host tracer level 2, and 106 of 110 at level 3; the cause was the label's for 77
and 80, and a `tf.device` scope around the call instead of the op, or the reverse, for 24 and 24.
"""

import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_LABEL: Final = re.compile(r"# cpu: (?P<labels>.*)$")
_RUN: Final = re.compile(r"^.*# run: (?P<words>.*)$", re.MULTILINE)
_CAUSE: Final = re.compile(r"(?P<id>[a-z_0-9]+)(?:\((?P<fix>\w+)\))?(?P<stays>!)?")
_LAYOUT: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
}


@dataclass(frozen=True)
class Label:
    """The causes of ops of one type on the CPU at one line."""

    line: int
    op_type: str  #: "*" for any
    causes: frozenset[tuple[str, str]]  #: ids, each with the script's argument that removes it

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the causes."""
        return frozenset(cause for cause, _ in self.causes)

    @property
    def fixes(self) -> list[str]:
        """The arguments that remove the causes."""
        return sorted({fix for _, fix in self.causes if fix})


@dataclass(frozen=True)
class LabelledProgram:
    """One program."""

    path: Path

    @property
    def name(self) -> str:
        """The file's stem."""
        return self.path.stem

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """The program's labels."""
        found: list[Label] = []
        waiting: list[str] = []
        is_after_code = False
        for token in tokenize.generate_tokens(io.StringIO(self.source).readline):
            if token.type == tokenize.COMMENT and (match := _LABEL.search(token.string)):
                if is_after_code:
                    found += _labels(match["labels"], token.start[0])
                else:
                    waiting.append(match["labels"])
            if token.type in {tokenize.NL, tokenize.NEWLINE}:
                is_after_code = False
            elif token.type not in _LAYOUT:
                for text in waiting:
                    found += _labels(text, token.start[0])
                waiting = []
                is_after_code = True
        return tuple(found)

    @cached_property
    def source(self) -> str:
        """The program's text."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def _run_words(self) -> dict[str, str]:
        words = " ".join(_RUN.findall(self.source)).split()
        return {name: value for name, _, value in (word.partition("=") for word in words)}

    @property
    def emulated_gpus(self) -> int:
        """On how many GPUs it runs."""
        return int(self._run_words.get("gpus", "1"))

    @property
    def is_clean(self) -> bool:
        """Whether nothing needs fixing."""
        return "clean" in self._run_words

    @property
    def is_short_of_gpu_memory(self) -> bool:
        """Whether it needs more memory than its GPU has."""
        return "small_gpu" in self._run_words

    @property
    def environment(self) -> dict[str, str]:
        """Variables to set."""
        return {name: value for name, value in self._run_words.items() if name.isupper()}


def _labels(text: str, line: int) -> list[Label]:
    found = []
    for part in text.split(";"):
        types, _, causes = part.partition("=")
        matches = [_CAUSE.fullmatch(cause.strip()) for cause in causes.split("+")]
        parsed = {
            (match["id"], "" if match["stays"] else match["fix"] or match["id"])
            for match in matches
            if match
        }
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
BARE: Final = _programs("bare")
