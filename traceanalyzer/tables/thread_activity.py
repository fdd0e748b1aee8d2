"""The activity of each host thread and what triggered it: used to explain a device's idle time.

A thread's events nest. Its segments do not: each moment belongs to one segment, that of the
innermost event that shows what the thread was doing.

A link leads from a thread's activity to its trigger. There are two kinds. TensorFlow's thread pools
record which thread scheduled work and which thread ran it (`ThreadpoolListener`,
tsl/profiler/backends/cpu/threadpool_listener.cc, TensorFlow 2.13 and later): that is proof.
Otherwise, an executor is assumed to be triggered by the last event that ended before it in the same
call (step id): only other executors of the call, its caller and arriving transfers can trigger it,
though the last one need not be the cause. If no event ended before, the call itself is the
trigger. A thread that polls a device does not show which work it waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import Turns, begun_by_call, flatten
from traceanalyzer.tables.arrays import (
    innermost,
    last_of,
    mask,
    matches,
    named_like,
    nested,
    pick,
    place_of,
)
from traceanalyzer.tables.device_events import SYNCHRONIZES
from traceanalyzer.tables.vocabulary import (
    FUNCTION_RUN,
    GET_NEXT,
    SESSION_RUN,
    Kind,
    Role,
    is_eager_executor_line,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.arrays import Codes, Flags, Ints
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.ops import OpOccurrences
    from traceanalyzer.trace.columns import Plane

# Calls of the runtimes that return when the device has reached that point, including synchronous
# copies.
_WAIT: Final = re.compile(rf"{SYNCHRONIZES.pattern}|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*")
# tensor_handle.cc, tensor_handle_data.cc: waits until another thread, mostly the eager executor's,
# has run the op that produces a value; a device may not have computed it yet. A request for a
# resource has this name even if it does not wait.
_VALUE_WAIT: Final = re.compile(r"TensorHandle::(?!GetResourceHandle)\w+ WaitReady")
_PYTHON: Final = re.compile(r"(?:python|main)\S*", re.IGNORECASE)
_ON_THE_HOST: Final = ("cpu", "host_memory")
_HANDED_OVER: Final = "ThreadpoolListener::Record"
_TAKEN_UP: Final = "ThreadpoolListener::StartRegion"
# gpu_event_mgr.cc, device_event_mgr.cc: polls the device and runs callbacks that waited for it.
_EVENT_MANAGER: Final = re.compile(r"tf_(?:GPU|Device)_Event_Manager.*")
_MOST_NESTED: Final = 8  # nested calls to follow; ids might form a cycle

# In place of a thread: the link leads to what a device finished last.
ON_DEVICE: Final = -1


class ThreadState(IntEnum):
    """The state of a thread; a device can have waited for the first few states."""

    HOST_OP = 0  # an op that computes on the host
    INPUT = 1  # tf.data: a stage, or the op that waits for the next element
    LAUNCH = 2  # launching work on the device: calls, and the host side of ops placed on it
    RUNTIME = 3  # TensorFlow itself: executors, calls, passing work from thread to thread
    PROGRAM = 4  # the program between TensorFlow calls, mostly Python
    WAIT = 5  # waiting for the device
    CALL = 6  # waiting for other threads: for a function or, with no known call, for some value
    UNPLACED = 7  # an op of unknown placement: it computes here or on a device it launches to


class Links(NamedTuple):
    """The triggers of thread activity; one entry per link, by thread, then by time."""

    begin: Ints  #: first link of each thread, one longer
    at_ps: Ints  #: when the thread began
    from_thread: Codes  #: the thread that triggered it, or `ON_DEVICE`
    from_ps: Ints  #: when that thread did so
    #: Whether the trigger is recorded or the only candidate; otherwise the last to end is assumed.
    is_proved: Flags


class Calls(NamedTuple):
    """The ends of events in calls, and the beginnings of calls; by call, then by time."""

    id: Ints
    at_ps: Ints
    thread: Codes  #: on which thread, or `ON_DEVICE`
    begins: Flags  #: whether it is the beginning of the call itself
    ends: Flags  #: whether no recorded event of the call continued after it


class Launches(NamedTuple):
    """The launch of each of some device events."""

    thread: Codes  #: the thread that made it, `ON_DEVICE` where unknown
    start_ps: Ints  #: when it began
    end_ps: Ints  #: when it returned
    is_proved: Flags  #: whether no other call can be the launch

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
    start_ps: Ints  #: start of each segment, ascending within a thread
    end_ps: Ints  #: end of each segment
    state: NDArray[np.uint8]  #: `ThreadState` of each segment
    row: Codes  #: row of the op table, -1 for none
    event: Codes  #: the event's name: an index into `event_names`
    event_names: tuple[str, ...]
    call: Ints  #: step id of the call it ran in, or that it waits for; 0 where unknown
    links: Links
    calls: Calls
    #: The launch of each kernel, then of each transfer, in the order of their tables.
    launches: Launches
    early_ps: Ints  #: by how much the clock of its device is early


def thread_activity(occurrences: OpOccurrences, ops: pd.DataFrame) -> ThreadActivity:
    """Build the thread activity of a host; `ops` are its rows of the op table."""
    host, device = occurrences.host, occurrences.device
    plane = host.plane
    of_calls = _OfCalls(host)
    state, row, call = _labels(host, of_calls, occurrences.of_occurrence, ops)
    begin, start_ps, end_ps, event = flatten(nested(plane, host.order), state)
    calls = _calls_of_host(host, device, of_calls, state)
    marks = _step_marks(plane)
    work = np.argsort(device.direction.present, kind="stable")  # kernels, then transfers
    launch = device.launch[work]
    return ThreadActivity(
        name=plane.lines.name,
        is_program=_program_threads(host),
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
        links=_links_of_threads(host, calls),
        calls=calls,
        launches=Launches(
            pick(plane.line_of, launch, ON_DEVICE),
            pick(plane.start_ps, launch, 0),
            pick(plane.end_ps, launch, 0),
            device.sure_launch[work] >= 0,
        ),
        early_ps=device.early_ps[work],
    )


class _OfCalls:
    """The events of a host that have a call's step id."""

    def __init__(self, host: HostOps) -> None:
        plane, ids = host.plane, host.plane.integers("id")
        turns = np.flatnonzero(host.names.is_executor[plane.name_of])
        runs, elements = (
            plane.named(FUNCTION_RUN, SESSION_RUN),
            named_like(plane, GET_NEXT.fullmatch),
        )
        self.id = ids.values
        self.turns = turns[ids.present[turns]]  # of executors
        self.runs = runs[ids.present[runs]]  # of functions and sessions
        self.elements = elements[ids.present[elements]]  # of a pipeline, passed to a call


