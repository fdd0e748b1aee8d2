"""Ops without a GPU kernel: what belongs on the host is told from what does harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.support import has_gpu_kernel
from traceanalyzer.rules.no_gpu_kernel import RULE
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role, role_of_type

if TYPE_CHECKING:
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


def test_a_substitute_is_checked_and_a_move_is_not() -> None:
    assert [fix.checked for fix in said("RandomShuffle").fixes] == [True]
    assert [fix.checked for fix in said("FractionalMaxPool").fixes] == [False]


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
