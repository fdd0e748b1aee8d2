"""Labels the time in which TensorFlow prepares: builds, optimizes, and compiles graphs.

The names of these events are in `vocabulary`. Three kinds of time have no event of their own:

- Python's part of a call that traces a function: the call's own event, which counts the traces.
- The optimization and placement of a graph, in the first call of a traced function, before
  TensorFlow runs the kernel of the call (eager/execute.cc, `GetOrCreateKernelAndDevice`).
- The translation of a graph into XLA's language, in the op that compiles.

Ops that run within these events keep their time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.arrays import (
    Flags,
    Ints,
    by_line,
    distinct_rows,
    flags_at,
    innermost,
    is_outermost,
    mask,
    matches,
    named_like,
)
from traceanalyzer.tables.functions import base_and_counter
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import (
    CALL_STAT,
    EAGER_RUN,
    OP_START,
    PREPARES,
    RUNS_COMPILED,
    TRACED,
    Kind,
)

_NO_STATE: Final = -1
_XLA: Final = "-xla"  # the end of the stat of a function with `jit_compile=True`
NO_CALLS: Final = pd.DataFrame(
    {
        **dict.fromkeys(("function", "definition"), pd.Series([], dtype=object)),
        **dict.fromkeys(("start_ps", "end_ps", "traces"), pd.Series([], dtype="int64")),
        **dict.fromkeys(("is_traced", "is_xla"), pd.Series([], dtype=bool)),
    }
)


def python_calls(host: HostOps) -> pd.DataFrame:
    """Return the outermost calls of functions in Python, by thread, then by time.

    Columns: `function` (Python's name), `definition` (the full name of the graph that ran, "" if
    unknown), `start_ps`, `end_ps`, `is_traced` (whether the function was traced in this call),
    `is_xla` (whether XLA compiles it), and `traces` (how often it was traced so far, 0 if unknown).
    """
    plane = host.plane
    kinds = plane.strings(CALL_STAT)
    event = by_line(plane, np.flatnonzero(kinds.present))
    event = event[is_outermost(plane, event)]
    kind, count = kinds.take(event), plane.integers("tracing_count", event)
    names = np.array([*plane.names, ""], object)
    return pd.DataFrame(
        {
            "function": names[plane.name_of[event]],
            "definition": _definitions(host, event, names),
            "start_ps": plane.start_ps[event],
            "end_ps": plane.end_ps[event],
            "is_traced": matches(kind, lambda text: text.startswith(TRACED)),
            "is_xla": matches(kind, lambda text: text.endswith(_XLA)),
            "traces": np.where(count.present, count.values, 0),
        }
    )


def _definitions(host: HostOps, event: Ints, names: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the full name of the graph that each call of a Python function ran, or ""."""
    plane, found = host.plane, np.full(len(event), "", object)
    calls = np.flatnonzero(host.names.kind[plane.name_of] == Kind.FUNCTION_CALL)
    around = innermost(plane, host.order, flags_at(event, len(plane)))[calls]
    calls, around = calls[around >= 0], around[around >= 0]
    name_of, caller_of = plane.name_of[calls], plane.name_of[around]
    pairs, of_pair = distinct_rows([name_of, caller_of])
    own = [
        base_and_counter(called := str(host.names.op[name]))[0] == names[caller] and called
        for name, caller in of_pair.tolist()
    ]
    defined = np.array([called or "" for called in own], object)[pairs]
    place = pd.Series(np.arange(len(event)), event).reindex(around).to_numpy()
    found[place[defined != ""]] = defined[defined != ""]
    return found


def _traced_calls(host: HostOps) -> Ints:
    by_python = host.plane.strings(CALL_STAT)
    traced: Ints = np.flatnonzero(matches(by_python, lambda text: text.startswith(TRACED)))
    return traced


def label_preparation(
    host: HostOps, label: int, state: NDArray[np.int8], row: NDArray[np.int32], call: Ints
) -> None:
    """Set the state of preparing events to `label`. Events that run what they prepared keep theirs.

    `state` (-1 for none), `row`, and `call` have one entry per event of the plane.
    """
    plane, order = host.plane, host.order
    kind = host.names.kind[plane.name_of]
    is_traced = flags_at(_traced_calls(host), len(plane))
    compiles = _compiles(host)
    if not (is_traced.any() or compiles.any()):
        return
    is_call = kind == Kind.FUNCTION_CALL
    around = innermost(plane, order, is_call)
    first = _first_of_each_name(host, is_call & (innermost(plane, order, is_traced) >= 0))
    runs = plane.named(EAGER_RUN)
    runs = runs[np.isin(around[runs], first)]
    prepares = flags_at(around[runs], len(plane))

    is_op = is_call | (kind == Kind.OP)
    is_op |= mask(name == OP_START for name in plane.names)[plane.name_of]
    around_op = innermost(plane, order, is_op)
    compiling = np.unique(around_op[compiles])
    compiling = compiling[compiling >= 0]
    executes = named_like(plane, RUNS_COMPILED.fullmatch)
    executes = executes[np.isin(around_op[executes], compiling)]
    prepares[compiling] = True

    resumed = np.concatenate([runs, executes])
    container = np.concatenate([around[runs], around_op[executes]])
    stateful = innermost(plane, order, state != _NO_STATE)
    donor = np.where(state[container] != _NO_STATE, container, stateful[container])
    resumed, donor = resumed[donor >= 0], donor[donor >= 0]
    for column in (state, row, call):
        column[resumed] = column[donor]
    state[prepares | is_traced | compiles] = label
    row[prepares | is_traced | compiles] = -1


def _compiles(host: HostOps) -> Flags:
    names = zip(host.plane.names, host.names.kind.tolist(), strict=True)
    own = mask(kind == Kind.OTHER and PREPARES.fullmatch(name) for name, kind in names)
    found: Flags = own[host.plane.name_of]
    return found


def _first_of_each_name(host: HostOps, chosen: Flags) -> Ints:
    """Return the first chosen event of each name, if no event of that name is earlier."""
    plane = host.plane
    by_time = np.argsort(plane.start_ps, kind="stable")
    _, first = np.unique(plane.name_of[by_time], return_index=True)
    events: Ints = by_time[first]
    return events[chosen[events]]
