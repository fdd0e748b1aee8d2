"""Lists the calls of a program's threads, and finds steps: sequences of calls that repeat.

Because wrong steps are worse than none, most sequences between two occurrences of a function or op
must be equal, apart from occasional extra calls such as logging. Only outermost calls
count, since a loop within a function does not consist of steps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.arrays import (
    Codes,
    Flags,
    Ints,
    by_line,
    flags_at,
    is_outermost,
    last_of,
    mask,
    matches,
    pick,
    place_of,
)
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import CALL_STAT, EAGER, SESSION_RUN, TRACED, Kind

# polymorphic_function/function_type_utils.py and atomic_function.py: names of functions, of forward
# functions under a tape, and of their gradient functions.
_DEFINITION: Final = re.compile(
    r"\s*(?:EagerLocalExecute: )?__(inference|forward|backward)_(?:__inference_)?(.*?)(?:_\d+)?"
)
# pjit.cc, of JAX: a call of the jitted function.
_JITTED: Final = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
# Constants that TensorFlow creates from Python values; it caches them, so later steps lack them.
_CONSTANT: Final = "_EagerConst"
_MAKES_A_VARIABLE: Final = "VarHandleOp"

_LEAST_REPEATS: Final = 3  # fewer may be chance
_MANY_REPEATS: Final = 10
_LEAST_SPAN: Final = 0.1  # of the thread's time, from which fewer repeats are steps
_LEAST_SHARE: Final = 0.75  # of the calls that must be in equal pieces
_NEARLY_ALL: Final = 0.9
_MOST: Final = 2 / 3
_MOST_TRIED: Final = 16  # frequencies


@dataclass(frozen=True, eq=False, kw_only=True)
class Calls:
    """Calls of functions and single eager ops, in order. Arrays have one entry per call."""

    label: Codes  #: index into `labels`
    labels: tuple[str, ...]  #: functions, without TensorFlow's counter, and op types
    is_function: Flags  #: whether it is a function, not a single op
    start_ps: Ints
    end_ps: Ints

    def take(self, rows: slice | Ints) -> Calls:
        """Return the calls at `rows`."""
        columns = {name: column[rows] for name, column in vars(self).items() if name != "labels"}
        return replace(self, **columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls(Calls):
    """The outermost calls on threads outside TensorFlow's pools, sorted by line, then by start."""

    line: Codes
    definition: NDArray[np.object_]  #: full name of the function called, "" where unknown
    traced: Flags  #: whether TensorFlow traced the function in this call
    event: Ints  #: index of its event in the plane


def program_calls(host: HostOps) -> ProgramCalls:
    """Collect the calls of the program's threads."""
    plane, kinds = host.plane, host.names.kind
    functions = [
        None if kind == Kind.EAGER_OP else _function_label(text)
        for text, kind in zip(plane.names, kinds.tolist(), strict=True)
    ]
    is_defined = mask(function is not None for function in functions)
    is_op = (kinds == Kind.EAGER_OP) & mask(op_type != _CONSTANT for op_type in host.names.type)
    by_python = plane.strings(CALL_STAT)
    own = mask(not name.startswith("tf_") for name in plane.lines.name)[plane.line_of]
    event = by_line(
        plane, np.flatnonzero(((is_defined | is_op)[plane.name_of] | by_python.present) & own)
    )
    name, by_python = plane.name_of[event], by_python.take(event)
    used, place = np.unique(name, return_inverse=True)
    # Python names the event of a call after the function.
    texts = [host.names.type[k] if is_op[k] else functions[k] or plane.names[k] for k in used]
    codes, labels = pd.factorize(np.array(texts, object))
    label = codes.astype(np.int32)[place.reshape(-1)]

    outer = is_outermost(plane, event)
    group = np.cumsum(outer) - 1  # which call each belongs to
    first = np.flatnonzero(outer)
    # A function that creates variables first calls one that initializes them; ignore its name.
    naming = np.flatnonzero(is_defined[name] & (label == label[first][group]))[::-1]
    defined_by = last_of(group[naming], name[naming], np.arange(len(first)))
    definitions = [*(text.strip().removeprefix(EAGER) for text in plane.names), ""]  # last: unknown
    traced = group[matches(by_python, lambda text: text.startswith(TRACED))]
    return ProgramCalls(
        line=plane.line_of[event[first]],
        label=label[first],
        labels=tuple(labels),
        definition=np.array([definitions[k] for k in defined_by.tolist()], object),
        is_function=(is_defined[name] | by_python.present)[first],
        traced=flags_at(traced, len(first)),
        event=event[first],
        start_ps=plane.start_ps[event[first]],
        end_ps=plane.end_ps[event[first]],
    )


