"""Which kernels an op has, by type: against the registry itself, and where ops are known."""

from __future__ import annotations

import pytest

from traceanalyzer.placement.registry import load
from traceanalyzer.placement.support import (
    Mismatch,
    TypeSupport,
    has_gpu_kernel,
    mismatches,
    support_of,
)

NEWEST = load("2.21")
YES, NO = (
    TypeSupport(cpu="all", gpu="all", on_host="none"),
    TypeSupport(cpu="all", gpu="none", on_host="none"),
)
ON_HOST = TypeSupport(cpu="all", gpu="all", on_host="all")


def of(op: str, version: str = "2.21") -> dict[str, TypeSupport]:
    """How far each type of an op's one main attribute has kernels."""
    support = support_of(load(version), op)
    assert support is not None
    (main,) = support.main
    return dict(support.types[main])


def test_claims_that_are_told_of_tensorflow() -> None:
    assert of("MatMul")["double"] == of("Cholesky")["double"] == of("Conv2D")["double"] == YES
    assert of("MatMul")["int32"] == of("Mean")["int64"] == NO
    assert of("AddV2")["int32"] == of("Range")["int32"] == ON_HOST
    assert of("AddV2")["float"] == YES
    assert of("VarHandleOp")["int32"] == NO
    assert not has_gpu_kernel(NEWEST, "RandomShuffle")
    assert not has_gpu_kernel(NEWEST, "ResizeBicubic")
    assert has_gpu_kernel(NEWEST, "IteratorGetNext") is (
        NEWEST.find("IteratorGetNext", "GPU", {}) is not None
    )


@pytest.mark.parametrize(
    ("op", "main"),
    [
        ("Sum", ("T",)),
        ("GatherV2", ("Tparams",)),
        ("Shape", ("T",)),
        ("RandomUniform", ("dtype",)),
        ("Cast", ("SrcT", "DstT")),
        ("OneHot", ("T",)),
        ("ArgMax", ("T",)),
        ("Range", ("Tidx",)),
        ("StringJoin", ()),
        ("NoOp", ()),
    ],
)
def test_the_types_of_data_are_not_those_of_indices(op: str, main: tuple[str, ...]) -> None:
    support = support_of(NEWEST, op)
    assert support is not None
    assert support.main == main


def test_why_a_node_has_no_kernel() -> None:
    (why,) = mismatches(NEWEST, "MatMul", {"T": "int32"})
    floating = ("bfloat16", "complex128", "complex64", "double", "float", "half")
    assert why == Mismatch(attribute="T", value="int32", allowed=floating)
    node = {"Tparams": "float", "Tindices": "int32", "bad_indices_policy": {"s": "ERROR"}}
    (why,) = mismatches(NEWEST, "GatherNd", node)
    assert (why.attribute, why.value) == ("bad_indices_policy", {"s": "ERROR"})
    assert why.allowed == ("", "DEFAULT", "IGNORE")
    both = mismatches(NEWEST, "GatherV2", {"Tparams": "string", "Tindices": "int16"})
    assert {w.attribute for w in both} >= {"Tindices", "Tparams"}
    missing = mismatches(NEWEST, "MatMul", {})
    assert [(w.attribute, w.value) for w in missing] == [("T", None)]


def test_mending_a_mismatch_gives_a_kernel() -> None:
    asked = 0
    for op in NEWEST.ops:
        support = support_of(NEWEST, op)
        assert support is not None
        for combination in support.combinations[:20]:
            if combination.gpu is not None or any(
                NEWEST.definition(op).attributes[name].type != "type"  # type: ignore[union-attr]
                for name in combination.values
            ):
                continue
            found = mismatches(NEWEST, op, combination.values)
            if len(found) == 1:
                asked += 1
                for value in found[0].allowed:
                    mended = {**combination.values, found[0].attribute: value}
                    assert NEWEST.find(op, "GPU", mended) is not None
    assert asked > 500
