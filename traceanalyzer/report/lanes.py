"""The events of each lane of a host: its steps, the streams of its devices, its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.report.text import op_label, transfer_words
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.vocabulary import HOST_PLANE
from traceanalyzer.timeline.intervals import durations, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from traceanalyzer.model.figures import LaneKind
    from traceanalyzer.run import Host
    from traceanalyzer.tables.thread_activity import ThreadActivity

KINDS: Final = (*(state.name.lower() for state in ThreadState), "compute", "copy", "step")
"""Kinds of events: the states of a thread, a kernel, a transfer, a step."""

COPY: Final = KINDS.index("copy")
_COMPUTE: Final = KINDS.index("compute")
_STEP: Final = KINDS.index("step")
_WAITING: Final = (int(ThreadState.WAIT), int(ThreadState.CALL))
_MOST_STEPS: Final = 20_000  # with a number in their name


class EventName(NamedTuple):
    """A distinct event."""

    name: str | None
    kind: int
    op_id: str | None


class Names:
    """The distinct events of a run; grows as lanes are gathered."""

    def __init__(self) -> None:
        self.rows: list[EventName] = []

    def add(self, keys: NDArray[np.int64], named: Callable[[int], EventName]) -> NDArray[np.int64]:
        """Add the names of the distinct keys; return the row of each key."""
        code, distinct = pd.factorize(keys)
        what: NDArray[np.int64] = len(self.rows) + code.astype(np.int64)
        self.rows += [named(key) for key in distinct.tolist()]
        return what


@dataclass(frozen=True, eq=False, kw_only=True)
class HostLane:
    """A lane and its events, by start."""

    host: Host
    name: str  # of the thread, stream, or kind of step
    kind: LaneKind
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # an index into `Names.rows` for each event
    busy_ps: int  # without waiting
    transfer: NDArray[np.int64] | None = None  # row of the table of transfers, -1 for a kernel
    plane: str | None = None
    device: str | None = None
    is_program: bool = False  # the program's own thread
    shift_ps: int = 0  # added to its times


def host_lanes(host: Host, names: Names) -> Iterator[HostLane]:
    """Yield the lanes of a host: steps, streams, transfers without a stream, threads."""
    yield from _steps(host, names)
    yield from _streams(host, names)
    yield from _loose_transfers(host, names)
    yield from _threads(host, names)


def _covered(start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> int:
    return union(start_ps, end_ps - start_ps).total_ps


def _steps(host: Host, names: Names) -> Iterator[HostLane]:
    steps = host.tables.steps
    for name, rows in steps.groupby(steps["name"].astype(str), sort=False):
        own = rows.sort_values("start_ps", kind="stable")
        start = own["start_ps"].to_numpy(np.int64)
        end = start + own["duration_ps"].to_numpy(np.int64).clip(0)
        labels = [f"{name} {number}" for number in own["step"]]
        labels = labels if len(labels) <= _MOST_STEPS else [str(name)]
        named = [EventName(label, _STEP, None) for label in labels]
        yield HostLane(
            host=host,
            name=str(name),
            kind="steps",
            start_ps=start,
            end_ps=end,
            what=names.add(np.arange(len(own)) % len(labels), named.__getitem__),
            busy_ps=_covered(start, end),
        )


# --- devices -------------------------------------------------------------------------------


def _streams(host: Host, names: Names) -> Iterator[HostLane]:
    kernels, transfers, work = host.tables.kernels, host.tables.transfers, host.timeline.work
    on_device = np.flatnonzero(transfers["device"].notna().to_numpy())
    transfers = transfers.iloc[on_device]
    if work is None:  # no kernels, so the devices' clocks were not aligned
        start = transfers["start_ps"].to_numpy(np.int64)
        end = start + durations(transfers).clip(0)
        row = np.full(len(transfers), -1, np.int64)
    else:
        start, end, row = work.start_ps, work.end_ps, work.row.astype(np.int64)
    lines: dict[tuple[str, str], int] = {}
    line = np.concatenate([_lines(kernels, lines), _lines(transfers, lines)])
    split = len(kernels)
    what = np.concatenate(
        [
            _named(host, kernels["name"], row[:split], _COMPUTE, names),
            _named(host, _directions(transfers), row[split:], COPY, names),
        ]
    )
    transfer = np.concatenate([np.full(split, -1, np.int64), on_device])
    order = np.argsort(line.astype(np.int16), kind="stable")
    if ((np.diff(start[order]) < 0) & (np.diff(line[order]) == 0)).any():
        order = np.lexsort((start, line))
    bounds = np.searchsorted(line[order], np.arange(len(lines) + 1))
    for (device, stream), number in sorted(lines.items()):
        own = order[bounds[number] : bounds[number + 1]]
        yield HostLane(
            host=host,
            name=stream,
            kind="stream",
            start_ps=start[own],
            end_ps=end[own],
            what=what[own],
            busy_ps=_covered(start[own], end[own]),
            transfer=transfer[own],
            plane=device,
            device=device,
            shift_ps=host.timeline.shifts_ps.get(device, 0),
        )


def _directions(transfers: pd.DataFrame) -> pd.Series[str]:
    return transfers["direction"].astype(str).map(transfer_words)


def _lines(table: pd.DataFrame, lines: dict[tuple[str, str], int]) -> NDArray[np.int64]:
    """Return the number of each row's device and stream; new ones are added to `lines`."""
    device, stream = table["device"].astype("category"), table["stream"].astype("category")
    devices = [*map(str, device.cat.categories), "unknown"]
    streams = [*map(str, stream.cat.categories), "a stream that is not named"]
    key = device.cat.codes.to_numpy(np.int64) % len(devices) * len(streams)
    code, keys = pd.factorize(key + stream.cat.codes.to_numpy(np.int64) % len(streams))
    pairs = [(devices[k // len(streams)], streams[k % len(streams)]) for k in keys.tolist()]
    return np.array([lines.setdefault(pair, len(lines)) for pair in pairs], np.int64)[code]


def _named(
    host: Host, name: pd.Series, row: NDArray[np.int64], kind: int, names: Names
) -> NDArray[np.int64]:
    """Return the row in `names` of each event, from its name and the row of its op (-1: none)."""
    coded = name.astype("category")
    texts = [*map(str, coded.cat.categories), None]
    ids = [*host.tables.ops["op_id"], None]
    key = coded.cat.codes.to_numpy(np.int64) % len(texts) * len(ids) + row % len(ids)
    return names.add(key, lambda k: EventName(texts[k // len(ids)], kind, ids[k % len(ids)]))


def _loose_transfers(host: Host, names: Names) -> Iterator[HostLane]:
    """Yield the transfers that only the host recorded; they have no stream."""
    transfers = host.tables.transfers.reset_index(drop=True)
    transfers = transfers[transfers["device"].isna()].sort_values("start_ps", kind="stable")
    if transfers.empty:
        return
    row_of = {op_id: row for row, op_id in enumerate(host.tables.ops["op_id"])}
    ends = transfers["consumer"].astype(object).fillna(transfers["producer"].astype(object))
    row = np.array([row_of.get(op_id, -1) for op_id in ends], np.int64)
    start = transfers["start_ps"].to_numpy(np.int64)
    end = start + durations(transfers).clip(0)
    yield HostLane(
        host=host,
        name="transfers",
        kind="copies",
        start_ps=start,
        end_ps=end,
        what=_named(host, _directions(transfers), row, COPY, names),
        busy_ps=_covered(start, end),
        transfer=transfers.index.to_numpy(np.int64),
    )


# --- threads -------------------------------------------------------------------------------


def _threads(host: Host, names: Names) -> Iterator[HostLane]:
    threads = host.tables.threads
    if threads is None or not len(threads.start_ps):
        return
    first = _merged(threads)
    begin, start = np.searchsorted(first, threads.begin), threads.start_ps[first]
    last = np.append(first[1:], len(threads.start_ps)) - 1
    end = np.maximum(threads.end_ps[last], start)
    what = _what(host, threads, first, names)
    took = np.where(np.isin(threads.state[first], _WAITING), 0, end - start)
    busy = np.diff(np.concatenate([[0], np.cumsum(took)])[begin])
    order = np.lexsort((-busy, ~threads.is_program))
    for number in order[np.diff(begin)[order] > 0].tolist():
        own = slice(int(begin[number]), int(begin[number + 1]))
        yield HostLane(
            host=host,
            name=threads.name[number],
            kind="thread",
            start_ps=start[own],
            end_ps=end[own],
            what=what[own],
            busy_ps=int(busy[number]),
            plane=HOST_PLANE,
            is_program=bool(threads.is_program[number]),
        )


def _merged(threads: ThreadActivity) -> NDArray[np.int64]:
    """Return the first segment of each unbroken series in one state, e.g. around launches."""
    goes_on = threads.start_ps[1:] == threads.end_ps[:-1]
    for kept in (threads.state, threads.row):
        goes_on &= kept[1:] == kept[:-1]
    goes_on &= (threads.event[1:] == threads.event[:-1]) | (threads.row[1:] >= 0)
    begin = threads.begin
    goes_on[begin[(begin > 0) & (begin < len(threads.start_ps))] - 1] = False
    return np.flatnonzero(np.concatenate([[True], ~goes_on]))


def _what(
    host: Host, threads: ThreadActivity, segments: NDArray[np.int64], names: Names
) -> NDArray[np.int64]:
    """Return the row in `names` of each segment: an op, or an event by its name in the trace."""
    ops = host.tables.ops
    op_names = map(op_label, ops["name"].astype(str), ops["type"].astype(str))
    labels, ids = [*op_names, *threads.event_names], ops["op_id"].tolist()
    row = threads.row[segments].astype(np.int64)
    label = np.where(row >= 0, row, threads.event[segments] + len(ops))

    def named(key: int) -> EventName:
        at, kind = divmod(key, len(ThreadState))
        return EventName(labels[at], kind, ids[at] if at < len(ids) else None)

    return names.add(label * len(ThreadState) + threads.state[segments].astype(np.int64), named)
