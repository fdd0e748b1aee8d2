"""What of all that holds an op is told of as its own cause."""

from __future__ import annotations

import pytest

from tests.placement.graphs import node
from tests.placement.test_pinning import called as with_pinning
from tests.placement.test_pinning import definition as pinned_definition
from tests.placement.test_pinning import lengths
from tests.placement.test_program import ONE_GPU, Program, tensor
from traceanalyzer.evidence.cases import Case, ReplayedCases, without_copies
from traceanalyzer.evidence.examples import held, line
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.tables.joined import OpRecord


def test_a_request_that_was_copied_is_gone_with_the_one_it_was_copied_from() -> None:
    variable = held("resource", "VariableV2", "class", name="emb", asked="/device:CPU:0")
    slot = held("resource", "VariableV2", "class", name="emb/Adam", copied_from="emb")
    update = held("request", "Mul", name="update", copied_from="emb")
    other = held("request", "Add", "class", name="other")
    assert without_copies([variable, slot, update, other]) == (variable, other)


def test_a_copy_alone_is_a_cause() -> None:
    kernel = held("no_kernel", "AsString", "class", name="text")
    update = held("request", "Mul", name="update", copied_from="text")
    assert without_copies([kernel, update]) == (kernel, update)
    again = held("request", "Mul", name="again", copied_from="update")
    assert without_copies([again, update]) == (again, update)


def test_the_ends_of_an_inlined_function_ask_for_what_their_neighbours_do() -> None:
    scoped = held("request", "TensorListStack", name="map/stack", asked="/device:CPU:0")
    end = held(
        "request", "Identity", "class", name="Func/cond/then/_30/input/_89", asked="/device:CPU:0"
    )
    assert without_copies([scoped, end]) == (scoped,)
    assert without_copies([end]) == (end,)


def test_what_groups_ops_is_no_cause_of_its_own() -> None:
    variable = held("resource", "VariableV2", "class", name="emb", asked="/device:CPU:0")
    library = line(9, is_user=False, file="/lib/site-packages/tensorflow/python/ops/group.py")
    made = {"name": "update/group_deps", "asked": "/device:CPU:0"}
    grouped = held("request", "NoOp", "class", scope_frame=library, **made)
    assert without_copies([variable, grouped]) == (variable,)
    assert without_copies([grouped]) == (grouped,)
    by_user = held("request", "NoOp", "class", scope_frame=line(6), **made)
    assert without_copies([variable, by_user]) == (variable, by_user)


def test_a_request_for_a_variables_handle_is_gone_where_the_variable_is() -> None:
    variable = held("resource", "VarHandleOp", "resource", name="v", asked="/device:CPU:0")
    file = "/lib/site-packages/tensorflow/python/ops/resource_variable_ops.py"
    asked = {"name": "v/Assign", "asked": "/device:CPU:0"}
    library = line(9, is_user=False, file=file)
    reading = held("request", "AssignVariableOp", scope_frame=library, **asked)
    assert without_copies([variable, reading]) == (variable,)
    assert without_copies([reading]) == (reading,)
    by_user = held("request", "AssignVariableOp", scope_frame=line(6), **asked)
    assert without_copies([variable, by_user]) == (variable, by_user)
    elsewhere = line(9, is_user=False, file=file.replace("resource_variable_ops", "lookup_ops"))
    by_another = held("request", "AssignVariableOp", scope_frame=elsewhere, **asked)
    assert without_copies([variable, by_another]) == (variable, by_another)


def eager_record(*signatures: int) -> OpRecord:
    return OpRecord(frame=None, requested_device="", signatures=signatures)


def test_an_eager_op_whose_calls_are_held_alike_is_certain() -> None:
    program = Program()
    made = (tensor("float"),)
    calls = [
        program.eager("Tanh", *made, scope="/device:CPU:0", outputs=made, T="float")
        for _ in range(2)
    ]
    case = ReplayedCases(program.sidecar(gpus=1)).of("Tanh", eager_record(*calls))
    assert case is not None
    assert (case.certainty, case.doubt) == ("certain", "")


