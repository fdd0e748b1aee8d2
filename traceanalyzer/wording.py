"""How numbers and lists stand in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["counted", "listed"]

_IRREGULAR: Final = {"directory": "directories", "more": "more"}
_LISTED: Final = 5  # beyond that, the rest is counted


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 op`, `2,500 ops`."""
    return f"{number:,} {noun if number == 1 else _IRREGULAR.get(noun, f'{noun}s')}"


def listed(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"
