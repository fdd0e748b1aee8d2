"""The timeline as a picture that needs no scripts: one regular step, or the whole of a short run.

Each lane is cut into columns; a column shows what took most of it, by colour, pattern and height:
work is as high as its lane, gaps within it are lower, and waiting is a thin line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.report.packed import codes, unpack
from traceanalyzer.report.page.timeline_data import KIND_WORDS
from traceanalyzer.report.views import numbered_findings, numbered_on_a_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model import Report
    from traceanalyzer.model.times import EventLane, EventTimeline
    from traceanalyzer.report.views import NumberedFinding

COLUMNS: Final = 400
_FULL: Final = (0, 12)  # top and height of what is work
_HALF: Final = (3, 6)
_THIN: Final = (5, 2)
HATCHES: Final = {
    "step": "",
    "compute": "",
    "copy": "M0 1.5h6M0 4.5h6",
    "host_op": "",
    "input": "M1 1h1M4 4h1",
    "launch": "M0 6 6 0",
    "runtime": "M1.5 0v6M4.5 0v6",
    "program": "M0 0 6 6",
    "wait": "",
    "call": "M3 0v6",
    "unplaced": "M0 0 6 6M0 6 6 0",
}
"""The lines of each kind's pattern, six wide and high: `compute` and `host_op` are solid."""

_HEIGHTS: Final = {"runtime": _HALF, "program": _HALF, "wait": _THIN, "call": _THIN}
_MARK: Final = (14, 3)  # top and height of what underlines the ops of findings
_FAINT: Final = 0.25  # share of a column below which it is drawn pale
_MOST_LANES: Final = 22
_MOST_STEP_LANES: Final = 2
_MARGIN: Final = 0.03  # of a step, on either side
_FEW_STEPS: Final = 3  # a run of so many is shown whole
_TICKS: Final = 5
_MARK_WIDTH: Final = 6.0  # hundredths of the width that a finding's number needs
_MOST_MARK_ROWS: Final = 4
_TIMES: Final = (("µs", 1.0), ("ms", 1e3), ("s", 1e6))


@dataclass(frozen=True)
class LanePath:
    """The parts of a lane that have the same kind."""

    kind: str
    is_faint: bool
    path: str


@dataclass(frozen=True)
class LanePicture:
    """A lane, over the width 0 to 400 and the height 0 to 18."""

    lane: EventLane
    paths: tuple[LanePath, ...]
    marks: str  # path of what underlines ops of findings, empty for none
    findings: tuple[str, ...]  # ids of those


@dataclass(frozen=True)
class FindingMark:
    """Where a finding shows best: the longest of its events in the picture."""

    id: str
    label: str
    title: str
    x: float  # hundredths of the width
    row: int


@dataclass(frozen=True)
class Tick:
    """A line of the time axis."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True)
class TimelinePicture:
    """The picture."""

    lanes: tuple[LanePicture, ...]
    lanes_total: int
    kinds: tuple[str, ...]  # those of all events
    marks: tuple[FindingMark, ...]
    mark_rows: int
    ticks: tuple[Tick, ...]
    start_us: float
    end_us: float
    step: str | None  # the step that is shown; None for the whole run


class _Window(NamedTuple):
    """A stretch of time, in units of the timeline, and the step that it is of."""

    start: float
    end: float
    step: str | None


class _Lane(NamedTuple):
    """A lane's events within the window, in units from the window's start."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    what: NDArray[np.int64]


def kind_height(kind: str) -> tuple[int, int]:
    """Return top and height of what is of a kind."""
    return _HEIGHTS.get(kind, _FULL)


def timeline_picture(report: Report) -> TimelinePicture | None:
    """Return the picture; None without recorded events."""
    trace = report.trace
    if trace is None or not trace.events.rows:
        return None
    names = unpack(trace.names)
    kinds = [str(kind) for kind in names["kind"]]
    findings = [None if f is None else str(f) for f in names["finding_id"]]
    window = _window(report, trace)
    lanes = _within(trace, window)
    shown = _chosen(trace, lanes)
    pictures = tuple(_lane(trace.lanes[k], lanes[k], window, kinds, findings) for k in shown)
    marks = _marks(report, [lanes[k] for k in shown], window, findings)
    per_us = 1000 / trace.unit_ns
    return TimelinePicture(
        lanes=pictures,
        lanes_total=trace.lanes_total,
        kinds=tuple(kind for kind in KIND_WORDS if kind in kinds),
        marks=marks,
        mark_rows=1 + max((mark.row for mark in marks), default=-1),
        ticks=_ticks((window.end - window.start) / per_us),
        start_us=window.start / per_us,
        end_us=window.end / per_us,
        step=window.step,
    )


