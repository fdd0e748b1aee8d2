"""What the threads of a program ran, one after the other: functions, sessions, and eager ops."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.tables.arrays import (
    by_line,
    flags_at,
    innermost,
    is_outermost,
    last_of,
    mask,
    matches,
    named_like,
    pick,
    place_of,
)
from traceanalyzer.tables.vocabulary import EAGER, SESSION_RUN, Kind

if TYPE_CHECKING:
    from traceanalyzer.tables.arrays import Codes, Flags, Ints
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
# Around tracing (polymorphic_function/tracing_compilation.py).
_TRACING: Final = "tf.function-graph_building"
_KERNEL_RUN: Final = "EagerKernelExecute"  # eager/execute.cc: a function's kernel runs


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls:
    """What threads outside of TensorFlow's own pools ran; what runs within is left out.

    Arrays have one entry a call, line by line, by start. A call is that of a function, or of a
    single op that the program runs eagerly.
    """

    line: Codes
    label: Codes  #: index into `labels`
    labels: tuple[str, ...]  #: functions, without TensorFlow's counter, and op types; distinct
    definition: tuple[str, ...]  #: full name of the function called, "" where unknown
    is_function: Flags  #: whether it is a function, not a single op
    traced: Flags  #: whether TensorFlow traced the function first
    event: Ints  #: index of its event in the plane
    start_ps: Ints
    end_ps: Ints

    def __len__(self) -> int:
        return len(self.line)

    def by_line(self) -> list[Ints]:
        """Return the calls of each line, as indices."""
        found = np.split(np.arange(len(self)), np.flatnonzero(np.diff(self.line)) + 1)
        return found if len(self) else []


def program_calls(plane: Plane, names: Names) -> ProgramCalls:
    """Collect what the program's threads ran from a host plane, its event names classified."""
    functions = [
        None if kind == Kind.EAGER_OP else _function_label(text)
        for text, kind in zip(plane.names, names.kind.tolist(), strict=True)
    ]
    ops = [
        op_type if kind == Kind.EAGER_OP and op_type != _CONSTANT else None
        for op_type, kind in zip(names.type, names.kind.tolist(), strict=True)
    ]
    is_named = mask(op or function is not None for op, function in zip(ops, functions, strict=True))
    by_python = plane.strings(_CALL_STAT)
    own = mask(not name.startswith("tf_") for name in plane.lines.name)
    event = np.flatnonzero((is_named[plane.name_of] | by_python.present) & own[plane.line_of])
    event = by_line(plane, event)
    name, by_python = plane.name_of[event], by_python.take(event)

    number: dict[str, int] = {}
    codes = np.full(len(functions), -1, np.int32)
    for k in np.unique(name).tolist():
        function = functions[k]
        # Python's own event of a call is named after the function.
        text = ops[k] or (plane.names[k] if function is None else function)
        codes[k] = number.setdefault(text, len(number))
    label = codes[name]
    is_defined = mask(function is not None for function in functions)[name]
    outer = is_outermost(plane, event)
    group = np.cumsum(outer) - 1  # which call each belongs to
    first = np.flatnonzero(outer)
    # A function that makes variables first calls another, which initializes them: not its name.
    naming = np.flatnonzero(is_defined & (label == label[first][group]))[::-1]
    defined_by = last_of(group[naming], name[naming], np.arange(len(first)))
    traced = group[matches(by_python, lambda text: text.startswith(_TRACED))]
    return ProgramCalls(
        line=plane.line_of[event[first]],
        label=label[first],
        labels=tuple(number),
        definition=tuple(
            plane.names[k].strip().removeprefix(EAGER) if k >= 0 else ""
            for k in defined_by.tolist()
        ),
        is_function=(is_defined | by_python.present)[first],
        traced=flags_at(traced, len(first)),
        event=event[first],
        start_ps=plane.start_ps[event[first]],
        end_ps=plane.end_ps[event[first]],
    )


def _function_label(name: str) -> str | None:
    """Return what a function is called whose call has this name; None for no call."""
    if name == SESSION_RUN:
        return name
    if found := _JITTED.fullmatch(name):
        return found[1]
    if "__" in name and (found := _DEFINITION.fullmatch(name)):
        return f"gradient of {found[2]}" if found[1] == "backward" else found[2]
    return None


def ops_of_runs(host: HostOps, calls: ProgramCalls) -> Ints:
    """Return an op of each run of a session, to tell runs apart; -1 for other calls.

    All runs have one name in a trace. The step id leads to the ops that executors ran for a run, on
    other threads. TensorFlow stops tracing an op that turns out to be cheap, so two runs of the
    same ops need not show the same ones. The op that most runs of a thread show is always there.
    """
    op = np.full(len(calls), -1, np.int64)
    if SESSION_RUN not in calls.labels:
        return op
    ids = host.plane.integers("id")
    is_run = (calls.label == calls.labels.index(SESSION_RUN)) & ids.present[calls.event]
    step, first = np.unique(ids.values[calls.event[is_run]], return_index=True)
    run = pick(np.flatnonzero(is_run)[first], place_of(step, host.call))
    kept = (run >= 0) & (host.transfer < 0)
    pairs = pd.DataFrame({"run": run[kept], "name": host.name[kept]}).drop_duplicates()
    lines = calls.line[pairs["run"].to_numpy()]
    pairs["times"] = pairs.groupby([lines, "name"])["run"].transform("size")
    pairs = pairs.sort_values(["times", "name"])  # of several for a run the last one stays
    op[pairs["run"].to_numpy()] = pairs["name"].to_numpy()
    return op


# --- how functions are made ------------------------------------------------------------------


class FunctionMaking(NamedTuple):
    """When functions were traced and instantiated, in no order; spans may overlap."""

    start_ps: Ints
    end_ps: Ints


NOTHING_MADE: Final = FunctionMaking(np.empty(0, np.int64), np.empty(0, np.int64))


def function_making(plane: Plane, order: Ints) -> FunctionMaking:
    """Return when functions were traced and instantiated on the threads of a host.

    What a function's call does before its kernel runs is instantiation, mostly grappler's
    optimization (core/common_runtime/eager/execute.cc); in a later call that takes next to no time.
    """
    traced, runs = plane.named(_TRACING), plane.named(_KERNEL_RUN)
    calls = named_like(plane, lambda name: name.startswith(f"{EAGER}__inference_"))
    runs = runs[np.argsort(-plane.start_ps[runs], kind="stable")]
    call = innermost(plane, order, flags_at(calls, len(plane)))[runs]
    first_run = last_of(call, runs, calls)
    start_ps = plane.start_ps[calls]
    return FunctionMaking(
        np.concatenate([plane.start_ps[traced], start_ps]),
        np.concatenate(
            [plane.end_ps[traced], np.where(first_run >= 0, plane.start_ps[first_run], start_ps)]
        ),
    )
