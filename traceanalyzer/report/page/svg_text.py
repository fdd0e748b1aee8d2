"""Words in pictures: cut so that they fit, whatever characters they are made of.

SVG neither wraps text nor cuts it, and how wide a character of an unknown script comes out is for
the reader's fonts to say. Names of plain characters are measured by the widths that the page's
fonts have; all others get their room by `textLength`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from traceanalyzer.report.text import cut, visible

_MONO: Final = 7.3  # px of a character of the page's monospaced fonts at 12 px, the widest of them
_SANS: Final = 7.4  # of its other fonts at 12 px, on average of figures and of lower case letters
_WIDE: Final = 13.0  # of a character as wide as it is high
_OWN: Final = frozenset("…→·≥\N{NO-BREAK SPACE}")  # what this package adds to names


@dataclass(frozen=True)
class Label:
    """Words that fit; `length` is the room they are made to take, None for plain characters."""

    text: str
    length: float | None


def label(text: str, room: float, *, is_mono: bool = True) -> Label:
    """Return a text cut in the middle so that it takes no more than `room` pixels at 12 px."""
    width = _MONO if is_mono else _SANS
    length = max(1, int(room // width))
    short = cut(text, length)
    while length > 1 and _width(short, width) > room:
        length -= 1
        short = cut(text, length)
    plain = all(c.isascii() or c in _OWN for c in short)
    return Label(short, None if plain else round(min(room, _width(short, width)), 1))


def _width(text: str, width: float) -> float:
    return sum(_WIDE if unicodedata.east_asian_width(c) in "WF" else width for c in visible(text))