def test_an_eager_op_whose_calls_are_held_differently_is_likely() -> None:
    """One by its scope, one by its type: neither is what keeps all of them."""
    program = Program()
    floats, bools = (tensor("float"),), (tensor("int8"),)
    scoped = program.eager("Sqrt", *floats, scope="/device:CPU:0", outputs=floats, T="float")
    typed = program.eager("Abs", *bools, outputs=bools, T="int8")
    cases = ReplayedCases(program.sidecar(gpus=1))
    both = cases.of("Sqrt", eager_record(scoped, typed))
    assert both is not None
    assert (both.certainty, both.doubt) == ("likely", "calls of it are not all held alike")


@pytest.mark.parametrize(("second", "certainty"), [("/device:CPU:0", "certain"), ("", "likely")])
def test_a_node_that_not_every_call_holds_alike_is_likely(second: str, certainty: str) -> None:
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
    case = ReplayedCases(program.sidecar(gpus=1)).of("Tanh", record)
    assert case is not None
    assert case.certainty == certainty


def _pinned_case(*, has_shapes: bool) -> Case | None:
    name = "__inference_f_1"
    shapes = (pinned_definition(name),) if has_shapes else ()
    sidecar = with_pinning(lengths(name), definitions=shapes)
    record = OpRecord(frame=None, requested_device="", device=None, function=name, node="f")
    return ReplayedCases(sidecar, ONE_GPU).of("Cast", record)


def test_what_an_optimizer_takes_to_the_host_afterwards_is_foretold() -> None:
    known, unknown = (_pinned_case(has_shapes=has_shapes) for has_shapes in (True, False))
    assert known is not None
    assert unknown is not None
    assert [h.hold for h in known.held] == [h.hold for h in unknown.held] == [Hold.OPTIMIZER]
    assert (known.certainty, unknown.certainty) == ("likely", "possible")
    assert "optimizers" in known.doubt
    assert "shapes" in unknown.doubt


def _on_host(program: Program, record: OpRecord) -> Case | None:
    return ReplayedCases(program.sidecar(), ONE_GPU).on_host(record)


def test_an_int32_op_on_a_gpu_is_computed_on_the_host() -> None:
    """It is not on the CPU: its device is the GPU, its data is in host memory."""
    program = Program()
    number = program.eager("AddV2", tensor("int32"), tensor("int32"))

    case = _on_host(program, eager_record(number))

    assert case is not None
    (held_by,) = case.held
    assert (held_by.hold, held_by.attributes, case.certainty) == (
        Hold.HOST_MEMORY,
        {"T": "int32"},
        "certain",
    )
    assert held_by.kernel is not None
    assert held_by.kernel.host_memory_args == ("x", "y", "z")
    assert ReplayedCases(program.sidecar(), ONE_GPU).of("AddV2", eager_record(number)) is None


def test_what_a_gpu_computes_or_the_cpu_has_is_not_computed_on_the_host_of_a_gpu() -> None:
    program = Program()
    floats = program.eager("AddV2", tensor("float"), tensor("float"))
    handle = program.eager("VarHandleOp", dtype="float", shape={"shape": []})
    pinned = program.eager("AddV2", tensor("int32"), tensor("int32"), scope="/device:CPU:0")
    no_kernel = program.eager("MatMul", tensor("int32"), tensor("int32"))

    for number in (floats, handle, pinned, no_kernel):
        assert _on_host(program, eager_record(number)) is None
    integers = program.eager("AddV2", tensor("int32"), tensor("int32"))
    assert _on_host(program, eager_record(integers, floats)) is None  # only some of its calls


def test_a_node_on_a_gpu_whose_data_is_in_host_memory_is_computed_on_the_host() -> None:
    program = Program()
    program.function(
        "__inference_f_1",
        node("n", "_Arg", T="int32", index=0),
        node("square", "Mul", "n", "n", T="int32"),
        node("wide", "Cast", "square", SrcT="int32", DstT="float"),
        node("shape", "Shape", "wide", T="float", out_type="int32"),
    )
    program.eager("__inference_f_1", tensor("int32"))

    def found(name: str) -> Case | None:
        of = OpRecord(frame=None, requested_device="", function="__inference_f_1", node=name)
        return _on_host(program, of)

    assert {name: found(name) is not None for name in ("square", "wide", "shape")} == {
        "square": True,
        "wide": False,
        "shape": True,
    }
