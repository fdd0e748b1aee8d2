"""What is said of types without a GPU kernel: the fixes hold in TensorFlow's registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes.dtype_unsupported import CAUSE
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.registry import load, supported

if TYPE_CHECKING:
    from traceanalyzer.causes import FindingText


def said(op: str, **attributes: str) -> FindingText:
    assert CAUSE.describe is not None
    return CAUSE.describe([(cpu_op(op), blocker("attributes", op, attributes=attributes))])


def test_a_product_of_integers() -> None:
    words = said("MatMul", T="int32")

    assert words.title == "MatMul has no GPU kernel for int32 at train.py:7"
    assert "supported: bfloat16, complex128, complex64, float16, float32, float64" in words.why
    assert words.harm == "harmful"
    assert [(fix.code, fix.checked) for fix in words.fixes] == [
        ("a = tf.cast(a, tf.float32)\nb = tf.cast(b, tf.float32)", True),
        ("a = tf.cast(a, tf.float64)\nb = tf.cast(b, tf.float64)", True),
    ]
    assert "2**24" in words.fixes[0].text


@pytest.mark.parametrize("version", supported())
def test_the_casts_that_it_offers_have_gpu_kernels_in_every_version(version: str) -> None:
    registry = load(version)

    for dtype in ("float", "double"):
        assert registry.find("MatMul", GPU, {"T": dtype}) is not None
        for source, target in (("int32", dtype), (dtype, "int32")):
            assert registry.find("Cast", GPU, {"SrcT": source, "DstT": target}) is not None
    assert registry.find("MatMul", GPU, {"T": "int32"}) is None


@pytest.mark.parametrize(
    ("op", "attributes", "code"),
    [
        ("ResourceGather", {"Tindices": "int16"}, "indices = tf.cast(indices, tf.int32)"),
        ("TopKV2", {"index_type": "int64"}, "index_type=tf.int32"),
        ("ArgMax", {"T": "int64"}, "input = tf.cast(input, tf.float32)"),
        ("GatherV2", {"Tparams": "uint8"}, "params = tf.cast(params, tf.int32)"),
        ("SpaceToDepth", {"T": "double"}, "input = tf.cast(input, tf.float32)"),
        ("NonMaxSuppressionV3", {"T": "half"}, None),
    ],
)
def test_what_it_offers_first(op: str, attributes: dict[str, str], code: str | None) -> None:
    first = said(op, **attributes).fixes[0]

    assert first.checked
    if code is not None:
        assert first.code == code


@pytest.mark.parametrize(
    ("types", "code", "is_checked"),
    [
        (("int64", "float"), "tf.Variable(value, dtype=tf.int64)", True),
        (("float",), "tf.Variable(value, dtype=tf.float32)", True),
        ((), None, False),
    ],
)
def test_a_variable_gets_a_type_that_suits_all_its_users(
    types: tuple[str, ...], code: str | None, *, is_checked: bool
) -> None:
    found = blocker("attributes", "VarHandleOp", attributes={"dtype": "int32"}, types=types)

    assert CAUSE.describe is not None
    (fix,) = CAUSE.describe([(cpu_op("VarHandleOp"), found)]).fixes

    assert (fix.code, fix.checked) == (code, is_checked)


def test_strings_are_not_cast_and_not_a_fault() -> None:
    words = said("ConcatV2", T="string")

    assert words.harm == "by_design"
    assert not any("cast" in (fix.code or "") or fix.checked for fix in words.fixes)


def test_a_list_of_lists_is_not_called_a_list_of_strings() -> None:
    fixes = said("TensorListStack", element_dtype="variant").fixes

    assert fixes
    assert not any("trings" in fix.text for fix in fixes)


def test_that_xla_refuses_a_variable_of_int32_is_said() -> None:
    assert "jit_compile=True" in said("VarHandleOp", dtype="int32").why
    assert "jit_compile=True" not in said("VarHandleOp", dtype="uint8").why


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_nothing_that_loses_the_imaginary_part_is_offered(dtype: str) -> None:
    fixes = said("Svd", T=dtype).fixes

    assert not any(fix.checked for fix in fixes)
