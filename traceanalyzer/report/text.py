"""Text for people: names made harmless."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from importlib.resources import files

UNKNOWN = "unknown"

DIRECTIONS = {
    "h2d": "host to device",
    "d2h": "device to host",
    "d2d": "within a device",
    "p2p": "device to device",
    "h2h": "within the host",
    "unknown": "direction unknown",
}

_MARKS = 6  # upon one letter
# Those of the blocks of combining diacritical marks, which are drawn above and below any letter.
_HEAPED = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{7,}"
)
_LONGEST = 2_000  # characters of a name that are kept in reach; longer ones are read in Parquet


def transfer_words(direction: str) -> str:
    """Return the name of a transfer in a direction."""
    return f"transfer, {DIRECTIONS.get(direction, DIRECTIONS['unknown'])}"


def op_label(name: str, op_type: str) -> str:
    """Return the name of an op, with its type if that differs."""
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
    is around it. So are marks heaped upon one letter beyond what any script needs.
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


_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "xla": "XLA", "tf": "TF"}


def cause_title(cause: str) -> str:
    """Return a cause's id as words."""
    return " ".join(_ACRONYMS.get(word, word) for word in cause.split("_"))


def terms() -> dict[str, str]:
    """Return the glossary: each term with its meaning, in reading order."""
    text = files("traceanalyzer.report").joinpath("terms.toml").read_text(encoding="utf-8")
    return {term["name"]: term["meaning"] for term in tomllib.loads(text)["term"]}
