"""Text for people: names made harmless, figures in units a reader can weigh at a glance."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

UNKNOWN = "unknown"

DIRECTIONS = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "within a device",
    "p2p": "device to device",
    "h2h": "within the host",
    "unknown": "direction unknown",
}

READERS = {
    "python": "for the program itself: print, float() or .numpy()",
    "predicate": "for control flow: the condition of a tf.cond or a loop",
    "host_argument": "for an op on the GPU, which takes this input in host memory",
    "cpu_op": "for an op on the CPU",
    "unknown": "for whom is not known",
}
"""Who takes a scalar that is read back."""

_MARKS = 6  # upon one letter
# Those of the blocks of combining diacritical marks, which are drawn above and below any letter.
_HEAPED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{7,}"
)
_LONGEST = 2_000  # characters of a name that are kept in reach; longer ones are read in Parquet
_TIME_UNITS = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))
_THOUSANDTH = 0.001
_SIZE_UNITS = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))


@dataclass(frozen=True)
class Quantity:
    """A figure and its unit, and the exact value as text."""

    figure: str
    unit: str
    exact: str

    def __str__(self) -> str:
        """Return figure and unit, held together by a no-break space."""
        return f"{self.figure}\N{NO-BREAK SPACE}{self.unit}" if self.unit else self.figure


def copy_words(direction: str) -> str:
    """Return what a copy of a direction is called."""
    return f"copy, {DIRECTIONS.get(direction, DIRECTIONS['unknown'])}"


def op_label(name: str, op_type: str) -> str:
    """Return what an op is called: its name and its type, where these are two."""
    return name if name == op_type else f"{name}:{op_type}"


_SPACES = re.compile(r"[ \t\r\n]+")
_NAME_FIRST = re.compile(r"\w*[._/:]\w")


def one_line(prose: str) -> str:
    """Return prose on one line: its line breaks are its author's margin, not a reader's."""
    return _SPACES.sub(" ", prose).strip()


def sentence(words: str) -> str:
    """Return words as a sentence: with a capital at the start and a stop at the end.

    A name at the start, as of a file, stays as it is.
    """
    words = one_line(words)
    if _NAME_FIRST.match(words):
        return f"{words}."
    stop = "" if words.endswith((".", "!", "?", ":")) or not words else "."
    return f"{words[:1].upper()}{words[1:]}{stop}"


def visible(text: str) -> str:
    """Return the text with each character that does not show replaced by its code point.

    Control characters, bidirectional marks, zero-width characters, line separators and lone
    surrogates come out as ``⟨U+202E⟩``: a name from a trace cannot hide, reorder or break what
    stands around it. So do marks that are heaped upon one letter beyond what any script needs.
    """
    if not text.isprintable():
        text = "".join(map(_visible_character, text))
    return text if text.isascii() else _HEAPED.sub(_code_points, text)


def _visible_character(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    return f"⟨U+{ord(character):04X}⟩"


def _code_points(marks: re.Match[str]) -> str:
    """Return the first few of a run of marks as they are, and the code points of the others."""
    run = marks.group()
    return run[:_MARKS] + "".join(f"⟨U+{ord(mark):04X}⟩" for mark in run[_MARKS:])


def cut(text: str, length: int = 96) -> str:
    """Return the text, its middle left out where it is longer than ``length``.

    Both ends are kept because both tell: a scope begins a name and the op's own name ends it.
    """
    text = visible(text)
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def cut_long(text: str, length: int = _LONGEST) -> str:
    """Return the text in full, or with a note of how much of its middle was left out."""
    text = visible(text)
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]} … {len(text) - 2 * half:,} characters left out … {text[-half:]}"


def count(number: float) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"


def duration(us: float) -> Quantity:
    """Return microseconds in the unit that suits their size."""
    decimals = 3 if abs(us) >= _THOUSANDTH else 6  # the trace counts picoseconds
    exact = _fixed(us, decimals).rstrip("0").rstrip(".") if us else "0"
    return _scaled(us, _TIME_UNITS, f"{exact} µs")


def size(size_bytes: float) -> Quantity:
    """Return bytes in decimal units: 1 kB is 1000 bytes."""
    if size_bytes < _SIZE_UNITS[1][1]:
        return Quantity(_fixed(size_bytes, 0), "B", f"{_fixed(size_bytes, 0)} bytes")
    return _scaled(size_bytes, _SIZE_UNITS, f"{_fixed(size_bytes, 0)} bytes")


def share(part: float) -> Quantity:
    """Return a fraction in percent; only nothing is 0 % and only everything 100 %."""
    percent = part * 100
    exact = _fixed(percent, 4).rstrip("0").rstrip(".") + " %"
    if percent in (0, 100):
        figure = _fixed(percent, 0)
    elif 0 < percent < 0.05:  # noqa: PLR2004 - would be rounded to 0.0
        figure = "<0.1"
    elif 99.95 <= percent < 100:  # noqa: PLR2004 - would be rounded to 100.0
        figure = ">99.9"
    else:
        figure = _fixed(percent, 1)
    return Quantity(figure, "%", exact)


def _scaled(value: float, units: tuple[tuple[str, float], ...], exact: str) -> Quantity:
    """Return three significant digits in the first unit in which the figure stays below 1,000."""
    for unit, factor in units[:-1]:
        if round(abs(value) / factor) < 1_000:  # noqa: PLR2004 - 999.6 µs reads as 1.00 ms
            return Quantity(_three_digits(value / factor), unit, exact)
    unit, factor = units[-1]
    return Quantity(_three_digits(value / factor), unit, exact)


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if 0 < value < _THOUSANDTH / 2:
        return "<0.001"
    if magnitude < 0.9995:  # noqa: PLR2004 - as it will be rounded
        return _fixed(value, 3)
    if magnitude < 9.995:  # noqa: PLR2004 - below, two decimals make three digits
        return _fixed(value, 2)
    if magnitude < 99.95:  # noqa: PLR2004
        return _fixed(value, 1)
    return _fixed(value, 0)


def _fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals and its thousands apart; nothing is ``-0``."""
    figure = f"{value:,.{decimals}f}"
    return figure if figure.strip("-0.,") else figure.lstrip("-")
