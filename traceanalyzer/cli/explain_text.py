"""Prints the answers of `explain` and `analyze --op`: causes, terms, and single ops."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.text import Text

from traceanalyzer.causes import Cause
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.op_details import OpReasons
from traceanalyzer.report.terminal import QUIET, Screen
from traceanalyzer.report.text import cut, prose, table_of

_SUGGESTED: Final = 3
_TEXT_WIDTH: Final = 100  # characters; longer lines are hard to read on wide terminals
_NAME_LENGTH: Final = 56
_ITEM_START: Final = re.compile(r"\n(?=(?:[-*]|\d+\.) )")
_CODE_INDENT: Final = "    "


def find_cause(name: str, causes: Sequence[Cause]) -> Cause:
    """Return a cause by its name.

    Raises:
        TraceAnalyzerError: No cause has this name; the message lists similar names.
    """
    by_id = {cause.id: cause for cause in causes}
    wanted = re.sub(r"[\s-]+", "_", name.strip().lower()).partition("/")[0]
    if wanted in by_id:
        return by_id[wanted]
    alike = get_close_matches(wanted, by_id, _SUGGESTED, cutoff=0.5)
    alike += [id_ for id_ in by_id if not {*wanted.split("_")}.isdisjoint(id_.split("_"))]
    named = ", ".join([*dict.fromkeys(alike)][:_SUGGESTED])
    hint = f"similar: {named}" if named else "`traceanalyzer explain` lists all"
    msg = f"there is no cause {name!r}; {hint}"
    raise TraceAnalyzerError(msg)


def print_cause(cause: Cause, console: Console) -> None:
    """Print the page of a cause: detection, reason, fix, and certainty."""
    screen = Screen(console)
    screen.print(Constrain(part, _TEXT_WIDTH) for part in _page(cause, screen))


def _page(cause: Cause, screen: Screen) -> Iterator[RenderableType]:
    yield screen.inline((cause.title,), "bold") + screen(f" · {cause.id}", QUIET)
    text = re.sub(r"(?m)^(#.*)$", r"\1\n", cause.documentation)
    _, *paragraphs = re.split(r"\n(?:[ \t]*\n)+", text)  # leave out the title
    for paragraph in paragraphs:
        if paragraph.startswith("#"):
            yield screen.heading(paragraph.lstrip("# "))
        elif paragraph.startswith(_CODE_INDENT):
            yield from (screen(line, "bold") for line in paragraph.splitlines())
        else:
            for part in _ITEM_START.split(paragraph):
                indent = 2 if part[:1] in "-*123456789" else 0
                yield Padding(screen.inline((part,)), (0, 0, 0, indent))


def print_causes(causes: Sequence[Cause], console: Console) -> None:
    """Print the list of causes with their titles."""
    table = table_of("causes", [{"cause": c.id, "what": prose(c.title)} for c in causes])
    hint = b.Note(text=("Details of a cause: traceanalyzer explain CAUSE",))
    screen = Screen(console, rows=len(causes))
    screen.print(screen.blocks((table, hint)))


def print_terms(glossary: Mapping[str, str], console: Console) -> None:
    """Print the glossary."""
    rows = tuple((name, prose(meaning)) for name, meaning in glossary.items())
    screen = Screen(console)
    screen.print(screen.blocks([b.KeyValues(rows=rows)]))


def print_ops(ops: Sequence[OpReasons], total: int, console: Console) -> None:
    """Print where ops ran, where they could run, and the reasons."""
    screen = Screen(console)
    for op in ops:
        title = screen(cut(op.name, _NAME_LENGTH), "bold")
        place = screen(f" · {cut(op.place)}" if op.place else "")
        screen.print((title + place, *screen.inside((op.facts, *op.here, *op.on_a_gpu)), Text()))
    if total > len(ops):
        more = f"{counted(total - len(ops), 'more op')} not shown; use a narrower expression"
        screen.print((screen(more, QUIET),))
