"""Asks TensorFlow's eager runtime, with emulated GPUs, and the replay where ops run."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle, islice
from math import prod
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from numpy import size

from tests.emulator.eager import EagerAnswer, EagerQuestion, answers
from tests.emulator.eager import EagerInput as EagerInputAsked
from tests.emulator.oracle import the_oracle
from traceanalyzer.capture_file.document import Json
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerPlacement,
    EagerSetting,
    place_eager,
)
from traceanalyzer.placement.kernel_tables import OpDefinition
from traceanalyzer.placement.registry import Registry, load

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
    """A way to call an op."""

    op: str
    inputs: Mapping[str, EagerInputAsked | tuple[EagerInputAsked, ...]]
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
    """Return a call as a question."""
    count = 0

    def made(given: EagerInputAsked) -> EagerInputAsked:
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


def _input(text: str) -> EagerInputAsked:
    match = _INPUT.fullmatch(text)
    assert match, text
    return EagerInputAsked(
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


_TABLE: Final = Path(__file__).with_name("eager_calls.toml").read_text(encoding="utf-8")
CALLS: Final = tuple(map(_call, tomllib.loads(_TABLE)["calls"]))


LOCAL: Final = "/job:localhost/replica:0/task:0"
CPU, GPU = f"{LOCAL}/device:CPU:0", f"{LOCAL}/device:GPU:0"
PROGRAMS: Final = "tests.placement.eager_programs"
_PINNING: Final = {"TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING": "1"}

# What TensorFlow says of an op that it has no device for.
REFUSALS: Final = (
    "Could not satisfy device specification",  # `EagerContext::SelectDevice`
    "Could not find device for node",  # no kernel takes its attributes
    "No OpKernel was registered to support Op",
    "unknown device",
    # A resource's device was chosen, but there is no kernel there, or another one is elsewhere.
    "because no supported kernel for GPU devices is available",
    "a reference or resource edge connects colocation groups with incompatible assigned devices",
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A question, TensorFlow's answer, and ours."""

    question: EagerQuestion
    answer: EagerAnswer
    placement: EagerPlacement

    @property
    def is_equal(self) -> bool:
        """Whether both have the device, or neither has one."""
        return self.placement.device == self.answer.device

    def __str__(self) -> str:
        """Say what differs."""
        question = self.question
        inputs = {
            name: [(i.dtype, i.device) for i in (g if isinstance(g, tuple) else (g,))]
            for name, g in question.inputs.items()
        }
        soft = "soft" if question.soft_placement else "hard"
        return (
            f"{question.op} {dict(question.attributes)} {inputs} under {question.scope!r}, {soft}: "
            f"TensorFlow {self.answer.device or self.answer.error[:300]!r}, "
            f"we {self.placement.device!r} ({self.placement.decided_by.value})"
        )


@lru_cache
def registry_of_oracle() -> Registry:
    return load(the_oracle().installation.version)


@lru_cache
def held_scopes(gpus: int = 1) -> Mapping[str, str]:
    """Return what TensorFlow holds while each scope is open: what a capture records of it.

    `tf.device` fills in what a scope leaves open from that of the first CPU.
    """
    asked = [*SCOPES, *PLACES, "/GPU:1", "/GPU:2", "/CPU:1"]
    outcome = the_oracle().run(f"{PROGRAMS}:scopes", asked, gpus=gpus)
    return dict(zip(asked, outcome.value, strict=True))


def _named(value: Any, kind: str) -> Json:  # noqa: ANN401 - whatever an attribute is
    """Return an attribute's value in the capture file's encoding."""
    if kind.startswith("list("):
        return [_named(each, kind[5:-1]) for each in value]
    if kind == "type":
        return CAPTURE_FILE_TYPES.get(value, value)
    if kind == "string":
        return {"s": value}
    if kind == "shape":
        return {"shape": list(value)}
    result: Json = value
    return result


def attributes_of(question: EagerQuestion, definition: OpDefinition) -> dict[str, Json]:
    return {
        name: _named(value, definition.attributes[name].type)
        for name, value in question.attributes.items()
    }


