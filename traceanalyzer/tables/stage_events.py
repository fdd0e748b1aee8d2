"""Finds the events of tf.data input pipelines: requests for elements, function calls, and work.

TensorFlow writes an event, such as `Iterator::Root::Batch::Map`, for each element requested from a
stage (dataset.h, DatasetBaseIterator::GetNext). The path leads from the end of the pipeline to the
stage. An event within another stage's event is a request for that stage's input. An asynchronous
stage (prefetch, parallel map) requests its inputs on background threads, and its own event is the
wait for an element that is not ready yet.
"""

import re
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import Nested, flatten, innermost
from traceanalyzer.tables.arrays import (
    Ints,
    by_line,
    distinct_rows,
    last_before,
    last_of,
    mask,
    pick,
)
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import CAPTURED_FUNCTION, EXECUTOR, STAGE, Kind, without_counts
from traceanalyzer.trace.strings import IntegerColumn, Strings

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


class StageIntervals(NamedTuple):
    """Intervals of stages or pipelines."""

    row: Ints  #: the stage or pipeline
    start_ps: Ints
    end_ps: Ints


_NONE: Final = np.empty(0, np.int64)
NO_INTERVALS: Final = StageIntervals(_NONE, _NONE, _NONE)


class Requests(NamedTuple):
    """The elements that the program requested from its pipelines."""

    event: Ints  #: event of the plane: the op that returns the element, or else a stage's
    stage: Ints  #: entry of `StageEvents` within it, -1 if there is none
    element_bytes: Ints  #: -1 where unknown


class FunctionCalls(NamedTuple):
    """Calls of the functions that stages apply."""

    path: Ints  #: path of the stage that called, as an index into `StageEvents.paths`
    near: Ints  #: an entry of `StageEvents` of the stage or its input
    step: Ints  #: step id of the call
    start_ps: Ints
    end_ps: Ints  #: the end of its last op, if the caller did not wait


