"""The events of input pipelines (tf.data): requests for an element, calls of functions, work.

TensorFlow writes an event, such as `Iterator::Root::Batch::Map`, for each element requested from a
stage: the path leads from the end of the pipeline to the stage (dataset.h,
DatasetBaseIterator::GetNext). A stage within another's event on the same thread is its input. An
asynchronous stage (prefetch, parallel map) requests its inputs on background threads; the duration
of its event is the wait for an element that is not ready yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import Nested, flatten, innermost
from traceanalyzer.tables.arrays import by_line, distinct_rows, last_before, last_of, mask, pick
from traceanalyzer.tables.vocabulary import CAPTURED_FUNCTION, EXECUTOR, STAGE, Kind, without_counts

if TYPE_CHECKING:
    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane
    from traceanalyzer.trace.strings import Column, Strings

# cache_dataset_ops.cc: the iterator of a memory cache delegates to one that is named as a sibling.
_CACHE: Final = ("MemoryCacheImpl", "MemoryCache::MemoryCacheImpl")
# Stages that make elements ahead on background threads (the kernels' files of the same names).
_ASYNCHRONOUS: Final = re.compile(
    r"Prefetch|ParallelMap\w*|MapAndBatch\w*|ParallelInterleave\w*|ParallelBatch\w*"
    r"|ParallelFilter\w*|ParseExample\w*|LegacyParallelInterleave\w*"
)
_MAKE: Final = "MakeIterator::"
_GET_NEXT: Final = "IteratorGetNext"  # also with suffix Sync or AsOptional (dataset_ops.cc)
_NEVER: Final = -(2**62)
# dataset.cc, DatasetBase::Initialize: a dataset without a user-given name is named after its type,
# with a number that counts all datasets of the process.
COUNTED: Final = re.compile(r"[A-Za-z]\w*:\d+")


class Spans(NamedTuple):
    """Times, each of a stage or a pipeline."""

    row: Ints  #: the stage or pipeline
    start_ps: Ints
    end_ps: Ints


class Requests(NamedTuple):
    """The elements that the program requested from its pipelines."""

    #: Event of the plane: the op that returns the element if known, otherwise the outermost
    #: stage.
    event: Ints
    stage: Ints  #: entry of `StageEvents` within it, -1 if the trace has none
    element_bytes: Ints  #: -1 where unknown


class FunctionCalls(NamedTuple):
    """Calls of the functions that stages apply."""

    path: Ints  #: path of the stage that called, as an index into `StageEvents.paths`
    near: Ints  #: entry of `StageEvents` for the stage or its input
    step: Ints  #: step id of the call
    start_ps: Ints
    end_ps: Ints  #: end; if the caller did not wait, the end of its last op


@dataclass(frozen=True, eq=False, kw_only=True)
class StageEvents:
    """The events of stages on one host, line by line and by start within a line."""

    plane: Plane
    event: Ints  #: event of the plane
    #: The distinct paths, without the indices that count restarts, stages before their inputs.
    paths: tuple[str, ...]
    restarts: Flags  #: which paths are below a stage that restarts its inputs, such as interleave
    is_async: Flags  #: which paths belong to stages that make elements ahead
    path: Ints  #: index into `paths`
    outer: Ints  #: entry of the stage event around each, on the same thread; -1 for none
    requests: Requests
    calls: FunctionCalls
    alone: Spans  #: the times in which a stage was the innermost on its thread; `row` is the entry

    def __len__(self) -> int:
        return len(self.event)

    def integers(self, stat: str) -> Column:
        """Return a stat of each event as a number."""
        return self.plane.integers(stat, self.event)

    def strings(self, stat: str) -> Strings:
        """Return a stat of each event as text."""
        return self.plane.strings(stat, self.event)


def stage_events(host: HostOps) -> StageEvents | None:
    """Collect the events of a host's input pipelines; None if it has none."""
    nest = _Nest(host)
    if not (nest.is_stage | nest.is_hand_over).any():
        return None
    alone = flatten(nest.nested, np.where(nest.is_stage, 0, -1).astype(np.int8))
    return StageEvents(
        plane=host.plane,
        event=nest.event[nest.is_stage],
        paths=nest.paths,
        restarts=nest.restarts,
        is_async=mask(_ASYNCHRONOUS.fullmatch(p.rpartition("::")[2]) for p in nest.paths),
        path=nest.path,
        outer=nest.outer[nest.is_stage],
        requests=_requests(nest),
        calls=_calls(nest),
        alone=Spans(nest.entry[alone.event], alone.start_ps, alone.end_ps),
    )


def parent_path(path: str) -> str:
    """Return the path of the stage that consumes a stage's elements; empty for the outermost."""
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[0])


