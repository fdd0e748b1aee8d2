"""Priorities, attributes and ops of other libraries: what is said of them is in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes import attr_unsupported, custom_op, kernel_priority
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import load, supported

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Json


def test_the_priorities_that_it_names_are_those_of_each_version() -> None:
    for version in supported():
        registry = load(version)
        preferred = [op for op in registry.ops if prefers_cpu(version, op)]
        assert len(preferred) > 10
        for op in preferred:
            mark = kernel_priority.CAUSE.match(cpu_op(op), blocker("priority", op))
            assert mark is not None
            assert mark.evidence[0].text == (
                f"the CPU kernel of {op} has priority 2, the GPU kernel 1"
            )


def test_the_policy_that_it_offers_has_a_gpu_kernel() -> None:
    given: dict[str, Json] = {"bad_indices_policy": {"s": "ERROR"}}
    every: dict[str, Json] = {"Tparams": "float", "Tindices": "int32", **given}
    member = (cpu_op("GatherNd"), blocker("attributes", "GatherNd", attributes=given, given=every))
    assert attr_unsupported.CAUSE.describe is not None

    (fix,) = attr_unsupported.CAUSE.describe([member]).fixes

    assert (fix.code, fix.checked) == ('bad_indices_policy="IGNORE"', True)
    types: dict[str, Json] = {"Tparams": "float", "Tindices": "int32"}
    newest = load(supported()[-1])
    assert newest.find("GatherNd", GPU, {**types, **given}) is None
    offered: dict[str, Json] = {"bad_indices_policy": {"s": "IGNORE"}}
    assert newest.find("GatherNd", GPU, {**types, **offered}) is not None


@pytest.mark.parametrize("op", ["_MklMatMul", "__inference_f_3", "MatMul", "_FusedConv2D", "f"])
def test_what_is_no_op_of_a_library(op: str) -> None:
    assert custom_op.CAUSE.match(cpu_op(op), blocker("no_kernel", op)) is None


def prefers_cpu(version: str, op: str) -> bool:
    priorities = {k.device_type: k.priority for k in load(version).kernels(op)}
    return CPU in priorities and GPU in priorities and priorities[CPU] > priorities[GPU]
