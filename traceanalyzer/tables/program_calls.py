"""What the threads of a program ran, one after the other, and the steps that this shows.

Steps that nothing marks are what a program does over and over. A wrong period is worse than none,
so what counts must repeat entry by entry over nine tenths of a sequence and three times at least,
or do so except for a little more now and then, e.g. to log. What makes variables is set-up: where
nothing repeats so in the whole of a sequence, what comes after the last variable is examined. A
loop within a function is not taken for steps: what runs within a call is no entry.
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

_LEAST_REPEATS: Final = 3  # fewer may be chance
_LEAST_REPEATED: Final = (9, 10)  # of the sequence: what repeats less is a loop within something
_LOOKS: Final = 64  # comparisons for each entry, after which a sequence made to be slow is given up
_LEAST_SHARE: Final = 0.75
_NEARLY_ALL: Final = 0.9
_MOST_ENTRIES: Final = 300_000  # of a sequence that is gone through for each of some ops
_MOST_TRIED: Final = 16
_MAKES_A_VARIABLE: Final = "VarHandleOp"


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls:
    """Calls of functions and single eager ops on threads outside of TensorFlow's own pools.

    Arrays have one entry a call, line by line, by start. What runs within a call is left out.
    """

    line: Codes
    label: Codes  #: index into `labels`
    labels: tuple[str, ...]  #: functions, without TensorFlow's counter, and op types; distinct
    definition: NDArray[np.object_]  #: full name of the function called, "" where unknown
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

    def take(self, rows: slice | Ints) -> ProgramCalls:
        """Return some of the calls."""
        columns = {name: column[rows] for name, column in vars(self).items() if name != "labels"}
        return replace(self, **columns)


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


class InferredSteps(NamedTuple):
    """Steps of one kind, each up to the next one's beginning."""

    name: str  #: the function that is called in each, or how many ops repeat
    source: str  #: what repeats: `function calls` or `repeated ops`
    start_ps: Ints
    end_ps: Ints  #: of the last one only what is known of it


def inferred_steps(calls: ProgramCalls, op_of_run: Ints) -> InferredSteps | None:
    """Infer the steps of a program in which nothing marks them; None where nothing repeats.

    `op_of_run` distinguishes runs of sessions, see `ops_of_runs`.
    """
    threads = [_runs_apart(calls.take(rows), op_of_run[rows]) for rows in calls.by_line()]
    threads.sort(key=lambda thread: -int((thread.end_ps - thread.start_ps).sum()))
    tried = (_repeated(thread) or _after_set_up(thread) for thread in threads)
    return next((steps for steps in tried if steps is not None), None)


def _runs_apart(calls: ProgramCalls, op: Ints) -> ProgramCalls:
    """Distinguish a session's runs where a loop does different ones, each once in a turn."""
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
    """Infer steps from what comes after the last variable was made."""
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
        # Several steps and what is done after every so many, or one step that calls it so often?
        at = np.flatnonzero(calls.label == functions[0])
        if leader >= 0 or pieces(calls.label, at).share >= _LEAST_SHARE:
            return _by_calls(calls, leader)
    if same.period == 1 and not len(functions):
        return None  # one op over and over is a loop, not a step
    several = _by_ops(calls, slice(same.begin, same.end), calls.label[turn])
    if several is not None:
        return several
    at = np.arange(same.begin, same.end, same.period)
    return _steps(calls, at, same.end, same.period)


def _leader(calls: ProgramCalls, begin: int, end: int) -> int:
    """Return the function that takes at least half of the time of what is between, or -1."""
    duration = calls.end_ps[begin:end] - calls.start_ps[begin:end]
    total = np.bincount(calls.label[begin:end], weights=duration)
    functions = calls.label[begin:end][calls.is_function[begin:end]]
    # Of several that take equally long the one that is called first.
    longest = max(dict.fromkeys(functions.tolist()), key=lambda c: total[c], default=-1)
    return longest if longest >= 0 and total[longest] * 2 >= duration.sum() else -1


def _by_calls(calls: ProgramCalls, leader: int) -> InferredSteps | None:
    """Take each call of a function for a step, if what lies between them is mostly the same."""
    at = np.flatnonzero(calls.label == leader)
    if leader < 0 or len(at) < _LEAST_REPEATS:
        return None
    between = slice(int(at[0]), int(at[-1]))
    others = calls.is_function[between] & (calls.label[between] != leader)
    if others.any() or pieces(calls.label, at).share < _LEAST_SHARE:
        return None
    return _steps(calls, at, int(at[-1]) + 1)


def _by_ops(calls: ProgramCalls, within: slice, turn: Codes) -> InferredSteps | None:
    """Take what is done several times in one turn for the steps: some do more, e.g. to log.

    A piece begins with an op, or function, and ends before its next occurrence. At least half of
    the pieces must be the same, and nearly all pieces, and nearly all entries in them, must be like
    these or less than twice as long: a step that does something for each of its variables has many
    short pieces and a long one. Of several such ops the rarest is taken, and of these the first.
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
            or is_near.sum() < _NEARLY_ALL * (len(size) - 2)  # the first and the last may be cut
            or size[is_near].sum() < _NEARLY_ALL * len(code)
            or found.is_common.sum() * 2 < is_near.sum()
        ):
            continue
        alike = np.flatnonzero(found.is_common)
        at = at[alike[0] : alike[-1] + 2]  # what comes after may be cut
        if len(at) > _LEAST_REPEATS:
            begin = within.start or 0
            end = min(int(at[-1]) + found.size, len(code))
            return _steps(calls, begin + at, begin + end, found.size)
    return None


def _steps(calls: ProgramCalls, at: Ints, end: int, size: int = 0) -> InferredSteps:
    """Return steps that begin with these entries, of so many ops or of calls, up to `end`."""
    start = calls.start_ps[at]
    ends = np.append(start[1:], calls.end_ps[at[-1] : end].max())
    if size:
        return InferredSteps(f"{size} ops", "repeated ops", start, ends)
    return InferredSteps(calls.labels[calls.label[at[0]]], "function calls", start, ends)


class Repeat(NamedTuple):
    """A stretch of a sequence in which each entry is the one `period` entries before it."""

    begin: int
    end: int
    period: int  #: the shortest one


def repeat(codes: Codes) -> Repeat | None:
    """Find what a sequence repeats, exactly, over nine tenths of it and three times or more.

    The last time, or the first, may be cut short. Takes linear time.
    """
    if len(codes) < _LEAST_REPEATS:
        return None
    found = find_repeat(codes, _LEAST_REPEATS, _LEAST_REPEATED, _LOOKS)
    return Repeat(*found) if found else None


class Pieces(NamedTuple):
    """How alike the pieces of a sequence are."""

    #: The share of entries, from the first bound to the last, in pieces that are like the commonest
    #: one; 0 where that occurs once.
    share: float
    size: int  #: entries of the commonest piece
    is_common: Flags  #: which pieces are like it


def pieces(codes: Codes, bounds: Ints) -> Pieces:
    """Compare the pieces of a sequence, entry by entry.

    `bounds` says where its pieces begin, rising, and where the last one ends.
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
