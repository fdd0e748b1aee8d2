"""What each host thread did when, and what set it going: the ground for why a device stood idle.

A thread's events nest; here each becomes a lane of segments that do not: at each moment the
innermost event that says what the thread was about. What made a thread begin is told by a link, of
two kinds. TensorFlow's thread pools record who handed work over, and who took it
(`ThreadpoolListener`, tsl/profiler/backends/cpu/threadpool_listener.cc, TensorFlow 2.13 and later):
that is proof. Elsewhere a turn of an executor is taken to be begun by what ended last before it in
the same call (step id): a call's executors have no other cause to begin than each other, its
caller, and copies that arrive; but of several the last need not have been the one. Where nothing
ended before, the call itself began it. Nor does it tell which of its work a device was waited for,
where it was polled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import Turns, begun_by_call, flatten
from traceanalyzer.tables.launches import SYNCHRONIZES
from traceanalyzer.tables.nesting import innermost, nested
from traceanalyzer.tables.vocabulary import (
    FUNCTION_RUN,
    GET_NEXT,
    Kind,
    Role,
    is_eager_executor_line,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.trace.columns import Plane


# The runtimes' own calls that return when the device has got so far, copies that are not
# asynchronous among them.
_WAIT: Final = re.compile(rf"{SYNCHRONIZES.pattern}|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*")
# tensor_handle.cc, tensor_handle_data.cc: waits until another thread, mostly the one that eager ops
# were handed over to, has run what makes a value; a device may not have computed it yet. What asks
# for a resource says so even where it waits for nothing.
_VALUE_WAIT: Final = re.compile(r"TensorHandle::(?!GetResourceHandle)\w+ WaitReady")
# direct_session.cc: what TensorFlow 1 runs a graph with; it waits for the graph's executors.
_SESSION_RUN: Final = "SessionRun"
_HANDED_OVER: Final = "ThreadpoolListener::Record"
_TAKEN_UP: Final = "ThreadpoolListener::StartRegion"
# gpu_event_mgr.cc, device_event_mgr.cc: polls the device and calls back what waited for it.
_EVENT_MANAGER: Final = re.compile(r"tf_(?:GPU|Device)_Event_Manager.*")
_MOST_NESTED: Final = 8  # functions within functions that are followed; ids might form a circle
_PYTHON: Final = re.compile(r"(?:python|main)\S*", re.IGNORECASE)
_ON_THE_HOST: Final = ("cpu", "host_memory")

DEVICE_LANE: Final = -1
"""Stands for a device in place of a thread: the link leads to what it finished last."""


class ThreadState(IntEnum):
    """What a thread was about; the first few, what a device waited for."""

    HOST_OP = 0
    """An op that computes on the host."""
    INPUT = 1
    """tf.data: a stage, or the op that waits for the next element."""
    LAUNCH = 2
    """Bringing work to the device: launch calls, and the host side of ops placed on it."""
    RUNTIME = 3
    """TensorFlow itself: executors, calls, handing work from thread to thread."""
    PROGRAM = 4
    """The program between TensorFlow's calls, Python most of all."""
    WAIT = 5
    """Waiting for the device."""
    CALL = 6
    """Waiting for what other threads run: a function, or, where no call is told, some value."""
    UNPLACED = 7
    """An op of which nothing tells where it computes: here, or on a device that it launches to."""


