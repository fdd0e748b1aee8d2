"""What one host's input pipelines did when, and which pipeline each event is of."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.arrays import distinct_rows, pick, place_of
from traceanalyzer.tables.schema import STAGES
from traceanalyzer.tables.stage_events import COUNTED, Spans, parent_path, stage_events
from traceanalyzer.tables.stages import StageColumns

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.stage_events import StageEvents

_NONE: Final = np.empty(0, np.int64)
_NO_SPANS: Final = Spans(_NONE, _NONE, _NONE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pipelines:
    """What one host's input pipelines did when; rows are those of its table of stages."""

    #: The times in which the program requested an element and had to wait, with the row of the
    #: outermost stage, -1 where unknown.
    requests: Spans = _NO_SPANS
    #: Which of them were the first of their iterator: it starts then.
    is_first: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: The times in which a stage was at work itself: not those in which it waited for its input,
    #: and of one that makes elements ahead those in which its function ran.
    work: Spans = _NO_SPANS


NO_PIPELINES: Final = Pipelines()


@cache
def no_stages() -> pd.DataFrame:
    """Return a table of stages without a row, always the same one."""
    return STAGES.frame([])


def pipelines(occurrences: OpOccurrences, ops: pd.DataFrame) -> tuple[pd.DataFrame, Pipelines]:
    """Build one host's rows of the table of stages, and the times behind them."""
    events = stage_events(occurrences.host)
    if events is None:
        return no_stages(), NO_PIPELINES
    if not len(events):
        requests = _requests(events, np.full(1, -1, np.int64))
        is_first = np.zeros(len(requests.row), np.bool_)
        return no_stages(), Pipelines(requests=requests, is_first=is_first)
    group = _pipeline_of(events)
    row, keys = distinct_rows([group, events.path])
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    keys, row = keys[order], np.argsort(order)[row]
    call_row = _row_of_calls(events, group, keys)
    columns = StageColumns(events, keys, row, call_row)
    return columns.table(occurrences, ops), Pipelines(
        requests=_requests(events, np.append(row, -1)),
        is_first=pick(columns.is_first, events.requests.stage, missing=False),
        work=_work(events, row, call_row),
    )


def _requests(events: StageEvents, row: Ints) -> Spans:
    """Return what the program requested; `row` has one more entry, for no stage."""
    requested = events.requests
    start_ps, end_ps = events.plane.start_ps, events.plane.end_ps
    return Spans(row[requested.stage], start_ps[requested.event], end_ps[requested.event])


def _work(events: StageEvents, row: Ints, call_row: Ints) -> Spans:
    alone = events.alone
    own = ~events.is_async[events.path[alone.row]]
    calls = events.calls
    ahead = (call_row >= 0) & events.is_async[calls.path]
    return Spans(
        row=np.concatenate([row[alone.row[own]], call_row[ahead]]),
        start_ps=np.concatenate([alone.start_ps[own], calls.start_ps[ahead]]),
        end_ps=np.concatenate([alone.end_ps[own], calls.end_ps[ahead]]),
    )


class _Same:
    """Numbers that turn out to mean the same."""

    def __init__(self) -> None:
        self._of: list[int] = []

    def new(self) -> int:
        self._of.append(len(self._of))
        return len(self._of) - 1

    def find(self, number: int) -> int:
        while self._of[number] != number:
            self._of[number] = number = self._of[self._of[number]]
        return number

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.find(a), self.find(b)))
        self._of[high] = low


