"""Which type a variable could have, so that what uses it can be on a GPU."""

from tests.placement.graphs import node
from tests.placement.test_program import ONE_GPU, Program, arg
from traceanalyzer.placement.explanations import ReplayedExplanations
from traceanalyzer.placement.retyping import VariableUses
from traceanalyzer.tables.graph_nodes import OpRecord


def program(*, multiplies: bool) -> Program:
    """A counter of int32 that a function reads, and adds to or multiplies as a matrix."""
    made = Program()
    handle = made.variable(dtype="int32")
    made.eager("__inference_f_1", handle)
    uses = node("mm", "MatMul", "r", "r", T="int32") if multiplies else node("n", "NoOp")
    made.function(
        "__inference_f_1",
        arg("v", 0, "resource", on="CPU:0"),
        node("r", "ReadVariableOp", "v", dtype="int32"),
        node("sum", "AddV2", "r", "r", T="int32"),
        node("add", "AssignAddVariableOp", "v", "sum", dtype="int32"),
        # No type moves it: it does not count.
        node("text", "AsString", "r", T="int32"),
        uses,
    )
    return made


def types(*, multiplies: bool) -> tuple[str, ...] | None:
    capture_file = program(multiplies=multiplies).capture_file()
    (variable,) = capture_file.resources
    return VariableUses(capture_file).types_of_resource(variable)


def test_a_counter_can_be_of_the_wider_integer() -> None:
    assert types(multiplies=False) == ("int64", "float", "double")


def test_what_is_multiplied_as_a_matrix_cannot() -> None:
    assert types(multiplies=True) == ("float", "double")


def test_an_op_that_the_variable_keeps_on_the_cpu_knows_them() -> None:
    capture_file = program(multiplies=True).capture_file()
    record = OpRecord(function="__inference_f_1", node="add", frame=None, requested_device="")

    explanation = ReplayedExplanations(capture_file, ONE_GPU).of("AssignAddVariableOp", record)

    assert explanation is not None
    assert {blocker.types for blocker in explanation.blockers if blocker.link == "resource"} == {
        ("float", "double")
    }