class Launches(NamedTuple):
    """The launch of each of some device events.

    Attributes:
        lane: The thread that made it, `DEVICE_LANE` where unknown; int32.
        start_ps: When it began, int64.
        end_ps: When it returned, int64.
        is_proved: Whether it can have been no other.
    """

    lane: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    is_proved: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> Launches:
        """Return those at `rows`."""
        return Launches(
            self.lane[rows], self.start_ps[rows], self.end_ps[rows], self.is_proved[rows]
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Links:
    """What set threads going; one entry a link, by lane and then by time.

    Attributes:
        lane: The lane that began, int32.
        at_ps: When, int64.
        from_lane: The lane that set it going, or `DEVICE_LANE`; int32.
        from_ps: When that lane did so, int64.
        is_proved: Whether it is recorded, or nothing else can have been it; otherwise it is what
            ended last.
        begin: First link of each lane, one longer; int64.
    """

    lane: NDArray[np.int32]
    at_ps: NDArray[np.int64]
    from_lane: NDArray[np.int32]
    from_ps: NDArray[np.int64]
    is_proved: NDArray[np.bool_]
    begin: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreadActivity:
    """What the threads of one host did.

    Attributes:
        name: Name of each lane (XLine).
        is_program: Which lanes are the program's own threads.
        step_lane: The lane that marked each marked step, int32.
        step_ps: When that step began, rising; int64.
        begin: First segment of each lane, one longer; int64.
        start_ps: Start of each segment, rising within a lane; int64.
        end_ps: End of each segment, int64.
        state: `ThreadState` of each segment, uint8.
        row: Row of the op table, -1 for none; int32.
        call: Step id of the call it ran in, or that it waits for; 0 where unknown, int64.
        links: What set threads going.
        call_id: Of what happened in calls: the call, rising; int64.
        call_ps: When it ended, rising within a call; int64.
        call_lane: Its lane, or `DEVICE_LANE`; int32.
        call_begins: Whether it is the call itself, which begins then.
        call_ends: Whether nothing that is recorded of the call went on after it.
        launches: Of what ran on the devices, kernels and then copies, each as in its table: what
            launched it.
        early_ps: By how much the clock of its device is early, int64.
    """

    name: tuple[str, ...]
    is_program: NDArray[np.bool_]
    step_lane: NDArray[np.int32]
    step_ps: NDArray[np.int64]
    begin: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    state: NDArray[np.uint8]
    row: NDArray[np.int32]
    call: NDArray[np.int64]
    links: Links
    call_id: NDArray[np.int64]
    call_ps: NDArray[np.int64]
    call_lane: NDArray[np.int32]
    call_begins: NDArray[np.bool_]
    call_ends: NDArray[np.bool_]
    launches: Launches
    early_ps: NDArray[np.int64]


def thread_activity(
    host: HostOps, device: DeviceEvents, occurrences: OpOccurrences, ops: pd.DataFrame
) -> ThreadActivity:
    """Lay out what the threads of a host did.

    Args:
        host: The ops that ran on them.
        device: What ran on the devices.
        occurrences: The row of each op occurrence.
        ops: The host's rows of the op table.
    """
    plane = host.plane
    order = host.order
    state, row, call = _labels(host, occurrences, ops, order)
    begin, start_ps, end_ps, event = flatten(nested(plane, order), state)
    calls = _calls(host, device, state)
    marks = _step_marks(plane)
    work = np.argsort(device.direction.present, kind="stable")  # kernels, then copies
    return ThreadActivity(
        name=plane.lines.name,
        is_program=_program_lanes(host),
        step_lane=plane.line_of[marks].astype(np.int32),
        step_ps=plane.start_ps[marks],
        begin=begin,
        start_ps=start_ps,
        end_ps=end_ps,
        state=state[event].astype(np.uint8),
        row=row[event],
        call=call[event],
        links=_links(host, calls),
        call_id=calls.id,
        call_ps=calls.at_ps,
        call_lane=calls.lane,
        call_begins=calls.begins,
        call_ends=calls.ends,
        launches=_launches(plane, device.launch[work], device.launch_is_sure[work]),
        early_ps=device.early_ps[work],
    )


def _labels(
    host: HostOps, occurrences: OpOccurrences, ops: pd.DataFrame, order: NDArray[np.int64]
) -> tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int64]]:
    """Return what each event of the plane says its thread did (-1: nothing), its row, its call."""
    plane, names = host.plane, host.names
    name_of = plane.name_of
    state = np.full(len(plane), -1, np.int8)
    state[names.is_executor[name_of]] = ThreadState.RUNTIME
    state[names.kind[name_of] == Kind.FUNCTION_CALL] = ThreadState.RUNTIME
    runs = plane.named(FUNCTION_RUN, _SESSION_RUN)
    around = innermost(plane, order, names.kind[name_of] == Kind.FUNCTION_CALL)[runs]
    waiting = np.concatenate([runs, around[around >= 0]])
    state[waiting] = ThreadState.CALL
    state[names.is_pipeline[name_of]] = ThreadState.INPUT

    row_of = occurrences.of_occurrence
    state[host.event] = _state_of_rows(ops)[row_of]
    state[host.event[host.is_handed_over]] = ThreadState.RUNTIME
    state[host.event[host.in_pipeline]] = ThreadState.INPUT
    row = np.full(len(plane), -1, np.int32)
    row[host.event] = row_of
    state[host.launches] = ThreadState.LAUNCH
    row[host.launches] = np.append(row_of, -1)[host.owner[host.launches]]
    waits = [n for n in plane.names if _WAIT.fullmatch(n)]
    state[plane.named(*waits)] = ThreadState.WAIT
    of_values = plane.named(*(n for n in plane.names if _VALUE_WAIT.fullmatch(n)))
    state[of_values] = ThreadState.CALL

    call = host.call_of_event.copy()
    ids = plane.integers("id")
    turns = np.flatnonzero(names.is_executor[name_of] & ids.present)
    elements = _elements(plane)
    call[turns], call[elements] = ids.values[turns], ids.values[elements]
    of_runs = ids.values[runs]
    call[waiting] = np.concatenate([of_runs, of_runs[around >= 0]])
    call[of_values] = 0
    return state, row, call


