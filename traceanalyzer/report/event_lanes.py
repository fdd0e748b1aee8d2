"""The events of each lane of a host: its steps, the streams of its devices, its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.report.text import copy_words, op_label
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.vocabulary import HOST_PLANE
from traceanalyzer.timeline.device_work import durations
from traceanalyzer.timeline.intervals import union

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model.times import LaneKind
    from traceanalyzer.run import Host
    from traceanalyzer.tables.thread_activity import ThreadActivity

KINDS: Final = (*(state.name.lower() for state in ThreadState), "compute", "copy", "step")
"""What an event can be: what a thread did, a kernel, a copy, a step."""

_COMPUTE: Final = KINDS.index("compute")
_COPY: Final = KINDS.index("copy")
_STEP: Final = KINDS.index("step")
_WAITING: Final = (int(ThreadState.WAIT), int(ThreadState.CALL))
_MOST_STEPS: Final = 20_000  # that are numbered


class _Name(NamedTuple):
    """A distinct event."""

    name: str | None
    kind: int
    op_id: str | None


class Names:
    """The distinct events of a run; grows as lanes are gathered."""

    def __init__(self) -> None:
        """Start empty."""
        self.names: list[_Name] = []

    def add(self, found: Sequence[_Name]) -> int:
        """Add some; return the place of the first."""
        at = len(self.names)
        self.names += found
        return at


@dataclass(frozen=True, eq=False, kw_only=True)
class HostLane:
    """A lane and its events, by start."""

    name: str  # of the thread, stream, or kind of step
    kind: LaneKind
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # each an index into `Names.names`
    busy_ps: int  # waiting left out
    plane: str | None = None
    device: str | None = None
    is_program: bool = False  # the program's own thread
    shift_ps: int = 0  # added to its times


def host_lanes(host: Host, names: Names) -> list[HostLane]:
    """Gather the lanes of a host: steps, streams, copies of no stream, threads."""
    return [
        *_steps(host, names),
        *_streams(host, names),
        *_loose_copies(host, names),
        *_threads(host, names),
    ]


# --- steps ---------------------------------------------------------------------------------


def _steps(host: Host, names: Names) -> Iterator[HostLane]:
    steps = host.tables.steps
    if steps.empty:
        return
    for name, rows in steps.groupby(steps["name"].astype(str), sort=False):
        own = rows.sort_values("start_ps", kind="stable")
        start = own["start_ps"].to_numpy(np.int64)
        end = start + own["duration_ps"].to_numpy(np.int64).clip(0)
        numbers = own["step"].tolist() if len(own) <= _MOST_STEPS else [""]
        first = names.add([_Name(f"{name} {number}".strip(), _STEP, None) for number in numbers])
        yield HostLane(
            name=str(name),
            kind="steps",
            start_ps=start,
            end_ps=end,
            what=first + np.arange(len(own)) % len(numbers),
            busy_ps=_covered(start, end),
        )


# --- devices -------------------------------------------------------------------------------


class _DeviceEvents(NamedTuple):
    """Kernels and copies of devices, in any order."""

    line: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]


def _streams(host: Host, names: Names) -> Iterator[HostLane]:
    lines: dict[tuple[str, str], int] = {}
    found = _device_events(host, names, lines)
    order = np.argsort(found.line.astype(np.int16), kind="stable")
    if _is_out_of_order(found.line[order], found.start_ps[order]):
        order = np.lexsort((found.start_ps, found.line))
    bounds = np.searchsorted(found.line[order], np.arange(len(lines) + 1))
    for (device, stream), number in sorted(lines.items()):
        own = order[bounds[number] : bounds[number + 1]]
        start, end = found.start_ps[own], found.end_ps[own]
        yield HostLane(
            name=stream,
            kind="stream",
            start_ps=start,
            end_ps=end,
            what=found.what[own],
            busy_ps=_covered(start, end),
            plane=device,
            device=device,
            shift_ps=host.timeline.shifts_ps.get(device, 0),
        )


def _is_out_of_order(line: NDArray[np.int64], start_ps: NDArray[np.int64]) -> bool:
    return bool(((start_ps[1:] < start_ps[:-1]) & (line[1:] == line[:-1])).any())


def _device_events(host: Host, names: Names, lines: dict[tuple[str, str], int]) -> _DeviceEvents:
    kernels, copies = host.tables.kernels, host.tables.transfers
    copies = copies[copies["device"].notna()]
    work = host.timeline.work
    if work is None:  # no kernel, so nothing was asked of the devices' clocks
        start = copies["start_ps"].to_numpy(np.int64)
        end = start + durations(copies).clip(0)
        row = np.full(len(copies), -1, np.int64)
    else:
        start, end, row = work.start_ps, work.end_ps, work.row.astype(np.int64)
    line = np.concatenate([_lines(kernels, lines), _lines(copies, lines)])
    op_ids = host.tables.ops["op_id"].tolist()
    of_kernels = _named(kernels["name"], row[: len(kernels)], op_ids, _COMPUTE, names)
    directions = copies["direction"].astype(str).map(copy_words)
    of_copies = _named(directions, row[len(kernels) :], op_ids, _COPY, names)
    return _DeviceEvents(line, start, end, np.concatenate([of_kernels, of_copies]))


def _lines(table: pd.DataFrame, lines: dict[tuple[str, str], int]) -> NDArray[np.int64]:
    """Return the number of each row's line; new ones are added to `lines`."""
    device, stream = table["device"].astype("category"), table["stream"].astype("category")
    streams = [*stream.cat.categories, "a stream that is not named"]
    devices = [*device.cat.categories, "unknown"]
    key = (device.cat.codes.to_numpy(np.int64) + 1) * (len(streams) + 1)
    key += stream.cat.codes.to_numpy(np.int64) + 1
    code, keys = pd.factorize(key)
    number = [
        lines.setdefault(
            (str(devices[k // (len(streams) + 1) - 1]), str(streams[k % (len(streams) + 1) - 1])),
            len(lines),
        )
        for k in keys.tolist()
    ]
    return np.array(number, np.int64)[code] if number else np.empty(0, np.int64)


def _named(
    name: pd.Series, row: NDArray[np.int64], op_ids: list[str], kind: int, names: Names
) -> NDArray[np.int64]:
    """Return what each event is, by its name and the row of its op (-1: none)."""
    if not len(name):
        return np.empty(0, np.int64)
    coded = name.astype("category")
    texts = [*(str(text) for text in coded.cat.categories), None]
    key = (coded.cat.codes.to_numpy(np.int64) + 1) * (len(op_ids) + 1) + row + 1
    code, keys = pd.factorize(key)
    own = [
        _Name(
            texts[k // (len(op_ids) + 1) - 1],
            kind,
            op_ids[k % (len(op_ids) + 1) - 1] if k % (len(op_ids) + 1) else None,
        )
        for k in keys.tolist()
    ]
    return names.add(own) + code.astype(np.int64)


def _loose_copies(host: Host, names: Names) -> Iterator[HostLane]:
    """Yield the copies that only the host recorded; they are on no stream."""
    copies = host.tables.transfers
    copies = copies[copies["device"].isna()].sort_values("start_ps", kind="stable")
    if copies.empty:
        return
    ops = host.tables.ops["op_id"].tolist()
    row_of = {op_id: row for row, op_id in enumerate(ops)}
    ends = copies["consumer"].astype(object).where(copies["consumer"].notna(), copies["producer"])
    ids = ends.astype("category")
    rows = np.array([*(row_of.get(i, -1) for i in ids.cat.categories), -1], np.int64)
    start = copies["start_ps"].to_numpy(np.int64)
    end = start + durations(copies).clip(0)
    directions = copies["direction"].astype(str).map(copy_words)
    yield HostLane(
        name="copies",
        kind="copies",
        start_ps=start,
        end_ps=end,
        what=_named(directions, rows[ids.cat.codes.to_numpy()], ops, _COPY, names),
        busy_ps=_covered(start, end),
    )


# --- threads -------------------------------------------------------------------------------


def _threads(host: Host, names: Names) -> Iterator[HostLane]:
    lanes = host.tables.threads
    if lanes is None or not len(lanes.start_ps):
        return
    begin, start, end, first = _stretches(lanes)
    what = _things(host, lanes, first, names)
    took = np.where(np.isin(lanes.state[first], _WAITING), 0, end - start)
    total = np.concatenate([[0], np.cumsum(took)])
    busy = total[begin[1:]] - total[begin[:-1]]
    order = np.lexsort((-busy, ~lanes.is_program))
    for lane in order[np.diff(begin)[order] > 0].tolist():
        own = slice(int(begin[lane]), int(begin[lane + 1]))
        yield HostLane(
            name=lanes.name[lane],
            kind="thread",
            start_ps=start[own],
            end_ps=end[own],
            what=what[own],
            busy_ps=int(busy[lane]),
            plane=HOST_PLANE,
            is_program=bool(lanes.is_program[lane]),
        )


def _stretches(
    lanes: ThreadActivity,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the segments, merged if they continue unchanged, as around launches.

    First of each lane and their number; start, end, and first segment of each.
    """
    goes_on = lanes.start_ps[1:] == lanes.end_ps[:-1]
    for kept in (lanes.state, lanes.row):
        goes_on &= kept[1:] == kept[:-1]
    goes_on &= (lanes.event[1:] == lanes.event[:-1]) | (lanes.row[1:] >= 0)
    inner = lanes.begin[(lanes.begin > 0) & (lanes.begin < len(lanes.start_ps))]
    goes_on[inner - 1] = False
    first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    last = np.append(first[1:], len(lanes.start_ps)) - 1
    start = lanes.start_ps[first]
    begin = np.searchsorted(first, lanes.begin)
    return begin, start, np.maximum(lanes.end_ps[last], start), first


def _things(
    host: Host, lanes: ThreadActivity, segments: NDArray[np.int64], names: Names
) -> NDArray[np.int64]:
    """Return what some segments are: ops, or events by the names that the trace gives them."""
    ops = host.tables.ops
    labels = [
        *map(op_label, ops["name"].astype(str), ops["type"].astype(str)),
        *lanes.event_names,
    ]
    ids = ops["op_id"].tolist()
    row = lanes.row[segments].astype(np.int64)
    label = np.where(row >= 0, row, lanes.event[segments] + len(ops))
    key = label * len(ThreadState) + lanes.state[segments]
    is_used = np.zeros(len(labels) * len(ThreadState), np.bool_)
    is_used[key] = True
    used = np.flatnonzero(is_used)
    own = [
        _Name(labels[at], kind, ids[at] if at < len(ops) else None)
        for at, kind in (divmod(k, len(ThreadState)) for k in used.tolist())
    ]
    what: NDArray[np.int64] = names.add(own) + (np.cumsum(is_used) - 1)[key]
    return what


def _covered(start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> int:
    return union(start_ps, end_ps - start_ps).total_ps
