"""The events of input pipelines (tf.data): requests for an element, calls of functions, work.

TensorFlow writes an event for each element that is requested of a stage,
`Iterator::Root::Batch::Map`: the path leads from the end of the pipeline to the stage (dataset.h,
DatasetBaseIterator::GetNext). A stage within another's event on the same thread is its input. A
stage that makes elements ahead (prefetch, parallel map) requests its inputs on threads of its own,
and the duration of its event is the wait for an element that is not ready yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import Nested, innermost, sum_by
from traceanalyzer.tables.arrays import by_line, last_of, mask, pick
from traceanalyzer.tables.vocabulary import CAPTURED_FUNCTION, EXECUTOR, STAGE, Kind, without_counts

if TYPE_CHECKING:
    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane
    from traceanalyzer.trace.strings import Column, Strings

# cache_dataset_ops.cc: the iterator of a cache in memory hands over to another, named as a sibling.
_CACHE: Final = ("MemoryCacheImpl", "MemoryCache::MemoryCacheImpl")
# Stages that make elements ahead, on threads of their own (the kernels' files of the same names).
_ASYNCHRONOUS: Final = re.compile(
    r"Prefetch|ParallelMap\w*|MapAndBatch\w*|ParallelInterleave\w*|ParallelBatch\w*"
    r"|ParallelFilter\w*|ParseExample\w*|LegacyParallelInterleave\w*"
)
_MAKE: Final = "MakeIterator::"
_GET_NEXT: Final = "IteratorGetNext"  # and with Sync or AsOptional behind (dataset_ops.cc)
_NEVER: Final = -(2**62)
# dataset.cc, DatasetBase::Initialize: a dataset that its maker did not name is named after its type
# and a number that counts all datasets of the process.
COUNTED: Final = re.compile(r"[A-Za-z]\w*:\d+")


class Spans(NamedTuple):
    """Times, each of a stage or a pipeline."""

    row: Ints  #: Whose
    start_ps: Ints
    end_ps: Ints


class Requests(NamedTuple):
    """What the program itself requested from its pipelines."""

    #: Event of the plane, int64: the op that hands the element over where that is known, or else
    #: the outermost stage.
    event: Ints
    stage: Ints  #: Entry of `StageEvents` within it, -1 where the trace holds none
    element_bytes: Ints  #: Size of the element, -1 where unknown


class FunctionCalls(NamedTuple):
    """Calls of the functions that stages apply."""

    path: Ints  #: Path of the stage that called, as an index into `StageEvents.paths`
    near: Ints  #: Entry of `StageEvents` that is of the stage, or is its input
    step: Ints  #: Step id of the call
    start_ps: Ints
    end_ps: Ints  #: Ends; of one that the caller did not wait for, when its last op was done


@dataclass(frozen=True, eq=False, kw_only=True)
class StageEvents:
    """The events of stages on one host, line by line and by start within a line."""

    plane: Plane
    event: Ints  #: Event of the plane
    #: The distinct paths, without the indices that count restarts, stages before their inputs.
    paths: tuple[str, ...]
    restarts: Flags  #: Which paths lie below a stage that restarts its inputs, such as interleave
    is_async: Flags  #: Which paths are of stages that make elements ahead
    path: Ints  #: Index into `paths`
    outer: Ints  #: Entry of the stage event around each, on the same thread; -1 for none
    self_ps: Ints  #: Duration without that of stage events within
    requests: Requests
    calls: FunctionCalls
    alone: Spans  #: The times in which a stage was the innermost on its thread; `row` is the entry

    def __len__(self) -> int:
        return len(self.event)

    def integers(self, stat: str) -> Column:
        """Return a stat of each event as a number."""
        return self.plane.integers(stat, self.event)

    def strings(self, stat: str) -> Strings:
        """Return a stat of each event as text."""
        return self.plane.strings(stat, self.event)


def stage_events(host: HostOps) -> StageEvents | None:
    """Collect the events of a host's input pipelines; None where there are none."""
    if not host.names.is_pipeline.any():
        return None
    nest = _Nest(host)
    if not (nest.is_stage | nest.is_hand_over).any():
        return None
    plane, event, outer = host.plane, nest.event[nest.is_stage], nest.outer[nest.is_stage]
    duration = plane.duration_ps[event]
    return StageEvents(
        plane=plane,
        event=event,
        paths=nest.paths,
        restarts=nest.restarts,
        is_async=mask(
            _ASYNCHRONOUS.fullmatch(p.rpartition("::")[2]) is not None for p in nest.paths
        ),
        path=nest.path,
        outer=outer,
        self_ps=np.maximum(duration - sum_by(outer, duration, len(event)), 0),
        requests=_requests(nest),
        calls=_calls(nest),
        alone=_alone(plane, event, outer),
    )


