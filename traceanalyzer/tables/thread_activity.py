"""Finds the activity of each host thread and its triggers, which explain a device's idle time.

A thread's events are nested. Its segments are not: each moment belongs to the segment of the
innermost event that shows the thread's state.

A link leads from a thread's activity to its trigger. TensorFlow's thread pools record which thread
scheduled work and which thread ran it (`ThreadpoolListener`,
tsl/profiler/backends/cpu/threadpool_listener.cc, TensorFlow 2.13 and later). Otherwise, an executor
is assumed to be triggered by the last event that ended before it in the same call (step id), or by
the call itself. A thread that polls a device does not show which work it waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.native.events import begun_by_call, flatten
from traceanalyzer.tables.arrays import (
    Codes,
    Flags,
    Ints,
    innermost,
    inside_ps,
    last_of,
    mask,
    matches,
    named_like,
    nested,
    pick,
    place_of,
)
from traceanalyzer.tables.device_events import DeviceEvents
from traceanalyzer.tables.host_ops import SYNCHRONIZES, HostOps
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.preparation import label_preparation
from traceanalyzer.tables.vocabulary import (
    FUNCTION_RUN,
    GET_NEXT,
    SESSION_RUN,
    Kind,
    Role,
    is_eager_executor_line,
)
from traceanalyzer.trace.columns import Plane

# Calls of the runtimes that wait for the device, synchronous copies among them.
_WAIT: Final = re.compile(rf"{SYNCHRONIZES.pattern}|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*")
# tensor_handle.cc, tensor_handle_data.cc: waits until another thread, mostly the eager executor's,
# has run the op that produces a value. A request for a resource may not wait.
_VALUE_WAIT: Final = re.compile(r"TensorHandle::(?!GetResourceHandle)\w+ WaitReady")
_PYTHON: Final = re.compile(r"(?:python|main)\S*", re.IGNORECASE)
_ON_THE_HOST: Final = ("cpu", "host_memory")
_HANDED_OVER: Final = "ThreadpoolListener::Record"
_TAKEN_UP: Final = "ThreadpoolListener::StartRegion"
# gpu_event_mgr.cc, device_event_mgr.cc: polls the device and runs callbacks that waited for it.
_EVENT_MANAGER: Final = re.compile(r"tf_(?:GPU|Device)_Event_Manager.*")
_MOST_NESTED: Final = 8  # nested calls to follow; ids might form a cycle

# In place of a thread: a link to the work that a device finished last.
ON_DEVICE: Final = -1


class ThreadState(IntEnum):
    """The activity of a thread, or the reason for its wait."""

    HOST_OP = 0  # an op that computes on the host
    INPUT = 1  # tf.data: a stage, or the op that waits for the next element
    LAUNCH = 2  # launching work on the device: calls, and the host side of ops placed on it
    RUNTIME = 3  # TensorFlow itself: executors, calls, passing work from thread to thread
    PROGRAM = 4  # the program between TensorFlow calls, mostly Python
    WAIT = 5  # waiting for the device
    CALL = 6  # waiting for other threads: for a function or, if the call is unknown, a value
    UNPLACED = 7  # an op of unknown placement: it computes on the host or on a device
    PREPARATION = 13  # building, optimizing, or compiling graphs (`Phase` uses the numbers before)


# Of these, the op or the pipeline is known that the thread ran.
_OF_OPS: Final = (
    ThreadState.HOST_OP,
    ThreadState.INPUT,
    ThreadState.LAUNCH,
    ThreadState.UNPLACED,
)


class Links(NamedTuple):
    """The triggers of thread activity, sorted by thread, then by time."""

    begin: Ints  #: first link of each thread, one longer
    at_ps: Ints  #: when the thread began
    from_thread: Codes  #: the thread that triggered it, or `ON_DEVICE`
    from_ps: Ints  #: when that thread did so


class CallBounds(NamedTuple):
    """The starts of calls and the ends of events in them, sorted by call, then by time."""

    id: Ints
    at_ps: Ints
    thread: Codes  #: its thread, or `ON_DEVICE`


class CallOps(NamedTuple):
    """The segments of ops that ran in calls, sorted by outermost call, then by end."""

    nested: Ints  #: calls that ops of other calls made, ascending
    outermost: Ints  #: the outermost call around each of those
    call: Ints  #: the outermost call of each segment
    end_ps: Ints
    segment: Ints  #: index of the segment


class Launches(NamedTuple):
    """The launches of device events, one per event."""

    thread: Codes  #: the thread that made it, `ON_DEVICE` where unknown
    start_ps: Ints
    end_ps: Ints  #: when it returned

    def take(self, rows: Ints) -> Launches:
        """Return the launches at `rows`."""
        return Launches._make(column[rows] for column in self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreadActivity:
    """The activity of one host's threads."""

    name: tuple[str, ...]  #: of each thread (XLine)
    is_program: Flags  #: which threads are the program's own threads
    step_thread: Codes  #: the thread that marked each marked step
    step_ps: Ints  #: when that step began, ascending
    begin: Ints  #: first segment of each thread, one longer
    start_ps: Ints  #: of each segment, ascending within a thread
    end_ps: Ints
    state: NDArray[np.uint8]  #: `ThreadState` of each segment
    row: Codes  #: row of the op table, -1 for none
    event: Codes  #: the event's name: an index into `event_names`
    event_names: tuple[str, ...]
    call: Ints  #: step id of the call it ran in, or that it waits for; 0 where unknown
    links: Links
    calls: CallBounds
    ops: CallOps
    #: The launch of each kernel, then of each transfer, in the order of their tables.
    launches: Launches
    early_ps: Ints  #: how far the clock of its device is behind


