"""Eager ops of which something is unknown. `test_eager_against_tensorflow` shows the rules."""

import pytest

from tests.placement.graphs import KERNELS, full
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.eager import EagerInput, EagerOp, EagerSetting, place_eager
from traceanalyzer.placement.registry import load

FLOAT = EagerInput("float", full("CPU:0"), 1)


@pytest.mark.parametrize(
    ("op", "inputs", "scope"),
    [
        ("MatMul", [EagerInput("", ""), EagerInput("", "")], ""),  # types were not recorded
        ("MatMul", [FLOAT], ""),  # this op cannot have these inputs
        ("MyCustomOp", [FLOAT], ""),  # its kernels are unknown
        ("MatMul", [FLOAT, FLOAT], "nonsense"),
    ],
)
def test_unknown_facts_are_a_doubt_and_no_error(
    op: str, inputs: list[EagerInput], scope: str
) -> None:
    setting = EagerSetting(machine=Machine.local(gpus=1), registry=load(KERNELS))

    assert place_eager(EagerOp(op, {}, inputs, scope), setting).doubt