def parent_path(path: str) -> str:
    """Return the path of the stage that takes a stage's elements; empty for the outermost."""
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[0])


class _Nest:
    """The events of input pipelines, line by line, an enclosing event before its content."""

    def __init__(self, host: HostOps) -> None:
        plane, names = host.plane, host.names
        is_stage = names.kind == Kind.STAGE
        is_call = mask(CAPTURED_FUNCTION.fullmatch(n) is not None for n in plane.names)
        # Of an eager request, the op around it is the wait; its kernel is within.
        is_get_next = mask(t.startswith(_GET_NEXT) for t in names.type)
        is_hand_over = names.is_pipeline & ~is_stage & ~is_call
        is_hand_over |= (names.kind == Kind.EAGER_OP) & is_get_next
        is_making = mask(n.startswith(_MAKE) for n in plane.names)
        wanted = is_stage | is_call | is_hand_over | is_making
        self.plane = plane
        self.event = by_line(plane, np.flatnonzero(wanted[plane.name_of]))
        name = plane.name_of[self.event]
        self.line = plane.line_of[self.event]
        self.is_stage = is_stage[name]
        self.is_call = is_call[name]
        self.is_hand_over = is_hand_over[name]
        self.is_making = is_making[name]
        # The stage event at each place, by its number among these; -1 for others.
        self.entry = np.where(self.is_stage, np.cumsum(self.is_stage) - 1, -1)
        # The stage event around each place, by its number.
        self.outer = pick(self.entry, self.within(self.is_stage))
        self.paths, path_of_name, self.restarts = _paths(plane, np.unique(name[self.is_stage]))
        self.path = path_of_name[name[self.is_stage]]

    def within(self, is_container: Flags) -> Ints:
        """Return the place of the innermost container around each event; -1 for none."""
        order = np.arange(len(self.event), dtype=np.int64)
        begin = np.searchsorted(self.line, np.arange(len(self.plane.lines) + 1)).astype(np.int64)
        start, end = self.plane.start_ps[self.event], self.plane.end_ps[self.event]
        return innermost(Nested(order, begin, start, end), is_container)


def _paths(plane: Plane, names: Ints) -> tuple[tuple[str, ...], Ints, Flags]:
    """Name the stages by distinct event names, parents before their inputs."""
    plain = {int(n): _path(plane.names[n]) for n in names.tolist()}
    distinct = dict.fromkeys(path for path, _ in plain.values())
    ordered = tuple(sorted(distinct, key=lambda p: (p.count("::"), p)))
    number = {path: k for k, path in enumerate(ordered)}
    codes = np.full(len(plane.names), -1, np.int64)
    restarts = np.zeros(len(ordered), np.bool_)
    for name, (path, is_counted) in plain.items():
        codes[name] = number[path]
        restarts[number[path]] |= is_counted
    return ordered, codes, restarts


def _path(name: str) -> tuple[str, bool]:
    """Return a stage's path, and whether that leaves out an index that counts restarts."""
    full = name.removeprefix(STAGE)
    path = without_counts(full)
    is_counted = path != full
    return path.replace(*_CACHE) if "MemoryCache::" not in path else path, is_counted