class StageEvents:
    """The stage events of one host, sorted by line, then by start."""

    def __init__(self, host: HostOps) -> None:
        plane, names = host.plane, host.names
        is_call = mask(map(CAPTURED_FUNCTION.fullmatch, plane.names))
        is_get_next = mask(t.startswith(_GET_NEXT) for t in names.type)
        is_making = mask(n.startswith(_MAKE) for n in plane.names)
        # For an eager request, the enclosing op is the wait; its kernel is nested in it.
        is_hand_over = names.is_pipeline & ~(names.kind == Kind.STAGE) & ~is_call
        is_hand_over |= (names.kind == Kind.EAGER_OP) & is_get_next
        wanted = (names.kind == Kind.STAGE) | is_call | is_hand_over | is_making
        # All events of pipelines, those of stages and others, at one position each.
        self._all = by_line(plane, np.flatnonzero(wanted[plane.name_of]))
        name, self._line = plane.name_of[self._all], plane.line_of[self._all]
        self._is_stage = (names.kind == Kind.STAGE)[name]
        self._is_call, self._is_making = is_call[name], is_making[name]
        self._is_hand_over = is_hand_over[name]
        begin = np.searchsorted(self._line, np.arange(len(plane.lines) + 1)).astype(np.int64)
        order = np.arange(len(name), dtype=np.int64)
        bounds_ps = plane.start_ps[self._all], plane.end_ps[self._all]
        self._nested = Nested(order, begin, *bounds_ps)
        # The number of the stage event at each position, and of the one around it; -1 for none.
        self._entry = np.where(self._is_stage, np.cumsum(self._is_stage) - 1, -1)
        self._outer = pick(self._entry, innermost(self._nested, self._is_stage))

        self.plane = plane
        self.event = self._all[self._is_stage]  #: event of the plane
        self.start_ps = plane.start_ps[self.event]
        #: Entry of the stage event around each, on the same thread; -1 for none.
        self.outer = self._outer[self._is_stage]
        path_of = {k: _path(plane.names[k]) for k in np.unique(name[self._is_stage]).tolist()}
        paths = sorted(set(path_of.values()), key=lambda p: (p.count("::"), p))
        #: The distinct paths, without indices that count restarts; a stage is before its inputs.
        self.paths = tuple(paths)
        self.number = {path: k for k, path in enumerate(paths)}  #: index of each path
        codes = np.full(len(plane.names), -1, np.int64)
        codes[[*path_of]] = [self.number[path] for path in path_of.values()]
        self.path = codes[name[self._is_stage]]  #: index into `paths`
        #: Index of the path of the stage that consumes its elements, by path; -1 for none.
        self.above = np.array([self.number.get(parent_path(p), -1) for p in paths], np.int64)
        counted = {path_of[k] for k in path_of if without_counts(plane.names[k]) != plane.names[k]}
        #: Which paths are below a stage that restarts its inputs, such as interleave.
        self.restarts = mask(path in counted for path in paths)
        #: Which paths belong to stages that make elements ahead.
        self.is_async = mask(_ASYNCHRONOUS.fullmatch(p.rpartition("::")[2]) for p in paths)
        alone = flatten(self._nested, np.where(self._is_stage, 0, -1).astype(np.int8))
        #: The times when a stage was the innermost on its thread; `row` is the entry.
        self.alone = StageIntervals(self._entry[alone.event], alone.start_ps, alone.end_ps)

    def __bool__(self) -> bool:
        """Return whether the host has a pipeline."""
        return bool((self._is_stage | self._is_hand_over).any())

    def integers(self, stat: str) -> IntegerColumn:
        """Return a stat of each event as a number."""
        return self.plane.integers(stat, self.event)

    def strings(self, stat: str) -> Strings:
        """Return a stat of each event as text."""
        return self.plane.strings(stat, self.event)

    def requests(self) -> Requests:
        """Return the elements that the program requested, excluding requests by tf.data itself."""
        n = len(self._all)
        hand_over = innermost(self._nested, self._is_hand_over)
        outermost = np.where(hand_over >= 0, hand_over, np.arange(n))
        outermost = outermost[outermost]  # of a kernel within its eager op
        is_end = self._is_stage & (self._outer < 0)
        is_end[self._is_stage] &= mask(not parent_path(p) for p in self.paths)[self.path]
        # A pipeline within a pipeline's function is requested by tf.data, not by the program.
        requested = (is_end | (self._is_hand_over & (self._outer < 0))) & (hand_over < 0)
        stage_of = np.full(n, -1, np.int64)
        ends = np.flatnonzero(is_end)[::-1]  # if several, the first
        stage_of[outermost[ends]] = self._entry[ends]
        handing = np.flatnonzero(self._is_hand_over)
        sizes = self.plane.integers("element_size", self._all[handing])
        size = np.full(n, -1, np.int64)
        size[outermost[handing]] = np.where(sizes.present & (sizes.values >= 0), sizes.values, -1)
        return Requests(self._all[requested], stage_of[requested], size[requested])

    def calls(self) -> FunctionCalls:
        """Return the calls of the stages' functions, except those that create an iterator.

        A synchronous stage calls its function within its own event. An asynchronous stage calls it
        on a background thread, after requesting an element from its input on that thread.
        """
        around = innermost(self._nested, self._is_making | self._is_call)
        at = np.flatnonzero(self._is_call & (around < 0))
        # The stage event before each call on the thread, otherwise the one after it.
        top = np.flatnonzero(self._is_stage & (self._outer < 0))
        slot = np.searchsorted(top, at)
        beside = np.full(len(at), -1, np.int64)
        for place in (np.where(slot < len(top), slot, -1), slot - 1):
            found = pick(top, place)
            is_same = (found >= 0) & (self._line[found] == self._line[at])
            beside = np.where(is_same, found, beside)
        own = self._outer[at]
        near = np.where(own >= 0, own, pick(self._entry, beside))
        path = pick(self.path, near)
        path = np.where(own >= 0, path, pick(self.above, path))
        known = path >= 0
        plane, event = self.plane, self._all[at[known]]
        step = plane.integers("id", event)
        # The end of the executor's last event for the call.
        turns = plane.named(EXECUTOR)
        turns = turns[np.argsort(plane.end_ps[turns], kind="stable")]
        ids = plane.integers("id", turns)
        ended_ps = plane.end_ps[turns][ids.present]
        done_ps = last_of(ids.values[ids.present], ended_ps, step.values, _NEVER)
        return FunctionCalls(
            path=path[known],
            near=near[known],
            step=np.where(step.present, step.values, 0),
            start_ps=plane.start_ps[event],
            end_ps=np.maximum(plane.end_ps[event], np.where(step.present, done_ps, _NEVER)),
        )

    def pipeline(self) -> Ints:
        """Return the number of each event's pipeline. Pipelines are numbered by start time.

        Two pipelines can have the same paths, and an iterator lives for one epoch. `parent_id`
        leads from an iterator to the last iterator of its pipeline. Two last iterators belong to
        the same pipeline if they have the same dataset name, which contains a unique number, or the
        same path if there are no dataset names (before TensorFlow 2.13).
        """
        ids, names = self.integers("id").values, self.strings("name")
        label = np.full(len(self.event), -1, np.int64)
        same: list[int] = []  # by label: another label of its pipeline, or itself
        by_name: dict[tuple[int, str | None], int] = {}

        def first(one: int) -> int:
            while same[one] != one:
                same[one] = one = same[same[one]]
            return one

        for number, path in enumerate(self.paths):
            at = np.flatnonzero(self.path == number)
            if self.above[number] >= 0:
                label[at] = self._by_parent(at, int(self.above[number]), ids, label)
            lost = at[label[at] < 0]
            label[lost] = self._by_ancestor(path, lost, label)
            lost = at[label[at] < 0]
            # Iterators that restart often are not separate pipelines.
            apart = np.zeros(len(lost), np.int64) if self.restarts[number] else ids[lost]
            place, keyed = distinct_rows([names.codes[lost], pd.factorize(apart)[0]])
            label[lost] = len(same) + place
            same.extend(range(len(same), len(same) + len(keyed)))
            if self.restarts[number]:
                continue  # restarted for each file or epoch: ignore its names
            for one, code in distinct_rows([label[at], names.codes[at]])[1].tolist():
                text = names.values[code] if code >= 0 else None
                if text is None or COUNTED.search(text):
                    other = by_name.setdefault((number, text), one)
                    low, high = sorted((first(other), first(one)))
                    same[high] = low
        joined = np.array([first(k) for k in range(len(same))], np.int64)[label]
        first_ps = pd.Series(self.start_ps).groupby(joined).min().sort_values(kind="stable")
        return pd.Series(np.arange(len(first_ps)), first_ps.index)[joined].to_numpy()

    def _by_parent(self, at: Ints, above: int, ids: Ints, label: Ints) -> Ints:
        """Return the label of the iterator that requested each event's element, or -1."""
        parents, start_ps = self.integers("parent_id"), self.start_ps
        over = np.flatnonzero(self.path == above)
        over = over[np.argsort(-start_ps[over], kind="stable")]
        # An id is an address, which an iterator of another pipeline can reuse later. The live
        # iterator is the last one that made a request before.
        alive = last_before(ids[over], start_ps[over], parents.values[at], start_ps[at])
        first = last_of(ids[over], np.arange(len(over)), parents.values[at])
        found = pick(label[over], np.where(alive >= 0, alive, first))
        # On the same thread, the parent is certain.
        is_direct = pick(self.path, self.outer[at]) == above
        by_id = np.where(parents.present[at], found, -1)
        return np.where(is_direct, pick(label, self.outer[at]), by_id)

    def _by_ancestor(self, path: str, lost: Ints, label: Ints) -> Ints:
        """Return the labels of events whose parent stage has no event, or -1 if unknown.

        This happens if a trace begins or ends within a request. Use the label of the
        enclosing event or, without one, the label that all events of the nearest ancestor share.
        """
        found = pick(label, self.outer[lost])
        path = parent_path(path)
        while path and path not in self.number:
            path = parent_path(path)
        labels = np.unique(label[self.path == self.number.get(path, -1)])
        return np.where(found >= 0, found, labels[0]) if len(labels) == 1 else found


def parent_path(path: str) -> str:
    """Return the path of the stage that consumes a stage's elements, or "" for the last stage."""
    return re.sub(r"\[\d+\]$", "", path.rpartition("::")[0])


def _path(name: str) -> str:
    path = without_counts(name.removeprefix(STAGE))
    return path if "MemoryCache::" in path else path.replace(*_CACHE)