def _state_of_rows(ops: pd.DataFrame) -> NDArray[np.int8]:
    placement = ops["placement"].astype(object).to_numpy()
    role = ops["role"].astype(object).to_numpy()
    on_host = np.isin(placement, _ON_THE_HOST)
    state = np.where(on_host, ThreadState.HOST_OP, ThreadState.LAUNCH)
    state = np.where(placement == "unknown", ThreadState.UNPLACED, state)
    state = np.where(np.isin(role, (Role.RUNTIME, Role.TRANSFER)), ThreadState.RUNTIME, state)
    of_row: NDArray[np.int8] = np.where(role == Role.INPUT_PIPELINE, ThreadState.INPUT, state)
    return of_row.astype(np.int8)


def _program_lanes(host: HostOps) -> NDArray[np.bool_]:
    """Tell which threads are the program's: Python's, those with eager ops, calls or steps."""
    plane = host.plane
    calls = (host.names.kind == Kind.EAGER_OP) | (host.names.kind == Kind.FUNCTION_CALL)
    is_call = calls[plane.name_of] & (host.names.kind[plane.name_of] != Kind.OP)
    is_call &= host.call_of_event == 0  # a call within an executor's turn is that graph's
    if plane.has_stat("step_num"):
        is_call |= plane.integers("step_num").present
    found = np.array([_PYTHON.fullmatch(name) is not None for name in plane.lines.name], np.bool_)
    found[plane.line_of[is_call]] = True
    runtimes = [is_eager_executor_line(name) for name in plane.lines.name]
    found &= ~np.array(runtimes, np.bool_)
    return found


def _step_marks(plane: Plane) -> NDArray[np.int64]:
    """Return the events that mark steps, by start."""
    if not plane.has_stat("step_num"):
        return np.empty(0, np.int64)
    marks = np.flatnonzero(plane.integers("step_num").present)
    by_time: NDArray[np.int64] = marks[np.argsort(plane.start_ps[marks], kind="stable")]
    return by_time


class _Calls(NamedTuple):
    """What ended in calls, and where these began; see `ThreadActivity`."""

    id: NDArray[np.int64]
    at_ps: NDArray[np.int64]
    lane: NDArray[np.int32]
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]


def _calls(host: HostOps, device: DeviceEvents, state: NDArray[np.int8]) -> _Calls:
    """Return when something ended in each call, and where: ops and copies; and when it began."""
    plane = host.plane
    ops = host.event[(host.call != 0) & (state[host.event] >= 0)]
    runs = plane.named(FUNCTION_RUN, _SESSION_RUN)
    ids = plane.integers("id")
    runs = runs[ids.present[runs]]
    elements = _elements(plane)
    copies = _waking_copies(host, device)
    launch = device.sure_launch
    copied_ps = (device.start_ps + device.early_ps + device.duration_ps)[copies]

    call = np.concatenate(
        [
            host.call_of_event[ops],
            ids.values[runs],
            ids.values[elements],
            host.call_of_event[launch[copies]],
        ]
    )
    at_ps = np.concatenate(
        [
            plane.end_ps[ops],
            plane.start_ps[runs],
            plane.end_ps[elements],
            copied_ps,
        ]
    )
    lane = np.concatenate(
        [
            plane.line_of[ops],
            plane.line_of[runs],
            plane.line_of[elements],
            np.full(len(copies), DEVICE_LANE),
        ]
    ).astype(np.int32)
    begins = np.zeros(len(call), np.bool_)
    begins[len(ops) : len(ops) + len(runs)] = True
    nested = _nested(host, runs)
    ends = _outlast_turns(host, nested, call, at_ps, lane) & ~begins
    entry, part_of = _parts(call, nested)
    is_own = np.arange(len(entry)) < len(call)
    found = _Calls(part_of, at_ps[entry], lane[entry], begins[entry] & is_own, ends[entry] & is_own)
    order = np.lexsort((found.at_ps, found.id))
    by_id = found.id[order]
    is_last = np.append(by_id[1:] != by_id[:-1], np.True_)[: len(by_id)]
    return _Calls(
        by_id,
        found.at_ps[order],
        found.lane[order],
        found.begins[order],
        found.ends[order] & is_last,
    )