class _Nest:
    """The events of input pipelines, line by line, an enclosing event before its content."""

    def __init__(self, host: HostOps) -> None:
        plane, names = host.plane, host.names
        is_stage = names.kind == Kind.STAGE
        is_call = mask(map(CAPTURED_FUNCTION.fullmatch, plane.names))
        # For an eager request, the enclosing op is the wait; its kernel is nested in it.
        is_get_next = mask(t.startswith(_GET_NEXT) for t in names.type)
        is_hand_over = names.is_pipeline & ~is_stage & ~is_call
        is_hand_over |= (names.kind == Kind.EAGER_OP) & is_get_next
        is_making = mask(n.startswith(_MAKE) for n in plane.names)
        wanted = is_stage | is_call | is_hand_over | is_making
        self.plane = plane
        self.event = by_line(plane, np.flatnonzero(wanted[plane.name_of]))
        name = plane.name_of[self.event]
        self.line = plane.line_of[self.event]
        self.is_stage, self.is_call = is_stage[name], is_call[name]
        self.is_hand_over, self.is_making = is_hand_over[name], is_making[name]
        order = np.arange(len(self.event), dtype=np.int64)
        begin = np.searchsorted(self.line, np.arange(len(plane.lines) + 1)).astype(np.int64)
        self.nested = Nested(order, begin, plane.start_ps[self.event], plane.end_ps[self.event])
        # The number of the stage event at each position; -1 for other events.
        self.entry = np.where(self.is_stage, np.cumsum(self.is_stage) - 1, -1)
        # The number of the stage event around each position.
        self.outer = pick(self.entry, innermost(self.nested, self.is_stage))
        self.paths, path_of_name, self.restarts = _paths(plane, np.unique(name[self.is_stage]))
        self.path = path_of_name[name[self.is_stage]]


def _paths(plane: Plane, names: Ints) -> tuple[tuple[str, ...], Ints, Flags]:
    """Return stage paths, parents first, each name's path, and which paths omit a count."""
    path_of, counted = {}, set()
    for name in names.tolist():
        full = plane.names[name].removeprefix(STAGE)
        path = without_counts(full)
        is_counted = path != full
        path = path if "MemoryCache::" in path else path.replace(*_CACHE)
        path_of[name] = path
        if is_counted:
            counted.add(path)
    ordered = tuple(sorted(set(path_of.values()), key=lambda p: (p.count("::"), p)))
    codes = np.full(len(plane.names), -1, np.int64)
    codes[names] = [ordered.index(path) for path in path_of.values()]
    return ordered, codes, mask(path in counted for path in ordered)


def _requests(nest: _Nest) -> Requests:
    """Find the outermost events in which the program waits, not a tf.data thread."""
    n = len(nest.event)
    hand_over = innermost(nest.nested, nest.is_hand_over)
    outermost = np.where(hand_over >= 0, hand_over, np.arange(n))
    outermost = outermost[outermost]  # of a kernel within its eager op
    is_end = nest.is_stage & (nest.outer < 0)
    is_end[nest.is_stage] &= mask(not parent_path(p) for p in nest.paths)[nest.path]
    is_free = is_end & (hand_over < 0)
    # A pipeline within a pipeline's function is requested by tf.data, not by the program.
    requested = is_free | (nest.is_hand_over & (hand_over < 0) & (nest.outer < 0))
    stage_of = np.full(n, -1, np.int64)
    ends = np.flatnonzero(is_end)[::-1]  # if several, the first
    stage_of[outermost[ends]] = nest.entry[ends]
    handing = np.flatnonzero(nest.is_hand_over)
    sizes = nest.plane.integers("element_size", nest.event[handing])
    size = np.full(n, -1, np.int64)
    size[outermost[handing]] = np.where(sizes.present & (sizes.values >= 0), sizes.values, -1)
    return Requests(nest.event[requested], stage_of[requested], size[requested])


def _calls(nest: _Nest) -> FunctionCalls:
    """Find which stage made each function call, and when the call was done.

    A synchronous stage calls within its event. An asynchronous stage calls on a background thread,
    after it requested an element from its input there: the stage is the consumer of that input.
    Calls while an iterator is created belong to no element.
    """
    is_outer_call = nest.is_call & (innermost(nest.nested, nest.is_making | nest.is_call) < 0)
    at = np.flatnonzero(is_outer_call)
    # The stage event before each call on the thread, otherwise the one after it.
    top = np.flatnonzero(nest.is_stage & (nest.outer < 0))
    slot = np.searchsorted(top, at)
    beside = np.full(len(at), -1, np.int64)
    for place in (np.where(slot < len(top), slot, -1), slot - 1):
        found = pick(top, place)
        beside = np.where((found >= 0) & (nest.line[found] == nest.line[at]), found, beside)
    numbers = {p: k for k, p in enumerate(nest.paths)}
    parent = np.array([numbers.get(parent_path(p), -1) for p in nest.paths], np.int64)

    own = nest.outer[at]
    near = np.where(own >= 0, own, pick(nest.entry, beside))
    of_near = pick(nest.path, near)
    whose = np.where(own >= 0, of_near, pick(parent, of_near))
    known = whose >= 0
    plane, event = nest.plane, nest.event[at[known]]
    step = plane.integers("id", event)
    # The end of the executor's last event for the call.
    turns = plane.named(EXECUTOR)
    turns = turns[np.argsort(plane.end_ps[turns], kind="stable")]
    ids = plane.integers("id", turns)
    done_ps = last_of(
        ids.values[ids.present], plane.end_ps[turns][ids.present], step.values, _NEVER
    )
    return FunctionCalls(
        path=whose[known],
        near=near[known],
        step=np.where(step.present, step.values, 0),
        start_ps=plane.start_ps[event],
        end_ps=np.maximum(plane.end_ps[event], np.where(step.present, done_ps, _NEVER)),
    )


