"""Steps where nothing marks them: what a program, or a device, does over and over.

A wrong period is worse than none, so what counts must repeat entry by entry over nine tenths of a
sequence and three times at least, or do so except for a little more now and then, e.g. to log. What
makes variables is set-up: where nothing repeats so in the whole of a sequence, what comes after the
last variable is examined. Examined are the functions and eager ops that a thread of the program
runs. A loop within a function is not taken for steps: what runs within a call is no entry.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import find_repeat
from traceanalyzer.tables.arrays import mask

if TYPE_CHECKING:
    from traceanalyzer.tables.arrays import Codes, Flags, Ints
    from traceanalyzer.tables.program_calls import ProgramCalls

_LEAST_REPEATS: Final = 3  # fewer may be chance
_LEAST_REPEATED: Final = (9, 10)  # of the sequence: what repeats less is a loop within something
_LOOKS: Final = 64  # comparisons for each entry, after which a sequence made to be slow is given up
_LEAST_SHARE: Final = 0.75
_NEARLY_ALL: Final = 0.9
_MOST_ENTRIES: Final = 300_000  # of a sequence that is gone through for each of some ops
_MOST_TRIED: Final = 16
_MAKES_A_VARIABLE: Final = "VarHandleOp"


class InferredSteps(NamedTuple):
    """Steps of one kind, each up to the next one's beginning."""

    name: str  #: the function that is called in each, or how many ops repeat
    source: str  #: what repeats: `function calls` or `repeated ops`
    start_ps: Ints
    end_ps: Ints  #: of the last one only what is known of it


class _Sequence(NamedTuple):
    """What happened, one after the other."""

    code: Codes
    is_call: Flags
    start_ps: Ints
    end_ps: Ints
    labels: tuple[str, ...]

    def take(self, rows: slice | Ints) -> _Sequence:
        return self._replace(
            code=self.code[rows],
            is_call=self.is_call[rows],
            start_ps=self.start_ps[rows],
            end_ps=self.end_ps[rows],
        )


def inferred_steps(calls: ProgramCalls, op_of_run: Ints) -> InferredSteps | None:
    """Infer the steps of a program in which nothing marks them; None where nothing repeats.

    `op_of_run` distinguishes runs of sessions, see `ops_of_runs`.
    """
    columns = calls.label, calls.is_function, calls.start_ps, calls.end_ps
    every = _Sequence(*columns, calls.labels)
    threads = [_runs_apart(every.take(rows), op_of_run[rows]) for rows in calls.by_line()]
    threads.sort(key=lambda thread: -int((thread.end_ps - thread.start_ps).sum()))
    tried = (_of_sequence(thread) or _after_set_up(thread) for thread in threads)
    return next((steps for steps in tried if steps is not None), None)


def _runs_apart(sequence: _Sequence, op: Ints) -> _Sequence:
    """Distinguish a session's runs where a loop does different ones, each once in a turn."""
    kinds = np.where(op >= 0, op + len(sequence.labels), sequence.code)
    _, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
    code = inverse.reshape(-1).astype(np.int32)
    same = repeat(code) if (op >= 0).any() else None
    if same is None:
        return sequence
    turn = slice(same.begin, same.begin + same.period)
    of_turn = code[turn][op[turn] >= 0]
    if len(of_turn) < 2 or len(np.unique(of_turn)) < len(of_turn):  # noqa: PLR2004 - nothing to tell
        return sequence
    labels = tuple(sequence.labels[at] for at in sequence.code[first].tolist())
    return sequence._replace(code=code, labels=labels)


def _after_set_up(sequence: _Sequence) -> InferredSteps | None:
    """Infer steps from what comes after the last variable was made."""
    makes = mask(label == _MAKES_A_VARIABLE for label in sequence.labels)
    made = np.flatnonzero(makes[sequence.code])
    return _of_sequence(sequence.take(slice(int(made[-1]) + 1, None))) if len(made) else None


