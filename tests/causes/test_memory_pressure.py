"""Errors of memory: the proof by a handler's source, and errors that ended the program."""

from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import examples_of
from traceanalyzer.causes import memory_pressure
from traceanalyzer.findings import Finding
from traceanalyzer.model import SourceWhere
from traceanalyzer.run import Run


def run_of(scope_line: int, *, is_caught: bool = True, times: int = 1) -> Run:
    """The rule's own example, with the lines of its handler, and its scope at a line.

    Line 4 raises, line 5 catches; 6 is within the handler, 8 comes after it. An error that is not
    caught ends the program the last of the times that it is raised.
    """
    run = next(e for e in examples_of("memory_pressure")[0] if e.fires_on).run()
    (host,) = run.hosts
    assert host.capture_file is not None
    frames = [
        replace(f, line=scope_line if at == 2 else f.line)
        for at, f in enumerate(host.capture_file.frames)
    ]
    (error,) = host.capture_file.errors
    errors = [replace(error, handler_lines=(6, 7))]
    if not is_caught:
        error = replace(error, handler=-1)
        errors = [*[error] * times, replace(error, where="program")]
    capture_file = replace(host.capture_file, frames=tuple(frames), errors=tuple(errors))
    return replace(run, hosts=(replace(host, capture_file=capture_file),))


def lines(finding: Finding) -> list[int | None]:
    return [e.where.line for e in finding.evidence if isinstance(e.where, SourceWhere)]


def test_a_scope_within_the_handler_is_certain_and_all_lines_are_shown() -> None:
    (found,) = memory_pressure.check(run_of(6))

    assert found.certainty == "certain"
    assert lines(found) == [4, 5, 6]
    assert "train.py:4" in found.title


def test_a_scope_after_the_handler_is_no_part_of_it() -> None:
    assert list(memory_pressure.check(run_of(8))) == []


def test_an_error_that_nothing_caught_is_explained_and_names_no_op() -> None:
    (found,) = memory_pressure.check(run_of(6, is_caught=False))

    assert found.sub_reason == "not_caught"
    assert found.op_ids == ()
    assert "float[4096,1048576] (17.2 GB) on /device:GPU:0" in found.why
    assert "train.py:4" in found.title


def test_an_error_that_a_program_may_have_caught_is_left_open() -> None:
    (twice,) = memory_pressure.check(run_of(6, is_caught=False, times=2))
    run = run_of(6, is_caught=False)
    (host,) = run.hosts
    assert host.capture_file is not None
    capture_file = replace(host.capture_file, errors=host.capture_file.errors[:1])
    (survived,) = memory_pressure.check(
        replace(run, hosts=(replace(host, capture_file=capture_file),))
    )

    for found in (twice, survived):
        assert (found.sub_reason, found.op_ids) == (None, ())
        assert found.title == "Memory ran out at train.py:4"
        assert "does not show whether the program caught the error" in found.why


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
def test_the_figures_of_the_allocator_are_shown(*, is_caught: bool) -> None:
    run = with_message(
        run_of(6, is_caught=is_caught),
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

    (found,) = memory_pressure.check(run)

    figures = [e.text for e in found.evidence if e.kind in {"allocator", "other_processes"}]
    assert figures == [
        "4.10 MB were requested from GPU_0_bfc",
        "GPU:0 used at most 7.00 GB of the 8.00 GB that it has",
        "other processes used 1.00 GB of the GPU's memory",
    ]


@pytest.mark.parametrize(
    "message", ["/data/ckpt; No space left on device", OOM.format("CPU:0", "mklcpu")]
)
def test_neither_a_full_disk_nor_the_hosts_memory_is_want_of_the_gpus(message: str) -> None:
    assert list(memory_pressure.check(with_message(run_of(6), message))) == []