def _pipeline_of(events: StageEvents) -> Ints:
    """Number the pipelines, in the order in which they began.

    Paths alone do not distinguish two pipelines of the same stages, and an iterator lives for one
    epoch. From an element, `parent_id` leads up to the iterator at the end; two of these are of one
    pipeline if they share a stage of the same name, which has a number of its own. Where a trace
    names no stages (before TensorFlow 2.13), those of the same path are one.
    """
    ids, names = events.integers("id"), events.strings("name")
    label = np.full(len(events), -1, np.int64)
    same = _Same()
    by_name: dict[tuple[int, str | None], int] = {}
    numbers = {p: k for k, p in enumerate(events.paths)}
    for number, path in enumerate(events.paths):
        at = np.flatnonzero(events.path == number)
        above = numbers.get(parent_path(path))
        if above is not None:
            label[at] = _by_parent(events, at, above, label)
        lost = at[label[at] < 0]
        label[lost] = _of_ancestors(events, lost, numbers, label)
        lost = at[label[at] < 0]
        # Iterators that are restarted all the time are not worth a pipeline each.
        apart = np.zeros(len(lost), np.int64) if events.restarts[number] else ids.values[lost]
        _, which = np.unique(apart, return_inverse=True)
        place, keyed = distinct_rows([names.codes[lost], which.reshape(-1)])
        new = np.array([same.new() for _ in keyed], np.int64)
        label[lost] = new[place]
        if events.restarts[number]:
            continue  # restarted for each file or epoch: its names mean nothing
        for one, code in distinct_rows([label[at], names.codes[at]])[1].tolist():
            text = names.values[code] if code >= 0 else None
            if text is None or COUNTED.search(text):
                same.join(by_name.setdefault((number, text), one), one)
    joined = np.array([same.find(k) for k in range(int(label.max()) + 1)], np.int64)[label]
    first = np.full(int(joined.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, joined, events.plane.start_ps[events.event])
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[joined]


def _by_parent(events: StageEvents, at: Ints, above: int, label: Ints) -> Ints:
    """Return the labels of the iterators above some events; -1 where there is none."""
    ids = events.integers("id").values
    parents = events.integers("parent_id")
    start = events.plane.start_ps[events.event]
    over = np.flatnonzero(events.path == above)
    over = over[np.argsort(start[over], kind="stable")]
    distinct, first = np.unique(ids[over], return_index=True)
    slot = np.where(parents.present[at], place_of(distinct, parents.values[at]), -1)
    by_id = pick(label[over[first]], slot)
    # An id is an address: once an iterator is gone, that of another pipeline may have it. The last
    # one to make a request before is the one that is alive.
    pairs = distinct_rows([place_of(distinct, ids[over]), label[over]])[1][:, 0]
    for shared in np.flatnonzero(np.bincount(pairs, minlength=len(distinct)) > 1).tolist():
        alive = over[ids[over] == distinct[shared]]
        mine = np.flatnonzero(slot == shared)
        last = np.searchsorted(start[alive], start[at[mine]], side="right") - 1
        by_id[mine] = label[alive[last.clip(0)]]
    around = events.outer[at]  # on the same thread there is no doubt
    is_direct = pick(events.path, around) == above
    return np.where(is_direct, pick(label, around), by_id)


def _of_ancestors(events: StageEvents, lost: Ints, numbers: dict[str, int], label: Ints) -> Ints:
    """Return the labels of events whose stage above has no event; -1 where unknown.

    This happens where a trace begins or ends within a request. The event around one is of the same
    pipeline; or else the nearest stage further up, if only one pipeline has it.
    """
    if not len(lost):
        return label[lost]
    found = pick(label, events.outer[lost])
    path = parent_path(events.paths[int(events.path[lost[0]])])
    while path and path not in numbers:
        path = parent_path(path)
    if path:
        labels = np.unique(label[events.path == numbers[path]])
        if len(labels) == 1:
            return np.where(found >= 0, found, labels[0])
    return found


def _row_of_calls(events: StageEvents, group: Ints, keys: Ints) -> Ints:
    """Return the row of the stage that made each call; -1 where it has none."""
    rows = {(g, p): k for k, (g, p) in enumerate(keys.tolist())}
    place, pairs = distinct_rows([group[events.calls.near], events.calls.path])
    found = np.array([rows.get((g, p), -1) for g, p in pairs.tolist()], np.int64)
    return pick(found, place)