def _waking_copies(host: HostOps, device: DeviceEvents) -> NDArray[np.int64]:
    """Return the copies between host and device that ops of a call waited for.

    The op that receives one is done, and its executor goes on, when the copy is (copy_tensor.cc).
    After the last turn of its call nothing waited for a copy to a device.
    """
    launch = device.sure_launch
    ways = (*device.direction.values, "")
    from_device, to_device = (
        np.array([way in chosen for way in ways], np.bool_)[device.direction.codes]
        for chosen in (("d2h", "p2p"), ("h2d",))
    )
    copies = np.flatnonzero((from_device | to_device) & (launch >= 0))
    copies = copies[host.call_of_event[launch[copies]] != 0]
    plane = host.plane
    ids = plane.integers("id")
    turns = np.flatnonzero(host.names.is_executor[plane.name_of] & ids.present)
    turns = turns[np.lexsort((plane.start_ps[turns], ids.values[turns]))]
    call = host.call_of_event[launch[copies]]
    end_ps = (device.start_ps + device.early_ps + device.duration_ps)[copies]
    last = np.append(turns, -1)[np.searchsorted(ids.values[turns], call, side="right") - 1]
    followed = (last >= 0) & (ids.values[last] == call) & (plane.start_ps[last] >= end_ps)
    waking: NDArray[np.int64] = copies[from_device[copies] | followed]
    return waking


def _outlast_turns(
    host: HostOps,
    nested: _Nested,
    call: NDArray[np.int64],
    at_ps: NDArray[np.int64],
    lane: NDArray[np.int32],
) -> NDArray[np.bool_]:
    """Tell what ended in the last turn that an executor took in its call, or after that.

    Ops without an event may have run in that turn. Of a call without turns nothing is told.
    """
    plane = host.plane
    ids = plane.integers("id")
    turns = np.flatnonzero(host.names.is_executor[plane.name_of] & ids.present)
    entry, part_of = _parts(ids.values[turns], nested)
    turns = turns[entry]
    order = np.lexsort((plane.end_ps[turns], part_of))
    turns, part_of = turns[order], part_of[order]
    if not len(turns):
        return np.zeros(len(call), np.bool_)
    slot = np.searchsorted(part_of, call, side="right") - 1
    last = turns[slot.clip(0)]
    in_it = (plane.line_of[last] == lane) & (plane.start_ps[last] <= at_ps)
    is_told = (slot >= 0) & (part_of[slot.clip(0)] == call)
    outlasting: NDArray[np.bool_] = is_told & (in_it | (plane.end_ps[last] <= at_ps))
    return outlasting


class _Nested(NamedTuple):
    """The calls that ops of other calls made, rising, and the others."""

    call: NDArray[np.int64]
    outer: NDArray[np.int64]


def _nested(host: HostOps, runs: NDArray[np.int64]) -> _Nested:
    """Return which calls are part of which.

    A function that is not inlined runs under a step id of its own
    (tensorflow/core/kernels/function_ops.cc).
    """
    ids = host.plane.integers("id").values[runs]
    outer = host.call_of_event[runs]
    is_nested = (outer != 0) & (outer != ids)
    inner, first = np.unique(ids[is_nested], return_index=True)
    return _Nested(inner, outer[is_nested][first])


