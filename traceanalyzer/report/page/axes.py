"""Axes of pictures: which values are marked, and how they are written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import duration, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.format import Quantity

_ROUND: Final = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Tick:
    """A marked value."""

    at: float  # from 0 to 1
    label: str


def time_ticks(highest_us: float, parts: int = 3) -> tuple[Tick, ...]:
    """Return marks at round times, from 0 to at most the end of the axis."""
    return _ticks(highest_us, duration, parts)


def size_ticks(highest_bytes: float, parts: int = 3) -> tuple[Tick, ...]:
    """Return marks at round sizes."""
    return _ticks(highest_bytes, size, parts)


def _ticks(highest: float, said: Callable[[float], Quantity], parts: int) -> tuple[Tick, ...]:
    if not (highest > 0 and math.isfinite(highest)):
        return (Tick(0.0, _label(said(0))),)
    step = _step(highest / parts)
    values = [k * step for k in range(int(highest / step * (1 + 1e-9)) + 1)]
    return tuple(Tick(round(value / highest, 5), _label(said(value))) for value in values)


def _step(wanted: float) -> float:
    """Return the largest round number that is no more than what is wanted."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return max(r * power for r in _ROUND if r * power <= wanted * (1 + 1e-9))


def _label(value: Quantity) -> str:
    if value.figure == "0":
        return "0"
    figure = value.figure.rstrip("0").rstrip(".") if "." in value.figure else value.figure
    return f"{figure}\N{NO-BREAK SPACE}{value.unit}"
