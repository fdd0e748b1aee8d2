"""Which causes are left for ops of a bare trace, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.sidecar.sidecars import sample
from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.evidence.candidates import Candidates
from traceanalyzer.evidence.cases import Case, case_by_registry
from traceanalyzer.evidence.examples import subject
from traceanalyzer.evidence.library_scopes import SCOPES
from traceanalyzer.placement.registry import supported
from traceanalyzer.rules import Example
from traceanalyzer.rules.library_cpu_placement import HABITS
from traceanalyzer.trace.tfevents import TfVersion

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Json, Sidecar

SESSION = {"function": None}
GPU = {"placement": "gpu:0"}


def left_of(
    op_type: str,
    *others: dict[str, Any],
    version: str | None = None,
    **row: Any,  # noqa: ANN401 - any column of the op table
) -> tuple[str, ...]:
    """The causes that are left for an op, beside others, on the CPU where nothing else is said."""
    op = {"name": "op", "type": op_type, **row}
    run = Example(title="", ops=(op, *others)).run()
    told = None if version is None else TfVersion(value=version, source="the test")
    run = replace(run, version=told)
    (found,) = (s for s in analyse(run).subjects if s.name == op["name"])
    return Candidates(run).of(found)


def test_what_programs_write_comes_before_what_leaves_no_mark() -> None:
    found = left_of("Erfc")
    assert found[:2] == ("explicit_cpu_placement", "caller_device_scope_cpu")
    assert len(found) == 4


@pytest.mark.parametrize("version", [None, *supported(), "2.99.0", "2.13.0+nv23.7"])
def test_where_all_tables_have_a_gpu_kernel_that_is_no_candidate(version: str | None) -> None:
    assert "no_gpu_kernel" not in left_of("MatMul", version=version)
    assert "no_gpu_kernel" not in left_of("ReadVariableOp", version=version)


def test_it_may_be_missing_in_a_version_that_is_older_than_all_tables() -> None:
    assert left_of("ReadVariableOp", version="2.4")[-1] == "no_gpu_kernel"
    assert left_of("ReadVariableOp", version="2.1 or 2.2")[-1] == "no_gpu_kernel"


def test_a_young_gpu_kernel_may_be_missing_in_an_unknown_version() -> None:
    assert "no_gpu_kernel" in left_of("ApproxTopK")
    assert "no_gpu_kernel" not in left_of("ApproxTopK", version="2.21.0")


def test_a_type_that_programs_use_comes_first_and_one_that_few_do_later() -> None:
    assert left_of("MatMul")[0] == "dtype_unsupported"  # int32
    of_complex = left_of("Square")
    assert of_complex[:3] == (
        "explicit_cpu_placement",
        "caller_device_scope_cpu",
        "dtype_unsupported",
    )


def test_a_list_may_be_of_strings() -> None:
    assert left_of("TensorListLength")[0] == "dtype_unsupported"


def test_where_the_types_are_known_to_have_a_kernel_they_are_no_cause() -> None:
    assert "dtype_unsupported" not in left_of("MatMul", input_types="float;float")
    assert "dtype_unsupported" not in left_of("Erfc")  # it has a kernel for each of its types


def test_what_a_rewrite_takes_is_of_types_that_it_can_compute() -> None:
    """OneDNN's MatMul is of floats, and of these all have a kernel on a GPU."""
    assert case_by_registry("_MklMatMul", None, "2.21").types_missing == ()
    assert "int32" in case_by_registry("MatMul", None, "2.21").types_missing
    assert "dtype_unsupported" not in left_of("_MklMatMul")


def test_what_no_kernel_names_is_no_missing_type() -> None:
    """The CPU kernel of Cast takes strings as well, by its registration alone."""
    assert case_by_registry("Cast", None, "2.21").types_missing == ()


def test_a_type_is_missing_once() -> None:
    missing = case_by_registry("GatherNd", None, "2.21").types_missing
    assert len({*missing}) == len(missing) > 0


def test_a_setting_that_no_gpu_kernel_takes() -> None:
    found = left_of("GatherNd", input_types="float;int32")
    assert found[0] == "attr_unsupported"
    assert "attr_unsupported" not in left_of("Gather")


def test_labels_are_what_few_programs_have() -> None:
    found = left_of("Conv2DBackpropFilter", input_types="float;int32;float")
    assert found.index("attr_unsupported") == 2
    assert "attr_unsupported" not in left_of("Conv2D", input_types="float;float")


@pytest.mark.parametrize("op_type", ["ReadVariableOp", "ResourceGather", "AssignAdd"])
def test_what_takes_a_resource_is_where_that_is(op_type: str) -> None:
    found = left_of(op_type)
    assert found[0] == "resource_on_cpu"
    assert "distribution_strategy_cpu" in found
    assert not {"explicit_cpu_placement", "caller_device_scope_cpu"} & {*found}


@pytest.mark.parametrize("op_type", ["Unstage", "Const", "Shape", "Size", "Identity"])
def test_some_follow_their_neighbours(op_type: str) -> None:
    assert "follows_neighbour" in left_of(op_type, **SESSION)