def _function_label(name: str) -> str | None:
    if name == SESSION_RUN:
        return name
    if found := _JITTED.fullmatch(name):
        return found[1]
    if "__" in name and (found := _DEFINITION.fullmatch(name)):
        return f"gradient of {found[2]}" if found[1] == "backward" else found[2]
    return None


def steps_of_threads(host: HostOps, calls: ProgramCalls) -> Repeated | None:
    """Return the steps of the busiest thread that repeats its calls, or None if no thread does."""
    op = _ops_of_runs(host, calls)
    lines = np.split(np.arange(len(op)), np.flatnonzero(np.diff(calls.line)) + 1)
    for rows in sorted(lines, key=lambda rows: -(calls.end_ps[rows] - calls.start_ps[rows]).sum()):
        thread = calls.take(rows)
        if (op[rows] >= 0).any():
            label = np.where(op[rows] >= 0, len(calls.labels) + op[rows], thread.label)
            if found := _by_ops(replace(thread, label=label)):
                return found
        if found := repeated(thread):
            return found
    return None


def _ops_of_runs(host: HostOps, calls: ProgramCalls) -> Ints:
    """Return an op that identifies the kind of each session run, or -1 for other calls.

    All session runs have the same name, but their step ids lead to the ops that ran in them.
    TensorFlow stops tracing cheap ops, so equal runs may show different ops. Therefore, use the op
    that most runs of the thread show.
    """
    op = np.full(len(calls.label), -1, np.int64)
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


class Repeated(NamedTuple):
    """Steps of one kind. Each step lasts until the next one begins."""

    name: str  #: the function that each step calls, or how many ops repeat
    source: str  #: what repeats: `function calls` or `repeated ops`
    start_ps: Ints
    end_ps: Ints  #: end of each step; the last one ends with its last recorded call


def repeated(calls: Calls) -> Repeated | None:
    """Find steps in a thread's calls, or else in those after it created its last variable.

    A few equal calls at the end, such as those that try out a saved model, are no steps.
    """
    makes = mask(label == _MAKES_A_VARIABLE for label in calls.labels)
    made = np.flatnonzero(makes[calls.label])
    parts = [calls, *(calls.take(slice(int(at) + 1, None)) for at in made[-1:])]
    tried = (rule(part) for part in parts for rule in (_by_function, _by_ops))
    found = next((found for found in tried if found is not None), None)
    if found is None or len(found.start_ps) >= _MANY_REPEATS:
        return found
    whole_ps = calls.end_ps.max() - calls.start_ps.min()
    return found if found.end_ps[-1] - found.start_ps[0] >= _LEAST_SPAN * whole_ps else None


def _longest(calls: Calls) -> int:
    """Return the function that takes the most time (if tied, the first called), or -1."""
    total_ps = np.bincount(calls.label, weights=calls.end_ps - calls.start_ps)
    functions = dict.fromkeys(calls.label[calls.is_function].tolist())
    return max(functions, key=lambda label: float(total_ps[label]), default=-1)


