"""Ops without a GPU kernel: what belongs on the host is told from what does harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.causes.examples import blocker, cpu_op, line
from traceanalyzer.causes.no_gpu_kernel import CAUSE
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role, role_of_type

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.causes import FindingText
    from traceanalyzer.model import Fix

NEWEST = load(supported()[-1])
WITHOUT = [op for op in NEWEST.ops if NEWEST.kernels(op) and not bool(NEWEST.gpu_kernels(op))]


def said(op: str, **fields: str) -> FindingText:
    assert CAUSE.describe is not None
    return CAUSE.describe([(cpu_op(op, **fields), blocker("no_kernel", op))])


@pytest.mark.parametrize(
    ("op", "part_of_why"),
    [
        ("StringJoin", "strings"),
        ("UnicodeTranscode", "strings"),
        ("AsString", "strings"),
        ("LookupTableFindV2", "hash table"),
        ("HashTableV2", "hash table"),
        ("InitializeTableV2", "hash table"),
        ("SaveV2", "checkpoint"),
        ("RestoreV2", "checkpoint"),
        ("WriteScalarSummary", "summary"),
        ("ScalarSummary", "summary"),
        ("DecodeJpeg", "file"),
        ("DecodeAndCropJpeg", "file"),
        ("PrintV2", "text"),
        ("PaddingFIFOQueueV2", "queue"),
        ("CreateSummaryFileWriter", "summary file"),
        ("CloseSummaryWriter", "summary file"),
        ("ImportEvent", "summary"),
        ("ConditionalAccumulator", "accumulator"),
        ("RpcServer", "another process"),
        ("EncodePng", "written to a file"),
        ("LoadAndRemapMatrix", "checkpoint"),
        ("DatasetCardinality", "dataset"),
    ],
)
def test_what_belongs_on_the_host_is_by_design(op: str, part_of_why: str) -> None:
    words = said(op)

    assert op in WITHOUT
    assert words.harm == "by_design"
    assert part_of_why in words.why


@pytest.mark.parametrize(
    "op", ["Eig", "RandomShuffle", "ResizeBicubic", "FractionalMaxPool", "EditDistance", "CTCLoss"]
)
def test_computation_does_harm(op: str) -> None:
    assert op in WITHOUT
    assert said(op).harm == "harmful"


def test_every_op_without_a_gpu_kernel_is_of_one_rule_and_has_words() -> None:
    asked = [
        op for op in WITHOUT if op not in PYTHON_CALLBACKS and role_of_type(op) == Role.COMPUTE
    ]

    assert len(asked) > 300
    for op in asked:
        assert CAUSE.match(cpu_op(op), blocker("no_kernel", op)) is not None
        words = said(op)
        assert words.title == f"{op} has no GPU kernel in TensorFlow at train.py:7"
        assert words.fixes


def fix_of(op: str, *, library: Frame | None = None, **given: str) -> Fix:
    """What is to be done about an op whose attributes, and the library that makes it, are known."""
    assert CAUSE.describe is not None
    of = cpu_op(op, explanation=PlacementExplanation(type=op, certainty="certain", library=library))
    (fix,) = CAUSE.describe([(of, blocker("no_kernel", op, given=given, library=library))]).fixes
    return fix


@pytest.mark.parametrize(
    ("op", "given", "is_checked"),
    [
        ("UniqueV2", {"T": "float"}, True),
        ("UniqueV2", {}, False),  # its type is not known
        ("CTCLoss", {"T": "float"}, True),
        ("CTCLoss", {"T": "double"}, False),
        ("RandomShuffle", {"T": "float"}, False),  # another order
        ("ResizeBicubic", {"T": "float"}, False),  # other pixels
        ("FractionalMaxPool", {"T": "float"}, False),
    ],
)
def test_a_fix_is_checked_where_its_code_gives_the_same_on_a_gpu(
    op: str, given: dict[str, str], *, is_checked: bool
) -> None:
    assert fix_of(op, **given).checked is is_checked


@pytest.mark.parametrize(
    ("op", "file", "code"),
    [
        ("ResizeBicubic", "keras/src/backend/tensorflow/image.py", 'interpolation="bilinear"'),
        ("MatrixSolveLs", "models/zoo.py", None),  # whose switches nobody knows
    ],
)
def test_of_an_op_of_a_library_its_line_and_switch_are_named(
    op: str, file: str, code: str | None
) -> None:
    """Nobody can edit what a library does in its own lines."""
    library = line(3, is_user=False, file=f"/lib/site-packages/{file}")

    fix = fix_of(op, library=library, T="float")

    assert f"{file.rpartition('/')[2]}:3" in fix.text
    assert (fix.code, fix.checked) == (code, False)


def test_a_request_for_a_gpu_that_was_given_up_is_told() -> None:
    words = said("RandomShuffle", requested_device="/job:localhost/device:GPU:0")

    assert words.modifiers == ("soft_placement_fallback",)
    assert "without a warning" in words.why
    assert said("RandomShuffle").modifiers == ()
