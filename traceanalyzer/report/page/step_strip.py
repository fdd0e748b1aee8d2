"""The picture of step times: one bar per step, styled by kind, with axes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.model import number_in
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.page.axes import Tick, time_ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.model import Cell, PackedTable, Report, Table

STEPS_SHOWN: Final = 200
_LABELS: Final = 6  # below the bars
_FILLED: Final = 0.8  # of the room a bar has
_DECIMALS: Final = 3
_WORDS: Final = {"warm_up": "warm-up", "partial": "cut short", "outlier": "outlying"}


@dataclass(frozen=True)
class Bar:
    """A step's time; `x` and `width` in hundredths, `height` as a part of the whole."""

    label: str
    kind: str
    us: float
    x: float  # of 100
    width: float  # of 100
    height: float  # of 1
    wait_us: float = 0.0  # for input; None if unknown
    wait_height: float = 0.0  # from below


@dataclass(frozen=True)
class StepStrip:
    """Steps as bars from zero."""

    name: str  # of the steps; "" if unknown
    bars: tuple[Bar, ...]
    longest_us: float  # top of the axis
    median: float | None  # its height
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]
    kinds: tuple[tuple[str, int], ...]  # number of steps by kind, regular first
    total: int  # steps; there may be fewer bars


def kind_word(kind: str) -> str:
    """Return the word for a kind of step."""
    return _WORDS.get(kind, kind.replace("_", " "))


def step_strip(report: Report) -> StepStrip | None:
    """Return the picture of step times; None for fewer than two steps.

    Of several hosts, or several kinds of loop, the steps are those that took most time together.
    """
    rows = _main(report.tables.steps.records())
    median = report.steps.median_us if report.steps is not None else None
    name = " ".join(str(rows[0][k]) for k in ("host", "name") if k in rows[0]) if rows else ""
    return _strip(rows, [0.0] * len(rows), name, median, _total(report.tables.steps, rows))


def wait_strip(report: Report) -> StepStrip | None:
    """Return the picture of waits for input within steps; None without waits."""
    if report.input_pipeline is None:
        return None
    waits = report.input_pipeline.waits
    rows, lengths = [], []
    for row in _main(waits.records()):
        wait = number_in(row.get("wait_us")) + number_in(row.get("wait_before_us"))
        whole = number_in(row.get("duration_us")) + number_in(row.get("wait_before_us"))
        rows.append({**row, "duration_us": whole})
        lengths.append(min(wait, whole))
    if not any(lengths):
        return None
    return _strip(rows, lengths, "", None, _total(waits, rows))


def _main(rows: Sequence[Mapping[str, Cell]]) -> list[Mapping[str, Cell]]:
    """Return the steps of the host and name that took most time."""
    took: Counter[tuple[Cell, Cell]] = Counter()
    for row in rows:
        took[row.get("host"), row.get("name")] += number_in(row.get("duration_us"))  # type: ignore[assignment]
    if not took:
        return []
    longest = max(took, key=lambda key: took[key])
    return [
        row
        for row in rows
        if (row.get("host"), row.get("name")) == longest and number_in(row.get("duration_us")) > 0
    ]


def _total(table: Table, rows: Sequence[Mapping[str, Cell]]) -> int:
    """Return how many steps there are, where that is known."""
    return table.total_rows if len(rows) == len(table.rows) else len(rows)


def _strip(
    rows: Sequence[Mapping[str, Cell]],
    waits: Sequence[float],
    name: str,
    median_us: float | None,
    total: int,
) -> StepStrip | None:
    shown = rows[:STEPS_SHOWN]
    longest = max((number_in(row.get("duration_us")) for row in shown), default=0.0)
    if len(shown) < 2 or longest <= 0:  # noqa: PLR2004 - of one step there is nothing to compare
        return None
    pitch = 100.0 / len(shown)
    bars = tuple(
        _bar(row, wait, index, pitch, longest)
        for index, (row, wait) in enumerate(zip(shown, waits, strict=False))
    )
    kinds = Counter(str(row.get("kind") or "regular") for row in rows)
    return StepStrip(
        name=name,
        bars=bars,
        longest_us=longest,
        median=None if median_us is None or median_us > longest else median_us / longest,
        ticks=time_ticks(longest),
        labels=step_labels([str(row.get("step", i)) for i, row in enumerate(shown)]),
        kinds=tuple(sorted(kinds.items(), key=lambda item: (item[0] != "regular", item[0]))),
        total=max(total, len(shown)),
    )


def _bar(row: Mapping[str, Cell], wait_us: float, index: int, pitch: float, longest: float) -> Bar:
    kind, us = str(row.get("kind") or "regular"), number_in(row.get("duration_us"))
    number = str(row.get("step", index))
    return Bar(
        label=number if kind == "regular" else f"{number}, {kind_word(kind)}",
        kind=kind,
        us=us,
        x=round((index + (1 - _FILLED) / 2) * pitch, _DECIMALS),
        width=round(pitch * _FILLED, _DECIMALS),
        height=us / longest,
        wait_us=wait_us,
        wait_height=wait_us / longest,
    )


def step_labels(numbers: Sequence[str]) -> tuple[Tick, ...]:
    """Return the marks below bars: so many of their numbers as there is room for."""
    every = next(n for n in _strides() if n * _LABELS >= len(numbers))
    return tuple(
        Tick((index + 0.5) / len(numbers), numbers[index])
        for index in range(0, len(numbers), every)
    )


def _strides() -> Iterator[int]:
    """Walk the distances that marks may have: 1, 2, 5, 10 and so on."""
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def chart_data(report: Report) -> PackedTable | None:
    """Return the steps for the chart that scripts draw; None without steps."""
    if report.steps is not None and report.steps.times is not None:
        return report.steps.times
    rows = _main(report.tables.steps.records())
    if len(rows) < 2:  # noqa: PLR2004
        return None
    kinds, codes = _coded(str(row.get("kind") or "regular") for row in rows)
    labels, numbers = _coded(str(row.get("step", i)) for i, row in enumerate(rows))
    took = np.array([number_in(row.get("duration_us")) for row in rows])
    columns: dict[str, Any] = {
        "step": Texts(numbers, labels),
        "kind": Texts(codes, kinds),
        "duration_us": Numbers(took, per=1000),
    }
    return pack(columns, len(rows))


def _coded(texts: Iterable[str]) -> tuple[list[str], Any]:
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) for text in texts]
    return list(known), np.array(codes, np.int64)
