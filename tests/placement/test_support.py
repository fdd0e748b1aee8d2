"""Which kernels an op has, by type: against the registry itself, and where ops are known."""

from __future__ import annotations

import pytest

from traceanalyzer.placement.registry import load
from traceanalyzer.placement.support import (
    TypeSupport,
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
    assert not bool(NEWEST.gpu_kernels("RandomShuffle"))
    assert not bool(NEWEST.gpu_kernels("ResizeBicubic"))
    assert bool(NEWEST.gpu_kernels("IteratorGetNext")) is (
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