def pipeline_of(events: StageEvents) -> Ints:
    """Number the pipelines, in the order in which they began.

    Paths alone do not distinguish two pipelines with the same stages, and an iterator lives for one
    epoch. From an element, `parent_id` leads up to the pipeline's last iterator. Two such iterators
    belong to one pipeline if they share a dataset name, which has a unique number. If a trace names
    no datasets (before TensorFlow 2.13), iterators with the same path belong to one pipeline.
    """
    ids, names = events.integers("id"), events.strings("name")
    start_ps = events.plane.start_ps[events.event]
    label = np.full(len(events), -1, np.int64)
    same: list[int] = []  # for each label, another label of the same pipeline, or itself
    by_name: dict[tuple[int, str | None], int] = {}
    numbers = {p: k for k, p in enumerate(events.paths)}
    for number, path in enumerate(events.paths):
        at = np.flatnonzero(events.path == number)
        above = numbers.get(parent_path(path))
        if above is not None:
            label[at] = _by_parent(events, at, above, label)
        lost = at[label[at] < 0]
        label[lost] = _of_ancestors(events, path, lost, numbers, label)
        lost = at[label[at] < 0]
        # Iterators that restart often are not separate pipelines.
        apart = np.zeros(len(lost), np.int64) if events.restarts[number] else ids.values[lost]
        _, which = np.unique(apart, return_inverse=True)
        place, keyed = distinct_rows([names.codes[lost], which.reshape(-1)])
        label[lost] = len(same) + place
        same.extend(range(len(same), len(same) + len(keyed)))
        if events.restarts[number]:
            continue  # restarted for each file or epoch: ignore its names
        for one, code in distinct_rows([label[at], names.codes[at]])[1].tolist():
            text = names.values[code] if code >= 0 else None
            if text is None or COUNTED.search(text):
                other = by_name.setdefault((number, text), one)
                low, high = sorted((_first_label(same, other), _first_label(same, one)))
                same[high] = low
    joined = np.array([_first_label(same, k) for k in range(len(same))], np.int64)[label]
    first_ps = pd.Series(start_ps).groupby(joined).min().sort_values(kind="stable")
    return pd.Series(np.arange(len(first_ps)), first_ps.index)[joined].to_numpy()


def _first_label(same: list[int], label: int) -> int:
    while same[label] != label:
        same[label] = label = same[same[label]]
    return label


def _by_parent(events: StageEvents, at: Ints, above: int, label: Ints) -> Ints:
    """Return the labels of the iterators above some events; -1 where there is none."""
    ids, parents = events.integers("id").values, events.integers("parent_id")
    start_ps = events.plane.start_ps[events.event]
    over = np.flatnonzero(events.path == above)
    over = over[np.argsort(-start_ps[over], kind="stable")]
    # An id is an address, which an iterator of another pipeline can reuse later. The live iterator
    # is the last one that made a request before.
    alive = last_before(ids[over], start_ps[over], parents.values[at], start_ps[at])
    first = last_of(ids[over], np.arange(len(over)), parents.values[at])
    found = pick(label[over], np.where(alive >= 0, alive, first))
    by_id = np.where(parents.present[at], found, -1)
    around = events.outer[at]  # on the same thread, the parent is certain
    is_direct = pick(events.path, around) == above
    return np.where(is_direct, pick(label, around), by_id)


def _of_ancestors(
    events: StageEvents, path: str, lost: Ints, numbers: dict[str, int], label: Ints
) -> Ints:
    """Return the labels of events whose parent stage has no event; -1 if unknown.

    This happens if a trace begins or ends within a request. The pipeline is that of the enclosing
    event, otherwise of the nearest stage further up, if only one pipeline has that stage.
    """
    found = pick(label, events.outer[lost])
    path = parent_path(path)
    while path and path not in numbers:
        path = parent_path(path)
    labels = np.unique(label[events.path == numbers.get(path, -1)])
    return np.where(found >= 0, found, labels[0]) if len(labels) == 1 else found
