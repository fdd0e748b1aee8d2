"""Definitions of ops: the types that attributes give, and the attributes that types give."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tests.placement.asking import ask, registry_of_installed
from traceanalyzer.capture_file.document import Json
from traceanalyzer.placement.kernel_tables import (
    AttributeDefinition,
    InputTypesError,
    OpDefinition,
)
from traceanalyzer.placement.registry import load

NEWEST = load("2.21")
TYPES = ["float", "int32", "string", "resource", "half"]


def defined(op: str) -> OpDefinition:
    definition = NEWEST.definition(op)
    assert definition is not None
    return definition


def usual(attribute: AttributeDefinition) -> Json:
    """Return a value that an attribute can have."""
    if attribute.default is not UNSET:
        return attribute.default
    kind = attribute.type
    number = attribute.minimum or 0
    if kind == "type":
        return (attribute.allowed or ("float",))[0]
    if kind == "list(type)":
        return [*(attribute.allowed or ("float", "int32"))] * max(number, 1)
    plain: dict[str, Json] = {
        "int": max(number, 2),
        "float": 1.0,
        "bool": True,
        "string": {"s": (attribute.allowed or ("x",))[0]},
        "shape": {"shape": None},
        "func": {"func": "f"},
    }
    if kind.startswith("list("):
        return [plain[kind[5:-1]]] * max(number, 1)
    return plain[kind]


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow, id="all"), 8])
def test_types_are_those_of_a_node_in_tensorflow(step: int) -> None:
    registry = registry_of_installed()
    questions: list[tuple[str, str, dict[str, Any], list[str] | None]] = []
    expected = []
    for op in sorted(registry.ops)[::step]:
        if op == "_QuantizedMatMul":
            continue  # its shape function reads inputs that by default it does not have
        definition = registry.definition(op)
        assert definition is not None
        kinds = {a.type for a in definition.attributes.values()}
        if "tensor" in kinds or "list(tensor)" in kinds:
            continue  # which a capture file does not hold
        given_ = {name: usual(a) for name, a in definition.attributes.items()}
        if any(v is None for v in given_.values()):
            continue
        questions.append((op, "", given_, list(definition.input_types(given_))))
        expected.append(list(definition.output_types(given_)))
    answers = [types for _, types in ask(questions)]
    made = [
        (question[0], ours, theirs)
        for question, ours, theirs in zip(questions, expected, answers, strict=True)
        if isinstance(theirs, list)
    ]
    # Inputs of other types are refused in these words; what else is refused are shapes and values.
    refused = [
        (question[0], theirs)
        for question, theirs in zip(questions, answers, strict=True)
        if isinstance(theirs, str) and ("was passed" in theirs or "inputs specified" in theirs)
    ]
    assert not refused
    assert len(made) > 1000 / step
    assert not [(op, ours, theirs) for op, ours, theirs in made if ours != theirs]


@pytest.mark.parametrize(
    ("op", "types"),
    [
        ("MatMul", ["int32", "float"]),
        ("MatMul", ["int32"]),
        ("MatMul", ["int32"] * 3),
        ("MatMul", ["string", "string"]),
        ("StringUpper", ["float"]),
        ("Assign", ["float", "float"]),
        ("ConcatV2", ["float", "int32"]),  # N is 2 at least
        ("NoOp", ["float"]),
    ],
)
def test_refuses_inputs_that_the_op_cannot_have(op: str, types: list[str]) -> None:
    with pytest.raises(InputTypesError, match=f"{op} cannot have inputs"):
        defined(op).attributes_of_inputs(types)


@given(st.data())
def test_attributes_of_inputs_are_those_that_gave_the_types(data: st.DataObject) -> None:
    definition = defined(data.draw(st.sampled_from(NEWEST.ops)))
    attributes: dict[str, Json] = {}
    for name, attribute in definition.attributes.items():
        types = st.sampled_from(list(attribute.allowed or TYPES))
        least = attribute.minimum or 0
        if attribute.type == "type":
            attributes[name] = data.draw(types)
        elif attribute.type == "list(type)":
            attributes[name] = list(data.draw(st.lists(types, min_size=least, max_size=least + 2)))
        elif attribute.type == "int":
            attributes[name] = data.draw(st.integers(max(least, 0), max(least, 0) + 3))
    found = definition.attributes_of_inputs(definition.input_types(attributes))
    assert {name: attributes[name] for name in found} == found
