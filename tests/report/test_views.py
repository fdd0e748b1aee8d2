from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.examples import (
    CONV,
    EXAMPLES,
    GATHER,
    MATMUL,
    PY_FUNC,
    cpu_only_run,
    empty_run,
    gpu_run,
)
from traceanalyzer.model import ExplainedShares, Table
from traceanalyzer.report import views


def test_cpu_ops_are_those_counted_and_the_dearest_come_first() -> None:
    shown = views.cpu_ops_grid(gpu_run())
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
    shown = views.cpu_ops_grid(run)
    assert [row["name"] for row in shown.rows] == ["Cast"]
    assert [row["name"] for row in views.ops_grid(run).rows] == ["Cast", "Map", "Run", "Conv2D"]


def test_ops_that_are_not_on_the_cpu_are_shown_however_many_are() -> None:
    columns = ("op_id", "name", "placement", "host_self_us")
    rows = tuple((f"{k}", f"op{k}", "cpu" if k < 600 else "gpu:0", float(k)) for k in range(1200))
    run = gpu_run()
    run = replace(
        run, tables=replace(run.tables, ops=Table(columns=columns, rows=rows, total_rows=1200))
    )
    shown = views.ops_grid(run)
    assert [row["name"] for row in shown.rows[:2]] == ["op599", "op598"]
    assert [row["name"] for row in shown.rows[399:402]] == ["op200", "op1199", "op1198"]
    assert (len(shown.rows), shown.total_rows) == (500, 1200)


def test_a_column_without_a_value_is_named_and_left_out() -> None:
    table = Table(columns=("name", "bytes", "why"), rows=(("a", None, None),), total_rows=1)
    shown = views.grid(table)
    assert [column.name for column in shown.columns] == ["name"]
    assert shown.unknown == ("Bytes", "Why")


def test_kinds_of_columns() -> None:
    table = Table(
        columns=("op_id", "op", "name", "step", "count", "copy_us", "h2d_bytes", "busy_share"),
        rows=(("k", "MatMul", "sgemm", 3, 4, 5.0, 6, 0.7),),
        total_rows=1,
    )
    kinds = {column.name: column.kind for column in views.grid(table).columns}
    assert kinds == {
        "op": "op",
        "name": "name",
        "step": "number",
        "count": "count",
        "copy_us": "time",
        "h2d_bytes": "bytes",
        "busy_share": "share",
    }


def test_a_key_is_not_shown_beside_the_name_it_stands_for() -> None:
    table = Table(
        columns=("producer", "producer_name", "consumer"),
        rows=(("7be2", "MatMul", "c09d"),),
        total_rows=1,
    )
    assert [column.name for column in views.grid(table).columns] == ["producer_name", "consumer"]


def test_rows_are_cut_with_their_count() -> None:
    table = Table(columns=("name",), rows=tuple((f"op{i}",) for i in range(300)), total_rows=4697)
    shown = views.grid(table)
    assert (len(shown.rows), shown.total_rows) == (views.ROWS_SHOWN, 4697)


def test_explained_parts_add_up() -> None:
    parts = views.explained_parts(gpu_run())
    assert [part.id for part in parts] == ["certain", "likely", "possible", "unexplained"]
    assert sum(part.share for part in parts) == pytest.approx(1)
    assert [part.start for part in parts] == pytest.approx([0, 0.802073, 0.977599, 0.977599])
    assert views.explained_parts(cpu_only_run()) == ()


def test_rounding_leaves_no_unexplained_rest() -> None:
    run = gpu_run()
    thirds = ExplainedShares(certain=1 / 3, likely=1 / 3, possible=1 / 3)
    run = replace(run, summary=replace(run.summary, explained=thirds))
    assert views.explained_parts(run)[-1].share == 0


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_op_has_one_home(name: str) -> None:
    report = EXAMPLES[name]()
    homes = views.homes(report)
    assert len({(home.place, home.row) for home in homes.values()}) == len(homes)
    for finding in report.findings:
        assert all(op.op_id in homes for op in finding.ops[: views.ROWS_SHOWN])


def test_homes_prefer_the_tables() -> None:
    homes = views.homes(gpu_run())
    assert homes[PY_FUNC.op_id] == views.Home("ops", 0)
    assert homes[GATHER.op_id].place == "ops"
    assert homes[CONV.op_id] == views.Home("ops", 5)
    assert homes["d0000000"].place == "finding-4"


def test_why_a_figure_is_unknown() -> None:
    assert views.why_unknown(empty_run(), "explained") == "no GPU in this trace"
    assert views.why_unknown(cpu_only_run(), "steps") == "no steps in this trace"
    run = gpu_run()
    assert views.why_unknown(run, "exposed") is None
    no_time = replace(run, summary=replace(run.summary, cpu_op_us=0.0))
    assert views.why_unknown(no_time, "explained") == "no CPU-op time in this trace"


def test_fragments_hold_no_space_and_stay_apart() -> None:
    assert views.fragment("op", "a b") == "op-a%20b"
    assert views.fragment("op", "a%20b") != views.fragment("op", "a b")
    assert views.fragment("op", "\ud800").isascii()


def test_causes_in_words() -> None:
    assert views.cause_title("no_gpu_visible") == "no GPU visible"


def test_edges_begin_with_those_the_gpu_waits_for() -> None:
    edges = views.copy_edges(gpu_run())
    assert [edge.source for edge in edges[:2]] == [PY_FUNC.op_id, CONV.op_id]
    assert edges[-1].source == MATMUL.op_id
