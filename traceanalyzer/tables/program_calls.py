"""What the threads of a program ran, one after the other: functions, sessions, and eager ops."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.arrays import (
    by_line,
    is_outermost,
    mask,
    matches,
    named_like,
    pick,
    place_of,
)
from traceanalyzer.tables.vocabulary import EAGER, SESSION_RUN, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane

# polymorphic_function/function_type_utils.py and atomic_function.py: a function that is called
# forwards under a tape has a name of its own, and so has its gradient.
_DEFINITION: Final = re.compile(
    r"\s*(?:EagerLocalExecute: )?__(inference|forward|backward)_(?:__inference_)?(.*?)(?:_\d+)?"
)
# pjit.cc, of JAX: a call of the jitted function.
_JITTED: Final = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
# Of the call of a tf.function in Python (polymorphic_function.py, __call__), whatever its name.
_CALL_STAT: Final = "tf_function_call"
_TRACED: Final = "traced"
# Constants that TensorFlow makes of Python values; it keeps them, so later calls lack them.
_CONSTANT: Final = "_EagerConst"
_ASYNC_OP: Final = "ExecutorState::ProcessAsync::Start"  # its stat `kernel_type` is the op's type
_ENQUEUES: Final = "QueueEnqueue"  # also `QueueEnqueueMany`; a version may follow
# Around tracing (polymorphic_function/tracing_compilation.py).
_TRACING: Final = "tf.function-graph_building"
_KERNEL_RUN: Final = "EagerKernelExecute"  # eager/execute.cc: a function's kernel runs


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls:
    """What threads outside of TensorFlow's own pools ran; what runs within is left out.

    Arrays have one entry a call, line by line, by start. A call is that of a function, or of a
    single op that the program runs eagerly.
    """

    #: Index of its line, int32.
    line: NDArray[np.int32]
    #: Index into `labels`, int32.
    label: NDArray[np.int32]
    #: Functions, without TensorFlow's counter, and op types; distinct.
    labels: tuple[str, ...]
    #: Full name of the function called; index into `definitions`, -1 for an op; int32.
    definition: NDArray[np.int32]
    definitions: tuple[str, ...]
    #: Whether it is a function, not a single op.
    is_function: NDArray[np.bool_]
    #: Whether TensorFlow traced the function first.
    traced: NDArray[np.bool_]
    #: Index of its event in the plane, int64.
    event: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.line)

    def by_line(self) -> list[NDArray[np.int64]]:
        """Return the calls of each line, as indices."""
        if not len(self):
            return []
        return np.split(np.arange(len(self)), np.flatnonzero(np.diff(self.line)) + 1)


def program_calls(plane: Plane, names: Names) -> ProgramCalls:
    """Collect what the program's threads ran from a host plane, its event names classified."""
    labels, definitions = dict[str, int](), dict[str, int]()
    label_of, definition_of, is_function = _of_names(plane, names, labels, definitions)
    name_of = plane.name_of
    python = plane.strings(_CALL_STAT) if plane.has_stat(_CALL_STAT) else None
    chosen = label_of[name_of] >= 0
    if python is not None:
        chosen |= python.present
    own = mask(not name.startswith("tf_") for name in plane.lines.name)
    event = np.flatnonzero(chosen)
    event = by_line(plane, event[own[plane.line_of[event]]])
    outer = is_outermost(plane, event)
    group = np.cumsum(outer) - 1  # which call each belongs to

    label, definition = label_of[name_of[event]], definition_of[name_of[event]]
    is_function = is_function[name_of[event]]
    traced = np.zeros(len(event), np.bool_)
    if python is not None:
        calls = python.take(event)
        is_function |= calls.present
        traced = matches(calls, lambda text: text.startswith(_TRACED))
        unnamed = calls.present & (label < 0)
        of_name = label_of.copy()
        for name in np.unique(name_of[event[unnamed]]).tolist():
            of_name[name] = labels.setdefault(plane.names[name], len(labels))
        label = np.where(unnamed, of_name[name_of[event]], label)
    first = np.flatnonzero(outer)
    # A function that makes variables first calls another, which initializes them.
    of_same = np.where(label == label[first][group], definition, -1)
    same, any_other = (_first_known(d, group, len(first)) for d in (of_same, definition))
    return ProgramCalls(
        line=plane.line_of[event[first]],
        label=label[first],
        labels=tuple(labels),
        definition=np.where(same >= 0, same, any_other),
        definitions=tuple(definitions),
        is_function=is_function[first],
        traced=np.bincount(group, weights=traced, minlength=len(first)) > 0,
        event=event[first],
        start_ps=plane.start_ps[event[first]],
        end_ps=plane.end_ps[event[first]],
    )