def prepared_ps(threads: ThreadActivity | None, start_ps: Ints, end_ps: Ints) -> Ints:
    """Return the time in each interval in which any thread built or compiled graphs."""
    if threads is None:
        return np.zeros(len(start_ps), np.int64)
    chosen = threads.state == ThreadState.PREPARATION
    return inside_ps(threads.start_ps[chosen], threads.end_ps[chosen], start_ps, end_ps)


def thread_activity(occurrences: OpOccurrences, ops: pd.DataFrame) -> ThreadActivity:
    """Build the thread activity of a host. `ops` are the host's rows of the op table."""
    host, device = occurrences.host, occurrences.device
    plane = host.plane
    events = _Events(host)
    state, row, call = _labels(events, occurrences.of_occurrence, ops)
    begin, start_ps, end_ps, event = flatten(nested(plane, host.order), state)
    calls = _calls(events, device, host.event[(host.call != 0) & (state[host.event] >= 0)])
    work = np.argsort(device.direction.present, kind="stable")  # kernels, then transfers
    launch = device.launch[work]
    marks = events.marks
    return ThreadActivity(
        name=plane.lines.name,
        is_program=_program_threads(events),
        step_thread=plane.line_of[marks].astype(np.int32),
        step_ps=plane.start_ps[marks],
        begin=begin,
        start_ps=start_ps,
        end_ps=end_ps,
        state=state[event].astype(np.uint8),
        row=row[event],
        event=plane.name_of[event].astype(np.int32),
        event_names=tuple(plane.names),
        call=call[event],
        links=_links(events, calls),
        calls=calls,
        ops=_call_ops(events, call[event], state[event], end_ps),
        launches=Launches(
            pick(plane.line_of, launch, ON_DEVICE),
            pick(plane.start_ps, launch, 0),
            pick(plane.end_ps, launch, 0),
        ),
        early_ps=device.early_ps[work],
    )


class _Events:
    """The events of a host that have a call's step id, and the events that mark steps."""

    def __init__(self, host: HostOps) -> None:
        plane, ids = host.plane, host.plane.integers("id")
        self.host, self.plane, self.id = host, plane, ids.values
        self.all_runs = plane.named(FUNCTION_RUN, SESSION_RUN)
        turns = np.flatnonzero(host.names.is_executor[plane.name_of])
        elements = named_like(plane, GET_NEXT.fullmatch)
        self.all_turns = turns
        self.turns = turns[ids.present[turns]]  # of executors
        self.runs = self.all_runs[ids.present[self.all_runs]]  # of functions and sessions
        self.elements = elements[ids.present[elements]]  # of a pipeline, passed to a call
        marks = np.flatnonzero(plane.integers("step_num").present)
        self.marks = marks[np.argsort(plane.start_ps[marks], kind="stable")]
        # A function that is not inlined runs under a separate step id (function_ops.cc).
        outer = host.call_of_event[self.runs]
        inside = (outer != 0) & (outer != self.id[self.runs])
        #: The calls that ops of other calls made, ascending, and those other calls.
        self.nested, first = np.unique(self.id[self.runs][inside], return_index=True)
        self._outer = outer[inside][first]

    def outermost(self, call: Ints) -> Ints:
        """Return the outermost call around each call, or the call itself."""
        for _ in range(_MOST_NESTED):
            slot = place_of(self.nested, call)
            call = np.where(slot >= 0, pick(self._outer, slot, 0), call)
        return call

    def parts(self, call: Ints) -> tuple[Ints, Ints]:
        """Pair each index into `call` with its call and each enclosing call."""
        entry = np.arange(len(call))
        entries, calls = [entry], [call]
        for _ in range(_MOST_NESTED):
            slot = place_of(self.nested, call)
            entry, call = entry[slot >= 0], self._outer[slot[slot >= 0]]
            entries.append(entry)
            calls.append(call)
        return np.concatenate(entries), np.concatenate(calls)


