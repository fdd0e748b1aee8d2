"""What rewrites make stands for the program's ops: of every version, and as TensorFlow makes it."""

from __future__ import annotations

import pytest

from tests.emulator.oracle import the_oracle
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.rewrites import (
    PROGRAMS_OWN,
    RUNTIMES_OWN,
    Rewritten,
    original,
)

OPS = {op for version in supported() for op in load(version).ops}
HIDDEN = sorted(op for op in OPS if op.startswith("_"))


def strings(*texts: str) -> list[dict[str, str]]:
    return [{"s": text} for text in texts]


def test_each_hidden_op_stands_for_others_or_is_known_not_to() -> None:
    for op in HIDDEN:
        rewritten = original(op)
        if op in RUNTIMES_OWN | PROGRAMS_OWN:
            assert rewritten is None, op
        elif op == "_UnaryOpsComposition":
            assert rewritten == Rewritten(ops=(), is_complete=False)
        else:
            assert rewritten is not None, op
            assert rewritten.ops, op
            assert {*rewritten.ops} <= OPS - {*HIDDEN}, op


def test_names_only_ops_that_there_are() -> None:
    assert not (RUNTIMES_OWN | PROGRAMS_OWN) - OPS
    assert not RUNTIMES_OWN & PROGRAMS_OWN


@pytest.mark.parametrize("op", ["MatMul", "_MyOp", "_FusedMyOp", "_MklMyOp", "", "_"])
def test_other_ops_stand_for_nothing_else(op: str) -> None:
    assert original(op) is None


@pytest.mark.parametrize(
    ("op", "attributes", "ops", "is_complete"),
    [
        ("_MklMatMul", {}, ("MatMul",), True),
        ("_FusedMatMul", {}, ("MatMul",), False),
        (
            "_FusedMatMul",
            {"fused_ops": strings("BiasAdd", "GeluExact")},
            ("MatMul", "BiasAdd", "Mul", "Erf"),
            False,
        ),
        (
            "_FusedBatchNormEx",
            {"activation_mode": {"s": "Relu"}, "num_side_inputs": 1},
            ("FusedBatchNormV3", "Relu", "AddV2"),
            True,
        ),
        ("_MklNativePadWithConv2D", {}, ("Conv2D", "Pad"), True),
        ("_UnaryOpsComposition", {"op_names": None}, (), False),
    ],
)
def test_what_an_op_stands_for(
    op: str, attributes: dict[str, object], ops: tuple[str, ...], *, is_complete: bool
) -> None:
    assert original(op, attributes) == Rewritten(ops=ops, is_complete=is_complete)  # type: ignore[arg-type]


def test_what_grappler_makes_stands_for_what_it_took() -> None:
    nodes = the_oracle().run("tests.placement.rewritten_graph:rewritten", gpus=0).value
    made = {
        op: original(op, {k: strings(*v) for k, v in attributes.items()})
        for op, attributes in nodes
        if op.startswith("_")
    }
    assert made == {
        "_FusedMatMul": Rewritten(ops=("MatMul", "BiasAdd", "Relu")),
        "_TensorToHashBucketFast": Rewritten(ops=("StringToHashBucketFast", "AsString")),
        "_UnaryOpsComposition": Rewritten(ops=("Tanh", "Relu", "Sqrt")),
    }
