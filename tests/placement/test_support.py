"""Which kernels an op has, by type: against the registry itself, and where ops are known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.support import (
    Mismatch,
    TypeSupport,
    changes,
    extent_of,
    has_gpu_kernel,
    is_for_cpus_alone,
    known_types,
    mismatches,
    since,
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


def test_ops_that_no_version_has_a_gpu_kernel_for() -> None:
    assert is_for_cpus_alone("RandomShuffle")
    assert is_for_cpus_alone("WriteSummary")
    assert is_for_cpus_alone("_MklMatMul")
    assert not is_for_cpus_alone("MatMul")
    assert not is_for_cpus_alone("RaggedTensorFromVariant")  # from 2.18 on
    assert not is_for_cpus_alone("NoSuchOp")


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


def test_every_combination_is_what_the_registry_finds() -> None:
    for op in NEWEST.ops:
        support = support_of(NEWEST, op)
        assert support is not None
        for combination in support.combinations:
            assert combination.cpu is not None or combination.gpu is not None
            assert {*combination.values} >= {*support.main}


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


def test_a_type_that_the_definition_names_counts() -> None:
    support = support_of(NEWEST, "RandomUniform")
    assert support is not None
    without = [c.values for c in support.of_type("float") if c.gpu is None]
    assert [values["T"] for values in without] == ["int64"]


def test_a_type_that_nothing_names_does_not_count() -> None:
    support = support_of(NEWEST, "Cast")  # on a CPU it takes any, and fails later
    assert support is not None
    others = {c.values["DstT"] for c in support.of_type("float", "SrcT")}
    assert "int32" in others
    assert "resource" not in others
    assert extent_of(support.of_type("resource")).gpu == "none"


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


@pytest.mark.parametrize(
    ("op", "attributes"),
    [("MatMul", {"T": "float"}), ("StringJoin", {}), ("MyOp", {}), ("TopK", {"T": "float"})],
)
def test_nothing_is_in_the_way_of_what_is_there_nor_of_what_never_is(
    op: str, attributes: dict[str, str]
) -> None:
    assert mismatches(NEWEST, op, attributes) == ()


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


def test_since_when() -> None:
    assert since("MatMul", "2.21", lambda s: s.overall.gpu != "none") == "2.12"
    half = since("Range", "2.21", lambda s: extent_of(s.of_type("half")).gpu == "all")
    assert half is not None
    assert of("Range", half)["half"].gpu == "all"
    before = supported()[supported().index(half) - 1]
    assert "half" not in of("Range", before)
    assert since("Range", before, lambda s: extent_of(s.of_type("half")).gpu == "all") is None
    assert since("MyOp", "2.21", lambda _: True) is None


def test_changes_are_where_kernels_differ() -> None:
    told = 0
    for op in ("Range", "Cast", "StochasticCastToInt", "TopK", "MatMul", "GatherV2"):
        found = changes(op)
        told += len(found)
        for before, after in pairwise(supported()):
            one, other = (load(v).kernels(op) for v in (before, after))
            if any(change.version == after for change in found):
                assert one != other
    assert told > 5
    came, mended = (c for c in changes("StochasticCastToInt") if c.device != "GPU")
    assert (came.version, came.what, came.gained) == ("2.13", "op", ("StochasticCastToInt",))
    assert (mended.version, mended.attribute, mended.gained) == ("2.14", "Tin", ("half",))
    assert not changes("MatMul")


def test_knows_the_types() -> None:
    assert {"float", "int32", "string", "resource", "variant", "qint8"} <= known_types()
    assert "float32" not in known_types()