def op_of(
    question: EagerQuestion,
    setting: EagerSetting,
    places: Sequence[str] | None = None,
) -> EagerOp:
    """Return an op as a capture of it would have it: resources where we say that they are made."""
    definition = setting.registry.definition(question.op)
    assert definition is not None
    held = held_scopes(len(setting.machine.devices) - 1)
    # Calls are written in the definition's order; Python has other names for some arguments.
    given_inputs = [
        each
        for given_ in question.inputs.values()
        for each in (given_ if isinstance(given_, tuple) else (given_,))
    ]
    inputs = [
        EagerInput(
            dtype,
            _place_of_variable(each, setting)
            if each.is_variable
            else places[number]
            if places is not None
            else "",
            prod(each.shape) if each.value is None else size(each.value),
        )
        for number, (each, dtype) in enumerate(zip(given_inputs, types_of(question), strict=True))
    ]
    return EagerOp(question.op, attributes_of(question, definition), inputs, held[question.scope])


def _place_of_variable(variable: EagerInputAsked, setting: EagerSetting) -> str:
    attributes: dict[str, Any] = {
        "dtype": CAPTURE_FILE_TYPES.get(variable.dtype, variable.dtype),
        "shape": {"shape": list(variable.shape)},
    }
    scope = held_scopes(len(setting.machine.devices) - 1)[variable.device]
    made = EagerOp("VarHandleOp", attributes, [], scope)
    return place_eager(made, EagerSetting(setting.machine, setting.registry)).device


def compared_all(
    questions: Sequence[EagerQuestion],
    *,
    gpus: int = 1,
    pins_small: bool = False,
) -> list[Compared]:
    """Ask TensorFlow, all of one process, and the replay."""
    count = len(questions)
    asked = list(questions)
    if pins_small:  # then it counts where the inputs are
        asked += [replace(q, op=f"{PROGRAMS}:given", attributes={}, scope="") for q in questions]
    environment = _PINNING if pins_small else {}
    found = answers(the_oracle(), asked, gpus=gpus, environment=environment)
    compared = []
    for question, answer, where in zip(questions, found, found[count:] or questions, strict=False):
        setting = EagerSetting(
            machine=Machine.local(gpus=gpus),
            registry=registry_of_oracle(),
            soft=question.soft_placement,
            pins_small=pins_small,
        )
        places = [o.device for o in where.outputs] if isinstance(where, EagerAnswer) else None
        placement = place_eager(op_of(question, setting, places), setting)
        compared.append(Compared(question, answer, placement))
    for each in compared:
        # Else it is not the device that it was refused for, and the question is no question.
        is_answer = any(words in each.answer.error for words in REFUSALS)
        assert each.answer.device or is_answer, str(each)
    return compared


def sweep(most: int) -> list[EagerQuestion]:
    """Return every call, in so many combinations of its types, with scopes and places in turn."""
    scopes, places, soft = cycle(SCOPES), cycle(PLACES), cycle([True, True, True, False])
    questions = []
    for call in CALLS:
        types = choices(call, registry_of_oracle())
        count = min(most, max((len(of) for of in types.values()), default=1))
        for at in range(count):
            chosen = {n: of[at * len(of) // count] for n, of in types.items()}
            next(places)  # so that not each call begins with the same
            questions.append(
                drawn(
                    call,
                    chosen,
                    list(islice(places, 3)),
                    next(scopes),
                    soft_placement=next(soft),
                )
            )
    return questions


@st.composite
def questions_of(draw: st.DrawFn, calls: Sequence[Call] = CALLS) -> EagerQuestion:
    call = draw(st.sampled_from(calls))
    return drawn(
        call,
        {
            name: draw(st.sampled_from(of))
            for name, of in choices(call, registry_of_oracle()).items()
        },
        draw(st.lists(st.sampled_from(PLACES), min_size=3, max_size=3)),
        draw(st.sampled_from(SCOPES)),
        soft_placement=draw(st.booleans()),
    )


def differing(compared: Sequence[Compared]) -> str:
    """Return what differs, a line each."""
    return "\n".join(str(each) for each in compared if not each.is_equal)


def plain_setting() -> EagerSetting:
    return EagerSetting(machine=Machine.local(gpus=1), registry=registry_of_oracle())


def is_resource(given_: object) -> bool:
    return isinstance(given_, EagerInputAsked) and given_.is_variable


def types_of(question: EagerQuestion) -> list[str]:
    """Return the types of an op's inputs, as the capture file names them."""
    return [
        "resource" if each.is_variable else CAPTURE_FILE_TYPES.get(each.dtype, each.dtype)
        for given_ in question.inputs.values()
        for each in (given_ if isinstance(given_, tuple) else (given_,))
    ]