def _parts(call: NDArray[np.int64], nested: _Nested) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is part of which call: all of its own first, then what is nested in it.

    Args:
        call: The call of each.
        nested: The calls that are part of others.

    Returns:
        Places in `call`, and the call that each is part of.
    """
    entry = np.arange(len(call))
    entries, calls = [entry], [call]
    for _ in range(_MOST_NESTED if len(nested.call) else 0):
        slot = np.searchsorted(nested.call, call).clip(max=len(nested.call) - 1)
        inside = nested.call[slot] == call
        if not inside.any():
            break
        entry, call = entry[inside], nested.outer[slot[inside]]
        entries.append(entry)
        calls.append(call)
    return np.concatenate(entries), np.concatenate(calls)


def _elements(plane: Plane) -> NDArray[np.int64]:
    """Return the events that hand an element of a pipeline to a call, and say to which."""
    found = plane.named(*(n for n in plane.names if GET_NEXT.fullmatch(n)))
    return found[plane.integers("id").present[found]]


def _links(host: HostOps, calls: _Calls) -> Links:
    plane = host.plane
    lane, at_ps, from_lane, from_ps = _handed_over(plane)
    manager = np.array(
        [_EVENT_MANAGER.fullmatch(n) is not None for n in plane.lines.name] + [False]
    )
    from_lane = np.where(manager[from_lane], DEVICE_LANE, from_lane).astype(np.int32)

    turns = np.flatnonzero(host.names.is_executor[plane.name_of])
    turns = turns[np.lexsort((plane.start_ps[turns], plane.line_of[turns]))]
    taken = begun_by_call(
        Turns(
            plane.line_of[turns],
            plane.start_ps[turns],
            plane.end_ps[turns],
            plane.integers("id").values[turns],
        ),
        (lane, at_ps),
        (calls.id, calls.at_ps),
    )
    begun = turns[taken >= 0]
    source = taken[taken >= 0]
    lanes_of = np.concatenate([lane, plane.line_of[begun].astype(np.int32)])
    at = np.concatenate([at_ps, plane.start_ps[begun]])
    order = np.lexsort((at, lanes_of))
    return Links(
        lane=lanes_of[order],
        at_ps=at[order],
        from_lane=np.concatenate([from_lane, calls.lane[source]])[order],
        from_ps=np.concatenate([from_ps, calls.at_ps[source]])[order],
        is_proved=np.concatenate([from_lane != DEVICE_LANE, calls.begins[source]])[order],
        begin=np.searchsorted(lanes_of[order], np.arange(len(plane.lines) + 1)),
    )


def _launches(plane: Plane, launch: NDArray[np.int64], is_sure: NDArray[np.bool_]) -> Launches:
    is_known = launch >= 0
    return Launches(
        np.where(is_known, plane.line_of[launch], DEVICE_LANE).astype(np.int32),
        np.where(is_known, plane.start_ps[launch], 0),
        np.where(is_known, plane.end_ps[launch], 0),
        is_sure,
    )


def _handed_over(
    plane: Plane,
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
    """Pair the records of who handed work to a pool's thread with those of who took it up.

    Returns:
        Lane and time of the taking, lane and time of the handing, by lane and time.
    """
    given, taken = plane.named(_HANDED_OVER), plane.named(_TAKEN_UP)
    none = np.empty(0, np.int32)
    nothing = none, none.astype(np.int64), none, none.astype(np.int64)
    if not (len(given) and len(taken)):
        return nothing
    keys, wanted = plane.integers("_p"), plane.integers("_c")
    given, taken = given[keys.present[given]], taken[wanted.present[taken]]
    given = given[np.argsort(keys.values[given], kind="stable")]
    if not len(given):
        return nothing
    slot = np.searchsorted(keys.values[given], wanted.values[taken]).clip(max=len(given) - 1)
    source = given[slot]
    fits = keys.values[source] == wanted.values[taken]
    fits &= plane.start_ps[source] <= plane.start_ps[taken]
    source, taken = source[fits], taken[fits]
    order = np.lexsort((plane.start_ps[taken], plane.line_of[taken]))
    source, taken = source[order], taken[order]
    return (
        plane.line_of[taken].astype(np.int32),
        plane.start_ps[taken],
        plane.line_of[source].astype(np.int32),
        plane.start_ps[source],
    )
