"""The benchmark runs, and its trace is one that a report can be made of."""

import importlib.util
import re
from pathlib import Path

import pytest

import traceanalyzer
from tests.performance import benchmark_report
from tests.performance.synthetic import synthetic_trace


def test_synthetic_trace_is_as_busy_as_a_real_one(tmp_path: Path) -> None:
    run = traceanalyzer.load(benchmark_report.write_trace(tmp_path, synthetic_trace(2)))
    assert run.steps["step"].tolist() == [0, 1]
    assert len(run.ops) == 1200
    assert {"gpu:0", "gpu:1"} <= set(run.ops["placement"])
    assert set(run.transfers["direction"]) == {"h2d", "d2h"}
    assert len(run.allocations) > 0


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("xprof") is None, reason="XProf is not installed: '.[test]'"
)
def test_compares_with_xprof(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark_report.main(["--steps", "2", "--pairs", "1"])
    assert re.search(r"ratio   report / XProf( +\d+\.\d\d){3}\n", capsys.readouterr().out)
