"""Lists the calls that a program's threads made, in order, and infers steps from them.

Unmarked steps are the calls that a program repeats. A wrong period is worse than none, so a period
must repeat call by call, at least three times and over nine tenths of a sequence; only occasional
extra calls, e.g. to log, are allowed. Calls that create variables are set-up: if nothing repeats in
the whole sequence, the part after the last variable is examined. Only outermost calls are in the
sequence, so a loop within a function is not mistaken for steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import find_repeat
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
    from numpy.typing import NDArray

    from traceanalyzer.tables.arrays import Codes, Flags, Ints
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane

# polymorphic_function/function_type_utils.py and atomic_function.py: the forward function under a
# tape and its gradient function have different names.
_DEFINITION: Final = re.compile(
    r"\s*(?:EagerLocalExecute: )?__(inference|forward|backward)_(?:__inference_)?(.*?)(?:_\d+)?"
)
# pjit.cc, of JAX: a call of the jitted function.
_JITTED: Final = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
# The call of a tf.function in Python (polymorphic_function.py, __call__), whatever its name.
_CALL_STAT: Final = "tf_function_call"
_TRACED: Final = "traced"
# Constants that TensorFlow creates from Python values; it caches them, so later steps lack them.
_CONSTANT: Final = "_EagerConst"
# Events around tracing (polymorphic_function/tracing_compilation.py).
_TRACING: Final = "tf.function-graph_building"
_KERNEL_RUN: Final = "EagerKernelExecute"  # eager/execute.cc: a function's kernel runs

_LEAST_REPEATS: Final = 3  # fewer may be chance
_LEAST_REPEATED: Final = (9, 10)  # of the sequence: shorter repeats are loops within a step
_LOOKS: Final = 64  # comparisons per entry before giving up: adversarial sequences would be slow
_LEAST_SHARE: Final = 0.75
_NEARLY_ALL: Final = 0.9
_MOST_ENTRIES: Final = 300_000  # of a sequence that is searched once for each of several ops
_MOST_TRIED: Final = 16
_MAKES_A_VARIABLE: Final = "VarHandleOp"


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls:
    """Calls of functions and single eager ops on threads outside TensorFlow's thread pools.

    Arrays have one entry per call, by line, then start. Calls within a call are left out.
    """

    line: Codes
    label: Codes  #: index into `labels`
    labels: tuple[str, ...]  #: functions, without TensorFlow's counter, and op types; distinct
    definition: NDArray[np.object_]  #: full name of the function called, "" where unknown
    is_function: Flags  #: whether it is a function, not a single op
    traced: Flags  #: whether TensorFlow traced the function in this call
    event: Ints  #: index of its event in the plane
    start_ps: Ints
    end_ps: Ints

    def __len__(self) -> int:
        return len(self.line)

    def by_line(self) -> list[Ints]:
        """Return the calls of each line, as indices."""
        found = np.split(np.arange(len(self)), np.flatnonzero(np.diff(self.line)) + 1)
        return found if len(self) else []

    def take(self, rows: slice | Ints) -> ProgramCalls:
        """Return some of the calls."""
        columns = {name: column[rows] for name, column in vars(self).items() if name != "labels"}
        return replace(self, **columns)


def program_calls(plane: Plane, names: Names) -> ProgramCalls:
    """Collect the calls of the program's threads from a host plane."""
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
        # The event that Python writes for a call is named after the function.
        text = ops[k] or (plane.names[k] if function is None else function)
        codes[k] = number.setdefault(text, len(number))
    label = codes[name]
    is_defined = mask(function is not None for function in functions)[name]
    outer = is_outermost(plane, event)
    group = np.cumsum(outer) - 1  # which call each belongs to
    first = np.flatnonzero(outer)
    # A function that creates variables first calls one that initializes them; ignore its name.
    naming = np.flatnonzero(is_defined & (label == label[first][group]))[::-1]
    defined_by = last_of(group[naming], name[naming], np.arange(len(first)))
    definitions = [*(text.strip().removeprefix(EAGER) for text in plane.names), ""]  # last: unknown
    traced = group[matches(by_python, lambda text: text.startswith(_TRACED))]
    return ProgramCalls(
        line=plane.line_of[event[first]],
        label=label[first],
        labels=tuple(number),
        definition=np.array([definitions[k] for k in defined_by.tolist()], object),
        is_function=(is_defined | by_python.present)[first],
        traced=flags_at(traced, len(first)),
        event=event[first],
        start_ps=plane.start_ps[event[first]],
        end_ps=plane.end_ps[event[first]],
    )


def _function_label(name: str) -> str | None:
    """Return the function's name from the name of a call event; None for other events."""
    if name == SESSION_RUN:
        return name
    if found := _JITTED.fullmatch(name):
        return found[1]
    if "__" in name and (found := _DEFINITION.fullmatch(name)):
        return f"gradient of {found[2]}" if found[1] == "backward" else found[2]
    return None