def _labels(
    host: HostOps, of_calls: _OfCalls, row_of: Ints, ops: pd.DataFrame
) -> tuple[NDArray[np.int8], Codes, Ints]:
    """Return the state that each event of the plane shows (-1: none), its row, and its call."""
    plane, names = host.plane, host.names
    name_of = plane.name_of
    state = np.full(len(plane), -1, np.int8)
    state[names.is_executor[name_of]] = ThreadState.RUNTIME
    is_call = names.kind[name_of] == Kind.FUNCTION_CALL
    state[is_call] = ThreadState.RUNTIME
    runs = plane.named(FUNCTION_RUN, SESSION_RUN)
    around = innermost(plane, host.order, is_call)[runs]
    waiting = np.concatenate([runs, around[around >= 0]])
    state[waiting] = ThreadState.CALL
    state[names.is_pipeline[name_of]] = ThreadState.INPUT

    state[host.event] = _state_of_rows(ops)[row_of]
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
    for events in (of_calls.turns, of_calls.elements, runs):
        call[events] = of_calls.id[events]
    call[around[around >= 0]] = of_calls.id[runs[around >= 0]]
    call[of_values] = 0
    return state, row, call


def _state_of_rows(ops: pd.DataFrame) -> NDArray[np.int8]:
    placement, role = (ops[c].astype(object).to_numpy() for c in ("placement", "role"))
    state = np.where(np.isin(placement, _ON_THE_HOST), ThreadState.HOST_OP, ThreadState.LAUNCH)
    state = np.where(placement == "unknown", ThreadState.UNPLACED, state)
    state = np.where(np.isin(role, (Role.RUNTIME, Role.TRANSFER)), ThreadState.RUNTIME, state)
    return np.where(role == Role.INPUT_PIPELINE, ThreadState.INPUT, state).astype(np.int8)


