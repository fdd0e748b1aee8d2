"""Types that a variable can have so that the ops that use it can be on a GPU."""

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import ONE_GPU, Program, arg
from traceanalyzer.placement.explanations import ReplayedExplanations
from traceanalyzer.tables.graph_nodes import OpRecord


@pytest.mark.parametrize(
    ("user", "types"),
    [("NoOp", ("int64", "double", "float")), ("MatMul", ("double", "float"))],
)
def test_an_op_that_its_variable_keeps_on_the_cpu_knows_them(
    user: str, types: tuple[str, ...]
) -> None:
    """A function reads a counter of int32, and adds to it. Types that keep its values are first."""
    program = Program()
    program.eager("__inference_f_1", program.variable(dtype="int32"))
    program.function(
        "__inference_f_1",
        arg("v", 0, "resource", on="CPU:0"),
        node("r", "ReadVariableOp", "v", dtype="int32"),
        node("sum", "AddV2", "r", "r", T="int32"),
        node("add", "AssignAddVariableOp", "v", "sum", dtype="int32"),
        # No type moves it: it does not count.
        node("text", "AsString", "r", T="int32"),
        node("used", "MatMul", "r", "r", T="int32") if user == "MatMul" else node("n", "NoOp"),
    )
    record = OpRecord(function="__inference_f_1", node="add", frame=None, requested_device="")

    explanation = ReplayedExplanations(program.capture_file(), ONE_GPU).of(
        "AssignAddVariableOp", record
    )

    assert explanation is not None
    assert {b.types for b in explanation.blockers if b.link == "resource"} == {types}
