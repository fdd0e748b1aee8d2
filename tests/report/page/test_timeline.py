from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.report.examples import cpu_only_run, empty_run, gpu_run, hostile_run
from tests.report.made_timeline import Made, MadeLane, made_timeline
from tests.report.markup import Element, read
from traceanalyzer.model import Report, SourceWhere, TraceWhere
from traceanalyzer.report.packed import codes, unpack
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.timeline_link import TimelinePlace, place_link, timeline_place
from traceanalyzer.report.page.timeline_picture import (
    HATCHES,
    KIND_WORDS,
    finding_table,
    gap_words,
    kind_height,
    lane_table,
    timeline_picture,
)


def with_lanes(*lanes: MadeLane, report: Report | None = None) -> Report:
    """A report whose trace is these lanes; of the empty run, which has no steps."""
    return replace(report or empty_run(), trace=made_timeline(lanes))


def test_a_column_shows_what_took_most_of_it() -> None:
    # 400 us, so that each column is one microsecond.
    events = [
        Made(0, 100, "a", "host_op"),
        Made(100, 0.4, "b", "runtime"),
        Made(100.4, 0.6, "c", "input"),
        Made(200, 0.1, "d", "launch"),
        Made(300, 100, "e", "host_op"),
    ]
    seen = timeline_picture(with_lanes(MadeLane("h", "t", "thread", events)))
    assert seen is not None
    assert (seen.start_us, seen.end_us, seen.step) == (0.0, 400.0, None)
    (lane,) = seen.lanes
    paths = {(path.kind, path.is_faint): path.path for path in lane.paths}
    assert paths == {
        ("host_op", False): "M0 0h100v12h-100zM300 0h100v12h-100z",
        ("input", False): "M100 0h1v12h-1z",
        ("launch", True): "M200 0h1v12h-1z",  # a tenth of its column
    }
    assert seen.kinds == ("host_op", "input", "launch", "runtime")


def test_an_event_without_duration_is_drawn() -> None:
    events = [Made(0, 10, "a", "host_op"), Made(200, 0, "b", "copy"), Made(400, 0, "c", "wait")]
    seen = timeline_picture(with_lanes(MadeLane("h", "t", "thread", events)))
    assert seen is not None
    paths = {path.kind: path.path for path in seen.lanes[0].paths}
    assert paths["copy"] == "M200 0h1v12h-1z"
    assert paths["wait"] == "M399 5h1v2h-1z"


def test_one_regular_step_of_median_length_is_shown() -> None:
    report = gpu_run()
    seen = timeline_picture(report)
    assert seen is not None
    assert report.steps is not None
    assert seen.step is not None
    took = seen.end_us - seen.start_us
    assert report.steps.median_us is not None
    assert took == pytest.approx(1.06 * report.steps.median_us, rel=0.02)
    first = {(row.lane.kind, row.lane.name) for row in seen.lanes[:2]}
    assert first == {("steps", "train"), ("stream", "Stream #13(Compute)")}


def test_findings_are_marked_where_they_show_best() -> None:
    seen = timeline_picture(gpu_run())
    assert seen is not None
    marks = {mark.id: mark for mark in seen.marks}
    assert set(marks) == {"f3a91c07", "0be77d52"}
    # The Python function runs from 6.7 ms to 8.8 ms of a step of 14 ms.
    assert 45 < marks["f3a91c07"].x < 62
    lane = next(row for row in seen.lanes if row.lane.name == "tf_Compute/2087")
    assert lane.findings == ("f3a91c07", "0be77d52")
    assert lane.marks.startswith("M")


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


def test_numbers_of_findings_lie_apart() -> None:
    report = gpu_run()
    findings = tuple(replace(report.findings[0], id=f"{k:08x}") for k in range(30))
    events = [Made(10 * k, 5, "op", "host_op", f"{k}", f"{k:08x}") for k in range(30)]
    report = replace(report, findings=findings, steps=None)
    seen = timeline_picture(with_lanes(MadeLane("h", "t", "thread", events), report=report))
    assert seen is not None
    assert len(seen.marks) > 20
    assert seen.mark_rows <= 4
    for row in range(seen.mark_rows):
        places = [mark.x for mark in seen.marks if mark.row == row]
        assert all(b - a >= 5.99 for a, b in pairwise(places))
    assert all(3 <= mark.x <= 97 for mark in seen.marks)


def test_of_many_lanes_the_busiest_are_shown() -> None:
    lanes = [MadeLane("h", f"t{k}", "thread", [Made(0, 1 + k, "a", "host_op")]) for k in range(60)]
    seen = timeline_picture(with_lanes(*lanes))
    assert seen is not None
    assert len(seen.lanes) == 22
    assert [row.lane.name for row in seen.lanes] == [f"t{k}" for k in range(38, 60)]
    assert seen.lanes_total == 60


def test_ticks_are_round_and_within() -> None:
    for length in (1e-3, 0.7, 9.0, 399.0, 1e5, 14_862.7, 3.3e7):
        events = [Made(0, length, "a", "host_op")]
        seen = timeline_picture(with_lanes(MadeLane("h", "t", "thread", events)))
        assert seen is not None
        assert 3 <= len(seen.ticks) <= 8
        assert all(0 <= tick.x <= 100.001 for tick in seen.ticks)
    assert [tick.text for tick in seen.ticks][:2] == [
        "0\N{NO-BREAK SPACE}s",
        "10\N{NO-BREAK SPACE}s",
    ]