def _program_threads(host: HostOps) -> Flags:
    """Return which threads belong to the program: those of Python, eager ops, calls or steps."""
    plane = host.plane
    calls = (host.names.kind == Kind.EAGER_OP) | (host.names.kind == Kind.FUNCTION_CALL)
    # A call within an executor's event is part of that graph.
    is_call = calls[plane.name_of] & (host.call_of_event == 0)
    is_call[_step_marks(plane)] = True
    found = mask(map(_PYTHON.fullmatch, plane.lines.name))
    found[plane.line_of[is_call]] = True
    return found & ~mask(map(is_eager_executor_line, plane.lines.name))


def _step_marks(plane: Plane) -> Ints:
    """Return the events that mark steps, by start."""
    marks = np.flatnonzero(plane.integers("step_num").present)
    by_time: Ints = marks[np.argsort(plane.start_ps[marks], kind="stable")]
    return by_time


class _Nested(NamedTuple):
    """The calls that ops of other calls made, ascending, and those other calls."""

    call: Ints
    outer: Ints


def _calls_of_host(
    host: HostOps, device: DeviceEvents, of_calls: _OfCalls, state: NDArray[np.int8]
) -> Calls:
    """Return when and where ops and transfers ended in each call, and when the call began.

    `state` is the `ThreadState` of each event of the plane, -1 for none.
    """
    plane, runs = host.plane, of_calls.runs
    # A function that is not inlined runs under a separate step id (function_ops.cc).
    outer = host.call_of_event[runs]
    is_nested = (outer != 0) & (outer != of_calls.id[runs])
    inner, first = np.unique(of_calls.id[runs][is_nested], return_index=True)
    nested_calls = _Nested(inner, outer[is_nested][first])

    ops = host.event[(host.call != 0) & (state[host.event] >= 0)]
    transfers = _waking_transfers(host, device, of_calls)
    launch = device.sure_launch[transfers]
    named = np.concatenate([of_calls.elements, runs])
    on_host = np.concatenate([ops, named])
    call = np.concatenate([host.call_of_event[ops], of_calls.id[named], host.call_of_event[launch]])
    begins = np.arange(len(call)) >= len(ops) + len(of_calls.elements)
    begins &= np.arange(len(call)) < len(on_host)
    is_run = begins[: len(on_host)]
    host_ps = np.where(is_run, plane.start_ps[on_host], plane.end_ps[on_host])
    at_ps = np.concatenate([host_ps, device.end_ps[transfers]])
    thread = np.concatenate([plane.line_of[on_host], np.full(len(transfers), ON_DEVICE, np.int32)])
    ends = _outlast_turns(plane, of_calls, nested_calls, (call, at_ps, thread)) & ~begins
    entry, part_of = _parts(call, nested_calls)
    is_own = np.arange(len(entry)) < len(call)
    order = np.lexsort((at_ps[entry], part_of))
    entry, part_of, is_own = entry[order], part_of[order], is_own[order]
    is_last = np.append(part_of[1:] != part_of[:-1], np.True_)[: len(part_of)]
    return Calls(
        part_of, at_ps[entry], thread[entry], begins[entry] & is_own, ends[entry] & is_own & is_last
    )


def _waking_transfers(host: HostOps, device: DeviceEvents, of_calls: _OfCalls) -> Ints:
    """Return the transfers between host and device that ops of a call waited for.

    The receiving op finishes, and its executor continues, when the transfer is done
    (copy_tensor.cc). After a call's last executor event, no op waits for a transfer to a device.
    """
    plane, launch = host.plane, device.sure_launch
    from_device = matches(device.direction, {"d2h", "p2p"}.__contains__)
    to_device = matches(device.direction, "h2d".__eq__)
    transfers = np.flatnonzero((from_device | to_device) & (launch >= 0))
    transfers = transfers[host.call_of_event[launch[transfers]] != 0]
    turns = of_calls.turns[np.argsort(plane.start_ps[of_calls.turns], kind="stable")]
    last = last_of(of_calls.id[turns], turns, host.call_of_event[launch[transfers]])
    followed = (last >= 0) & (plane.start_ps[last] >= device.end_ps[transfers])
    waking: Ints = transfers[from_device[transfers] | followed]
    return waking


