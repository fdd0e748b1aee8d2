"""What is said of types without a GPU kernel: the fixes hold in TensorFlow's registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.placement.kernels import GPU
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.rules.dtype_unsupported import RULE

if TYPE_CHECKING:
    from traceanalyzer.rules import Words


def said(op: str, **attributes: str) -> Words:
    assert RULE.words is not None
    return RULE.words([(subject(op), held("attributes", op, attributes=attributes))])


def test_a_product_of_integers() -> None:
    words = said("MatMul", T="int32")

    assert words.title == "MatMul has no GPU kernel for int32 at train.py:7"
    assert "they take bfloat16, complex128, complex64, float16, float32, float64" in words.why
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
    ("op", "attributes", "code"),
    [
        ("VarHandleOp", {"dtype": "int32"}, "tf.Variable(value, dtype=tf.int64)"),
        # to cast the update of an int32 variable is an error: the variable must change
        ("ResourceScatterAdd", {"dtype": "int32"}, "tf.Variable(value, dtype=tf.int64)"),
        ("AssignAdd", {"T": "int32"}, "tf.Variable(value, dtype=tf.int64)"),
        ("ResourceApplyAdam", {"T": "bfloat16"}, "tf.Variable(value, dtype=tf.float32)"),
        ("TensorListStack", {"element_dtype": "uint8"}, "tf.TensorArray(tf.int32, size)"),
    ],
)
def test_what_others_use_too_must_change_its_type_which_is_not_checked_unless_they_are_known(
    op: str, attributes: dict[str, str], code: str
) -> None:
    (fix,) = said(op, **attributes).fixes

    assert (fix.code, fix.checked) == (code, False)
    assert "rounded" not in fix.text


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
    found = held("attributes", "VarHandleOp", attributes={"dtype": "int32"}, types=types)

    assert RULE.words is not None
    (fix,) = RULE.words([(subject("VarHandleOp"), found)]).fixes

    assert (fix.code, fix.checked) == (code, is_checked)


def test_variables_that_different_types_suit_have_a_fix_each() -> None:
    """One for all would contradict what is said of each by itself."""
    made = [
        held("attributes", "VarHandleOp", attributes={"dtype": "int32"}, types=types, frame=line(n))
        for n, types in ((3, ("int64", "float")), (4, ("float",)))
    ]

    assert RULE.words is not None
    fixes = RULE.words([(subject("VarHandleOp"), each) for each in made]).fixes

    assert [fix.code for fix in fixes] == [
        "tf.Variable(value, dtype=tf.int64)",
        "tf.Variable(value, dtype=tf.float32)",
    ]
    assert "train.py:3" in fixes[0].text
    assert "train.py:4" in fixes[1].text


def test_the_variable_of_a_library_is_left_to_it() -> None:
    keras = line(12, is_user=False, file="/lib/site-packages/keras/src/random/seed_generator.py")
    found = held("attributes", "VarHandleOp", attributes={"dtype": "int32"}, made_in=keras)

    assert RULE.words is not None
    (fix,) = RULE.words([(subject("VarHandleOp"), found)]).fixes

    assert fix.code is None
    assert "seed_generator.py:12" in fix.text


def test_xlas_refusal_of_such_a_variable_is_said() -> None:
    assert "jit_compile=True" in said("VarHandleOp", dtype="int32").why


def test_all_types_of_an_op_count_for_a_cast() -> None:
    """Here a label for which there is no kernel, whatever the type."""
    given = {"T": "int32", "transpose_a": False, "_kernel": {"s": "none has this label"}}
    found = held("attributes", "MatMul", attributes={"T": "int32"}, given=given)

    assert RULE.words is not None
    fixes = RULE.words([(subject("MatMul"), found)]).fixes

    assert not any(fix.checked or fix.code for fix in fixes)


def test_an_op_of_a_library_is_not_cast() -> None:
    keras = line(12, is_user=False, file="/lib/site-packages/keras/src/metrics/metrics_utils.py")
    case = Case(type="DenseBincount", library=keras, is_complete=True)
    found = held("attributes", "DenseBincount", attributes={"T": "int64"}, library=keras)

    assert RULE.words is not None
    (fix,) = RULE.words([(subject("DenseBincount", case=case), found)]).fixes

    assert "tf.cast" not in (fix.code or "")
    assert "metrics_utils.py:12" in fix.text


def test_a_type_that_a_function_of_tensorflow_chooses_is_asked_for() -> None:
    first = said("DenseBincount", T="double").fixes[0]  # unless it counts rows itself

    assert first.code == "dtype=tf.float32"
    assert not first.checked


def test_lists_of_lists_are_not_called_strings() -> None:
    words = said("TensorListStack", element_dtype="variant")

    assert not any("tring" in fix.text for fix in words.fixes)


def test_strings_are_not_cast_and_not_a_fault() -> None:
    words = said("ConcatV2", T="string")

    assert words.harm == "by_design"
    assert not any("cast" in (fix.code or "") or fix.checked for fix in words.fixes)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_nothing_that_loses_the_imaginary_part_is_offered(dtype: str) -> None:
    fixes = said("Svd", T=dtype).fixes

    assert not any(fix.checked for fix in fixes)


def test_of_two_types_nothing_is_checked() -> None:
    """Which of them the nearest kernel refuses is not known."""
    words = said("ArgMax", T="int32", Tidx="int64")

    assert words.title == "ArgMax has no GPU kernel for int32 and Tidx=int64 at train.py:7"
    assert not any(fix.checked for fix in words.fixes)


def test_what_a_trace_alone_tells_is_not_said_to_be_recorded() -> None:
    case = Case(type="MatMul", basis="registry", certainty="certain")
    by_trace = subject("MatMul", case=case, file=None, line=None)
    given = held("attributes", "MatMul", attributes={"T": "int32"})

    mark = RULE.recognises(by_trace, given)

    assert mark is not None
    assert [e.text for e in mark.evidence] == [
        "no GPU kernel of MatMul takes T=int32",
        "the types of its inputs give: T=int32",
    ]
    assert all(e.where is None for e in mark.evidence)


def test_that_a_gpu_was_asked_for_is_told() -> None:
    assert RULE.words is not None
    asked = subject("MatMul", requested_device="/device:GPU:0")

    words = RULE.words([(asked, held("attributes", "MatMul", attributes={"T": "int32"}))])

    assert words.modifiers == ("soft_placement_fallback",)
