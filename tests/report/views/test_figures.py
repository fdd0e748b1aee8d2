from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.examples import cpu_only_run, empty_run, gpu_run
from traceanalyzer.model import ExplainedShares
from traceanalyzer.report.views.figures import explained_parts, why_unknown


def test_explained_parts_add_up() -> None:
    parts = explained_parts(gpu_run())
    assert [part.id for part in parts] == ["certain", "likely", "possible", "unexplained"]
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert [part.start for part in parts] == pytest.approx([0, 0.802073, 0.977599, 0.977599])
    assert explained_parts(cpu_only_run()) == ()


def test_rounding_leaves_no_unexplained_rest() -> None:
    run = gpu_run()
    thirds = ExplainedShares(certain=1 / 3, likely=1 / 3, possible=1 / 3)
    run = replace(run, summary=replace(run.summary, explained=thirds))
    assert explained_parts(run)[-1].share == 0


def test_why_a_figure_is_unknown() -> None:
    assert why_unknown(empty_run(), "explained") == "no GPU in this trace"
    assert why_unknown(cpu_only_run(), "steps") == "no steps in this trace"
    run = gpu_run()
    assert why_unknown(run, "exposed") is None
    no_time = replace(run, summary=replace(run.summary, cpu_op_us=0.0))
    assert why_unknown(no_time, "explained") == "no CPU-op time in this trace"