# --- what is shown -------------------------------------------------------------------------


def _window(report: Report, trace: EventTimeline) -> _Window:
    """Return the stretch to show: the regular step that is nearest to the median."""
    per_us = 1000 / trace.unit_ns
    end_us = trace.end_us or 0.0  # no finite number is None
    whole = _Window(0.0, max(1.0, end_us * per_us), None)
    median = None if report.steps is None else report.steps.median_us
    rows = report.tables.steps.records()
    if median is None or len(rows) <= _FEW_STEPS:
        return whole
    found = [
        (
            abs(float(took) - median),
            float(start),
            float(took),
            f"{row.get('name', 'step')} {number}",
        )
        for row in rows
        if row.get("kind", "regular") == "regular"
        and isinstance(start := row.get("start_us"), int | float)
        and isinstance(took := row.get("duration_us"), int | float)
        and took > 0
        and (number := row.get("step")) is not None
    ]
    if not found:
        return whole
    _, start, took, label = min(found)
    margin = took * _MARGIN
    first, last = max(0.0, start - margin), min(start + took + margin, end_us)
    if last <= first:
        return whole
    return _Window(first * per_us, last * per_us, label)


def _within(trace: EventTimeline, window: _Window) -> list[_Lane]:
    packed = codes(trace.events)
    gap, took = packed["gap"], packed["duration"]
    end = np.cumsum(gap + took)
    found = []
    at, before = 0, 0
    for lane in trace.lanes:
        own = slice(at, at + lane.rows)
        ends = end[own] - before
        starts = ends - took[own]
        inside = np.flatnonzero((starts <= window.end) & (ends >= window.start))
        found.append(
            _Lane(
                (starts[inside] - window.start).clip(0).astype(np.float64),
                (np.minimum(ends[inside], window.end) - window.start).astype(np.float64),
                packed["what"][own][inside],
            )
        )
        at += lane.rows
        before = int(end[at - 1]) if at else 0
    return found


def _chosen(trace: EventTimeline, lanes: Sequence[_Lane]) -> list[int]:
    """Return the lanes to show, in order: steps, devices, and the threads with most to show."""
    filled = [k for k, lane in enumerate(lanes) if len(lane.start)]
    steps = [k for k in filled if trace.lanes[k].kind == "steps"][:_MOST_STEP_LANES]
    rest = [k for k in filled if trace.lanes[k].kind != "steps"]
    rest.sort(
        key=lambda k: (
            trace.lanes[k].kind == "thread" and not trace.lanes[k].is_program,
            -float((lanes[k].end - lanes[k].start).sum()),
        )
    )
    return sorted([*steps, *rest[: _MOST_LANES - len(steps)]])


# --- a lane --------------------------------------------------------------------------------


def _lane(
    lane: EventLane,
    events: _Lane,
    window: _Window,
    kinds: Sequence[str],
    findings: Sequence[str | None],
) -> LanePicture:
    words = list(KIND_WORDS)
    kind_of = np.array([words.index(kind) for kind in kinds], np.int64)
    marked = np.array([finding is not None for finding in findings], np.bool_)
    column, took, event = _columns(events, window)
    kind = kind_of[events.what[event]]
    table = np.bincount(column * len(words) + kind, took, COLUMNS * len(words))
    # An event that lasts no time is drawn too.
    seen = np.bincount(column * len(words) + kind, minlength=COLUMNS * len(words))
    table = (table + 1e-9 * seen).reshape(COLUMNS, len(words))
    most = np.where(table.sum(1) > 0, table.argmax(1), -1)
    width = (window.end - window.start) / COLUMNS
    is_faint = table.sum(1) < _FAINT * width
    paths = tuple(
        LanePath(word, faint, path)
        for number, word in enumerate(words)
        for faint in (False, True)
        if (path := _path((most == number) & (is_faint == faint), _HEIGHTS.get(word, _FULL)))
    )
    own = np.zeros(COLUMNS, np.bool_)
    own[column[marked[events.what[event]]]] = True
    ids = [findings[what] for what in np.unique(events.what).tolist()]
    return LanePicture(
        lane=lane,
        paths=paths,
        marks=_path(own, _MARK),
        findings=tuple(dict.fromkeys(i for i in ids if i is not None)),
    )