@pytest.mark.parametrize("op_type", ["VarHandleOp", "Variable", "MatMul", "Stage"])
def test_others_do_not(op_type: str) -> None:
    assert "follows_neighbour" not in left_of(op_type, **SESSION)


def test_the_priority_of_kernels_counts_where_no_default_device_does() -> None:
    assert left_of("GetOptions", **SESSION)[0] == "kernel_priority"
    assert left_of("GetOptions")[0] == "explicit_cpu_placement"


class TestFunctions:
    def test_where_ops_beside_it_are_on_a_gpu_its_function_was_hardly_called_on_the_cpu(
        self,
    ) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        assert left_of("Erfc", beside) == (
            "explicit_cpu_placement",
            "grappler_pin_to_host",
            "distribution_strategy_cpu",
            "caller_device_scope_cpu",
        )
        assert left_of("Erfc", {**beside, "function": "other"})[1] == "caller_device_scope_cpu"

    def test_what_may_be_small_may_have_been_moved_where_something_is_sent(self) -> None:
        send = {"name": "x/_1", "type": "_Send", "role": "transfer"}
        assert left_of("Erfc", send) == (
            "explicit_cpu_placement",
            "caller_device_scope_cpu",
            "distribution_strategy_cpu",
            "grappler_pin_to_host",
        )
        for other in ({**send, **GPU}, {**send, "function": "other"}, {**send, "type": "Send"}):
            assert "grappler_pin_to_host" not in left_of("Erfc", other)

    @pytest.mark.parametrize("row", [{}, {"input_types": "float"}, {"input_types": "?;int64"}])
    def test_what_may_be_small_may_have_been_moved(self, row: dict[str, str]) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        assert "grappler_pin_to_host" in left_of("Erfc", beside, **row)
        assert "grappler_pin_to_host" not in left_of("Erfc", **row)

    @pytest.mark.parametrize(
        ("op_type", "row"),
        [
            ("Erfc", {"input_types": "double"}),
            ("Erfc", {"input_types": "float;half"}),
            ("Erfc", {"is_eager": True, "function": None}),
            ("ComplexAbs", {}),
            ("ReadVariableOp", {}),
        ],
    )
    def test_what_is_never_small_was_not(self, op_type: str, row: dict[str, Any]) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        assert "grappler_pin_to_host" not in left_of(op_type, beside, **row)

    def test_what_reads_a_variable_tells_nothing_of_the_call(self) -> None:
        read = {"name": "read", "type": "ReadVariableOp", **GPU}
        argument = {"name": "x", "type": "_Arg", "role": "runtime", **GPU}
        assert left_of("Erfc", read, argument)[1] == "caller_device_scope_cpu"

    def test_a_call_that_was_inlined_is_another_one(self) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        within = {"name": "StatefulPartitionedCall/Erfc"}
        assert left_of("Erfc", beside, **within)[1] == "caller_device_scope_cpu"
        beside["name"] = "StatefulPartitionedCall/mm"
        assert left_of("Erfc", beside, **within)[1] != "caller_device_scope_cpu"

    def test_the_graph_of_a_session_is_not_called(self) -> None:
        found = left_of("Erfc", **SESSION)
        assert found[:2] == ("explicit_cpu_placement", "colocation_group")
        assert found.index("caller_device_scope_cpu") > 2
        assert "colocation_group" in left_of("AssignAdd", **SESSION)
        assert "colocation_group" not in left_of("AssignAdd")

    def test_functions_in_which_gradients_are_colocated(self) -> None:
        for scope in ("gradients", "saliency"):
            other = {"name": f"{scope}/other_grad/Mul", "type": "Mul", "placement": "unknown"}
            assert left_of("Erfc", other).index("colocation_group") == 2
        assert left_of("Erfc").index("colocation_group") == 3

    def test_an_op_whose_gradient_is_on_the_cpu_is_colocated_with_it(self) -> None:
        gradient = {"name": "model/gradients_1/scale/op_grad/Mul", "type": "Mul"}
        assert left_of("Erfc", gradient, name="scale/op")[0] == "colocation_group"
        assert left_of("Erfc", {**gradient, **GPU}, name="scale/op")[0] != "colocation_group"

    def test_replicas_tell_of_a_strategy(self) -> None:
        replica = {"name": "tower/replica_1/Gather", "type": "ResourceGather"}
        assert left_of("AddN", replica)[0] == "distribution_strategy_cpu"
        assert left_of("ResourceGather", replica)[0] == "distribution_strategy_cpu"
        assert left_of("AddN", {**replica, "name": "replica_0/Gather"})[0] == "dtype_unsupported"
        assert left_of("AddN", {**replica, "function": "other"})[0] == "dtype_unsupported"


