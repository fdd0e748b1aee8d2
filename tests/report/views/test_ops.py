from __future__ import annotations

from dataclasses import replace

from tests.report.examples import gpu_run
from traceanalyzer.model import Table
from traceanalyzer.report.views.ops import cpu_ops_grid, ops_grid


def test_cpu_ops_are_those_counted_and_the_dearest_come_first() -> None:
    shown = cpu_ops_grid(gpu_run())
    assert [row["type"] for row in shown.rows] == [
        "EagerPyFunc",
        "MatMul",
        "ResourceGather",
        "LookupTableFindV2",
        "Cast",
    ]
    assert shown.total_rows == 5


def test_pipeline_and_runtime_are_not_cpu_ops() -> None:
    columns = ("op_id", "name", "placement", "role", "in_input_pipeline", "host_self_us")
    rows = (
        ("a", "Map", "cpu", "input_pipeline", True, 9.0),
        ("b", "Run", "cpu", "runtime", False, 8.0),
        ("c", "Cast", "cpu", "compute", False, 1.0),
        ("d", "Conv2D", "gpu:0", "compute", False, 2.0),
    )
    run = gpu_run()
    ops = Table(columns=columns, rows=rows, total_rows=4)
    run = replace(run, tables=replace(run.tables, ops=ops), summary=replace(run.summary, cpu_ops=1))
    shown = cpu_ops_grid(run)
    assert [row["name"] for row in shown.rows] == ["Cast"]
    assert [row["name"] for row in ops_grid(run).rows] == ["Cast", "Map", "Run", "Conv2D"]


def test_ops_that_are_not_on_the_cpu_are_shown_however_many_are() -> None:
    columns = ("op_id", "name", "placement", "host_self_us")
    rows = tuple((f"{k}", f"op{k}", "cpu" if k < 600 else "gpu:0", float(k)) for k in range(1200))
    run = gpu_run()
    run = replace(
        run, tables=replace(run.tables, ops=Table(columns=columns, rows=rows, total_rows=1200))
    )
    shown = ops_grid(run)
    assert [row["name"] for row in shown.rows[:2]] == ["op599", "op598"]
    assert [row["name"] for row in shown.rows[399:402]] == ["op200", "op1199", "op1198"]
    assert (len(shown.rows), shown.total_rows) == (500, 1200)
