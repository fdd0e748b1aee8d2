"""Errors of memory: what the source of a handler proves, and what is said of one that ended it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.causes.examples import examples_of
from traceanalyzer.capture_file.function_records import Function, Graph, Instance, Partition
from traceanalyzer.causes.memory_pressure import CAUSE
from traceanalyzer.model import SourceWhere

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.findings import Finding
    from traceanalyzer.run import Run

# Line 4 raises, line 5 catches; 6 is within the handler, 8 comes after it.
PROGRAM = """\
import tensorflow as tf
a = tf.ones([8, 8])
try:
    b = tf.matmul(a, a)
except tf.errors.ResourceExhaustedError:
    with tf.device("/CPU:0"):
        b = tf.matmul(a, a)
with tf.device("/CPU:0"):
    c = tf.matmul(a, a)
"""


def run_of(file: Path | None, scope_line: int, *, is_caught: bool = True) -> Run:
    """The rule's own example, with its lines in a file, and its scope at a line of it."""
    run = next(e for e in examples_of(CAUSE.id)[0] if e.fires_on).run()
    (host,) = run.hosts
    assert host.capture_file is not None
    frames = [
        replace(f, file=str(file or f.file), line=scope_line if at == 2 else f.line)
        for at, f in enumerate(host.capture_file.frames)
    ]
    (error,) = host.capture_file.errors
    errors = (replace(error, handler=1 if is_caught else -1),)
    capture_file = replace(host.capture_file, frames=tuple(frames), errors=errors)
    return replace(run, hosts=(replace(host, capture_file=capture_file),))


def lines(finding: Finding) -> list[int | None]:
    return [e.where.line for e in finding.evidence if isinstance(e.where, SourceWhere)]


def test_a_scope_within_the_handler_is_certain_and_all_lines_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)

    (found,) = CAUSE.check(run_of(file, 6))

    assert found.certainty == "certain"
    assert lines(found) == [4, 5, 6]
    assert "train.py:4" in found.title


def test_a_scope_after_the_handler_is_no_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)

    assert list(CAUSE.check(run_of(file, 8))) == []


def test_an_error_that_nothing_caught_is_explained_and_names_no_op(tmp_path: Path) -> None:
    (found,) = CAUSE.check(run_of(tmp_path / "train.py", 6, is_caught=False))

    assert found.sub_reason == "not_caught"
    assert found.op_ids == ()
    assert "float[4096,1048576] (17.2 GB) on /device:GPU:0" in found.why
    assert "train.py:4" in found.title


def with_message(run: Run, message: str) -> Run:
    (host,) = run.hosts
    assert host.capture_file is not None
    errors = tuple(replace(e, message=message) for e in host.capture_file.errors)
    return replace(
        run, hosts=(replace(host, capture_file=replace(host.capture_file, errors=errors)),)
    )


def with_capture_file(run: Run, **fields: Any) -> Run:  # noqa: ANN401 - any field of a capture file
    (host,) = run.hosts
    assert host.capture_file is not None
    return replace(run, hosts=(replace(host, capture_file=replace(host.capture_file, **fields)),))


OOM = (
    "OOM when allocating tensor with shape[1024,1000] and type float on /device:{} by allocator {}"
)


@pytest.mark.parametrize("is_caught", [True, False])
def test_the_figures_of_the_allocator_are_shown(tmp_path: Path, *, is_caught: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    run = with_capture_file(
        with_message(run_of(file, 6, is_caught=is_caught), OOM.format("GPU:0", "GPU_0_bfc")),
        devices={
            "logical": [{"name": "/device:CPU:0"}, {"name": "/device:GPU:0"}],
            "memory": {"/device:GPU:0": {"peak": 7 * 10**9}},
        },
        gpus=(
            {
                "memory_total_bytes": 8 * 10**9,
                "other_processes": [{"pid": 1, "name": "x", "memory_bytes": 10**9}],
            },
        ),
    )

    (found,) = CAUSE.check(run)

    figures = [e.text for e in found.evidence if e.kind in {"allocator", "other_processes"}]
    assert figures == [
        "4.10 MB were requested from GPU_0_bfc",
        "GPU:0 had 7.00 GB in use at its peak, of the 8.00 GB that it has",
        "other processes held 1.00 GB of its memory",
    ]


@pytest.mark.parametrize(
    "message", ["/data/ckpt; No space left on device", OOM.format("CPU:0", "mklcpu")]
)
def test_neither_a_full_disk_nor_the_hosts_memory_is_want_of_the_gpus(
    tmp_path: Path, message: str
) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)

    assert list(CAUSE.check(with_message(run_of(file, 6), message))) == []


SWAPPED = Function(
    name="__inference_f_1",
    instances=(
        Instance(
            count=1,
            input=Graph(
                names=(),
                ops=(),
                inputs=(),
                devices=(),
                attributes=(),
                origin_functions=(),
                origin_nodes=(),
            ),
            assigned=(),
            partitions=(
                Partition(
                    device="/device:GPU:0",
                    names=("swap_out_a_0", "swap_in_b_0", "a"),
                    ops=("_CopyFromGpuToHost", "_CopyFromHostToGpu", "MatMul"),
                    attributes=(-1, -1, -1),
                    origin_functions=("", "", ""),
                    origin_nodes=("", "", ""),
                ),
            ),
        ),
    ),
)


def test_what_is_swapped_is_said_to_compute_on_the_gpu() -> None:
    run = with_capture_file(run_of(None, 6), errors=(), functions=(SWAPPED,))

    (found,) = CAUSE.check(run)

    assert (found.sub_reason, found.certainty, found.op_ids) == ("swapped_to_host", "certain", ())
    assert found.title.startswith("1 tensor swapped to host memory")
    assert "still run on the GPU" in found.why
    assert "swap_in_b_0, swap_out_a_0" in found.evidence[0].text
