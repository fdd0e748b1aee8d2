"""The words of TensorFlow: what each name of an event means."""

from __future__ import annotations

import pytest

from tests.tables.reading import host_plane
from tests.traces import OPS_LINE, STEPS_LINE, event, line, us
from traceanalyzer.tables.vocabulary import (
    Kind,
    Role,
    classify,
    is_derived_line,
    op_and_type,
    role_of_type,
)


@pytest.mark.parametrize(
    ("name", "display_name", "kind", "op", "op_type"),
    [
        ("dense/MatMul:MatMul", "MatMul", Kind.OP, "dense/MatMul", "MatMul"),
        ("add:AddV2", "", Kind.OP, "add", "AddV2"),  # a trace that lost its display names
        ("x/_13:_Send", "_Send", Kind.OP, "x/_13", "_Send"),
        ("EagerLocalExecute: MatMul", "", Kind.EAGER_OP, "MatMul", "MatMul"),
        (
            "EagerLocalExecute: __inference_step_12",
            "",
            Kind.FUNCTION_CALL,
            "__inference_step_12",
            "",
        ),
        (
            "Iterator::Root::Map",
            "Iterator::Map",
            Kind.STAGE,
            "Iterator::Root::Map",
            "Iterator::Map",
        ),
        (
            "Iterator::Root::Zip[0]::Range[12]",
            "",
            Kind.STAGE,
            "Iterator::Root::Zip[0]::Range",
            "Iterator::Range",
        ),
        ("ExecutorState::Process", "", Kind.OTHER, "", ""),
        ("$train.py:12 step", "", Kind.OTHER, "", ""),
        ("a:Foo", "something else", Kind.OTHER, "", ""),
        ("std::vector:Push", "", Kind.OTHER, "", ""),
        # A server that others send eager ops to; as recorded, and as an op would be.
        ("EagerService:Enqueue", "", Kind.OTHER, "", ""),
        ("EagerService:Enqueue", "Enqueue", Kind.OTHER, "", ""),
    ],
)
def test_names_are_classified(
    name: str, display_name: str, kind: Kind, op: str, op_type: str
) -> None:
    plane = host_plane(line("python")(event(name, us(0, 1), display_name=display_name)))

    names = classify(plane)

    assert (Kind(names.kind[0]), names.op[0], names.type[0]) == (kind, op, op_type)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dense/MatMul:MatMul", ("dense/MatMul", "MatMul")),
        ("r/RandomUniform:RandomUniform#shape=(int32[3])#", ("r/RandomUniform", "RandomUniform")),
        (
            "a/_13:_Send#from=a,to=b#::#edge_name=edge_5_a#",
            ("a/_13", "_Send"),
        ),
        ("#edge_name=copy#", None),  # tensor.numpy()
        ("jit(f)/dot_general:", None),
    ],
)
def test_an_annotation_names_an_op_or_nothing(text: str, expected: tuple[str, str] | None) -> None:
    assert op_and_type(text) == expected


@pytest.mark.parametrize(
    ("op_type", "role"),
    [
        ("MatMul", Role.COMPUTE),
        ("Identity", Role.COMPUTE),
        ("_Send", Role.TRANSFER),
        ("_Arg", Role.RUNTIME),
        ("_EagerConst", Role.RUNTIME),
        ("StatefulPartitionedCall", Role.RUNTIME),
        ("_XlaRun", Role.COMPUTE),
        ("IteratorGetNext", Role.INPUT_PIPELINE),
        ("RangeDataset", Role.INPUT_PIPELINE),
        ("OptionalGetValue", Role.INPUT_PIPELINE),
        ("WriteSummary", Role.COMPUTE),
    ],
)
def test_a_type_gives_an_op_its_role(op_type: str, role: str) -> None:
    assert role_of_type(op_type) == role


@pytest.mark.parametrize(
    ("name", "line_id"),
    [
        ("Steps", STEPS_LINE),
        ("a name not known yet", OPS_LINE),
        ("a name not known yet", 0xDEADBEEF + 8),
        ("XLA Modules", 7),
        ("Launch Stats", 2),
    ],
)
def test_lines_that_repeat_others_are_known_by_name_or_number(name: str, line_id: int) -> None:
    assert is_derived_line(name, line_id)
