"""The events of each lane of a host: its steps, its devices' streams, and its threads."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.format import op_label
from traceanalyzer.model.figures import LaneKind
from traceanalyzer.run import Host
from traceanalyzer.tables.thread_activity import ThreadActivity, ThreadState
from traceanalyzer.timeline.device_parts import device_work
from traceanalyzer.timeline.intervals import durations, union

KINDS: Final = (*(state.name.lower() for state in ThreadState), "compute", "copy", "step")
"""Kinds of events: thread states, kernels (`compute`), transfers (`copy`), and steps."""

COPY: Final = KINDS.index("copy")
_COMPUTE: Final = KINDS.index("compute")
_STEP: Final = KINDS.index("step")
_OF_STATE: Final = np.zeros(max(ThreadState) + 1, np.uint8)  # the kind of each thread state
_OF_STATE[[*ThreadState]] = np.arange(len(ThreadState))
_WAITING: Final = (int(ThreadState.WAIT), int(ThreadState.CALL))
_MOST_STEPS: Final = 20_000  # with a number in their name


class EventName(NamedTuple):
    """The name, kind, and op that some events share."""

    name: str | None  # of a transfer: its direction
    kind: int
    op_id: str | None


class NameIndex:
    """Collects the distinct names of a run's events."""

    def __init__(self) -> None:
        self.rows: list[EventName] = []

    def add(
        self,
        host: Host,
        labels: Sequence[str],
        label: NDArray[np.integer[Any]],
        kind: int | NDArray[np.uint8],
        row: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Add a name for each event's label, kind, and op (-1 for none). Return the names' rows."""
        texts, ids = [*labels, None], [*host.tables.ops["op_id"], None]
        key = (label % len(texts) * len(KINDS) + kind) * len(ids) + row % len(ids)
        code, distinct = pd.factorize(key)
        what: NDArray[np.int64] = len(self.rows) + code.astype(np.int64)
        for each in distinct.tolist():
            named, op = divmod(each, len(ids))
            self.rows.append(EventName(texts[named // len(KINDS)], named % len(KINDS), ids[op]))
        return what


class HostLane(NamedTuple):
    """A lane and its events, in order of their start."""

    host: Host
    kind: LaneKind
    name: str  # of the thread, stream, or kind of step
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # an index into `Names.rows` for each event
    busy_ps: int  # without waiting
    transfer: NDArray[np.int64] | None = None  # row of the table of transfers, -1 for a kernel
    device: str | None = None
    is_program: bool = False  # the program's own thread


def host_lanes(host: Host, names: NameIndex) -> Iterator[HostLane]:
    """Yield the lanes of a host: steps, streams, transfers without a stream, and threads."""
    yield from _steps(host, names)
    yield from sorted(_streams(host, names), key=lambda lane: (lane.device or "", lane.name))
    yield from _loose_transfers(host, names)
    yield from _threads(host, names)


def _covered(start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> int:
    return union(start_ps, end_ps - start_ps).total_ps


def _steps(host: Host, names: NameIndex) -> Iterator[HostLane]:
    steps = host.tables.steps
    for name, rows in steps.groupby(steps["name"].astype(str), sort=False):
        own = rows.sort_values("start_ps", kind="stable")
        start = own["start_ps"].to_numpy(np.int64)
        end = start + own["duration_ps"].to_numpy(np.int64).clip(0)
        labels = [f"{name} {number}" for number in own["step"]]
        labels = labels if len(labels) <= _MOST_STEPS else [str(name)]
        label = np.arange(len(own), dtype=np.int64) % len(labels)
        what = names.add(host, labels, label, _STEP, np.full(len(own), -1, np.int64))
        yield HostLane(host, "steps", str(name), start, end, what, _covered(start, end))


def _streams(host: Host, names: NameIndex) -> Iterator[HostLane]:
    work = host.timeline.work or device_work(host.tables)
    kernels = host.tables.kernels
    transfers = host.tables.transfers.iloc[work.transfer[work.is_transfer]]
    split = len(kernels)
    rows = np.split(work.row.astype(np.int64), [split])
    of_kernels = kernels["name"].astype("category")
    labels, label = of_kernels.cat.categories.astype(str), of_kernels.cat.codes.to_numpy(np.int64)
    named = names.add(host, labels.tolist(), label, _COMPUTE, rows[0])
    what = np.concatenate([named, _named_transfers(host, transfers, rows[1], names)])
    order = np.lexsort((work.start_ps, work.stream))
    for own in np.split(order, np.flatnonzero(np.diff(work.stream[order])) + 1):
        if not len(own):
            continue
        start, end = work.start_ps[own], work.end_ps[own]
        table, at = (kernels, own[0]) if own[0] < split else (transfers, own[0] - split)
        device, stream = table["device"].iloc[at], table["stream"].iloc[at]
        name = "an unnamed stream" if pd.isna(stream) else str(stream)
        busy_ps, transfer = _covered(start, end), work.transfer[own]
        lane = HostLane(host, "stream", name, start, end, what[own], busy_ps, transfer)
        yield lane._replace(device=str(device))


def _named_transfers(
    host: Host, transfers: pd.DataFrame, row: NDArray[np.int64], names: NameIndex
) -> NDArray[np.int64]:
    code, directions = pd.factorize(transfers["direction"].astype(str))
    return names.add(host, directions.tolist(), code.astype(np.int64), COPY, row)


def _loose_transfers(host: Host, names: NameIndex) -> Iterator[HostLane]:
    """Yield a lane of the transfers that only the host recorded, which have no stream."""
    transfers = host.tables.transfers.reset_index(drop=True)
    transfers = transfers[transfers["device"].isna()].sort_values("start_ps", kind="stable")
    row_of = {op_id: row for row, op_id in enumerate(host.tables.ops["op_id"])}
    ends = transfers["consumer"].astype(object).fillna(transfers["producer"].astype(object))
    row = np.array([row_of.get(op_id, -1) for op_id in ends], np.int64)
    start = transfers["start_ps"].to_numpy(np.int64)
    end = start + durations(transfers).clip(0)
    what, transfer = _named_transfers(host, transfers, row, names), transfers.index.to_numpy()
    yield HostLane(host, "copies", "transfers", start, end, what, _covered(start, end), transfer)


def _threads(host: Host, names: NameIndex) -> Iterator[HostLane]:
    threads, ops = host.tables.threads, host.tables.ops
    if threads is None or not len(threads.start_ps):
        return
    first = _merged(threads)
    begin, start = np.searchsorted(first, threads.begin), threads.start_ps[first]
    last = np.append(first[1:], len(threads.start_ps)) - 1
    end = np.maximum(threads.end_ps[last], start)
    op_names = map(op_label, ops["name"].astype(str), ops["type"].astype(str))
    row = threads.row[first].astype(np.int64)
    label = np.where(row >= 0, row, threads.event[first] + len(ops))
    state = threads.state[first]
    what = names.add(host, [*op_names, *threads.event_names], label, _OF_STATE[state], row)
    took = np.where(np.isin(state, _WAITING), 0, end - start)
    busy = np.diff(np.concatenate([[0], np.cumsum(took)])[begin])
    for number in np.lexsort((-busy, ~threads.is_program)).tolist():
        own, is_program = slice(begin[number], begin[number + 1]), threads.is_program[number]
        segments, busy_ps = (start[own], end[own], what[own]), int(busy[number])
        lane = HostLane(host, "thread", threads.name[number], *segments, busy_ps)
        yield lane._replace(is_program=bool(is_program))


def _merged(threads: ThreadActivity) -> NDArray[np.int64]:
    """Return the index of the first segment of each series of adjacent, equal segments."""
    goes_on = threads.start_ps[1:] == threads.end_ps[:-1]
    for kept in (threads.state, threads.row):
        goes_on &= kept[1:] == kept[:-1]
    goes_on &= (threads.event[1:] == threads.event[:-1]) | (threads.row[1:] >= 0)
    begin = threads.begin
    goes_on[begin[(begin > 0) & (begin < len(threads.start_ps))] - 1] = False
    return np.flatnonzero(np.concatenate([[True], ~goes_on]))