def _of_sequence(sequence: _Sequence) -> InferredSteps | None:
    same = repeat(sequence.code)
    if same is None:
        leader = _leader(sequence, 0, len(sequence.code))
        return _by_calls(sequence, leader) or _by_ops(sequence, slice(None), sequence.code)
    leader = _leader(sequence, same.begin, same.end)
    turn = slice(same.begin, same.begin + same.period)
    functions, times = np.unique(sequence.code[turn][sequence.is_call[turn]], return_counts=True)
    if leader in functions[times == 1]:
        at = same.begin + np.flatnonzero(sequence.code[same.begin : same.end] == leader)
        if len(at) >= _LEAST_REPEATS:
            return _from_calls(sequence, at, same.end)
    if len(functions) == 1 and times[0] > 1:
        # Several steps and what is done after every so many, or one step that calls it so often?
        at = np.flatnonzero(sequence.code == functions[0])
        if leader >= 0 or pieces(sequence.code, at).share >= _LEAST_SHARE:
            return _by_calls(sequence, leader)
    if same.period == 1 and not len(functions):
        return None  # one op over and over is a loop, not a step
    several = _by_ops(sequence, slice(same.begin, same.end), sequence.code[turn])
    if several is not None:
        return several
    at = np.arange(same.begin, same.end, same.period)
    return _from_ops(sequence, at, same.end, same.period)


def _leader(sequence: _Sequence, begin: int, end: int) -> int:
    """Return the function that takes at least half of the time of what is between, or -1."""
    duration = sequence.end_ps[begin:end] - sequence.start_ps[begin:end]
    total = np.bincount(sequence.code[begin:end], weights=duration)
    calls = sequence.code[begin:end][sequence.is_call[begin:end]]
    # Of several that take equally long the one that is called first.
    longest = max(dict.fromkeys(calls.tolist()), key=lambda c: total[c], default=-1)
    return longest if longest >= 0 and total[longest] * 2 >= duration.sum() else -1


def _by_calls(sequence: _Sequence, leader: int) -> InferredSteps | None:
    """Take each call of a function for a step, if what lies between them is mostly the same."""
    at = np.flatnonzero(sequence.code == leader)
    if leader < 0 or len(at) < _LEAST_REPEATS:
        return None
    between = slice(int(at[0]), int(at[-1]))
    others = sequence.is_call[between] & (sequence.code[between] != leader)
    if others.any() or pieces(sequence.code, at).share < _LEAST_SHARE:
        return None
    return _from_calls(sequence, at, int(at[-1]) + 1)


def _by_ops(sequence: _Sequence, within: slice, turn: Codes) -> InferredSteps | None:
    """Take what is done several times in one turn for the steps: some do more, e.g. to log.

    A piece begins with an op, or function, and ends before its next occurrence. At least half of
    the pieces must be the same, and nearly all pieces, and nearly all entries in them, must be like
    these or less than twice as long: a step that does something for each of its variables has many
    short pieces and a long one. Of several such ops the rarest is taken, and of these the first.
    """
    code = sequence.code[within]
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
            return _from_ops(sequence, begin + at, begin + end, found.size)
    return None


def _from_ops(sequence: _Sequence, at: Ints, end: int, size: int) -> InferredSteps:
    return _steps(sequence, at, end, f"{size} ops", "repeated ops")


def _from_calls(sequence: _Sequence, at: Ints, end: int) -> InferredSteps:
    name = sequence.labels[sequence.code[at[0]]]
    return _steps(sequence, at, end, name, "function calls")


def _steps(sequence: _Sequence, at: Ints, end: int, name: str, source: str) -> InferredSteps:
    """Return steps that begin with these entries, the last before `end`."""
    start = sequence.start_ps[at]
    last = sequence.end_ps[at[-1] : end].max()
    return InferredSteps(name, source, start, np.append(start[1:], last))


# --- what repeats, exactly, in a sequence of codes -------------------------------------------


class Repeat(NamedTuple):
    """A stretch of a sequence in which each entry is the one `period` entries before it."""

    begin: int
    end: int  #: its last entry's successor
    period: int  #: the shortest period, in entries


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

    #: the share of entries, from the first bound to the last, in pieces that are like the commonest
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
