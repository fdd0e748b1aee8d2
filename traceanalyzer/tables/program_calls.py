"""What the threads of a program set going, one after the other: functions, and ops run eagerly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.nesting import by_line, is_outermost
from traceanalyzer.tables.vocabulary import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane


# polymorphic_function/function_type_utils.py and atomic_function.py: what a function is called
# forwards under a tape has a name of its own, and so has its gradient.
_DEFINITION: Final = re.compile(
    r"\s*(?:EagerLocalExecute: )?__(inference|forward|backward)_(?:__inference_)?(.*?)(?:_\d+)?"
)
# pjit.cc, of JAX: a call of the jitted function.
_JITTED: Final = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
SESSION_RUN: Final = "SessionRun"
"""What TensorFlow 1 runs a graph with (direct_session.cc)."""

# Of the call of a tf.function in Python (polymorphic_function.py, __call__), whatever its name.
_CALL_STAT: Final = "tf_function_call"
_TRACED: Final = "traced"
# Constants that TensorFlow makes of Python values; it keeps them, so that later ones are missing.
_CONSTANT: Final = "_EagerConst"


@dataclass(frozen=True, eq=False, kw_only=True)
class ProgramCalls:
    """What threads outside of TensorFlow's own pools set going; what runs within is left out.

    Arrays have one entry a call, line by line, by start.

    Attributes:
        line: Index of its line, int32.
        label: Index into `labels`, int32.
        labels: Functions, without TensorFlow's counter, and op types; distinct.
        definition: Full name of the function called, counter and all; index into `definitions`, -1
            for an op; int32.
        definitions: Full names of the functions.
        is_call: Whether it is a function, not a lone op.
        traced: Whether TensorFlow traced the function first.
        event: Index of its event in the plane, int64.
        start_ps: Start, int64.
        end_ps: End, int64.
    """

    line: NDArray[np.int32]
    label: NDArray[np.int32]
    labels: tuple[str, ...]
    definition: NDArray[np.int32]
    definitions: tuple[str, ...]
    is_call: NDArray[np.bool_]
    traced: NDArray[np.bool_]
    event: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.line)

    def by_line(self) -> list[NDArray[np.int64]]:
        """Return the calls of each line, as indices."""
        if not len(self):
            return []
        return np.split(np.arange(len(self)), np.flatnonzero(np.diff(self.line)) + 1)


class _Numbered:
    """Gives each text a number, from 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def texts(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def program_calls(plane: Plane, names: Names) -> ProgramCalls:
    """Read off a host plane what its program's threads set going.

    Args:
        plane: The host plane.
        names: Its event names, classified.
    """
    labels, definitions = _Numbered(), _Numbered()
    label_of, definition_of, is_call = _of_names(plane, names, labels, definitions)
    name_of = plane.name_of
    told = plane.strings(_CALL_STAT) if plane.has_stat(_CALL_STAT) else None
    chosen = label_of[name_of] >= 0
    if told is not None:
        chosen |= told.present
    own = np.array([not name.startswith("tf_") for name in plane.lines.name], np.bool_)
    event = np.flatnonzero(chosen)
    event = by_line(plane, event[own[plane.line_of[event]]])
    outer = is_outermost(plane, event)
    group = np.cumsum(outer) - 1  # which call each belongs to

    label, definition = label_of[name_of[event]], definition_of[name_of[event]]
    call = is_call[name_of[event]]
    traced = np.zeros(len(event), np.bool_)
    if told is not None:
        codes = told.codes[event]
        call |= codes >= 0
        traced = np.array([*(v.startswith(_TRACED) for v in told.values), False], np.bool_)[codes]
        unnamed = (codes >= 0) & (label < 0)
        of_name = label_of.copy()
        for name in np.unique(name_of[event[unnamed]]).tolist():
            of_name[name] = labels.of(plane.names[name])
        label = np.where(unnamed, of_name[name_of[event]], label)
    first = np.flatnonzero(outer)
    # A function that makes variables first calls another, which initializes them.
    of_same = np.where(label == label[first][group], definition, -1)
    same, any_other = (_first_present(d, group, len(first)) for d in (of_same, definition))
    return ProgramCalls(
        line=plane.line_of[event[first]],
        label=label[first],
        labels=labels.texts(),
        definition=np.where(same >= 0, same, any_other),
        definitions=definitions.texts(),
        is_call=call[first],
        traced=np.bincount(group, weights=traced, minlength=len(first)) > 0,
        event=event[first],
        start_ps=plane.start_ps[event[first]],
        end_ps=plane.end_ps[event[first]],
    )


def _of_names(
    plane: Plane, names: Names, labels: _Numbered, definitions: _Numbered
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Tell of each event name which call it is: label, definition, whether a call."""
    size = len(plane.names)
    label_of = np.full(size, -1, np.int32)
    definition_of = np.full(size, -1, np.int32)
    is_call = np.zeros(size, np.bool_)
    for i, (name, kind) in enumerate(zip(plane.names, names.kind.tolist(), strict=True)):
        if kind == Kind.EAGER_OP:
            if names.type[i] != _CONSTANT:
                label_of[i] = labels.of(names.type[i])
            continue
        if name == SESSION_RUN:
            label, definition = name, name
        elif found := _JITTED.fullmatch(name):
            label, definition = found[1], name
        elif "__" in name and (found := _DEFINITION.fullmatch(name)):
            label = f"gradient of {found[2]}" if found[1] == "backward" else found[2]
            definition = name.strip().removeprefix("EagerLocalExecute: ")
        else:
            continue
        label_of[i], definition_of[i] = labels.of(label), definitions.of(definition)
        is_call[i] = True
    return label_of, definition_of, is_call


def _first_present(
    codes: NDArray[np.int32], group: NDArray[np.int64], size: int
) -> NDArray[np.int32]:
    """Return the first code of each group that is not negative, -1 where there is none."""
    out = np.full(size, -1, np.int32)
    known = np.flatnonzero(codes >= 0)[::-1]
    out[group[known]] = codes[known]
    return out