def test_every_kind_has_words_a_pattern_and_a_height() -> None:
    assert set(HATCHES) == set(KIND_WORDS)
    # Of those that are as high as each other no two have the same pattern, but for what is solid:
    # steps, kernels and ops on the host lie on lanes of their own.
    by_look: dict[tuple[object, ...], list[str]] = {}
    for kind, hatch in HATCHES.items():
        by_look.setdefault((hatch, kind_height(kind)), []).append(kind)
    assert sorted(kinds for kinds in by_look.values() if len(kinds) > 1) == [
        ["step", "compute", "host_op"]
    ]


def test_the_page_has_what_its_script_needs() -> None:
    report = gpu_run()
    lanes = unpack(lane_table(report))
    assert report.trace is not None
    assert lanes["name"] == [lane.name for lane in report.trace.lanes]
    assert lanes["program"] == [0, 0, 0, 1, 0, 0]
    assert lanes["device"][1:4] == ["/device:GPU:0", "/device:GPU:0", None]
    assert sum(lanes["rows"]) == report.trace.events.rows  # type: ignore[arg-type]
    assert unpack(finding_table(report))["label"][0] == "1"
    assert list(codes(report.trace.names)["finding_id"][:1]) == [-1]
    page = read(render_page(report))
    for name in ("trace", "trace-names", "trace-lanes", "trace-findings"):
        assert page.one("script", id=f"data-{name}").raw


def rows(section: Element) -> list[list[str]]:
    table = section.one("table", id="gaps-table")
    return [
        [c.text for c in row.children if isinstance(c, Element)]
        for row in table.one("tbody").all("tr")
    ]


def test_the_largest_gaps_as_a_table() -> None:
    page = read(render_page(gpu_run()))
    section = page.one("section", id="timeline")
    found = rows(section)
    assert len(found) == 20
    assert found[0][:4] == ["6.65 ms", "2.35 ms", "train 0", "/device:GPU:0"]
    assert found[0][4].startswith("an op on the host")
    assert "for 2.11 ms of it" in found[0][4]
    assert found[0][5].endswith("finding 1")
    assert found[0][6].startswith("copy, device to host")
    assert "The longest 20 of 30 gaps." in section.text
    link = section.one("table", id="gaps-table").one("tbody")
    first = next(iter(link.all("a"))).attributes["href"]
    assert first == f"{place_link(6650, 2350)}&time.at=gap-1"


def test_gaps_without_phases_of_ours_are_told_plainly() -> None:
    assert gap_words(None) == "the trace does not tell"
    assert gap_words("something new") == "the trace does not tell"
    assert gap_words("input") == "the input pipeline"


def test_without_events_there_is_no_section() -> None:
    assert "timeline" not in {e.attributes.get("id") for e in read(render_page(empty_run())).all()}


def test_hostile_names_stay_text() -> None:
    page = read(render_page(hostile_run()))
    section = page.one("section", id="timeline")
    assert "⟨U+009B⟩" in section.text
    assert "\u202e" not in section.text
    assert len(section.text) < 20_000


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


def test_a_gap_tells_what_it_is_and_on_which_rows() -> None:
    page = read(render_page(gpu_run()))
    gap = page.one("tr", id="gap-1")
    assert gap.attributes["data-told"] == (
        "/device:GPU:0 ran nothing for 2.35\N{NO-BREAK SPACE}ms, from 6.65\N{NO-BREAK SPACE}ms on, "
        "in train 0. Waited for: an op on the host for 2.11\N{NO-BREAK SPACE}ms of it, "
        "augment/EagerPyFunc (finding 1)."
    )
    assert (gap.attributes["data-from"], gap.attributes["data-to"]) == ("6650.0", "9000.0")
    trace = gpu_run().trace
    assert trace is not None
    wholly = replace(trace.gaps[0], phase_us=trace.gaps[0].duration_us)
    report = replace(gpu_run(), trace=replace(trace, gaps=(wholly, *trace.gaps[1:])))
    told = read(render_page(report)).one("tr", id="gap-1").attributes["data-told"]
    assert "Waited for: an op on the host, augment/EagerPyFunc" in (told or "")
    devices = [trace.lanes[int(k)].device for k in (gap.attributes["data-lanes"] or "").split()]
    assert set(devices) == {"/device:GPU:0"}
    assert len(devices) == sum(lane.device == "/device:GPU:0" for lane in trace.lanes)


def test_a_place_is_a_stretch_of_a_line_or_the_whole_of_it() -> None:
    report = with_lanes(MadeLane("a", "t", "thread", [Made(0, 5, "a", "host_op")]))

    def place(**more: int) -> TimelinePlace | None:
        return timeline_place(report, TraceWhere(host="a", plane="/host:CPU", line="t", **more))

    assert place(offset_ps=2_000_000, duration_ps=3_000_000) == TimelinePlace(
        "#timeline&time.view=0.000-10.000", (0,), 2.0, 5.0
    )
    assert place() == TimelinePlace("#timeline", (0,))
    assert timeline_place(report, None) is None
    assert timeline_place(report, SourceWhere(file="t", line=1)) is None
