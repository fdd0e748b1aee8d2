"""The section of ops as it stands without scripts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES, HOSTILE, PY_FUNC, empty_run, gpu_run, hostile_run
from tests.report.markup import Element, read
from tests.report.page.made_ops import made_rows, report_of
from traceanalyzer.model import Report, Table
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.page.render import render_page

if TYPE_CHECKING:
    from traceanalyzer.model import Cell

TABLE = "Ops, the CPU-placed ones first"


def section(report: Report) -> Element:
    return read(render_page(report)).one("section", id="ops")


def with_ops(count: int, on_cpu: int) -> Report:
    """A run with so many ops, the first of them on the CPU."""
    run = gpu_run()
    table = run.tables.ops
    at = {name: place for place, name in enumerate(table.columns)}
    rows: list[tuple[Cell, ...]] = []
    for k in range(count):
        row = list(table.rows[0])
        row[at["op_id"]] = f"{k:08x}"
        row[at["name"]] = f"scope/op_{k}"
        row[at["placement"]] = "cpu" if k < on_cpu else "gpu:0"
        rows.append(tuple(row))
    ops = Table(columns=table.columns, rows=tuple(rows), total_rows=count)
    return replace(run, tables=replace(run.tables, ops=ops, all_ops=None))


def rows_of(found: Element) -> list[Element]:
    table = next(t for t in found.all("table") if t.one("caption").text == TABLE)
    return list(table.one("tbody").all("tr"))


def shown_names(found: Element) -> list[str]:
    return [next(iter(row.all("bdi"))).text for row in rows_of(found)]


def test_five_hundred_ops_are_shown_and_the_rest_counted() -> None:
    found = section(with_ops(1000, on_cpu=700))
    names = shown_names(found)
    assert len(names) == 500
    assert names[399:401] == ["scope/op_399", "scope/op_700"]
    assert "Showing 500 of 1,000 ops. All of them: traceanalyzer tables PATH -o DIR" in found.text


def test_five_hundred_ops_take_little_of_the_page() -> None:
    few, many = (len(render_page(with_ops(count, on_cpu=count))) for count in (1, 500))
    assert many - few < 900_000


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_op_that_is_shown_has_its_anchor_once(name: str) -> None:
    page = read(render_page(EXAMPLES[name]()))
    ids = [e.attributes["id"] for e in page.all() if "id" in e.attributes]
    ops = [i for i in ids if i and i.startswith("op-")]
    assert len(ops) == len(set(ops))
    rows = [row for table in page.one("section", id="ops").all("table") for row in table.all("tr")]
    at_home = [row for row in rows if (row.attributes.get("id") or "").startswith("op-")]
    ops_shown = EXAMPLES[name]().tables.ops.rows
    assert len(at_home) == len(ops_shown)


def test_what_the_page_holds_packed_is_what_the_document_holds() -> None:
    report = report_of(made_rows(50), 80)
    page = read(render_page(report))
    holder = page.one("script", id="data-ops")
    assert holder.attributes["type"] == "application/octet-stream"
    packed = report.tables.all_ops
    assert packed is not None
    assert holder.raw == packed.data
    assert len(unpack(replace(packed, data=holder.raw))["name"]) == 50
    live = page.one("div", class_="ops-live")
    assert (live.attributes["data-rows"], live.attributes["data-total"]) == ("50", "80")


@pytest.mark.parametrize("build", [empty_run, lambda: with_ops(3, on_cpu=1)])
def test_nothing_is_packed_where_the_document_has_nothing(build: object) -> None:
    page = read(render_page(build()))  # type: ignore[operator]
    assert not list(page.all("script", id="data-ops"))
    assert not list(page.all("div", class_="ops-live"))


def test_only_what_needs_a_cause_is_said_to_lack_one() -> None:
    found = section(with_ops(3, on_cpu=1))
    cells = [
        [cell.text for cell in row.children if isinstance(cell, Element)] for row in rows_of(found)
    ]
    assert [row[1] for row in cells] == ["unknown", "none needed", "none needed"]


def test_many_kernels_are_folded() -> None:
    run = gpu_run()
    assert not list(section(run).all("details"))
    kernels = tuple((f"kernel_{k}", 7) for k in range(11))
    table = Table(columns=("name", "count"), rows=kernels, total_rows=11)
    folded = section(replace(run, tables=replace(run.tables, kernels=table)))
    assert folded.one("details").one("summary").text == "List the 11 dearest kernels"
    assert len(list(folded.one("details").one("tbody").all("tr"))) == 11


def test_without_waits_the_lead_speaks_of_host_time() -> None:
    assert "by the time the GPU waited for them" in section(gpu_run()).text
    at = gpu_run().tables.ops.columns.index("exposed_us")
    ops = gpu_run().tables.ops
    rows = tuple((*row[:at], None, *row[at + 1 :]) for row in ops.rows)
    run = replace(gpu_run(), tables=replace(gpu_run().tables, ops=replace(ops, rows=rows)))
    said = section(run)
    assert "The CPU-placed ops, by their host time; then the others" in said.text
    assert "Unknown in every row, and so left out: GPU waits" in said.text


def test_ops_lead_to_their_findings() -> None:
    row = section(gpu_run()).one("tr", id=f"op-{PY_FUNC.op_id}")
    assert row.one("a").attributes["href"] == "#finding-f3a91c07"


def test_hostile_names_are_in_the_packed_table_alone_and_only_as_data() -> None:
    page = render_page(hostile_run())
    packed = hostile_run().tables.all_ops
    assert packed is not None
    assert HOSTILE in unpack(packed)["name"]
    assert HOSTILE not in page
