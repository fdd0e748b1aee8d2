"""Where an eager op runs, rule by rule; that they are TensorFlow's is shown against TensorFlow."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.graphs import KERNELS, full
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerPlacement,
    EagerSetting,
    place_eager,
)
from traceanalyzer.placement.registry import load


def tensor(dtype: str, on: str = "CPU:0", elements: int | None = 1) -> EagerInput:
    return EagerInput(dtype, full(on), elements)


def placed(
    op: str,
    *inputs: EagerInput,
    scope: str = "",
    gpus: int = 1,
    soft: bool = True,
    pins_small: bool = False,
    **attributes: Any,  # noqa: ANN401 - values of attributes
) -> EagerPlacement:
    setting = EagerSetting(
        machine=Machine.local(gpus=gpus),
        registry=load(KERNELS),
        soft=soft,
        pins_small=pins_small,
        functions=frozenset({"__inference_f_1"}),
    )
    return place_eager(EagerOp(op, attributes, inputs, scope), setting)


FLOAT, WHOLE, TEXT = tensor("float"), tensor("int32"), tensor("string")
ON_CPU, ON_GPU = tensor("resource", "CPU:0"), tensor("resource", "GPU:0")


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("MatMul", [EagerInput("", ""), EagerInput("", "")]),  # types were not recorded
        ("MatMul", [FLOAT]),  # this op cannot have these inputs
        ("MyCustomOp", [FLOAT]),  # nobody knows its kernels
    ],
)
def test_what_is_not_known_is_a_doubt_and_no_error(op: str, inputs: list[EagerInput]) -> None:
    assert placed(op, *inputs).doubt
    assert "nonsense" in placed("MatMul", FLOAT, FLOAT, scope="nonsense").doubt


_DTYPES = st.sampled_from(["float", "int32", "string", "resource", "variant", "", "nonsense"])


@given(
    op=st.sampled_from(
        ["MatMul", "AddN", "ReadVariableOp", "IdentityN", "MyOp", "__inference_f_1"]
    ),
    inputs=st.lists(
        st.builds(tensor, _DTYPES, st.sampled_from(["CPU:0", "GPU:0", ""])), max_size=3
    ),
    scope=st.sampled_from(["", "/cpu:0", "/gpu:0", "/gpu:5", "x", "/device:*:1", "/job:w"]),
    soft=st.booleans(),
)
def test_any_op_runs_on_a_device_of_the_machine_or_not_at_all(
    op: str, inputs: list[EagerInput], scope: str, *, soft: bool
) -> None:
    found = placed(op, *inputs, scope=scope, soft=soft)
    assert found == placed(op, *inputs, scope=scope, soft=soft)
    assert found.device in {*Machine.local(gpus=1).devices, ""}
