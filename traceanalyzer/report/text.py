"""Formats text for readers: names without invisible characters, sentences, and tables."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from traceanalyzer.format import RoundedFigure, counted, duration, share, size
from traceanalyzer.model import blocks as b

_CODE: Final = re.compile(r"`([^`]+)`")
_SPACES: Final = re.compile(r"[ \t\r\n]+")
_NAME_FIRST: Final = re.compile(r"\w*[._/:]\w")
_MARKS: Final = 6  # combining marks on one letter
# The Unicode blocks of combining diacritical marks, which are drawn above or below any letter.
_HEAPED: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{7,}"
)


# --- names -----------------------------------------------------------------------------------


def visible(text: str) -> str:
    """Return the text with invisible characters replaced by their code points, e.g. ``⟨U+202E⟩``.

    Otherwise, names in a trace could hide, reorder, or break the text around them. Each letter
    keeps up to six combining marks, enough for any script.
    """
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() or unicodedata.category(c) == "Zs" else _code_point(c)
            for c in text
        )
    if text.isascii():
        return text
    return _HEAPED.sub(lambda m: m[0][:_MARKS] + "".join(map(_code_point, m[0][_MARKS:])), text)


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


def cut(text: str, length: int = 96) -> str:
    """Cut the middle out of text that is too long, since an op's own name is at the end."""
    text = visible(text)
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def op_link(label: str, op_id: str | None) -> b.Inline:
    """Return an op's name, as a link that opens the op's drawer if the op has an id."""
    if op_id is None:
        return b.Code(text=label)
    return b.Link(text=label, to=f"op-{op_id}", is_code=True)


def transfer_words(direction: str) -> str:
    """Return the label of a transfer, such as "transfer, host to device"."""
    return f"transfer, {word('direction', direction)}"


# --- words -----------------------------------------------------------------------------------


def one_line(words: str) -> str:
    """Return words on one line, with line breaks and repeated spaces replaced by one space."""
    return _SPACES.sub(" ", words).strip()


def sentence(words: str) -> str:
    """Return words as a sentence, with an initial capital letter and a full stop.

    A name at the start, such as a file name, is not capitalized.
    """
    words = one_line(words)
    stop = "" if words.endswith((".", "!", "?", ":")) or not words else "."
    return f"{capital(words)}{stop}"


def capital(words: str) -> str:
    """Return words with an uppercase first letter, unless a name is first, such as a file name."""
    return words if _NAME_FIRST.match(words) else f"{words[:1].upper()}{words[1:]}"


def small(words: str) -> str:
    """Return words with a lowercase first letter."""
    return f"{words[:1].lower()}{words[1:]}"


def terms() -> dict[str, str]:
    """Return the glossary: each term with its meaning, in reading order."""
    return {term["name"]: term["meaning"] for term in _data("terms")["term"]}


def word(kind: str, value: str) -> str:
    """Return the wording in `words.toml` for a value of the given kind."""
    words = _data("words")[kind]
    return str(words.get(value, words.get("unknown", value)))


def phrase(key: str, /, **values: object) -> str:
    """Return a phrase from `words.toml`, with the values filled in."""
    return str(_data("words")["text"][key]).format(**values)


@cache
def _data(name: str) -> dict[str, Any]:
    file = files("traceanalyzer.report").joinpath(f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


# --- text within a line ----------------------------------------------------------------------


def prose(words: str) -> b.Text:
    """Convert a string to inline text, in which parts between backticks become code."""
    parts = _CODE.split(_SPACES.sub(" ", words))
    inlines = (b.Code(text=part) if at % 2 else part for at, part in enumerate(parts))
    return tuple(part for part in inlines if part != "")


def fill(template: str, *values: b.Inline | b.Text) -> b.Text:
    """Return the template as text, with each `{}` replaced by the next value."""
    found: list[b.Inline] = [""]
    for before, value in zip(template.split("{}"), (*values, ""), strict=True):
        for inline in (before, *(value if isinstance(value, tuple) else (value,))):
            last = found[-1]
            if isinstance(last, str) and isinstance(inline, str):
                found[-1] = last + inline
            else:
                found.append(inline)
    return tuple(inline for inline in found if inline != "")


def time(us: float) -> b.Quantity:
    """Return a time in microseconds, rounded to nanoseconds."""
    return b.Quantity(value=round(us, 3), unit="us")


def between(low: b.Quantity, high: b.Quantity) -> b.Text:
    """Return bounds, or a single figure if both read the same."""
    shown, most = (figure(each.value, each.unit) for each in (low, high))
    if str(shown) == str(most):
        return (high,)
    if shown.unit == most.unit:
        return (f"{shown.figure} to ", high)
    return (low, " to ", high)


def part(of_one: float) -> b.Quantity:
    """Return a share, rounded to six decimals and at most 1."""
    return b.Quantity(value=round(min(1.0, of_one), 6), unit="share")


def in_bytes(size_bytes: float) -> b.Quantity:
    """Return a size in bytes."""
    return b.Quantity(value=float(size_bytes), unit="bytes")


def listing(items: Iterable[b.Text], most: int = 3) -> b.Text:
    """Join texts as in a sentence: `a`, `a and b`, `a, b, c and 4 more`."""
    every = list(items)
    rest = [(counted(len(every) - most, "more"),)] if len(every) > most else []
    *before, last = every[:most] + rest
    joined = [inline for item in before for inline in (", ", *item)][1:]
    return (*joined, " and ", *last) if before else last


def figure(value: float, unit: str) -> RoundedFigure:
    """Format a value as all outputs show it: with three digits, a unit, and the exact value."""
    if unit == "us":
        return duration(value)
    if unit == "share":
        return share(value)
    if unit in {"bytes", "bytes_per_s"}:
        shown, per = size(value), unit.removeprefix("bytes").replace("_per_", "/")
        return RoundedFigure(shown.figure, f"{shown.unit}{per}", f"{shown.exact}{per}")
    count = f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"
    return RoundedFigure(count, "", count)


def quantity(value: float, unit: str) -> str:
    """Return a value as text, with three digits and its unit."""
    return str(figure(value, unit))


def plain(text: b.Text, *, code: str = "`") -> str:
    """Return text as a plain string, with the string `code` before and after inline code."""
    said = ""
    for inline in text:
        match inline:
            case str():
                said += inline
            case b.Quantity(value=value, unit=unit):
                said += quantity(value, unit)
            case b.Line(file=file, line=line):
                said += file if line is None else f"{file}:{line}"
            case b.Code(text=name) | b.Link(text=name, is_code=True):
                said += f"{code}{name}{code}"
            case _:
                said += inline.text
    return said


# --- tables ----------------------------------------------------------------------------------


@cache
def columns_of(table: str) -> tuple[b.Column, ...]:
    """Return the columns of a table, from `tables.toml`."""
    return tuple(b.Column(name=name, **column) for name, column in _data("tables")[table].items())


def table_of(  # noqa: PLR0913 - what a table has
    name: str,
    rows: Sequence[Mapping[str, b.Cell]],
    total_rows: int | None = None,
    *,
    table_id: str = "",
    caption: b.Text = (),
    ids: Iterable[b.Target] = (),
) -> b.Table:
    """Return a table with the columns from `tables.toml`, except those without values."""
    columns = columns_of(name)
    known = tuple(c for c in columns if any(row.get(c.name) is not None for row in rows))
    return b.Table(
        id=table_id,
        columns=known,
        rows=tuple(tuple(row.get(c.name) for c in known) for row in rows),
        total_rows=max(total_rows or 0, len(rows)),
        caption=caption,
        ids=tuple(ids),
    )
