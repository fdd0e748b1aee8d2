"""How numbers and lists stand in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["counted", "figure_text", "listed", "percent_text", "size_text"]

_IRREGULAR: Final = {
    "copy": "copies",
    "directory": "directories",
    "more": "more",
    "other process": "other processes",
}
_LISTED: Final = 5  # beyond that, the rest is counted


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 op`, `2,500 ops`."""
    return f"{number:,} {noun if number == 1 else _IRREGULAR.get(noun, f'{noun}s')}"


def figure_text(figure: float) -> str:
    """Return a positive figure to three digits or to a whole number: `0.123`, `12.3`, `1,234`."""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"  # noqa: PLR2004 - three digits


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def size_text(size_bytes: float) -> str:
    """Return a size in decimal units, as the report shows sizes: `2.00 MB`, `512 bytes`."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        # What would be rounded to 1,000 of the smaller unit reads as one of this.
        if size_bytes >= factor * 0.9995:
            figure = size_bytes / factor
            decimals = 2 if figure < 9.995 else 1 if figure < 99.95 else 0  # noqa: PLR2004
            return f"{figure:,.{decimals}f} {unit}"
    return counted(round(size_bytes), "byte")


def percent_text(part: float) -> str:
    """Return a share in percent: `97 %`; only nothing reads as 0 %, and only all as 100 %."""
    if 0 < part < 0.01:  # noqa: PLR2004 - would read as 0 or 1
        return "less than 1 %"
    if 0.99 < part < 1:  # noqa: PLR2004 - would read as 99 or 100
        return "more than 99 %"
    return f"{part:.0%}".replace("%", " %")
