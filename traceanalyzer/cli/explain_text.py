"""The causes in the terminal: their list, and the page of one (its module's docstring)."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.constrain import Constrain
from rich.padding import Padding
from rich.table import Table as Grid

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.console_text import QUIET, ConsoleText, heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from traceanalyzer.causes import Cause

_SUGGESTED: Final = 3
_LIKENESS: Final = 0.5
_TEXT_WIDTH: Final = 100  # characters; longer lines are hard to read on wide terminals
_HEADING: Final = re.compile(r"#+ +(.*)")
_ITEM: Final = re.compile(r"([-*]|\d+\.) +")
_ITEM_START: Final = re.compile(r"\n(?=(?:[-*]|\d+\.) )")
_CODE_INDENT: Final = "    "


class UnknownCauseError(TraceAnalyzerError):
    """There is no such cause."""


class NoDocumentationError(TraceAnalyzerError):
    """Python runs without docstrings, which the pages are made of."""


def find_cause(name: str, causes: Sequence[Cause]) -> Cause:
    """Return a cause by its name.

    Raises:
        UnknownCauseError: There is none; the message names similar ones.
    """
    by_id = {cause.id: cause for cause in causes}
    wanted = re.sub(r"[\s-]+", "_", name.strip().lower()).partition("/")[0]
    if wanted in by_id:
        return by_id[wanted]
    msg = f"there is no cause {name!r}; "
    alike = _alike(wanted, by_id)
    msg += f"similar: {', '.join(alike)}" if alike else "`traceanalyzer explain` lists all"
    raise UnknownCauseError(msg)


def list_json(causes: Sequence[Cause]) -> list[dict[str, Any]]:
    """Return the list of causes as JSON holds it."""
    return [{"cause": cause.id, "title": cause.title} for cause in causes]


def page_json(cause: Cause) -> dict[str, Any]:
    """Return the page of a cause as JSON holds it; the documentation is Markdown.

    Raises:
        NoDocumentationError: Python runs without docstrings.
    """
    documentation = _documentation(cause).strip()
    return {"cause": cause.id, "title": cause.title, "documentation": documentation}


def print_causes(causes: Sequence[Cause], console: Console) -> None:
    """Print the list of causes with their titles."""
    words = ConsoleText(console)
    grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
    grid.add_column("Cause", overflow="fold", no_wrap=console.width >= _TEXT_WIDTH // 2)
    grid.add_column("What it is", overflow="fold")
    for cause in causes:
        grid.add_row(words(cause.id), words.prose(cause.title))
    console.print(grid)
    console.print(words("For one of them: traceanalyzer explain CAUSE", QUIET))


def print_cause(cause: Cause, console: Console) -> None:
    """Print the page of a cause: what it detects, why it happens, what to do, how sure it is.

    Raises:
        NoDocumentationError: Python runs without docstrings.
    """
    for part in _page(cause, ConsoleText(console)):
        console.print(Constrain(part, _TEXT_WIDTH))


def print_terms(glossary: dict[str, str], console: Console) -> None:
    """Print the glossary."""
    words = ConsoleText(console)
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column(overflow="fold")
    for name, meaning in glossary.items():
        grid.add_row(words(name), words.prose(meaning))
    console.print(grid)


def _documentation(cause: Cause) -> str:
    if cause.documentation:
        return cause.documentation
    msg = "Python runs with -OO or PYTHONOPTIMIZE=2, which drop the text of this page; run without"
    raise NoDocumentationError(msg)


def _page(cause: Cause, words: ConsoleText) -> Iterator[RenderableType]:
    _, *rest = _blocks(_documentation(cause))  # without the title
    yield words.prose(cause.title, "bold") + words(f" · {cause.id}", QUIET)
    after_heading = False
    for block in rest:
        found = _HEADING.fullmatch(block[0])
        if found is not None:
            yield heading(words, found[1])
        else:
            if not after_heading:
                yield words("")
            yield from _paragraph(block, words)
        after_heading = found is not None


def _blocks(documentation: str) -> Iterator[list[str]]:
    """Yield the paragraphs of a docstring, in lines; each heading by itself."""
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", documentation.strip()):
        lines = paragraph.splitlines()
        while lines and _HEADING.fullmatch(lines[0]):
            yield [lines.pop(0)]
        if lines:
            yield lines


def _paragraph(lines: Sequence[str], words: ConsoleText) -> Iterator[RenderableType]:
    """Yield the code lines, the list items, or the prose of a paragraph."""
    if all(line.startswith(_CODE_INDENT) for line in lines):
        for line in lines:
            code = words(line.removeprefix(_CODE_INDENT), "bold")
            yield Padding(code, (0, 0, 0, len(_CODE_INDENT)))
        return
    for part in _ITEM_START.split("\n".join(lines)):
        prose = words.prose(part)
        yield Padding(prose, (0, 0, 0, 2)) if _ITEM.match(part) else prose


def _alike(wanted: str, ids: dict[str, Cause]) -> list[str]:
    """Return the ids that are similar to a name, or share a word with it."""
    found = get_close_matches(wanted, ids, n=_SUGGESTED, cutoff=_LIKENESS)
    parts = {part for part in wanted.split("_") if len(part) > 2}  # noqa: PLR2004 - `no`, `of`
    shared = [id_ for id_ in ids if parts & {*id_.split("_")}]
    return list(dict.fromkeys([*found, *shared]))[:_SUGGESTED]
