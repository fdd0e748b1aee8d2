"""Errors of memory: the proof by a handler's source, and errors that ended the program."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.causes.examples import examples_of
from traceanalyzer.causes.memory_pressure import CAUSE
from traceanalyzer.findings import Finding
from traceanalyzer.model import SourceWhere
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


def with_message(run: Run, message: str, **fields: Any) -> Run:  # noqa: ANN401 - of the capture
    (host,) = run.hosts
    assert host.capture_file is not None
    errors = tuple(replace(e, message=message) for e in host.capture_file.errors)
    capture_file = replace(host.capture_file, errors=errors, **fields)
    return replace(run, hosts=(replace(host, capture_file=capture_file),))


OOM = (
    "OOM when allocating tensor with shape[1024,1000] and type float on /device:{} by allocator {}"
)


@pytest.mark.parametrize("is_caught", [True, False])
def test_the_figures_of_the_allocator_are_shown(tmp_path: Path, *, is_caught: bool) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    run = with_message(
        run_of(file, 6, is_caught=is_caught),
        OOM.format("GPU:0", "GPU_0_bfc"),
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
        "other processes held 1.00 GB of the GPU's memory",
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
