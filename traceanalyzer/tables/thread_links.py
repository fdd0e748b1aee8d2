"""What made host threads begin: the basis for why a device was idle.

A link leads from a thread to what made it begin. There are two kinds. TensorFlow's thread pools
record who handed work over, and who took it (`ThreadpoolListener`,
tsl/profiler/backends/cpu/threadpool_listener.cc, TensorFlow 2.13 and later): that is proof.
Elsewhere a turn of an executor is assumed to follow what ended last before it in the same call
(step id): a call's executors begin only because of each other, their caller, and transfers that
arrive; but of several the last need not have been the cause. Where nothing ended before, the call
itself is. A thread that polls a device does not show which work it waits for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import Turns, begun_by_call
from traceanalyzer.tables.arrays import last_of, mask, matches, named_like, place_of
from traceanalyzer.tables.vocabulary import FUNCTION_RUN, GET_NEXT, SESSION_RUN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.arrays import Codes, Flags, Ints
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane

_HANDED_OVER: Final = "ThreadpoolListener::Record"
_TAKEN_UP: Final = "ThreadpoolListener::StartRegion"
# gpu_event_mgr.cc, device_event_mgr.cc: polls the device and calls back what waited for it.
_EVENT_MANAGER: Final = re.compile(r"tf_(?:GPU|Device)_Event_Manager.*")
_MOST_NESTED: Final = 8  # functions within functions that are followed; ids might form a circle

# In place of a thread: the link leads to what a device finished last.
ON_DEVICE: Final = -1


class Links(NamedTuple):
    """What made threads begin; one entry a link, by thread and then by time."""

    begin: Ints  #: First link of each thread, one longer
    at_ps: Ints  #: When the thread began
    from_thread: Codes  #: The thread that made it begin, or `ON_DEVICE`
    from_ps: Ints  #: When that thread did so
    #: Whether it is recorded, or nothing else can have been it; otherwise it is what ended last.
    is_proved: Flags


class Calls(NamedTuple):
    """What ended in calls, and where these began; by call, and then by time."""

    id: Ints  #: The call
    at_ps: Ints  #: When
    thread: Codes  #: On which thread, or `ON_DEVICE`
    begins: Flags  #: Whether it is the call itself, which begins then
    ends: Flags  #: Whether nothing that is recorded of the call went on after it


def calls_of_host(host: HostOps, device: DeviceEvents, state: NDArray[np.int8]) -> Calls:
    """Return when ops and transfers ended in each call, and where; and when the call began.

    `state` is the `ThreadState` of each event of the plane, -1 for none.
    """
    plane = host.plane
    ids = plane.integers("id")
    ops = host.event[(host.call != 0) & (state[host.event] >= 0)]
    runs = plane.named(FUNCTION_RUN, SESSION_RUN)
    runs = runs[ids.present[runs]]
    elements = element_events(plane)
    transfers = _waking_transfers(host, device)
    launch = device.sure_launch[transfers]
    on_host = np.concatenate([ops, runs, elements])
    is_run = np.zeros(len(on_host), np.bool_)
    is_run[len(ops) : len(ops) + len(runs)] = True
    is_op = np.arange(len(on_host)) < len(ops)
    host_call = np.where(is_op, host.call_of_event[on_host], ids.values[on_host])
    host_ps = np.where(is_run, plane.start_ps[on_host], plane.end_ps[on_host])

    call = np.concatenate([host_call, host.call_of_event[launch]])
    at_ps = np.concatenate([host_ps, device.end_ps[transfers]])
    thread = np.concatenate([plane.line_of[on_host], np.full(len(transfers), ON_DEVICE, np.int32)])
    begins = np.concatenate([is_run, np.zeros(len(transfers), np.bool_)])
    nested = _nested(host, runs)
    ends = _outlast_turns(host, nested, call, at_ps, thread) & ~begins
    entry, part_of = _parts(call, nested)
    is_own = np.arange(len(entry)) < len(call)
    order = np.lexsort((at_ps[entry], part_of))
    entry, part_of, is_own = entry[order], part_of[order], is_own[order]
    is_last = np.append(part_of[1:] != part_of[:-1], np.True_)[: len(part_of)]
    return Calls(
        part_of, at_ps[entry], thread[entry], begins[entry] & is_own, ends[entry] & is_own & is_last
    )


def element_events(plane: Plane) -> Ints:
    """Return the events that hand an element of a pipeline to a call, and name the call."""
    found = named_like(plane, GET_NEXT.fullmatch)
    return found[plane.integers("id").present[found]]


def _waking_transfers(host: HostOps, device: DeviceEvents) -> Ints:
    """Return the transfers between host and device that ops of a call waited for.

    The op that receives one is done, and its executor goes on, when the transfer is
    (copy_tensor.cc). After the last turn of its call nothing waited for a transfer to a device.
    """
    plane, launch = host.plane, device.sure_launch
    from_device = matches(device.direction, lambda direction: direction in {"d2h", "p2p"})
    to_device = matches(device.direction, lambda direction: direction == "h2d")
    transfers = np.flatnonzero((from_device | to_device) & (launch >= 0))
    transfers = transfers[host.call_of_event[launch[transfers]] != 0]
    ids = plane.integers("id")
    turns = np.flatnonzero(host.names.is_executor[plane.name_of] & ids.present)
    turns = turns[np.argsort(plane.start_ps[turns], kind="stable")]
    last = last_of(ids.values[turns], turns, host.call_of_event[launch[transfers]])
    followed = (last >= 0) & (plane.start_ps[last] >= device.end_ps[transfers])
    waking: Ints = transfers[from_device[transfers] | followed]
    return waking


def _outlast_turns(host: HostOps, nested: _Nested, call: Ints, at_ps: Ints, thread: Codes) -> Flags:
    """Tell what ended in the last turn that an executor took in its call, or after that.

    Ops without an event may have run in that turn. In a call without turns this is unknown.
    """
    plane = host.plane
    ids = plane.integers("id")
    turns = np.flatnonzero(host.names.is_executor[plane.name_of] & ids.present)
    entry, part_of = _parts(ids.values[turns], nested)
    order = np.argsort(plane.end_ps[turns[entry]], kind="stable")
    last = last_of(part_of[order], turns[entry][order], call)
    in_it = (plane.line_of[last] == thread) & (plane.start_ps[last] <= at_ps)
    outlasting: Flags = (last >= 0) & (in_it | (plane.end_ps[last] <= at_ps))
    return outlasting


class _Nested(NamedTuple):
    """The calls that ops of other calls made, rising, and the others."""

    call: Ints
    outer: Ints


def _nested(host: HostOps, runs: Ints) -> _Nested:
    """Return which calls are part of which.

    A function that is not inlined runs under a step id of its own
    (tensorflow/core/kernels/function_ops.cc).
    """
    ids = host.plane.integers("id").values[runs]
    outer = host.call_of_event[runs]
    is_nested = (outer != 0) & (outer != ids)
    inner, first = np.unique(ids[is_nested], return_index=True)
    return _Nested(inner, outer[is_nested][first])


def _parts(call: Ints, nested: _Nested) -> tuple[Ints, Ints]:
    """Return what is part of which call: all of its own first, then what is nested in it.

    Returns:
        Places in `call`, and the call that each is part of.
    """
    entry = np.arange(len(call))
    entries, calls = [entry], [call]
    for _ in range(_MOST_NESTED):
        slot = place_of(nested.call, call)
        inside = slot >= 0
        if not inside.any():
            break
        entry, call = entry[inside], nested.outer[slot[inside]]
        entries.append(entry)
        calls.append(call)
    return np.concatenate(entries), np.concatenate(calls)


def links_of_threads(host: HostOps, calls: Calls) -> Links:
    """Return what made the threads of a host begin."""
    plane = host.plane
    giver, taker = _handed_over(plane)
    manager = mask(_EVENT_MANAGER.fullmatch(name) is not None for name in plane.lines.name)
    from_thread = plane.line_of[giver]
    from_thread = np.where(manager[from_thread], np.int32(ON_DEVICE), from_thread)

    turns = np.flatnonzero(host.names.is_executor[plane.name_of])
    turns = turns[np.lexsort((plane.start_ps[turns], plane.line_of[turns]))]
    source = begun_by_call(
        Turns(
            plane.line_of[turns],
            plane.start_ps[turns],
            plane.end_ps[turns],
            plane.integers("id").values[turns],
        ),
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
    """Pair the events that handed work to a pool's thread with those that took it up."""
    given, taken = plane.named(_HANDED_OVER), plane.named(_TAKEN_UP)
    if not (len(given) and len(taken)):
        return given[:0], taken[:0]
    keys, wanted = plane.integers("_p"), plane.integers("_c")
    given, taken = given[keys.present[given]], taken[wanted.present[taken]]
    given = given[np.argsort(keys.values[given], kind="stable")]
    slot = np.searchsorted(keys.values[given], wanted.values[taken])
    found = slot < len(given)
    giver, taken = given[slot[found]], taken[found]
    fits = keys.values[giver] == wanted.values[taken]
    fits &= plane.start_ps[giver] <= plane.start_ps[taken]
    giver, taken = giver[fits], taken[fits]
    order = np.lexsort((plane.start_ps[taken], plane.line_of[taken]))
    return giver[order], taken[order]
