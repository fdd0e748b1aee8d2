"""The benchmark runs, and its trace is one that a report can be made of."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest

import traceanalyzer
from tests.performance import benchmark_report
from tests.performance.synthetic import synthetic_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_synthetic_trace_is_as_busy_as_a_real_one(tmp_path: Path) -> None:
    run = traceanalyzer.load(benchmark_report.write_trace(tmp_path, synthetic_trace(2)))
    assert run.steps["step"].tolist() == [0, 1]
    assert len(run.ops) == 1200
    assert {"gpu:0", "gpu:1"} <= set(run.ops["placement"])
    assert run.kernels["op_id"].notna().all()
    assert set(run.copies["direction"]) == {"h2d", "d2h"}
    assert (run.copies["bytes"] > 0).all()
    assert len(run.allocations) > 0


def test_synthetic_trace_is_always_the_same() -> None:
    assert synthetic_trace(1) == synthetic_trace(1)


@pytest.mark.skipif(
    importlib.util.find_spec("xprof") is None, reason="XProf is not installed: '.[test]'"
)
def test_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark_report.main(["--steps", "2", "--pairs", "1"])
    printed = capsys.readouterr().out
    figure = r" +\d+\.\d\d"
    assert re.search(rf"median  report {figure}{figure} +\d+\n", printed)
    assert re.search(rf"median  framework_op_stats{figure}{figure} +\d+\n", printed)
    assert re.search(rf"ratio   report / XProf {figure}{figure}{figure}\n", printed)
    assert re.search(r"decoder +\d+ MB/s", printed)
    assert re.search(r"protobuf's parser +\d+ MB/s", printed)
    assert re.search(r"growth +.* for twice the events", printed)