class TestEager:
    def test_nothing_of_graphs_is_a_cause(self) -> None:
        of_graphs = {"caller_device_scope_cpu", "colocation_group", "follows_neighbour"}
        for op_type in ("Identity", "MatMul", "Erfc"):
            found = left_of(op_type, is_eager=True, **SESSION)
            assert not of_graphs & {*found}
            assert "library_cpu_placement" in found

    def test_small_integers_where_it_may_take_them(self) -> None:
        assert "small_int_pinning" in left_of("AddV2", is_eager=True, **SESSION)
        assert "small_int_pinning" not in left_of("Erfc", is_eager=True, **SESSION)
        assert "small_int_pinning" not in left_of("RandomUniform", is_eager=True, **SESSION)
        assert "small_int_pinning" not in left_of("AddV2", **SESSION)


class TestLibraries:
    @pytest.mark.parametrize(
        ("op_type", "name"),
        [
            ("Erfc", "model/text_vectorization_1/Erfc"),
            ("Max", "string_lookup_1_1/bincount/Max"),
            ("Erfc", "loss/write_summary/Erfc"),
            ("Sqrt", "write_summary_1/Sqrt"),
            ("Prod", "gradient_tape/model/Prod_1"),
            ("FloorMod", "gradients/volume_grad/mod"),
            ("Tile", "loop_body/while/pfor/Tile"),
            ("Identity", "save_1/Identity"),
        ],
    )
    def test_a_name_tells_of_a_library(self, op_type: str, name: str) -> None:
        assert left_of(op_type, name=name)[0] == "library_cpu_placement"

    @pytest.mark.parametrize("name", ["hashing_trick/Erfc", "model/save/Erfc", "summary/Erfc"])
    def test_a_name_that_is_like_it_does_not(self, name: str) -> None:
        assert left_of("Erfc", name=name)[0] == "explicit_cpu_placement"

    def test_not_every_version_has_the_habit(self) -> None:
        layer = {"name": "text_vectorization/Erfc"}
        assert left_of("Erfc", **layer, version="2.21.0")[0] == "library_cpu_placement"
        assert left_of("Erfc", **layer, version="2.12.1")[0] != "library_cpu_placement"
        table = {"name": "model/embedding_2/embedding_lookup"}
        assert "library_cpu_placement" in left_of("ResourceGather", **table, version="2.4")
        assert "library_cpu_placement" not in left_of("ResourceGather", **table, version="2.12.1")

    def test_what_a_name_tells_of_is_a_habit_of_the_rule(self) -> None:
        known = {habit.sub_reason for habit in HABITS}
        assert {scope.habit for scope in SCOPES} - known == {"embedding"}


class TestExcluded:
    def test_an_op_of_another_library(self) -> None:
        assert left_of("MyGelu") == ("custom_op",)

    def test_nothing_is_said_where_the_replay_contradicts_or_nothing_is_known(self) -> None:
        run = Example(title="", ops=({"name": "op", "type": "MatMul"},)).run()
        wrong = subject("MatMul", case=Case(type="MatMul", contradiction="it says otherwise"))
        assert Candidates(run).of(wrong) == ()
        assert Candidates(run).of(None) == ()

    def test_an_optimizer_that_was_off_moved_nothing(self) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        run = Example(title="", ops=({"name": "op", "type": "Erfc"}, beside)).run()
        (host,) = run.hosts

        def with_devices(devices: dict[str, Json] | None) -> Sidecar:
            return replace(sample(), session_configs=(), devices=devices)

        off, killed = with_devices({"optimizer_options": {}}), with_devices(None)
        on = with_devices({"optimizer_options": {"pin_to_host_optimization": True}})
        op = analyse(run).subjects[0]

        def is_left(sidecar: Sidecar | None) -> bool:
            captured = replace(run, hosts=(replace(host, sidecar=sidecar),))
            return "grappler_pin_to_host" in Candidates(captured).of(op)

        assert [is_left(each) for each in (None, off, killed, on)] == [True, False, True, True]

    def test_what_was_recorded_excludes_requests_and_kernels(self) -> None:
        run = Example(title="", ops=({"name": "op", "type": "MatMul"},)).run()
        case = Case(type="MatMul", kernels=("GPU", "CPU"), types_missing=("int32",))
        found = Candidates(run).of(subject("MatMul", case=case, requested_device=""))
        assert not {"explicit_cpu_placement", "library_cpu_placement"} & {*found}
        assert not {"dtype_unsupported", "attr_unsupported"} & {*found}
        asked = Candidates(run).of(subject("MatMul", requested_device="/device:CPU:0"))
        assert asked[0] == "explicit_cpu_placement"


@pytest.mark.parametrize("op_type", ["MatMul", "ResourceGather", "Identity", "GatherNd", "Tile"])
@pytest.mark.parametrize("version", [None, "2.4", "2.21.0"])
def test_never_more_than_four_and_none_that_needs_proof(op_type: str, version: str | None) -> None:
    for row in ({}, SESSION, {**SESSION, "is_eager": True}, {"name": "replica_1/write_summary/x"}):
        found = left_of(op_type, version=version, **row)
        assert 1 <= len(found) == len({*found}) <= 4
        needing_proof = {"memory_pressure", "remote_host"}
        assert not needing_proof & {*found}
        assert "host_memory_kernel" not in found