def _labels(events: _Events, row_of: Ints, ops: pd.DataFrame) -> tuple[NDArray[Any], Codes, Ints]:
    """Return the state that each event shows (-1 for none), its op's row, and its call."""
    host, plane, runs = events.host, events.plane, events.all_runs
    state = np.full(len(plane), -1, np.int8)
    is_call = host.names.kind[plane.name_of] == Kind.FUNCTION_CALL
    state[is_call] = ThreadState.RUNTIME
    state[events.all_turns] = ThreadState.RUNTIME
    around = innermost(plane, host.order, is_call)[runs]
    state[runs] = ThreadState.CALL
    state[around[around >= 0]] = ThreadState.CALL
    state[host.names.is_pipeline[plane.name_of]] = ThreadState.INPUT

    placement, role = (ops[c].astype(object).to_numpy() for c in ("placement", "role"))
    of_row = np.select(
        [
            role == Role.INPUT_PIPELINE,
            np.isin(role, (Role.RUNTIME, Role.TRANSFER)),
            placement == "unknown",
            np.isin(placement, _ON_THE_HOST),
        ],
        [ThreadState.INPUT, ThreadState.RUNTIME, ThreadState.UNPLACED, ThreadState.HOST_OP],
        ThreadState.LAUNCH,
    )
    state[host.event] = of_row[row_of]
    state[host.event[host.kind == Kind.COMPILED_OP]] = ThreadState.HOST_OP
    state[host.event[host.is_handed_over]] = ThreadState.RUNTIME
    state[host.event[host.in_pipeline]] = ThreadState.INPUT
    row = np.full(len(plane), -1, np.int32)
    row[host.event] = row_of
    state[host.launches] = ThreadState.LAUNCH
    row[host.launches] = pick(row_of, host.owner[host.launches])
    state[named_like(plane, _WAIT.fullmatch)] = ThreadState.WAIT
    of_values = named_like(plane, _VALUE_WAIT.fullmatch)
    state[of_values] = ThreadState.CALL

    call = host.call_of_event.copy()
    for identified in (events.turns, events.elements, runs):
        call[identified] = events.id[identified]
    call[around[around >= 0]] = events.id[runs[around >= 0]]
    call[of_values] = 0
    label_preparation(host, ThreadState.PREPARATION, state, row, call)
    return state, row, call


def _program_threads(events: _Events) -> Flags:
    """Return a mask of the program's own threads: those with Python, eager ops, calls, or steps."""
    host, lines = events.host, events.plane.lines.name
    calls = (host.names.kind == Kind.EAGER_OP) | (host.names.kind == Kind.FUNCTION_CALL)
    # A call within an executor's event is part of that graph.
    is_call = calls[events.plane.name_of] & (host.call_of_event == 0)
    is_call[events.marks] = True
    found = mask(map(_PYTHON.fullmatch, lines))
    found[events.plane.line_of[is_call]] = True
    return found & ~mask(map(is_eager_executor_line, lines))


