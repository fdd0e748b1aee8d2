"""The events of input pipelines (tf.data): requests for an element, calls of functions, work.

TensorFlow writes an event for each element that is asked of a stage, `Iterator::Root::Batch::Map`:
the path leads from the end of the pipeline to the stage (dataset.h, DatasetBaseIterator::GetNext).
A stage within another's event on the same thread is its input. A stage that makes elements ahead
(prefetch, parallel map) asks its inputs on threads of its own, and what is spent in its event is
the wait for an element that is not ready yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.native.events import Nested, innermost, sum_by
from traceanalyzer.tables.vocabulary import CAPTURED_FUNCTION, EXECUTOR, STAGE, Kind, without_counts
from traceanalyzer.trace.columns import Selected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane


# cache_dataset_ops.cc: the iterator of a cache in memory hands over to another, named as a sibling.
_CACHE: Final = ("MemoryCacheImpl", "MemoryCache::MemoryCacheImpl")
# Stages that make elements ahead, on threads of their own (the kernels' files of the same names).
_ASYNCHRONOUS: Final = re.compile(
    r"Prefetch|ParallelMap\w*|MapAndBatch\w*|ParallelInterleave\w*|ParallelBatch\w*"
    r"|ParallelFilter\w*|ParseExample\w*|LegacyParallelInterleave\w*"
)
_MAKE: Final = "MakeIterator::"
_GET_NEXT: Final = "IteratorGetNext"  # and with Sync or AsOptional behind (dataset_ops.cc)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spans:
    """Times, each of a stage or a pipeline.

    Attributes:
        row: Whose, int64.
        start_ps: Starts, int64.
        end_ps: Ends, int64.
    """

    row: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Requests:
    """What the program itself asked of its pipelines.

    Attributes:
        event: Event of the plane, int64: the op that hands the element over where that is told,
            else the outermost stage.
        stage: Entry of `StageEvents` within it, -1 where the trace holds none; int64.
        element_bytes: Size of the element, -1 where not told; int64.
    """

    event: NDArray[np.int64]
    stage: NDArray[np.int64]
    element_bytes: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Calls:
    """Calls of the functions that stages apply.

    Attributes:
        path: Path of the stage that called, as an index into `StageEvents.paths`, int64.
        near: Entry of `StageEvents` that is of the stage, or is its input; int64.
        step: Step id of the call, int64.
        start_ps: Starts, int64.
        end_ps: Ends; of one that the caller did not wait for, when its last op was done; int64.
    """

    path: NDArray[np.int64]
    near: NDArray[np.int64]
    step: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class StageEvents:
    """The events of stages on one host, line by line and by start within a line.

    Attributes:
        plane: The host plane.
        event: Event of the plane, int64.
        paths: The distinct paths, without what counts new beginnings; a stage's input comes after
            the stage.
        counts_anew: Which paths lie below a stage that begins its inputs anew, such as interleave.
        is_async: Which paths are of stages that make elements ahead.
        path: Index into `paths`, int64.
        outer: Entry of the stage event around each, on the same thread; -1 for none; int64.
        stats: The events' stats.
        self_ps: Duration less that of stage events within, int64.
        requests: What the program asked for.
        calls: Calls of functions.
        alone: The times in which a stage was the innermost on its thread; `row` is the entry.
    """

    plane: Plane
    event: NDArray[np.int64]
    paths: tuple[str, ...]
    counts_anew: NDArray[np.bool_]
    is_async: NDArray[np.bool_]
    path: NDArray[np.int64]
    outer: NDArray[np.int64]
    stats: Selected
    self_ps: NDArray[np.int64]
    requests: Requests
    calls: Calls
    alone: Spans

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.event)


def stage_events(host: HostOps) -> StageEvents | None:
    """Gather what a host's threads tell of its input pipelines; None where they tell nothing."""
    plane, names = host.plane, host.names
    kind = names.kind
    if not names.is_pipeline.any():
        return None
    is_stage = kind == Kind.STAGE
    is_call = np.array([CAPTURED_FUNCTION.fullmatch(n) is not None for n in plane.names], np.bool_)
    # Asked eagerly, the op around it is the wait; its kernel is within.
    is_eager = (kind == Kind.EAGER_OP) & np.array(
        [t.startswith(_GET_NEXT) for t in names.type], np.bool_
    )
    is_hand_over = (names.is_pipeline & ~is_stage & ~is_call) | is_eager
    if not (is_stage | is_hand_over)[plane.name_of].any():
        return None
    is_making = np.array([n.startswith(_MAKE) for n in plane.names], np.bool_)

    around = _Nest(plane, is_stage | is_call | is_hand_over | is_making)
    name = plane.name_of[around.event]
    stage_at = np.flatnonzero(is_stage[name])
    entry = np.full(len(around.event) + 1, -1, np.int64)
    entry[stage_at] = np.arange(len(stage_at))
    outer_stage = around.within(is_stage[name])
    event = around.event[stage_at]
    outer = entry[outer_stage[stage_at]]
    paths, path_of_name, anew = _paths(plane, np.unique(plane.name_of[event]))
    path = path_of_name[plane.name_of[event]]
    duration = plane.duration_ps[event]
    within = sum_by(outer, duration, len(event))
    return StageEvents(
        plane=plane,
        event=event,
        paths=paths,
        counts_anew=anew,
        is_async=np.array([_is_asynchronous(p) for p in paths], np.bool_),
        path=path,
        outer=outer,
        stats=Selected(plane, event),
        self_ps=np.maximum(duration - within, 0),
        requests=_requests(around, is_hand_over[name], outer_stage, entry, paths, path),
        calls=_calls(
            around, is_call[name], around.within(is_making[name]), outer_stage, entry, paths, path
        ),
        alone=_alone(plane, event, outer),
    )