def ops_of_runs(host: HostOps, calls: ProgramCalls) -> Ints:
    """Return an op of each session run, to distinguish runs; -1 for other calls.

    All runs have the same name in a trace. The step id leads to the ops that executors ran for a
    run, on other threads. TensorFlow stops tracing cheap ops, so two runs of the same graph may
    show different ops. The op that most runs of a thread show is reliable.
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
    pairs = pairs.sort_values(["times", "name"])  # if a run has several, the last is kept
    op[pairs["run"].to_numpy()] = pairs["name"].to_numpy()
    return op


class FunctionMaking(NamedTuple):
    """When functions were traced and instantiated, in no order; spans may overlap."""

    start_ps: Ints
    end_ps: Ints


NOTHING_MADE: Final = FunctionMaking(np.empty(0, np.int64), np.empty(0, np.int64))


def function_making(plane: Plane, order: Ints) -> FunctionMaking:
    """Return when functions were traced and instantiated on the threads of a host.

    The time between the start of a call and its kernel is instantiation, mostly Grappler
    (core/common_runtime/eager/execute.cc); in later calls it is close to zero.
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


class InferredSteps(NamedTuple):
    """Steps of one kind, each until the next one begins."""

    name: str  #: the function that each step calls, or how many ops repeat
    source: str  #: what repeats: `function calls` or `repeated ops`
    start_ps: Ints
    end_ps: Ints  #: end of each step; the last one ends with its last recorded call


def inferred_steps(calls: ProgramCalls, op_of_run: Ints) -> InferredSteps | None:
    """Infer the steps of a program that does not mark them; None if nothing repeats.

    `op_of_run` distinguishes runs of sessions, see `ops_of_runs`.
    """
    threads = [_runs_apart(calls.take(rows), op_of_run[rows]) for rows in calls.by_line()]
    threads.sort(key=lambda thread: -int((thread.end_ps - thread.start_ps).sum()))
    tried = (_repeated(thread) or _after_set_up(thread) for thread in threads)
    return next((steps for steps in tried if steps is not None), None)


def _runs_apart(calls: ProgramCalls, op: Ints) -> ProgramCalls:
    """Distinguish session runs if a loop makes different runs, each once per iteration."""
    kinds = np.where(op >= 0, op + len(calls.labels), calls.label)
    _, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
    code = inverse.reshape(-1).astype(np.int32)
    same = repeat(code) if (op >= 0).any() else None
    if same is None:
        return calls
    turn = slice(same.begin, same.begin + same.period)
    of_turn = code[turn][op[turn] >= 0]
    if len(of_turn) < 2 or len(np.unique(of_turn)) < len(of_turn):  # noqa: PLR2004 - nothing to tell
        return calls
    labels = tuple(calls.labels[at] for at in calls.label[first].tolist())
    return replace(calls, label=code, labels=labels)


def _after_set_up(calls: ProgramCalls) -> InferredSteps | None:
    """Infer steps from the calls after the last variable was created."""
    makes = mask(label == _MAKES_A_VARIABLE for label in calls.labels)
    made = np.flatnonzero(makes[calls.label])
    return _repeated(calls.take(slice(int(made[-1]) + 1, None))) if len(made) else None


def _repeated(calls: ProgramCalls) -> InferredSteps | None:
    same = repeat(calls.label)
    if same is None:
        leader = _leader(calls, 0, len(calls.label))
        return _by_calls(calls, leader) or _by_ops(calls, slice(None), calls.label)
    leader = _leader(calls, same.begin, same.end)
    turn = slice(same.begin, same.begin + same.period)
    functions, times = np.unique(calls.label[turn][calls.is_function[turn]], return_counts=True)
    if leader in functions[times == 1]:
        at = same.begin + np.flatnonzero(calls.label[same.begin : same.end] == leader)
        if len(at) >= _LEAST_REPEATS:
            return _steps(calls, at, same.end)
    if len(functions) == 1 and times[0] > 1:
        # Either several steps followed by extra work, or one step that calls the function often.
        at = np.flatnonzero(calls.label == functions[0])
        if leader >= 0 or pieces(calls.label, at).share >= _LEAST_SHARE:
            return _by_calls(calls, leader)
    if same.period == 1 and not len(functions):
        return None  # a single repeated op is a loop, not a step
    several = _by_ops(calls, slice(same.begin, same.end), calls.label[turn])
    if several is not None:
        return several
    at = np.arange(same.begin, same.end, same.period)
    return _steps(calls, at, same.end, same.period)


