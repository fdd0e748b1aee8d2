"""Explanations of placements: which blockers count, and how certain that is."""

import pytest

from tests.causes.examples import blocker
from tests.placement.graphs import node
from tests.placement.test_program import ONE_GPU, Program, tensor
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.explanations import (
    PlacementExplanation,
    ReplayedExplanations,
    without_copies,
)
from traceanalyzer.tables.graph_nodes import OpRecord


def test_a_request_that_was_copied_is_gone_with_the_one_it_was_copied_from() -> None:
    variable = blocker(
        "resource", "VariableV2", "class", name="emb", requested_device="/device:CPU:0"
    )
    slot = blocker("resource", "VariableV2", "class", name="emb/Adam", copied_from="emb")
    update = blocker("request", "Mul", name="update", copied_from="emb")
    other = blocker("request", "Add", "class", name="other")
    assert without_copies([variable, slot, update, other]) == (variable, other)


def eager_record(*signatures: int) -> OpRecord:
    return OpRecord(frame=None, requested_device="", signatures=signatures)


def test_an_eager_op_whose_calls_have_other_blockers_is_likely() -> None:
    """One by its scope, one by its type: neither keeps all of them on the CPU."""
    program = Program()
    floats, bools = (tensor("float"),), (tensor("int8"),)
    scoped = program.eager("Sqrt", *floats, scope="/device:CPU:0", outputs=floats, T="float")
    typed = program.eager("Abs", *bools, outputs=bools, T="int8")
    explanations = ReplayedExplanations(program.capture_file(gpus=1))
    one = explanations.of("Sqrt", eager_record(scoped))
    both = explanations.of("Sqrt", eager_record(scoped, typed))
    assert one is not None
    assert one.certainty == "certain"
    assert both is not None
    assert (both.certainty, both.doubt) == (
        "likely",
        "its calls do not all have the same blockers",
    )


@pytest.mark.parametrize(("second", "certainty"), [("/device:CPU:0", "certain"), ("", "likely")])
def test_a_node_whose_calls_have_other_blockers_is_likely(second: str, certainty: str) -> None:
    program = Program()
    program.eager("__f")
    for asked in ("/device:CPU:0", second):
        program.function(
            "__f",
            node("x", "Placeholder", dtype="float"),
            node("y", "Tanh", "x", T="float", asked=asked),
            assigned=("GPU:0", "CPU:0" if asked else "GPU:0"),
        )
    record = OpRecord(frame=None, requested_device=None, function="__f", node="y")
    explanation = ReplayedExplanations(program.capture_file(gpus=1)).of("Tanh", record)
    assert explanation is not None
    assert explanation.certainty == certainty


def _on_host(program: Program, record: OpRecord) -> PlacementExplanation | None:
    return ReplayedExplanations(program.capture_file(), ONE_GPU).on_host(record)


def test_an_int32_op_on_a_gpu_is_computed_on_the_host() -> None:
    """It is not on the CPU: its device is the GPU, its data is in host memory."""
    program = Program()
    number = program.eager("AddV2", tensor("int32"), tensor("int32"))

    explanation = _on_host(program, eager_record(number))

    assert explanation is not None
    (blocker_,) = explanation.blockers
    assert (blocker_.kind, blocker_.attributes, explanation.certainty) == (
        BlockerKind.HOST_MEMORY,
        {"T": "int32"},
        "certain",
    )
    assert (
        ReplayedExplanations(program.capture_file(), ONE_GPU).of("AddV2", eager_record(number))
        is None
    )


def test_an_op_without_any_gpu_kernel_is_certain_wherever_it_was_called() -> None:
    program = Program()
    program.function(
        "__inference_f_1",
        node("x", "Placeholder", dtype="float"),
        node("values", "Eig", "x", T="float", Tout="complex64"),
        node("y", "Tanh", "x", T="float", asked="/device:CPU:0"),
        assigned=("CPU:0", "CPU:0", "CPU:0"),
    )
    explanations = ReplayedExplanations(program.capture_file(), ONE_GPU)

    found = {
        name: explanations.of(
            op_type,
            OpRecord(frame=None, requested_device=None, function="__inference_f_1", node=name),
        )
        for name, op_type in (("values", "Eig"), ("y", "Tanh"))
    }

    assert {name: each and each.certainty for name, each in found.items()} == {
        "values": "certain",
        "y": "likely",
    }
