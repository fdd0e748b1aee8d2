"""Ops without a GPU kernel: what belongs on the host is told from what does harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.support import has_gpu_kernel
from traceanalyzer.rules.no_gpu_kernel import RULE
from traceanalyzer.sidecar.document import Frame
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role, role_of_type

if TYPE_CHECKING:
    from traceanalyzer.model import Fix
    from traceanalyzer.rules import Words

NEWEST = load(supported()[-1])
WITHOUT = [op for op in NEWEST.ops if NEWEST.kernels(op) and not has_gpu_kernel(NEWEST, op)]


def said(op: str, **fields: str) -> Words:
    assert RULE.words is not None
    return RULE.words([(subject(op, **fields), held("no_kernel", op))])


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
        ("CreateSummaryFileWriter", "file of summaries"),
        ("CloseSummaryWriter", "file of summaries"),
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


@pytest.mark.parametrize(
    "op", ["CreateSummaryFileWriter", "ConditionalAccumulator", "RpcClient", "WriteFile"]
)
def test_what_takes_a_string_for_a_name_is_not_told_to_prepare_texts(op: str) -> None:
    assert said(op).fixes != said("StringJoin").fixes


def test_what_asks_a_dataset_is_not_told_to_move_into_one() -> None:
    keras = Frame(file="/env/keras/src/trainers/adapter.py", line=70, code="f", is_user=False)
    for library in (None, keras):
        fix = fix_of("DatasetCardinality", library=library)
        assert "dataset.map" not in f"{fix.text} {fix.code}"
        assert "newer version" not in fix.text


def test_every_op_without_a_gpu_kernel_is_of_one_rule_and_has_words() -> None:
    asked = [
        op for op in WITHOUT if op not in PYTHON_CALLBACKS and role_of_type(op) == Role.COMPUTE
    ]

    assert len(asked) > 300
    for op in asked:
        assert RULE.recognises(subject(op), held("no_kernel", op)) is not None
        words = said(op)
        assert words.title == f"{op} has no GPU kernel in TensorFlow at train.py:7"
        assert words.fixes


def fix_of(op: str, *, library: Frame | None = None, **given: str) -> Fix:
    """What is to be done about an op whose attributes, and the library that makes it, are known."""
    assert RULE.words is not None
    of = subject(op, case=Case(type=op, certainty="certain", library=library))
    (fix,) = RULE.words([(of, held("no_kernel", op, given=given, library=library))]).fixes
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


def test_no_code_is_offered_for_a_type_that_it_does_not_move() -> None:
    assert "tf.unique" in (fix_of("UniqueV2", T="float").code or "")
    assert "tf.unique" not in (fix_of("UniqueV2", T="string").code or "")


def test_what_a_librarys_function_takes_is_what_its_substitute_takes() -> None:
    fix = fix_of(
        "CTCLoss", library=line_of("keras/src/legacy/backend.py", "ctc_batch_cost"), T="float"
    )

    assert fix.checked
    assert "y_true" in (fix.code or "")


def test_of_an_op_within_a_library_its_line_and_its_switch_are_named() -> None:
    keras = line_of("keras/src/backend/tensorflow/image.py", "resize")

    fix = fix_of("ResizeBicubic", library=keras, T="float")

    assert "image.py:3" in fix.text
    assert fix.code == 'interpolation="bilinear"'


def test_no_line_of_a_library_is_to_be_edited() -> None:
    fix = fix_of("MatrixSolveLs", library=line_of("models/zoo.py", "solve"), T="float")

    assert "zoo.py:3" in fix.text
    assert fix.code is None
    assert not fix.checked


def line_of(file: str, code: str) -> Frame:
    """A line of an installed package."""
    return Frame(file=f"/lib/site-packages/{file}", line=3, code=code, is_user=False)


def test_a_request_for_a_gpu_that_was_given_up_is_told() -> None:
    words = said("RandomShuffle", requested_device="/job:localhost/device:GPU:0")

    assert words.modifiers == ("soft_placement_fallback",)
    assert "without a word" in words.why
    assert said("RandomShuffle").modifiers == ()


def test_several_lines_are_counted_in_the_title() -> None:
    assert RULE.words is not None
    members = [(subject("Eig", line=n), held("no_kernel", "Eig")) for n in (7, 9, 9, 12)]

    words = RULE.words(members)

    assert words.title == "Eig has no GPU kernel in TensorFlow at train.py:7 and 2 more lines"


def test_what_is_in_the_input_pipeline_is_not_told_to_move_there() -> None:
    assert RULE.words is not None
    inside = held("no_kernel", "DecodeJpeg", function="__inference_Dataset_map_load_3")
    eager = held("no_kernel", "DecodeJpeg")

    codes = [RULE.words([(subject("DecodeJpeg"), h)]).fixes[0].code or "" for h in (inside, eager)]

    assert ["prefetch" in code for code in codes] == [True, False]


@pytest.mark.parametrize(
    ("op", "file", "part_of_code"),
    [
        ("WriteSummary", "/env/tensorboard/plugins/image/summary_v2.py", "tf.summary.record_if"),
        ("WriteScalarSummary", "/env/keras/src/callbacks/tensorboard.py", "tf.summary.record_if"),
        ("MergeSummary", "/env/tf_slim/learning.py", "add_summary"),
        ("QueueDequeueManyV2", "/env/tf_slim/data/prefetch_queue.py", "tf.data"),
    ],
)
def test_what_a_program_can_do_is_said_of_ops_of_libraries_too(
    op: str, file: str, part_of_code: str
) -> None:
    library = Frame(file=file, line=129, code="image", is_user=False)
    fix = fix_of(op, library=library)
    assert "newer version" not in fix.text
    assert part_of_code in str(fix.code)
