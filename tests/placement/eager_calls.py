"""Eager ops to ask TensorFlow about, over a wide range of its registry, each in all its types.

They stand in `eager_calls.toml`.

A call is drawn with a type for each of its type variables, a place for each input, a scope and soft
placement or not: `drawn` gives the question for TensorFlow.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.emulator.eager import EagerInput, EagerQuestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.placement.registry import Registry

# TensorFlow's names in Python, and those that the project shares with TensorFlow's protos.
CAPTURE_FILE_TYPES: Final = {"float16": "half", "float32": "float", "float64": "double"}

_FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
_INTS: Final = ("int32", "int64", "int8", "int16", "uint8", "uint16", "uint32", "uint64")
_COMPLEX: Final = ("complex64", "complex128")
_NUMBERS: Final = (*_FLOATS, *_INTS, *_COMPLEX)
_SETS: Final = {
    "floats": _FLOATS,
    "ints": _INTS,
    "complex": _COMPLEX,
    "numbers": _NUMBERS,
    "any": (*_NUMBERS, "bool", "string"),
    "index": ("int32", "int64"),
}
_INPUT: Final = re.compile(
    r"(?P<variable>variable )?(?P<dtype>\w+)(?P<shape>\[[\d,]*\])?(?: = (?P<value>.*))?"
)

# Where inputs are made.
PLACES: Final = ("", "/CPU:0", "/GPU:0")
# What is asked for: nothing, a device, one that is not there, any of a type, a part of a name.
SCOPES: Final = (
    *("", "/CPU:0", "/GPU:0", "/GPU:7", "/CPU:3", "/device:GPU:*", "/device:CPU:*"),
    *("/job:localhost", "/job:localhost/replica:0/task:0", "/job:localhost/device:GPU:0"),
    *("/replica:0/device:CPU:0", "/job:elsewhere", "/task:1/GPU:0", "gpu:0"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A way to call an op.

    Attributes:
        op: Op type.
        inputs: As in a question; types that are names in `types` are variables.
        attributes: Likewise.
        types: The type variables, each with the types that it is drawn from.
    """

    op: str
    inputs: Mapping[str, EagerInput | tuple[EagerInput, ...]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def choices(call: Call, registry: Registry) -> dict[str, tuple[str, ...]]:
    """Return the types that each variable of a call can be, as the op's definition has it."""
    definition = registry.definition(call.op)
    found = {}
    for name, types in call.types.items():
        attribute = None if definition is None else definition.attributes.get(name)
        allowed = None if attribute is None else attribute.allowed
        found[name] = tuple(
            t for t in types if allowed is None or CAPTURE_FILE_TYPES.get(t, t) in allowed
        )
    return found


def drawn(
    call: Call,
    types: Mapping[str, str],
    places: Sequence[str],
    scope: str,
    *,
    soft_placement: bool = True,
) -> EagerQuestion:
    """Return a call as a question.

    Args:
        call: The call.
        types: A type for each of its variables.
        places: Where inputs are made, one after the other; from the start again where they end.
        scope: What is asked for.
        soft_placement: Whether that need not be met.
    """
    count = 0

    def made(given: EagerInput) -> EagerInput:
        nonlocal count
        count += 1
        place = given.device or places[(count - 1) % len(places)]
        return replace(given, dtype=types.get(given.dtype, given.dtype), device=place)

    return EagerQuestion(
        op=call.op,
        inputs={
            name: tuple(map(made, given)) if isinstance(given, tuple) else made(given)
            for name, given in call.inputs.items()
        },
        attributes={
            name: types.get(value, value) if isinstance(value, str) else value
            for name, value in call.attributes.items()
        },
        scope=scope,
        soft_placement=soft_placement,
    )


def _input(text: str) -> EagerInput:
    match = _INPUT.fullmatch(text)
    assert match, text
    return EagerInput(
        dtype=match["dtype"],
        shape=tuple(json.loads(match["shape"] or "[]")),
        value=json.loads(match["value"] or "null"),
        is_variable=bool(match["variable"]),
    )


def _call(row: dict[str, Any]) -> Call:
    return Call(
        op=row["op"],
        inputs={
            name: tuple(map(_input, given)) if isinstance(given, list) else _input(given)
            for name, given in row.get("inputs", {}).items()
        },
        attributes=row.get("attributes", {}),
        types={
            name: _SETS[types] if isinstance(types, str) else tuple(types)
            for name, types in row.get("types", {}).items()
        },
    )


_TABLE: Final = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
CALLS: Final = tuple(map(_call, tomllib.loads(_TABLE)["calls"]))
