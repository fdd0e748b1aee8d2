"""What is believed to move ops to the CPU is answered with the run's own figures."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from tests.causes.examples import Example
from traceanalyzer.capture_file.document import CaptureFile, CaughtError
from traceanalyzer.exclusions import myths
from traceanalyzer.run import Run
from traceanalyzer.tables.schema import TRANSFERS

GB = 10**9
NEVER = "moved no op to the CPU"


def run_of(*ops: dict[str, Any], **fields: Any) -> Run:  # noqa: ANN401 - any field of a capture file
    run = Example(title="", ops=ops or ({"name": "MatMul", "type": "MatMul"},)).run()
    if not fields:
        return run
    (host,) = run.hosts
    capture_file = CaptureFile(tool="", host="h", complete=True, **fields)
    return replace(run, hosts=(replace(host, capture_file=capture_file),))


def memory(peak: int, total: int = 8 * GB, **gpu: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "devices": {"memory": {"/device:GPU:0": {"peak": peak}}},
        "gpus": ({"index": 0, "memory_total_bytes": total, **gpu},),
    }


def with_copies(run: Run, *rows: tuple[str, int | None]) -> Run:
    (host,) = run.hosts
    plain = pd.DataFrame(rows, columns=["direction", "bytes"]).reindex(
        columns=list(TRANSFERS.columns)
    )
    plain["bytes"] = pd.array([size for _, size in rows], dtype="Int64")
    for column in ("start_ps", "correlation_id"):
        plain[column] = 0
    tables = replace(host.tables, transfers=plain)
    return replace(run, hosts=(replace(host, tables=tables),))


def answers(run: Run) -> dict[str, str]:
    return {belief.id: belief.answer for belief in myths(run)}


def test_without_a_gpu_nothing_is_answered() -> None:
    run = with_copies(run_of(**memory(7 * GB)), ("h2d", 5))
    (host,) = run.hosts
    facts = replace(host.tables.facts, gpu_used=False)
    unused = replace(host, tables=replace(host.tables, facts=facts))

    assert answers(run) != {}
    assert answers(replace(run, hosts=(unused,))) == {}


@pytest.mark.parametrize(
    ("messages", "times"), [([], "not in this run"), (["OOM"], "once in this run")]
)
def test_how_full_the_memory_was_and_how_often_it_was_exhausted(
    messages: list[str], times: str
) -> None:
    errors = tuple(
        CaughtError(where="resource_exhausted", type="Error", message=each, raised=(), handler=-1)
        for each in (*messages, "No space left on device")
    )
    answer = answers(run_of(errors=errors, **memory(7_760_000_000)))["memory"]

    assert answer.startswith("GPU memory peaked at 97 % (7.76 GB of the 8.00 GB that GPU:0 has).")
    assert f"({times})" in answer


def test_other_processes_on_the_gpu() -> None:
    others = [
        {"pid": 1, "name": "python", "memory_bytes": 3 * GB},
        {"pid": 2, "name": "Xorg", "memory_bytes": None},
    ]
    found = answers(run_of(**memory(GB, other_processes=others)))

    assert found["other_processes"].startswith(
        "GPU 0 was shared with 2 other processes (python, Xorg), which used 3.00 GB of its memory. "
        f"That {NEVER}"
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("h2d", GB), ("d2h", GB), ("d2d", 9 * GB)], "2 transfers (2.00 GB) between"),
        ([("h2d", None)], "1 transfer between"),
    ],
)
def test_what_was_copied(rows: list[tuple[str, int | None]], said: str) -> None:
    found = answers(with_copies(run_of(), *rows))["transfer_cost"]

    assert found.startswith(said)
    assert NEVER in found


def test_float64_that_ran_on_the_gpu() -> None:
    matmul = {"name": "a", "type": "MatMul", "input_types": "double;double", "placement": "gpu:0"}
    found = answers(
        run_of(
            matmul,
            {**matmul, "name": "b", "type": "Conv2D"},
            {**matmul, "name": "c", "input_types": "float;float"},
            {**matmul, "name": "d", "type": "DepthToSpace", "placement": "cpu"},
            {**matmul, "name": "e", "role": "runtime"},
        )
    )["float64"]

    assert found.startswith("2 float64 ops ran on the GPU (MatMul, Conv2D). ")
    assert " 1 float64 op ran on the CPU" in found