def _of_names(
    plane: Plane, names: Names, labels: dict[str, int], definitions: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Return the label and definition of each event name, -1 for none; is it a function's?"""
    size = len(plane.names)
    label_of = np.full(size, -1, np.int32)
    definition_of = np.full(size, -1, np.int32)
    for i, (name, kind) in enumerate(zip(plane.names, names.kind.tolist(), strict=True)):
        if kind == Kind.EAGER_OP:
            if names.type[i] != _CONSTANT:
                label_of[i] = labels.setdefault(names.type[i], len(labels))
            continue
        if name == SESSION_RUN:
            label, definition = name, name
        elif found := _JITTED.fullmatch(name):
            label, definition = found[1], name
        elif "__" in name and (found := _DEFINITION.fullmatch(name)):
            label = f"gradient of {found[2]}" if found[1] == "backward" else found[2]
            definition = name.strip().removeprefix(EAGER)
        else:
            continue
        label_of[i] = labels.setdefault(label, len(labels))
        definition_of[i] = definitions.setdefault(definition, len(definitions))
    return label_of, definition_of, definition_of >= 0


def _first_known(
    codes: NDArray[np.int32], group: NDArray[np.int64], size: int
) -> NDArray[np.int32]:
    """Return the first code of each group that is not negative, -1 where there is none."""
    out = np.full(size, -1, np.int32)
    known = np.flatnonzero(codes >= 0)[::-1]
    out[group[known]] = codes[known]
    return out


# --- the runs of sessions --------------------------------------------------------------------


class SessionRuns(NamedTuple):
    """What the runs of TensorFlow 1 sessions did; one entry for each of the program's calls."""

    #: A number for the op of the run that its thread's runs most often have in common, -1 for no
    #: op or no run; int64.
    op: NDArray[np.int64]
    is_run: NDArray[np.bool_]
    #: Whether it puts something into a queue.
    enqueues: NDArray[np.bool_]


def session_runs(host: HostOps, calls: ProgramCalls) -> SessionRuns | None:
    """Distinguish a session's runs, which all have one name in a trace; None where there are none.

    The step id leads from a run to the ops that executors ran for it, on other threads. TensorFlow
    stops tracing an op that turns out to be cheap, so two runs of the same ops need not show the
    same ones. The op that most runs of a thread show is always there.
    """
    if SESSION_RUN not in calls.labels:
        return None
    plane, ids = host.plane, host.plane.integers("id")
    is_run = (calls.label == calls.labels.index(SESSION_RUN)) & ids.present[calls.event]
    step, first = np.unique(ids.values[calls.event[is_run]], return_index=True)
    runs = np.flatnonzero(is_run)[first]

    is_enqueue = mask(t.startswith(_ENQUEUES) for t in host.names.type)[host.name]
    begun = plane.named(_ASYNC_OP)
    begins = matches(plane.strings("kernel_type").take(begun), lambda t: t.startswith(_ENQUEUES))
    put_by = (host.call[is_enqueue], plane.integers("step_id").values[begun[begins]])
    run = pick(runs, place_of(step, np.concatenate(put_by)))
    enqueues = np.zeros(len(calls), np.bool_)
    enqueues[run[run >= 0]] = True

    op = np.full(len(calls), -1, np.int64)
    run, name = pick(runs, place_of(step, host.call)), host.name.astype(np.int64)
    kept = (run >= 0) & (host.transfer < 0)
    pairs = np.unique(np.stack([run[kept], name[kept]], axis=1), axis=0)
    lines = np.stack([calls.line[pairs[:, 0]].astype(np.int64), pairs[:, 1]], axis=1)
    _, inverse, times = np.unique(lines, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((pairs[:, 1], times[inverse.reshape(-1)], pairs[:, 0]))
    op[pairs[order, 0]] = pairs[order, 1]  # of several for a run the last one stays
    return SessionRuns(op, is_run, enqueues)


# --- how functions are made ------------------------------------------------------------------


class FunctionMaking(NamedTuple):
    """When functions were traced and instantiated, in no order; spans may overlap."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


NOTHING_MADE: Final = FunctionMaking(np.empty(0, np.int64), np.empty(0, np.int64))


def function_making(plane: Plane) -> FunctionMaking:
    """Return when functions were traced and instantiated on the threads of a host.

    What a function's call does before its kernel runs is instantiation, mostly grappler's
    optimization (core/common_runtime/eager/execute.cc); in a later call that takes next to no time.
    """
    traced = plane.named(_TRACING)
    calls = named_like(plane, lambda name: name.startswith(f"{EAGER}__inference_"))
    runs = plane.named(_KERNEL_RUN)
    # The first run on the same line at or after each call's start, if it begins within the call.
    event = np.concatenate([calls, runs])
    is_run = np.arange(len(event)) >= len(calls)
    order = np.lexsort((is_run, plane.start_ps[event], plane.line_of[event]))
    place = np.where(is_run[order], np.arange(len(event)), len(event))
    following = np.minimum.accumulate(place[::-1])[::-1]
    run_of = np.empty(len(event), np.int64)
    run_of[order] = pick(event[order], np.where(following < len(event), following, -1))
    run = run_of[: len(calls)]
    start_ps, end_ps = plane.start_ps[calls], plane.end_ps[calls]
    run_ps = pick(plane.start_ps, run)
    is_own = (run >= 0) & (pick(plane.line_of, run) == plane.line_of[calls]) & (run_ps < end_ps)
    return FunctionMaking(
        np.concatenate([plane.start_ps[traced], start_ps]),
        np.concatenate([plane.end_ps[traced], np.where(is_own, run_ps, start_ps)]),
    )