def _requests(nest: _Nest) -> Requests:
    """Find the outermost events in which the program waits: no thread of tf.data does."""
    is_end = mask(not parent_path(p) for p in nest.paths)  # of a pipeline
    hand_over = nest.within(nest.is_hand_over)
    n = len(nest.event)
    # A pipeline within a pipeline's function is requested by tf.data, not by the program.
    requested = nest.is_hand_over & (hand_over < 0) & (nest.outer < 0)
    ends = np.flatnonzero(nest.is_stage & (nest.outer < 0))
    ends = ends[is_end[nest.path[nest.entry[ends]]]]
    free = ends[hand_over[ends] < 0]
    at = np.sort(np.concatenate([np.flatnonzero(requested), free]))
    stage_of = np.full(n, -1, np.int64)
    inside = ends[hand_over[ends] >= 0]
    outermost = np.where(hand_over >= 0, hand_over, np.arange(n))
    outermost = outermost[outermost]  # of a kernel within its eager op
    stage_of[outermost[hand_over[inside]][::-1]] = nest.entry[inside][::-1]  # of several the first
    stage_of[free] = nest.entry[free]
    handing = np.flatnonzero(nest.is_hand_over)
    sizes = nest.plane.integers("element_size", nest.event[handing])
    size = np.full(n, -1, np.int64)
    size[outermost[handing]] = np.where(sizes.present & (sizes.values >= 0), sizes.values, -1)
    return Requests(nest.event[at], stage_of[at], size[at])


def _calls(nest: _Nest) -> FunctionCalls:
    """Find whose function each call runs, and when it was done.

    A stage that works element by element calls within its own event. One that makes elements ahead
    calls on a thread of its own, after it requested an element from its input there: the stage is
    the one that takes that input's elements. Calls while an iterator is made belong to no element.
    """
    is_outer_call = nest.is_call & (nest.within(nest.is_making) < 0)
    at = np.flatnonzero(is_outer_call & (nest.within(nest.is_call) < 0))
    # The stage event before each on the thread, or else the one after it.
    top = np.flatnonzero(nest.is_stage & (nest.outer < 0))
    slot = np.searchsorted(top, at)
    before = pick(top, slot - 1)
    after = pick(top, np.where(slot < len(top), slot, -1))
    before = np.where((before >= 0) & (nest.line[before] == nest.line[at]), before, -1)
    after = np.where((after >= 0) & (nest.line[after] == nest.line[at]), after, -1)
    beside = np.where(before >= 0, before, after)
    numbers = {p: k for k, p in enumerate(nest.paths)}
    parent = np.array([numbers.get(parent_path(p), -1) for p in nest.paths], np.int64)

    own = nest.outer[at]
    near = np.where(own >= 0, own, pick(nest.entry, beside))
    of_near = pick(nest.path, near)
    whose = np.where(own >= 0, of_near, pick(parent, of_near))
    known = whose >= 0
    event = nest.event[at[known]]
    step = nest.plane.integers("id", event)
    done_ps = _done_ps(nest.plane, step.values, step.present)
    return FunctionCalls(
        path=whose[known],
        near=near[known],
        step=np.where(step.present, step.values, 0),
        start_ps=nest.plane.start_ps[event],
        end_ps=np.maximum(nest.plane.end_ps[event], done_ps),
    )


def _done_ps(plane: Plane, step: Ints, present: Flags) -> Ints:
    """Return when the executor's last turn at each call ended; far in the past for none."""
    turns = plane.named(EXECUTOR)
    turns = turns[np.argsort(plane.end_ps[turns], kind="stable")]
    ids = plane.integers("id", turns)
    done = last_of(ids.values[ids.present], plane.end_ps[turns[ids.present]], step, _NEVER)
    return np.where(present, done, _NEVER)


def _alone(plane: Plane, event: Ints, outer: Ints) -> Spans:
    """Return the times of each stage event that lie in none of the stage events within it."""
    start, end = plane.start_ps[event], plane.end_ps[event]
    inner = np.flatnonzero(outer >= 0)
    order = inner[np.lexsort((start[inner], outer[inner]))]
    parent = outer[order]
    first = np.append(True, parent[1:] != parent[:-1]) if len(parent) else np.zeros(0, np.bool_)
    before = np.where(first, start[parent], np.append(0, end[order][:-1])[: len(order)])
    since = start.copy()
    since[parent] = end[order]  # of several inner ones the last counts: they are in order of start
    row = np.concatenate([parent, np.arange(len(event))])
    begin = np.concatenate([before, since])
    stop = np.concatenate([start[order], end])
    lasting = stop > begin
    return Spans(row[lasting], begin[lasting], stop[lasting])
