"""What each host thread did when.

A thread's events nest. Its segments do not: at each moment there is one, that of the innermost
event which says what the thread was doing. See `thread_links` for what made it begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import flatten
from traceanalyzer.tables.arrays import innermost, mask, named_like, nested, pick
from traceanalyzer.tables.device_events import SYNCHRONIZES
from traceanalyzer.tables.thread_links import (
    ON_DEVICE,
    Calls,
    Links,
    calls_of_host,
    element_events,
    links_of_threads,
)
from traceanalyzer.tables.vocabulary import (
    FUNCTION_RUN,
    SESSION_RUN,
    Kind,
    Role,
    is_eager_executor_line,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.arrays import Codes, Flags, Ints
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.trace.columns import Plane

# The runtimes' own calls that return when the device has got so far, copies that are not
# asynchronous among them.
_WAIT: Final = re.compile(rf"{SYNCHRONIZES.pattern}|(?:cu|cuda|hip)Memcpy(?!\w*Async)\w*")
# tensor_handle.cc, tensor_handle_data.cc: waits until another thread, mostly the one that eager ops
# were handed over to, has run the op that makes a value; a device may not have computed it yet. A
# request for a resource has this name even where it waits for nothing.
_VALUE_WAIT: Final = re.compile(r"TensorHandle::(?!GetResourceHandle)\w+ WaitReady")
_PYTHON: Final = re.compile(r"(?:python|main)\S*", re.IGNORECASE)
_ON_THE_HOST: Final = ("cpu", "host_memory")


class ThreadState(IntEnum):
    """What a thread was doing; the first few are also what a device may have waited for."""

    HOST_OP = 0
    """An op that computes on the host."""
    INPUT = 1
    """tf.data: a stage, or the op that waits for the next element."""
    LAUNCH = 2
    """Launching work on the device: launch calls, and the host side of ops placed on it."""
    RUNTIME = 3
    """TensorFlow itself: executors, calls, handing work from thread to thread."""
    PROGRAM = 4
    """The program between TensorFlow's calls, mostly Python."""
    WAIT = 5
    """Waiting for the device."""
    CALL = 6
    """Waiting for what other threads run: a function, or, where no call is known, some value."""
    UNPLACED = 7
    """An op of unknown placement: it computes here, or on a device that it launches to."""


class Launches(NamedTuple):
    """The launch of each of some device events."""

    thread: Codes  #: The thread that made it, `ON_DEVICE` where unknown
    start_ps: Ints  #: When it began
    end_ps: Ints  #: When it returned
    is_proved: Flags  #: Whether no other call can have been it

    def take(self, rows: Ints) -> Launches:
        """Return those at `rows`."""
        return Launches._make(column[rows] for column in self)


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreadActivity:
    """What the threads of one host did."""

    name: tuple[str, ...]  #: Name of each thread (XLine)
    is_program: Flags  #: Which threads are the program's own threads
    step_thread: Codes  #: The thread that marked each marked step
    step_ps: Ints  #: When that step began, rising
    begin: Ints  #: First segment of each thread, one longer
    start_ps: Ints  #: Start of each segment, rising within a thread
    end_ps: Ints  #: End of each segment
    state: NDArray[np.uint8]  #: `ThreadState` of each segment
    row: Codes  #: Row of the op table, -1 for none
    event: Codes  #: The event's name: an index into `event_names`
    event_names: tuple[str, ...]
    call: Ints  #: Step id of the call it ran in, or that it waits for; 0 where unknown
    links: Links  #: What made threads begin
    calls: Calls  #: What happened in calls
    #: The launch of what ran on the devices, kernels and then transfers, each as in its table.
    launches: Launches
    early_ps: Ints  #: By how much the clock of its device is early


def thread_activity(occurrences: OpOccurrences, ops: pd.DataFrame) -> ThreadActivity:
    """Lay out what the threads of a host did; `ops` are its rows of the op table."""
    host, device = occurrences.host, occurrences.device
    plane = host.plane
    state, row, call = _labels(host, occurrences.of_occurrence, ops)
    begin, start_ps, end_ps, event = flatten(nested(plane, host.order), state)
    calls = calls_of_host(host, device, state)
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
        links=links_of_threads(host, calls),
        calls=calls,
        launches=Launches(
            pick(plane.line_of, launch, ON_DEVICE),
            pick(plane.start_ps, launch, 0),
            pick(plane.end_ps, launch, 0),
            device.sure_launch[work] >= 0,
        ),
        early_ps=device.early_ps[work],
    )


def _labels(host: HostOps, row_of: Ints, ops: pd.DataFrame) -> tuple[NDArray[np.int8], Codes, Ints]:
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
    ids = plane.integers("id")
    turns = np.flatnonzero(names.is_executor[name_of] & ids.present)
    elements = element_events(plane)
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
    return np.where(role == Role.INPUT_PIPELINE, ThreadState.INPUT, state).astype(np.int8)


def _program_threads(host: HostOps) -> Flags:
    """Tell which threads are the program's: Python's, those with eager ops, calls or steps."""
    plane = host.plane
    calls = (host.names.kind == Kind.EAGER_OP) | (host.names.kind == Kind.FUNCTION_CALL)
    # A call within an executor's turn is that graph's.
    is_call = calls[plane.name_of] & (host.call_of_event == 0)
    is_call[_step_marks(plane)] = True
    found = mask(_PYTHON.fullmatch(name) is not None for name in plane.lines.name)
    found[plane.line_of[is_call]] = True
    return found & ~mask(map(is_eager_executor_line, plane.lines.name))


def _step_marks(plane: Plane) -> Ints:
    """Return the events that mark steps, by start."""
    if not plane.has_stat("step_num"):
        return np.empty(0, np.int64)
    marks = np.flatnonzero(plane.integers("step_num").present)
    by_time: Ints = marks[np.argsort(plane.start_ps[marks], kind="stable")]
    return by_time