def _outlast_turns(
    plane: Plane, of_calls: _OfCalls, nested_calls: _Nested, ended: tuple[Ints, Ints, Codes]
) -> Flags:
    """Return which events ended during or after the last executor event of their call.

    Ops without an event can have run then. In a call without executor events, this is unknown.
    """
    call, at_ps, thread = ended
    entry, part_of = _parts(of_calls.id[of_calls.turns], nested_calls)
    turns = of_calls.turns[entry]
    order = np.argsort(plane.end_ps[turns], kind="stable")
    last = last_of(part_of[order], turns[order], call)
    in_it = (plane.line_of[last] == thread) & (plane.start_ps[last] <= at_ps)
    outlasting: Flags = (last >= 0) & (in_it | (plane.end_ps[last] <= at_ps))
    return outlasting


def _parts(call: Ints, nested_calls: _Nested) -> tuple[Ints, Ints]:
    """Return indices into `call` with those of nested calls, and the call each is part of."""
    entry = np.arange(len(call))
    entries, calls = [entry], [call]
    for _ in range(_MOST_NESTED):
        slot = place_of(nested_calls.call, call)
        inside = slot >= 0
        if not inside.any():
            break
        entry, call = entry[inside], nested_calls.outer[slot[inside]]
        entries.append(entry)
        calls.append(call)
    return np.concatenate(entries), np.concatenate(calls)


def _links_of_threads(host: HostOps, calls: Calls) -> Links:
    """Return what triggered the activity of a host's threads."""
    plane = host.plane
    giver, taker = _handed_over(plane)
    is_manager = mask(map(_EVENT_MANAGER.fullmatch, plane.lines.name))
    from_thread = plane.line_of[giver]
    from_thread = np.where(is_manager[from_thread], np.int32(ON_DEVICE), from_thread)

    turns = np.flatnonzero(host.names.is_executor[plane.name_of])
    turns = turns[np.lexsort((plane.start_ps[turns], plane.line_of[turns]))]
    ids = plane.integers("id").values[turns]
    source = begun_by_call(
        Turns(plane.line_of[turns], plane.start_ps[turns], plane.end_ps[turns], ids),
        (plane.line_of[taker], plane.start_ps[taker]),
        (calls.id, calls.at_ps),
    )
    begun = np.concatenate([taker, turns[source >= 0]])
    source = source[source >= 0]
    thread, at_ps = plane.line_of[begun], plane.start_ps[begun]
    order = np.lexsort((at_ps, thread))
    return Links(
        begin=np.searchsorted(thread[order], np.arange(len(plane.lines) + 1)),
        at_ps=at_ps[order],
        from_thread=np.concatenate([from_thread, calls.thread[source]])[order],
        from_ps=np.concatenate([plane.start_ps[giver], calls.at_ps[source]])[order],
        is_proved=np.concatenate([from_thread != ON_DEVICE, calls.begins[source]])[order],
    )


def _handed_over(plane: Plane) -> tuple[Ints, Ints]:
    """Pair the events that scheduled work in a thread pool with the events that ran it."""
    given, taken = plane.named(_HANDED_OVER), plane.named(_TAKEN_UP)
    keys, wanted = plane.integers("_p", given), plane.integers("_c", taken)
    given, taken = given[keys.present], taken[wanted.present]
    key = keys.values[keys.present]
    # If several events scheduled the same work, use the first.
    giver = last_of(key[::-1], given[::-1], wanted.values[wanted.present])
    fits = (giver >= 0) & (plane.start_ps[giver] <= plane.start_ps[taken])
    giver, taken = giver[fits], taken[fits]
    order = np.lexsort((plane.start_ps[taken], plane.line_of[taken]))
    return giver[order], taken[order]