def parent_path(path: str) -> str:
    """Return the path of the stage that takes a stage's elements; empty for the outermost."""
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[0])


class _Nest:
    """Some events of a plane, line by line, an enclosing event before what it encloses."""

    def __init__(self, plane: Plane, wanted: NDArray[np.bool_]) -> None:
        event = np.flatnonzero(wanted[plane.name_of])
        line = plane.line_of[event]
        order = np.lexsort((-plane.duration_ps[event], plane.start_ps[event], line))
        self.plane = plane
        self.event: NDArray[np.int64] = event[order]
        self.line = line[order]
        self.start = plane.start_ps[self.event]
        self.end = plane.end_ps[self.event]
        bounds = np.arange(len(plane.lines) + 1)
        self._begin = np.searchsorted(self.line, bounds).astype(np.int64)

    def within(self, is_container: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the place in `event` of the innermost container around each; -1 for none."""
        order = np.arange(len(self.event), dtype=np.int64)
        return innermost(Nested(order, self._begin, self.start, self.end), is_container)


def _paths(
    plane: Plane, names: NDArray[np.int64]
) -> tuple[tuple[str, ...], NDArray[np.int64], NDArray[np.bool_]]:
    """Name the stages: by distinct event names, parents before their inputs."""
    plain = {int(n): _path(plane.names[n]) for n in names.tolist()}
    distinct = dict.fromkeys(path for path, _ in plain.values())
    ordered = tuple(sorted(distinct, key=lambda p: (p.count("::"), p)))
    number = {path: k for k, path in enumerate(ordered)}
    codes = np.full(len(plane.names), -1, np.int64)
    anew = np.zeros(len(ordered), np.bool_)
    for name, (path, is_anew) in plain.items():
        codes[name] = number[path]
        anew[number[path]] |= is_anew
    return ordered, codes, anew


def _path(name: str) -> tuple[str, bool]:
    """Return a stage's path, and whether it left out an index that counts new beginnings."""
    told = name.removeprefix(STAGE)
    path = without_counts(told)
    is_anew = path != told
    return path.replace(*_CACHE) if "MemoryCache::" not in path else path, is_anew


def _is_asynchronous(path: str) -> bool:
    return _ASYNCHRONOUS.fullmatch(path.rpartition("::")[2]) is not None


def _requests(  # noqa: PLR0913, PLR0917 - columns of one nest, computed once by the caller
    around: _Nest,
    is_hand_over: NDArray[np.bool_],
    outer_stage: NDArray[np.int64],
    entry: NDArray[np.int64],
    paths: tuple[str, ...],
    path: NDArray[np.int64],
) -> Requests:
    """Find the outermost events in which the program waits: no thread of tf.data does."""
    is_outermost = np.array([not parent_path(p) for p in paths], np.bool_)
    hand_over = around.within(is_hand_over)
    n = len(around.event)
    # A pipeline within a pipeline's function is asked by tf.data, not by the program.
    asked = is_hand_over & (hand_over < 0) & (outer_stage < 0)
    ends = np.flatnonzero((entry[:-1] >= 0) & (outer_stage < 0))
    ends = ends[is_outermost[path[entry[ends]]]]
    free = ends[hand_over[ends] < 0]
    at = np.sort(np.concatenate([np.flatnonzero(asked), free]))
    stage_of = np.full(n + 1, -1, np.int64)
    inside = ends[hand_over[ends] >= 0]
    outermost = np.where(hand_over >= 0, hand_over, np.arange(n))
    outermost = outermost[outermost]  # of a kernel within its eager op
    stage_of[outermost[hand_over[inside]][::-1]] = entry[inside][::-1]  # of several the first
    stage_of[free] = entry[free]
    told = np.flatnonzero(is_hand_over)
    sizes = Selected(around.plane, around.event[told]).integers("element_size")
    size = np.full(n, -1, np.int64)
    size[outermost[told]] = np.where(sizes.present & (sizes.values >= 0), sizes.values, -1)
    return Requests(
        event=around.event[at],
        stage=stage_of[at],
        element_bytes=size[at],
    )


def _calls(  # noqa: PLR0913, PLR0917 - as above
    around: _Nest,
    is_call: NDArray[np.bool_],
    making: NDArray[np.int64],
    outer_stage: NDArray[np.int64],
    entry: NDArray[np.int64],
    paths: tuple[str, ...],
    path: NDArray[np.int64],
) -> Calls:
    """Find whose function each call runs, and when it was done.

    A stage that works element by element calls within its own event. One that makes elements ahead
    calls on a thread of its own, after it asked its input for an element there: the stage is what
    takes that input's elements. What is called while an iterator is made belongs to no element.
    """
    at = np.flatnonzero(is_call & (making < 0) & (around.within(is_call) < 0))
    # The stage event before each on the thread, or else the one after it.
    top = np.flatnonzero((entry[:-1] >= 0) & (outer_stage < 0))
    slot = np.searchsorted(top, at)
    before, after = np.append(top, -1)[slot - 1], np.append(top, -1)[slot]
    before = np.where((slot > 0) & (around.line[before] == around.line[at]), before, -1)
    after = np.where((after >= 0) & (around.line[after] == around.line[at]), after, -1)
    beside = np.where(before >= 0, before, after)
    numbers = {p: k for k, p in enumerate(paths)}
    parent = np.array([numbers.get(parent_path(p), -1) for p in paths], np.int64)

    own = outer_stage[at]
    near = entry[np.where(own >= 0, own, beside)]
    of_near = np.append(path, -1)[near]
    whose = np.where(own >= 0, of_near, np.append(parent, -1)[of_near])
    event = around.event[at]
    step = Selected(around.plane, event).integers("id")
    end = np.maximum(around.end[at], _done(around.plane, step.values, step.present))
    known = whose >= 0
    return Calls(
        path=whose[known],
        near=near[known],
        step=np.where(step.present, step.values, 0)[known],
        start_ps=around.start[at][known],
        end_ps=end[known],
    )


def _done(plane: Plane, step: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return when the executor's last turn at each call ended; far in the past for none."""
    turns = plane.named(EXECUTOR)
    ids = Selected(plane, turns).integers("id")
    turns, ids_of = turns[ids.present], ids.values[ids.present]
    distinct, inverse = np.unique(ids_of, return_inverse=True)
    last = np.full(len(distinct) + 1, -(2**62), np.int64)
    np.maximum.at(last, inverse.reshape(-1), plane.end_ps[turns])
    slot = np.searchsorted(distinct, step).clip(max=max(len(distinct) - 1, 0))
    found = present & (len(distinct) > 0)
    if len(distinct):
        found &= distinct[slot] == step
    return np.where(found, last[slot], -(2**62))


def _alone(plane: Plane, event: NDArray[np.int64], outer: NDArray[np.int64]) -> Spans:
    """Return the times of each stage event that lie in none of the stage events within it."""
    start, end = plane.start_ps[event], plane.end_ps[event]
    inner = np.flatnonzero(outer >= 0)
    order = inner[np.lexsort((start[inner], outer[inner]))]
    parent = outer[order]
    first = np.append(True, parent[1:] != parent[:-1]) if len(parent) else np.zeros(0, np.bool_)
    before = np.where(first, start[parent], np.append(0, end[order][:-1])[: len(order)])
    until = end.copy()  # from the end of the last inner one on
    since = start.copy()
    since[parent] = end[order]  # of several the last one counts: they stand by start
    row = np.concatenate([parent, np.arange(len(event))])
    begin = np.concatenate([before, since])
    stop = np.concatenate([start[order], until])
    lasting = stop > begin
    return Spans(row=row[lasting], start_ps=begin[lasting], end_ps=stop[lasting])
