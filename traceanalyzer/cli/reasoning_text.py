"""Why single ops ran where they did, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.format import counted
from traceanalyzer.model import SourceWhere
from traceanalyzer.report import text
from traceanalyzer.report.console_text import QUIET, ConsoleText
from traceanalyzer.report.sources import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console, RenderableType

    from traceanalyzer.model import RuledOut
    from traceanalyzer.report.reasoning import OpReasoning, Reason, Reasoned, View

_EVIDENCE_SHOWN: Final = 6
_CODE_LINES: Final = 8
_SOURCE_SHOWN: Final = 100  # characters of a line of the program
_ALONE: Final = "The only blocker: without it, a replay of the placer puts the op on the GPU."
_ALL: Final = (
    "Fix them all: each alone blocks the op, and without them a replay of the placer puts it on "
    "the GPU."
)


def print_reasonings(reasoned: Reasoned, console: Console) -> None:
    """Print where ops ran, what was possible, and what keeps them there."""
    words = ConsoleText(console)
    for number, op in enumerate(reasoned.ops):
        if number:
            console.print()
        for part in _op(op, words):
            console.print(part)
    left = reasoned.total - len(reasoned.ops)
    if left > 0:
        console.print()
        more = f"{counted(left, 'more op')} match; narrow the expression to see them"
        console.print(words(more, QUIET))


def _op(op: OpReasoning, words: ConsoleText) -> Iterator[RenderableType]:
    title = words.name(op.name) + Text()
    title.stylize("bold")
    if op.place:
        title += words(f" · {text.cut(op.place)}")
    yield title
    grid = _grid()
    kind = op.type if not op.stands_for else f"{op.type}, rewritten from {op.stands_for}"
    if op.function:
        kind += f", in {text.cut(op.function)}"
    if op.host:
        kind += f", on {text.cut(op.host)}"
    _row(grid, words, "Op", words(kind))
    ran = words(f"{op.ran_on} ", "bold") + words(f"({op.certainty}: {op.witness})")
    _row(grid, words, "Ran on", ran)
    runs = words(f"{counted(op.occurrences, 'run')}, ") + words.time(op.host_us)
    _row(grid, words, "Time", runs + words(" on the host"))
    requested = "unknown" if op.requested is None else op.requested or "none"
    _row(grid, words, "Requested", words(text.cut(requested)))
    if op.input_types is not None:
        _row(grid, words, "Inputs", words(text.cut(", ".join(op.input_types) or "none")))
    _view(grid, op.here, words)
    if op.on_a_gpu is not None:
        _row(grid, words, "", Text())
        _row(grid, words, "With a GPU", words(f"Replaying the placer for {op.on_a_gpu.assumed}."))
        _view(grid, op.on_a_gpu, words)
    yield Padding(grid, (0, 0, 0, 2))


def _grid() -> Grid:
    grid = Grid(box=None, show_header=False, padding=(0, 1, 0, 0))
    grid.add_column(style=QUIET, overflow="fold")
    grid.add_column(overflow="fold", ratio=1)
    return grid


def _row(grid: Grid, words: ConsoleText, label: str, *content: RenderableType) -> None:
    grid.add_row(words(label), Group(*content))


def _view(grid: Grid, view: View, words: ConsoleText) -> None:
    if view.said:
        _row(grid, words, "", words.prose(view.said))
    if view.possible:
        _row(grid, words, "Possible", words.prose(" ".join(view.possible)))
    if view.reasons:
        parts = [
            part
            for number, reason in enumerate(view.reasons, start=1)
            for part in _reason(number, reason, words)
        ]
        if view.is_complete:
            parts.append(words.prose(_ALL if len(view.reasons) > 1 else _ALONE))
        _row(grid, words, "Because", *parts)
    for number, (cause, what) in enumerate(view.open):
        line = words(f"{cause}: ") + words.prose(what)
        _row(grid, words, "" if number else "Possible causes", line)
    for number, (because, causes) in enumerate(_by_fact(view.ruled_out).items()):
        line = words(f"{', '.join(causes)}: ") + words.prose(because)
        _row(grid, words, "" if number else "Ruled out", line)
    for number, doubt in enumerate(view.doubts):
        _row(grid, words, "" if number else "Uncertain", words.prose(text.sentence(doubt)))
    if view.settled_by:
        _row(grid, words, "To find out", words.prose(text.sentence(view.settled_by)))


def _by_fact(ruled_out: Iterable[RuledOut]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for out in ruled_out:
        found.setdefault(out.because, []).append(out.cause)
    return found


def _reason(number: int, reason: Reason, words: ConsoleText) -> Iterator[RenderableType]:
    yield words(f"{number}. ") + words.prose(reason.tie + reason.title, "bold")
    indented: list[RenderableType] = []
    marks = str(reason.certainty)
    if reason.harm is not None:
        marks += f", {reason.harm.replace('_', ' ')}"
    indented.append(words(f"{reason.cause or 'no known cause'} ({marks})", QUIET))
    if reason.why:
        indented.append(words.prose(reason.why))
    indented += _evidence(reason, words)
    for fix in reason.fixes:
        verified = " (verified)" if fix.checked else ""
        indented.append(words(f"Fix{verified}: ", "bold") + words.prose(fix.text))
        indented += [Padding(line, (0, 0, 0, 4)) for line in _code(fix.code or "", words)]
    yield Padding(Group(*indented), (0, 0, 0, len(f"{number}. ")))


def _evidence(reason: Reason, words: ConsoleText) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for evidence in reason.evidence[:_EVIDENCE_SHOWN]:
        place = place_of(evidence)
        line = words("- ") + words.prose(evidence.text)
        shown.append(line + words(f" [{text.cut(place)}]", QUIET) if place else line)
        if isinstance(evidence.where, SourceWhere) and evidence.where.source is not None:
            shown.append(words(f"      {text.cut(evidence.where.source, _SOURCE_SHOWN)}"))
    left = len(reason.evidence) - _EVIDENCE_SHOWN
    if left > 0:
        shown.append(words(f"- and {left} more like these", QUIET))
    return shown


def _code(code: str, words: ConsoleText) -> Sequence[Text]:
    lines = code.strip("\r\n").split("\n")[:_CODE_LINES]
    return [words(line.rstrip("\r").expandtabs(4)) for line in lines if line.strip()]
