"""The picture of what each step went to: a bar a step, its phases one upon the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import duration
from traceanalyzer.model import number_in
from traceanalyzer.report.page.axes import Tick, time_ticks
from traceanalyzer.report.page.phases import known_phases, phase_name
from traceanalyzer.report.page.step_strip import kind_word, step_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.model import Cell, Report

_STEPS_SHOWN: Final = 100
_FILLED: Final = 0.8  # of the room a bar has
_DECIMALS: Final = 4


@dataclass(frozen=True)
class PhasePiece:
    """What a phase took of a step; `y` and `height` are parts of the picture's height."""

    phase: str
    us: float
    y: float
    height: float


@dataclass(frozen=True)
class PhaseBar:
    """A step; `x` and `width` in hundredths of the picture's width."""

    label: str  # its number, and its kind if not regular
    us: float
    words: str  # its phases, in words
    x: float
    width: float
    height: float  # of the whole step; its pieces may be less
    pieces: tuple[PhasePiece, ...]  # from below


@dataclass(frozen=True)
class PhaseStrip:
    """Steps as bars from zero."""

    bars: tuple[PhaseBar, ...]
    phases: tuple[str, ...]  # those that occur, from below
    longest_us: float  # top of the axis
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]
    total: int  # steps; there may be fewer bars


def phase_strip(report: Report) -> PhaseStrip | None:
    """Return the picture; None if the phases of fewer than two steps are known."""
    known = None if report.steps is None else report.steps.phases
    if known is None:
        return None
    rows = [row for row in known.steps.records() if number_in(row.get("duration_us")) > 0]
    rows = rows[:_STEPS_SHOWN]
    if len(rows) < 2:  # noqa: PLR2004 - the bar above shows all of a single step
        return None
    longest = max(number_in(row.get("duration_us")) for row in rows)
    phases = tuple(p for p in known_phases() if any(number_in(r.get(f"{p}_us")) > 0 for r in rows))
    pitch = 100.0 / len(rows)
    return PhaseStrip(
        bars=tuple(_bar(row, index, pitch, longest, phases) for index, row in enumerate(rows)),
        phases=phases,
        longest_us=longest,
        ticks=time_ticks(longest),
        labels=step_labels([str(row.get("step", k)) for k, row in enumerate(rows)]),
        total=max(known.steps.total_rows, len(rows)),
    )


def _bar(
    row: Mapping[str, Cell], index: int, pitch: float, longest: float, phases: Sequence[str]
) -> PhaseBar:
    kind, us = str(row.get("kind") or "regular"), number_in(row.get("duration_us"))
    number = str(row.get("step", index))
    pieces: list[PhasePiece] = []
    below = 0.0
    for phase in phases:
        # Phases in a document of another tool may exceed the step.
        took = min(max(0.0, number_in(row.get(f"{phase}_us"))), us - below)
        if took <= 0:
            continue
        below += took
        y = round(1 - below / longest, _DECIMALS)
        pieces.append(PhasePiece(phase, took, y, round(took / longest, _DECIMALS)))
    words = ", ".join(f"{phase_name(piece.phase)} {duration(piece.us)}" for piece in pieces)
    return PhaseBar(
        label=number if kind == "regular" else f"{number}, {kind_word(kind)}",
        us=us,
        words=words or "phases unknown",
        x=round((index + (1 - _FILLED) / 2) * pitch, _DECIMALS),
        width=round(pitch * _FILLED, _DECIMALS),
        height=us / longest,
        pieces=tuple(pieces),
    )
