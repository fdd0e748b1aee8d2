"""Ops without a GPU kernel: those that belong on the host, and the text of each."""

import pytest

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes import BlockedOps, FindingText, no_gpu_kernel
from traceanalyzer.causes.knowledge.advice import host_work
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role, role_of_type

NEWEST = load(supported()[-1])
WITHOUT = [op for op in NEWEST.ops if NEWEST.kernels(op) and not NEWEST.gpu_kernels(op)]


def described(op: str) -> FindingText:
    return no_gpu_kernel.describe(BlockedOps(((cpu_op(op), blocker("no_kernel", op)),)))


@pytest.mark.parametrize(
    ("work", "ops"),
    [
        ("strings", "StringJoin UnicodeTranscode AsString"),
        ("hash_table", "LookupTableFindV2 HashTableV2 InitializeTableV2"),
        ("checkpoint", "SaveV2 RestoreV2 LoadAndRemapMatrix"),
        ("summary_writer", "CreateSummaryFileWriter CloseSummaryWriter"),
        ("write_summary", "WriteScalarSummary ImportEvent"),
        ("summary_v1", "ScalarSummary"),
        ("decode", "DecodeJpeg DecodeAndCropJpeg"),
        ("encode", "EncodePng"),
        ("text", "PrintV2"),
        ("queue", "PaddingFIFOQueueV2"),
        ("accumulator", "ConditionalAccumulator"),
        ("rpc", "RpcServer"),
        ("dataset", "DatasetCardinality"),
        (None, "Eig RandomShuffle ResizeBicubic FractionalMaxPool EditDistance CTCLoss"),
    ],
)
def test_work_on_the_host_is_by_design_and_computation_is_harmful(
    work: str | None, ops: str
) -> None:
    for op in ops.split():
        found = host_work(op)
        assert op in WITHOUT
        assert (None if found is None else found.id) == work
        assert described(op).harm == ("harmful" if work is None else "by_design")


def test_every_op_without_a_gpu_kernel_has_a_text_and_a_fix() -> None:
    computing = [
        op for op in WITHOUT if op not in PYTHON_CALLBACKS and role_of_type(op) == Role.COMPUTE
    ]

    assert len(computing) > 300
    for op in computing:
        assert no_gpu_kernel.match(cpu_op(op), blocker("no_kernel", op)) is not None
        assert described(op).title == f"{op} has no GPU kernel in TensorFlow at train.py:7"
        assert described(op).fixes
