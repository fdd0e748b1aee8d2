"""Which causes are left for ops of a bare trace, and in which order."""

from dataclasses import replace
from typing import Any

import pytest

from tests.capture_file.capture_files import sample
from tests.causes.examples import Example, cpu_op
from traceanalyzer.capture_file.document import CaptureFile, Json
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.cpu_ops import analyse
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.trace.tfevents import VersionSighting

SESSION = {"function": None}
GPU = {"placement": "gpu:0"}


def left_of(
    op_type: str,
    *others: dict[str, Any],
    version: str | None = None,
    **row: Any,  # noqa: ANN401 - any column of the op table
) -> tuple[str, ...]:
    """The causes that are left for an op, beside others, on the CPU by default."""
    op = {"name": "op", "type": op_type, **row}
    run = Example(title="", ops=(op, *others)).run()
    known = None if version is None else VersionSighting(value=version, source="the test")
    run = replace(run, version=known)
    (found,) = (s for s in analyse(run).cpu_ops.values() if s.name == op["name"])
    return Candidates(run).of(found)


@pytest.mark.parametrize("version", [None, "2.4", "2.21.0", "2.13.0+nv23.7"])
def test_where_all_tables_have_a_gpu_kernel_that_is_no_candidate(version: str | None) -> None:
    assert "no_gpu_kernel" not in left_of("MatMul", version=version)
    assert "no_gpu_kernel" not in left_of("ReadVariableOp", version=version)


class TestFunctions:
    @pytest.mark.parametrize("row", [{}, {"input_types": "float"}, {"input_types": "?;int64"}])
    def test_what_may_be_small_may_have_been_moved(self, row: dict[str, str]) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        assert "grappler_pin_to_host" in left_of("Erfc", beside, **row)
        assert "grappler_pin_to_host" not in left_of("Erfc", **row)

    def test_an_op_whose_gradient_is_on_the_cpu_is_colocated_with_it(self) -> None:
        gradient = {"name": "model/gradients_1/scale/op_grad/Mul", "type": "Mul"}
        assert left_of("Erfc", gradient, name="scale/op")[0] == "colocation_group"
        assert left_of("Erfc", {**gradient, **GPU}, name="scale/op")[0] != "colocation_group"


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


class TestExcluded:
    def test_an_op_of_another_library(self) -> None:
        assert left_of("MyGelu") == ("custom_op",)

    def test_nothing_is_said_where_the_replay_contradicts_or_nothing_is_known(self) -> None:
        run = Example(title="", ops=({"name": "op", "type": "MatMul"},)).run()
        wrong = cpu_op(
            "MatMul",
            explanation=PlacementExplanation(type="MatMul", contradiction="it says otherwise"),
        )
        assert Candidates(run).of(wrong) == ()
        assert Candidates(run).of(None) == ()

    def test_an_optimizer_that_was_off_moved_nothing(self) -> None:
        beside = {"name": "mm", "type": "MatMul", **GPU}
        run = Example(title="", ops=({"name": "op", "type": "Erfc"}, beside)).run()
        (host,) = run.hosts

        def with_devices(devices: dict[str, Json] | None) -> CaptureFile:
            return replace(sample(), session_configs=(), devices=devices)

        off, killed = with_devices({"optimizer_options": {}}), with_devices(None)
        on = with_devices({"optimizer_options": {"pin_to_host_optimization": True}})
        op = next(iter(analyse(run).cpu_ops.values()))

        def is_left(capture_file: CaptureFile | None) -> bool:
            captured = replace(run, hosts=(replace(host, capture_file=capture_file),))
            return "grappler_pin_to_host" in Candidates(captured).of(op)

        assert [is_left(each) for each in (None, off, killed, on)] == [True, False, True, True]

    def test_what_was_recorded_excludes_requests_and_kernels(self) -> None:
        run = Example(title="", ops=({"name": "op", "type": "MatMul"},)).run()
        explanation = PlacementExplanation(
            type="MatMul", kernels=("GPU", "CPU"), types_missing=("int32",)
        )
        found = Candidates(run).of(cpu_op("MatMul", explanation=explanation, requested_device=""))
        assert not {"explicit_cpu_placement", "library_cpu_placement"} & {*found}
        assert not {"dtype_unsupported", "attr_unsupported"} & {*found}
        on_cpu = Candidates(run).of(cpu_op("MatMul", requested_device="/device:CPU:0"))
        assert on_cpu[0] == "explicit_cpu_placement"


@pytest.mark.parametrize("op_type", ["MatMul", "ResourceGather", "Identity", "GatherNd", "Tile"])
@pytest.mark.parametrize("version", [None, "2.4", "2.21.0"])
def test_never_more_than_four_and_none_that_needs_proof(op_type: str, version: str | None) -> None:
    for row in ({}, SESSION, {**SESSION, "is_eager": True}, {"name": "replica_1/write_summary/x"}):
        found = left_of(op_type, version=version, **row)
        assert 1 <= len(found) == len({*found}) <= 4
        needing_proof = {"memory_pressure", "remote_host"}
        assert not needing_proof & {*found}
        assert "host_memory_kernel" not in found
