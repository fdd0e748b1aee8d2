"""Priorities, attributes and ops of other libraries: what is said of them is in the registry."""

from __future__ import annotations

import pytest

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes import custom_op, kernel_priority
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import load, supported


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


@pytest.mark.parametrize("op", ["_MklMatMul", "__inference_f_3", "MatMul", "_FusedConv2D", "f"])
def test_what_is_no_op_of_a_library(op: str) -> None:
    assert custom_op.CAUSE.match(cpu_op(op), blocker("no_kernel", op)) is None


def prefers_cpu(version: str, op: str) -> bool:
    priorities = {k.device_type: k.priority for k in load(version).kernels(op)}
    return CPU in priorities and GPU in priorities and priorities[CPU] > priorities[GPU]