def _leader(calls: ProgramCalls, begin: int, end: int) -> int:
    """Return the function that takes at least half of the time of these calls, or -1."""
    duration = calls.end_ps[begin:end] - calls.start_ps[begin:end]
    total = np.bincount(calls.label[begin:end], weights=duration)
    functions = calls.label[begin:end][calls.is_function[begin:end]]
    # If several take equally long, choose the one called first.
    longest = max(dict.fromkeys(functions.tolist()), key=lambda c: total[c], default=-1)
    return longest if longest >= 0 and total[longest] * 2 >= duration.sum() else -1


def _by_calls(calls: ProgramCalls, leader: int) -> InferredSteps | None:
    """Begin a step at each call of a function if the calls between them are mostly the same."""
    at = np.flatnonzero(calls.label == leader)
    if leader < 0 or len(at) < _LEAST_REPEATS:
        return None
    between = slice(int(at[0]), int(at[-1]))
    others = calls.is_function[between] & (calls.label[between] != leader)
    if others.any() or pieces(calls.label, at).share < _LEAST_SHARE:
        return None
    return _steps(calls, at, int(at[-1]) + 1)


def _by_ops(calls: ProgramCalls, within: slice, turn: Codes) -> InferredSteps | None:
    """Infer steps of which some make extra calls, e.g. to log.

    A piece begins with an op or function and ends before its next occurrence. At least half of the
    pieces must be equal. Nearly all pieces, with nearly all calls, must be equal to these or less
    than twice as long: an op that runs for each variable of a step gives many short pieces and a
    long one. If several ops qualify, the rarest is chosen, then the first.
    """
    code = calls.label[within]
    if len(code) > _MOST_ENTRIES:
        return None
    codes, first, times = np.unique(turn, return_index=True, return_counts=True)
    often = np.flatnonzero(times >= _LEAST_REPEATS)
    for anchor in codes[often[np.lexsort((first[often], times[often]))][:_MOST_TRIED]].tolist():
        at = np.flatnonzero(code == anchor)
        found = pieces(code, at)
        size = np.diff(at)
        is_near = (size >= found.size) & (size < 2 * found.size)
        if (
            found.size < 2  # noqa: PLR2004 - one op is no step
            or is_near.sum() < _NEARLY_ALL * (len(size) - 2)  # the first and last may be cut off
            or size[is_near].sum() < _NEARLY_ALL * len(code)
            or found.is_common.sum() * 2 < is_near.sum()
        ):
            continue
        alike = np.flatnonzero(found.is_common)
        at = at[alike[0] : alike[-1] + 2]  # the piece after these may be cut off
        if len(at) > _LEAST_REPEATS:
            begin = within.start or 0
            end = min(int(at[-1]) + found.size, len(code))
            return _steps(calls, begin + at, begin + end, found.size)
    return None


def _steps(calls: ProgramCalls, at: Ints, end: int, size: int = 0) -> InferredSteps:
    """Return the steps that begin with the given calls and end with `end`."""
    start = calls.start_ps[at]
    ends = np.append(start[1:], calls.end_ps[at[-1] : end].max())
    if size:
        return InferredSteps(f"{size} ops", "repeated ops", start, ends)
    return InferredSteps(calls.labels[calls.label[at[0]]], "function calls", start, ends)


class Repeat(NamedTuple):
    """A stretch of a sequence in which each entry equals the one `period` entries before."""

    begin: int
    end: int
    period: int  #: the shortest possible


def repeat(codes: Codes) -> Repeat | None:
    """Find an exact repeat that covers nine tenths of a sequence and occurs at least three times.

    The first or last occurrence may be cut short. Takes linear time.
    """
    if len(codes) < _LEAST_REPEATS:
        return None
    found = find_repeat(codes, _LEAST_REPEATS, _LEAST_REPEATED, _LOOKS)
    return Repeat(*found) if found else None


class Pieces(NamedTuple):
    """How similar the pieces of a sequence are."""

    #: The share of entries, from the first bound to the last, in pieces equal to the most common
    #: piece; 0 if that occurs only once.
    share: float
    size: int  #: entries of the most common piece
    is_common: Flags  #: which pieces are equal to it


def pieces(codes: Codes, bounds: Ints) -> Pieces:
    """Compare the pieces of a sequence, entry by entry.

    `bounds` has the start of each piece, ascending, and the end of the last one.
    """
    size = np.diff(bounds)
    if len(size) < 2:  # noqa: PLR2004 - nothing to compare with
        return Pieces(0.0, 0, np.zeros(len(size), np.bool_))
    parts = [codes[begin:end].tobytes() for begin, end in pairwise(bounds.tolist())]
    kind = pd.factorize(np.array(parts, object))[0]
    entries = np.bincount(kind, weights=size)
    entries[np.bincount(kind) < 2] = 0  # noqa: PLR2004
    common = int(entries.argmax())
    alike = kind == common
    share = float(entries[common] / (bounds[-1] - bounds[0]))
    return Pieces(share, int(size[alike][0]), alike)