def _columns(
    events: _Lane, window: _Window
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return each column that an event is in, how much of it is in there, and which event."""
    width = (window.end - window.start) / COLUMNS
    first = (events.start / width).astype(np.int64).clip(0, COLUMNS - 1)
    last = np.maximum(np.ceil(events.end / width).astype(np.int64) - 1, first)
    last = last.clip(0, COLUMNS - 1)
    count = last - first + 1
    event = np.repeat(np.arange(len(first)), count)
    column = first[event] + np.arange(len(event)) - np.repeat(np.cumsum(count) - count, count)
    began = np.maximum(events.start[event], column * width)
    took = np.minimum(events.end[event], (column + 1) * width) - began
    return column, took.clip(0), event


def _path(where: NDArray[np.bool_], place: tuple[int, int]) -> str:
    """Return columns as a path, those side by side as one box."""
    edges = np.diff(np.concatenate([[False], where, [False]]).astype(np.int8))
    top, height = place
    return "".join(
        f"M{a} {top}h{b - a}v{height}h{a - b}z"
        for a, b in zip(
            np.flatnonzero(edges > 0).tolist(), np.flatnonzero(edges < 0).tolist(), strict=True
        )
    )


# --- findings and time ---------------------------------------------------------------------


def _marks(
    report: Report, lanes: Sequence[_Lane], window: _Window, findings: Sequence[str | None]
) -> tuple[FindingMark, ...]:
    numbered = [*numbered_findings(report), *numbered_on_a_gpu(report)]
    known = {n.finding.id: n for n in reversed(numbered)}
    number = {finding_id: k for k, finding_id in enumerate(known)}
    of_what = np.array([number.get(f or "", -1) for f in findings], np.int64)
    longest = np.full(len(known), -1.0)
    at = np.zeros(len(known))
    for lane in lanes:
        own = np.flatnonzero(of_what[lane.what] >= 0)
        took = lane.end[own] - lane.start[own]
        order = own[np.argsort(took, kind="stable")]
        took = np.sort(took, kind="stable")
        for finding in np.unique(of_what[lane.what[own]]).tolist():
            last = int(np.flatnonzero(of_what[lane.what[order]] == finding)[-1])
            if took[last] > longest[finding]:
                longest[finding] = took[last]
                event = order[last]
                at[finding] = (lane.start[event] + lane.end[event]) / 2
    share = 100 * at / (window.end - window.start)
    seen = [(float(share[k]), n) for k, n in enumerate(known.values()) if longest[k] >= 0]
    return tuple(_placed(sorted(seen, key=lambda pair: pair[0])))


def _placed(seen: Iterable[tuple[float, NumberedFinding]]) -> Iterable[FindingMark]:
    """Place numbers so that none lies on another; those for which there is no room are left out."""
    ends = [-_MARK_WIDTH] * _MOST_MARK_ROWS
    for at, numbered in seen:
        x = min(max(at, _MARK_WIDTH / 2), 100 - _MARK_WIDTH / 2)
        row = next((k for k, end in enumerate(ends) if x - end >= _MARK_WIDTH), None)
        if row is None:
            continue
        ends[row] = x
        finding = numbered.finding
        yield FindingMark(finding.id, numbered.label, finding.title, round(x, 2), row)


def _ticks(length_us: float) -> tuple[Tick, ...]:
    """Return the lines of the axis, at round times from the picture's left edge."""
    if length_us <= 0:
        return ()
    rough = length_us / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    pitch = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * 0.999)
    unit, factor = next(((u, f) for u, f in reversed(_TIMES) if pitch >= f), _TIMES[0])
    return tuple(
        Tick(
            x=round(100 * k * pitch / length_us, 3),
            text=f"{k * pitch / factor:.6g}\N{NO-BREAK SPACE}{unit}",
            anchor="start" if k == 0 else "end" if k * pitch > 0.94 * length_us else "middle",
        )
        for k in range(math.floor(length_us / pitch + 1e-9) + 1)
    )