def _calls(events: _Events, device: DeviceEvents, ops: Ints) -> CallBounds:
    """Return when each call began, and when and on which thread its ops and transfers ended.

    `ops` are the events of ops that ran in calls.
    """
    host, plane, runs = events.host, events.plane, events.runs
    transfers = _waking_transfers(events, device)
    on_host = np.concatenate([ops, events.elements, runs])
    call = np.concatenate(
        [
            host.call_of_event[ops],
            events.id[on_host[len(ops) :]],
            host.call_of_event[device.launch[transfers]],
        ]
    )
    begun_or_ended = plane.end_ps[ops], plane.end_ps[events.elements], plane.start_ps[runs]
    at_ps = np.concatenate([*begun_or_ended, device.end_ps[transfers]])
    thread = np.append(plane.line_of[on_host], np.full(len(transfers), ON_DEVICE, np.int32))
    entry, part_of = events.parts(call)
    order = np.lexsort((at_ps[entry], part_of))
    entry = entry[order]
    return CallBounds(part_of[order], at_ps[entry], thread[entry])


def _call_ops(events: _Events, call: Ints, state: NDArray[Any], end_ps: Ints) -> CallOps:
    """Find the segments of ops that ran in calls; `call`, `state`, and `end_ps` are segments'."""
    nested = events.nested
    segment = np.flatnonzero((call != 0) & np.isin(state, _OF_OPS))
    of = call[segment]
    if len(nested):
        of = events.outermost(of)
    order = np.lexsort((end_ps[segment], of))
    segment = segment[order]
    return CallOps(nested, events.outermost(nested), of[order], end_ps[segment], segment)


def _waking_transfers(events: _Events, device: DeviceEvents) -> Ints:
    """Return the transfers between host and device that other ops of a call waited for.

    An executor continues when a transfer is done (copy_tensor.cc). After the last executor event
    of a call, no op waits for a transfer to a device.
    """
    plane, launch = events.plane, device.launch
    from_device = matches(device.direction, {"d2h", "p2p"}.__contains__)
    chosen = (from_device | matches(device.direction, "h2d".__eq__)) & (launch >= 0)
    transfers = np.flatnonzero(chosen & (pick(events.host.call_of_event, launch, 0) != 0))
    turns = events.turns[np.argsort(plane.start_ps[events.turns], kind="stable")]
    last = last_of(events.id[turns], turns, events.host.call_of_event[launch[transfers]])
    followed = (last >= 0) & (plane.start_ps[last] >= device.end_ps[transfers])
    waking: Ints = transfers[from_device[transfers] | followed]
    return waking


def _links(events: _Events, calls: CallBounds) -> Links:
    plane, turns = events.plane, events.all_turns
    giver, taker = _handed_over(plane)
    is_manager = mask(map(_EVENT_MANAGER.fullmatch, plane.lines.name))
    from_thread = plane.line_of[giver]
    from_thread = np.where(is_manager[from_thread], np.int32(ON_DEVICE), from_thread)

    turns = turns[np.lexsort((plane.start_ps[turns], plane.line_of[turns]))]
    source = begun_by_call(
        (plane.line_of[turns], plane.start_ps[turns], plane.end_ps[turns], events.id[turns]),
        (plane.line_of[taker], plane.start_ps[taker]),
        (calls.id, calls.at_ps),
    )
    begun = np.append(taker, turns[source >= 0])
    source = source[source >= 0]
    thread, at_ps = plane.line_of[begun], plane.start_ps[begun]
    order = np.lexsort((at_ps, thread))
    return Links(
        begin=np.searchsorted(thread[order], np.arange(len(plane.lines) + 1)),
        at_ps=at_ps[order],
        from_thread=np.append(from_thread, calls.thread[source])[order],
        from_ps=np.append(plane.start_ps[giver], calls.at_ps[source])[order],
    )


def _handed_over(plane: Plane) -> tuple[Ints, Ints]:
    """Return the events that scheduled work in a thread pool, and the events that ran that work."""
    given, taken = plane.named(_HANDED_OVER), plane.named(_TAKEN_UP)
    keys, wanted = plane.integers("_p", given), plane.integers("_c", taken)
    given, taken = given[keys.present], taken[wanted.present]
    # If several events scheduled the same work, use the first.
    key = keys.values[keys.present][::-1]
    giver = last_of(key, given[::-1], wanted.values[wanted.present])
    fits = (giver >= 0) & (plane.start_ps[giver] <= plane.start_ps[taken])
    giver, taken = giver[fits], taken[fits]
    order = np.lexsort((plane.start_ps[taken], plane.line_of[taken]))
    return giver[order], taken[order]
