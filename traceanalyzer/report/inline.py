"""Text within a line: how sections write it, and how it reads without a page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, duration, share, size
from traceanalyzer.model.blocks import Code, Line, Link, Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.model.blocks import Inline, Kind, Text

_SPACES: Final = re.compile(r"[ \t\r\n]+")
_CODE: Final = re.compile(r"`([^`]+)`")


def prose(words: str) -> Text:
    """Return words as text: what is between backticks is code."""
    parts = _CODE.split(_SPACES.sub(" ", words))
    inlines = (Code(text=part) if at % 2 else part for at, part in enumerate(parts))
    return tuple(part for part in inlines if part != "")


def time(us: float) -> Quantity:
    """Return a time in microseconds, rounded as in the document."""
    return Quantity(value=round(us, 3), unit="us")


def part(of_one: float) -> Quantity:
    """Return a share, rounded as in the document."""
    return Quantity(value=round(min(1.0, of_one), 6), unit="share")


def line(file: str, number: int | None) -> Line:
    """Return a line of source."""
    return Line(file=file, line=number)


def listing(items: Iterable[Text], most: int = 3) -> Text:
    """Join texts as in a sentence: `a`, `a and b`, `a, b, c and 4 more`."""
    every = list(items)
    shown = every[:most]
    if len(every) > most:
        shown.append((counted(len(every) - most, "more"),))
    found: list[Inline] = []
    for at, item in enumerate(shown):
        if at:
            found.append(" and " if at == len(shown) - 1 else ", ")
        found += item
    return tuple(found)


def plain(text: Text, *, code: str = "`") -> str:
    """Return text as a string; names are put between the marks of code."""
    return "".join(_plain(inline, code) for inline in text)


def quantity(value: float, unit: Kind) -> str:
    """Return a figure as all renderings show it: three digits and its unit."""
    if unit == "us":
        return str(duration(value))
    if unit == "bytes":
        return str(size(value))
    if unit == "share":
        return str(share(value))
    if unit == "bytes_per_s":
        return f"{size(value)}/s"
    return f"{value:,.0f}"


def _plain(inline: Inline, code: str) -> str:
    if isinstance(inline, str):
        return inline
    if isinstance(inline, Quantity):
        return quantity(inline.value, inline.unit)
    if isinstance(inline, Line):
        return inline.file if inline.line is None else f"{inline.file}:{inline.line}"
    if isinstance(inline, Code) or (isinstance(inline, Link) and inline.is_code):
        return f"{code}{inline.text}{code}"
    return inline.text