def _by_function(calls: Calls) -> Repeated | None:
    """Return one step per call of the longest function if it takes at least half of the time."""
    is_longest = calls.label == _longest(calls)
    duration_ps = calls.end_ps - calls.start_ps
    at = np.flatnonzero(is_longest)
    if len(at) < _LEAST_REPEATS or duration_ps[at].sum() * 2 < duration_ps.sum():
        return None
    size = _usual_size(np.diff(at))
    equal = _equal_pieces(calls.label, at, size)
    if size * len(equal) < _LEAST_SHARE * (at[-1] - at[0]):
        return None
    ends = np.append(calls.start_ps[at[1:]], calls.end_ps[at[-1]])
    name = calls.labels[calls.label[at[0]]]
    return Repeated(name, "function calls", calls.start_ps[at], ends)


def _by_ops(calls: Calls) -> Repeated | None:
    """Return one step per occurrence of the most frequent op or function that qualifies.

    The pieces from each occurrence to the next must cover nearly all calls, and most pieces must be
    equal. Others may be longer, but less than twice as long: an op that runs for each variable of a
    step makes many short pieces and a long one. The function that takes the most time may be called
    only once per piece. Otherwise, each call of it may be a step.
    """
    label, longest = calls.label, _longest(calls)
    codes, first, times = np.unique(label, return_index=True, return_counts=True)
    order = np.lexsort((first, -times))
    frequent = order[np.unique(-times[order], return_index=True)[1]][:_MOST_TRIED]
    for anchor in codes[frequent[times[frequent] >= _LEAST_REPEATS]].tolist():
        at = np.flatnonzero(label == anchor)
        sizes = np.diff(at)
        size = _usual_size(sizes)
        is_near = (sizes >= size) & (sizes < 2 * size)
        near, covered = int(is_near.sum()), int(sizes[is_near].sum())
        if (
            size < 2  # noqa: PLR2004 - one op is no step
            or near < _NEARLY_ALL * (len(sizes) - 2)
            or covered + 2 * size < _NEARLY_ALL * len(label)
        ):
            continue
        equal = _equal_pieces(label, at, size)
        piece = label[at[equal[0]] :][:size]
        # The recording can cut off the first step and the last one.
        head = _alike(label[: at[0]][::-1], piece[::-1])
        tail = _alike(label[at[-1] :], piece)
        if (
            head + covered + tail >= _NEARLY_ALL * len(label)
            and len(equal) >= max(2, _MOST * near)
            and (piece == longest).sum() <= max(1, size // 2)
        ):
            # A shorter piece belongs to the step before it. What comes last may be cut off, even
            # before the anchor.
            from_, last = at[equal[0]], at[equal[-1] + 1]
            begins = at[np.append(sizes >= size, np.True_)]
            begins = begins[(begins >= from_) & (begins <= last)] - head
            if last == at[-1] and head + tail > size:
                begins = np.append(begins, begins[-1] + size)
            last_ps = calls.end_ps[begins[-1] : begins[-1] + size].max()
            ends = np.append(calls.start_ps[begins[1:]], last_ps)
            return Repeated(f"{size} ops", "repeated ops", calls.start_ps[begins], ends)
    return None


def _usual_size(sizes: Ints) -> int:
    """Return the size of the pieces that together cover the most calls."""
    return int(np.bincount(sizes, weights=sizes).argmax())


def _equal_pieces(label: Codes, at: Ints, size: int) -> Ints:
    """Return the indices of the pieces of this size that equal the most frequent one."""
    usual = np.flatnonzero(np.diff(at) == size)
    parts = [label[begin : begin + size].tobytes() for begin in at[usual].tolist()]
    kind = pd.factorize(np.array(parts, object))[0]
    found: Ints = usual[kind == np.bincount(kind).argmax()]
    return found


def _alike(labels: Codes, piece: Codes) -> int:
    """Return the length of the common prefix of two label sequences."""
    size = min(len(labels), len(piece))
    return int(np.argmin(np.append(labels[:size] == piece[:size], np.False_)))
