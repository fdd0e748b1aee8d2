from __future__ import annotations

from dataclasses import replace

from tests.report.examples import cpu_only_run, empty_run
from tests.report.made_timeline import Made, MadeLane, made_timeline
from tests.report.markup import Element, read
from traceanalyzer.model import Report, TraceWhere
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.timeline_data import finding_table
from traceanalyzer.report.page.timeline_link import timeline_place


def with_lanes(*lanes: MadeLane, report: Report | None = None) -> Report:
    """A report whose trace is these lanes; of the empty run, which has no steps."""
    return replace(report or empty_run(), trace=made_timeline(lanes))


def test_findings_for_a_machine_with_a_gpu_are_led_to_as_well() -> None:
    report = cpu_only_run()
    assert report.on_a_gpu is not None
    measured, there = report.findings[0].id, report.on_a_gpu.findings[0].id
    events = [
        Made(0, 100, "a", "host_op", "1", measured),
        Made(200, 100, "b", "host_op", "2", there),
    ]
    report = with_lanes(MadeLane("h", "t", "thread", events), report=report)
    page = read(render_page(report))
    links = page.one("section", id="timeline").all("a")
    led = [str(link.attributes["href"]).lstrip("#") for link in links]
    assert led == [f"finding-{measured}", f"on-a-gpu-finding-{there}"]
    table = unpack(finding_table(report))
    assert dict(zip(table["id"], table["anchor"], strict=True)) == {
        measured: led[0],
        there: led[1],
    }
    assert {article.attributes["id"] for article in page.all("article")} == set(led)


def rows(section: Element) -> list[list[str]]:
    table = section.one("table", id="gaps-table")
    return [
        [c.text for c in row.children if isinstance(c, Element)]
        for row in table.one("tbody").all("tr")
    ]


def test_a_place_between_two_lines_of_one_name_is_no_place() -> None:
    lanes = [MadeLane(host, "t", "thread", [Made(0, 5, "a", "host_op")]) for host in ("a", "b")]
    report = with_lanes(*lanes)
    assert report.trace is not None
    moved = replace(report.trace.lanes[1], begin_us=10.0)
    report = replace(report, trace=replace(report.trace, lanes=(report.trace.lanes[0], moved)))

    def link(host: str | None) -> str | None:
        where = TraceWhere(host=host, plane="/host:CPU", line="t", offset_ps=0, duration_ps=0)
        place = timeline_place(report, where)
        return None if place is None else place.link

    assert link("a") == "#timeline&time.view=0.000-5.000"
    assert link("b") == "#timeline&time.view=5.000-15.000"
    assert link(None) is None
