"""The findings on the page: their order and numbers, what is folded, and what is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES, cpu_only_run, empty_run, gpu_run
from tests.report.markup import Element, read
from traceanalyzer.model import (
    Cost,
    Evidence,
    Finding,
    Gain,
    Health,
    OpRef,
    RuledOut,
    RuleStatus,
    TraceWhere,
)
from traceanalyzer.report import views
from traceanalyzer.report.page import assets, render
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.timeline_link import (
    TimelinePlace,
    finding_query,
    findings_shown,
)

if TYPE_CHECKING:
    from traceanalyzer.model import Harm, Report, Severity


def finding(
    key: str,
    harm: Harm = "harmful",
    *,
    gain: float | None = None,
    waits: float | None = None,
    took: float | None = None,
) -> Finding:
    return replace(
        gpu_run().findings[0],
        id=key,
        harm=harm,
        cost=Cost(host_us=took, copy_us=None, copy_bytes=None, exposed_us_per_step=waits),
        gain_us_per_step=None if gain is None else Gain(low=0.0, high=gain, basis="exposed"),
    )


def with_findings(*findings: Finding) -> Report:
    return replace(gpu_run(), findings=findings)


def page_of(*findings: Finding) -> Element:
    return read(render_page(with_findings(*findings)))


def table(section: Element, caption: str) -> list[list[str]]:
    (found,) = (t for t in section.all("table") if t.one("caption").text == caption)
    return [
        [cell.text for cell in row.children if isinstance(cell, Element)]
        for row in found.one("tbody").all("tr")
    ]


# --- order and numbers ---------------------------------------------------------------------


def test_the_gain_decides_then_the_wait_then_the_host_time() -> None:
    ranked = views.numbered_findings(
        with_findings(
            finding("by-time", took=900.0),
            finding("by-less-time", took=800.0),
            finding("by-wait", waits=40.0, took=1.0),
            finding("by-gain", gain=50.0, waits=60.0),
            finding("gains-nothing", gain=0.0, waits=99.0),
        )
    )
    assert [(n.label, n.finding.id) for n in ranked] == [
        ("1", "by-gain"),
        ("2", "by-wait"),
        ("3", "by-time"),
        ("4", "by-less-time"),
        ("5", "gains-nothing"),
    ]


def test_what_does_harm_comes_first_and_what_is_by_design_last() -> None:
    report = with_findings(
        finding("design", "by_design", waits=9.0),
        finding("harmless", "harmless", waits=8.0),
        finding("harmful", waits=1.0),
    )
    labels = [(n.finding.id, n.label) for n in views.numbered_findings(report)]
    assert labels == [("harmful", "1"), ("harmless", "2"), ("design", "3")]


def test_the_page_numbers_findings_as_the_view_does() -> None:
    page = read(render_page(gpu_run()))
    shown = {
        article.attributes["data-finding"]: article.one("h3").one("span", class_="ordinal").text
        for article in page.all("article")
    }
    assert shown == {n.finding.id: f"{n.label}." for n in views.numbered_findings(gpu_run())}
    rows = table(page.one("section", id="findings"), "Findings at a glance")
    assert [row[0] for row in rows] == ["1", "2", "3", "4"]


def test_a_replay_has_numbers_of_its_own() -> None:
    section = read(render_page(cpu_only_run())).one("section", id="on-a-gpu")
    first = section.one("p", class_="lead").text
    assert re.match("This is a replay of TensorFlow.s placer, not a measurement", first)
    card = section.one("article")
    assert card.one("h3").text.startswith("G1.")
    # No GPU waited, so that no wait is told of, not even as unknown.
    assert "GPU waits per step" not in card.text
    assert "Cost on a GPU machine unknown" in card.text


# --- what is folded ------------------------------------------------------------------------


def test_harmless_findings_and_those_by_design_are_folded_with_count_and_time() -> None:
    section = page_of(
        finding("a"),
        finding("b", "harmless", took=1000.0),
        finding("c", "harmless", took=500.0),
        finding("d", "by_design"),
    ).one("section", id="findings")
    groups = list(section.all("details", class_="group"))
    assert [next(group.all("summary")).text for group in groups] == [
        "2 findings that do no harm, 1.50 ms of host time",
        "1 finding that is by design, unknown of host time",
    ]
    assert [len(list(group.all("article"))) for group in groups] == [2, 1]
    assert len(list(section.all("article"))) == 4


def test_where_nothing_does_harm_that_is_said() -> None:
    assert "None of them does harm in this run." in page_of(finding("a", "harmless")).text
    assert "None of them does harm" not in page_of(finding("a")).text


@pytest.mark.parametrize(("count", "more"), [(4, None), (5, "1 more"), (30, "26 more")])
def test_of_much_evidence_the_first_stands_open(count: int, more: str | None) -> None:
    evidence = tuple(Evidence(kind="a_fact", text=f"fact {n}") for n in range(count))
    card = page_of(replace(finding("a"), evidence=evidence, blockers=(), ops=())).one("article")
    lists = list(card.all("ul", class_="evidence"))
    assert len(list(lists[0].all("li"))) == 4
    folds = [next(d.all("summary")).text for d in card.all("details")]
    assert folds == ([] if more is None else [more])
    assert [f"fact {n}" in card.text for n in range(count)] == [True] * count


def test_very_much_evidence_is_cut_with_a_count() -> None:
    evidence = tuple(Evidence(kind="a_fact", text=f"fact {n}") for n in range(900))
    card = page_of(replace(finding("a"), evidence=evidence)).one("article")
    assert len(list(card.all("li"))) < 120
    assert "Showing 104 of 900. All of them: traceanalyzer report PATH --json FILE" in card.text


def test_evidence_leads_to_its_place_in_the_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    render.environment.cache_clear()
    monkeypatch.setattr(
        render,
        "timeline_place",
        lambda _, where: (
            None
            if where is None or where.line == "b"
            else TimelinePlace("#timeline&x=1", (4, 7), 2.0, 5.0)
        ),
    )
    places = [TraceWhere(host="h", plane="p", line=line) for line in ("a", "b")]
    evidence = tuple(Evidence(kind="event", text="It ran.", where=place) for place in places)
    try:
        card = page_of(replace(finding("a"), evidence=evidence, ops=(), dragged_along=()))
    finally:
        render.environment.cache_clear()
    links = [a for a in card.one("article").all("a") if a.text == "in the timeline"]
    (link,) = links
    assert link.attributes["href"] == "#timeline&x=1&time.at=evidence-1-1"
    item = card.one("li", id="evidence-1-1")
    assert item.attributes["data-told"] == (
        "Evidence of finding 1, A Python function runs inside every step: It ran."
    )
    assert item.attributes["data-lanes"] == "4 7"
    assert (item.attributes["data-from"], item.attributes["data-to"]) == ("2.0", "5.0")


# --- where in the program --------------------------------------------------------------------


def op(name: str, file: str | None, line: int | None, source: str | None = None) -> OpRef:
    return OpRef(
        op_id=name, name=name, type="T", host="h", placement="cpu", file=file, line=line,
        source=source,
    )  # fmt: skip


def test_lines_of_the_program_stand_once_with_what_is_on_them() -> None:
    ops = (
        op("a", "x.py", 7),
        op("b", "x.py", 7, "y = f(x)"),
        op("c", None, None),
        op("d", "x.py", 9, "</script><b>"),
    )
    found = views.source_places(replace(finding("a"), ops=ops))
    assert [(p.file, p.line, p.text, p.ops) for p in found] == [
        ("x.py", 7, "y = f(x)", 2),
        ("x.py", 9, "</script><b>", 1),
    ]
    section = page_of(replace(finding("a"), ops=ops)).one("section", class_="places")
    assert section.text == (
        "Where in the program x.py:7 (2 of its ops) y = f(x) x.py:9 </script><b>"
    )
    assert len(list(section.all("b"))) == 0


def test_many_lines_are_counted() -> None:
    ops = tuple(op(str(n), "x.py", n) for n in range(9))
    section = page_of(replace(finding("a"), ops=ops)).one("section", class_="places")
    assert "And 6 more lines, in the list of ops." in section.text


# --- very many ------------------------------------------------------------------------------


@pytest.mark.slow
def test_very_many_findings_keep_the_page_small_and_all_are_named() -> None:
    ops = tuple(op(f"op-{n}", "x.py", n) for n in range(500))
    evidence = gpu_run().findings[0].evidence * 40
    findings = [
        replace(finding(f"id{n:04}", took=float(n)), title=f"Title {n:04}", ops=ops,
                evidence=evidence)
        for n in range(1000)
    ]  # fmt: skip
    page = render_page(with_findings(*findings))
    assert len(page) < 5_000_000
    document = read(page)
    assert len(list(document.one("section", id="findings").all("article"))) == 200
    assert "Showing 200 of 1,000 findings in full below." in document.text
    ids = [e.attributes.get("id") for e in document.all()]
    assert all(ids.count(f"finding-id{n:04}") == 1 for n in (0, 500, 999))
    assert all(f"Title {n:04}" in page for n in range(1000))


# --- rules ------------------------------------------------------------------------------------


def test_rules_are_folded_by_what_became_of_them() -> None:
    section = read(render_page(gpu_run())).one("section", id="rules")
    assert [next(d.all("summary")).text for d in section.all("details")] == [
        "1 failed",
        "1 found nothing",
        "1 did not apply",
        "4 found something",
    ]
    assert table(section, "Rules that failed") == [
        ["grappler_pin_to_host", "KeyError: 'pin_to_host_optimization'"]
    ]
    assert table(section, "Rules that did not apply") == [
        ["remote_host", "the trace holds a single host"]
    ]
    # What excludes it, in the words of the finding that ruled it out.
    assert table(section, "Rules that found nothing") == [
        ["no_gpu_visible", "one GPU ran 36,480 kernels in the same trace"]
    ]
    fired = table(section, "Rules that found something")
    assert ["python_callback", "1"] in fired
    assert ["host_pipeline", "4"] in fired


def test_what_a_rule_looks_for_stands_beside_its_cause() -> None:
    rules = (RuleStatus(cause="remote_host", status="silent", title="On another host"),)
    section = read(render_page(replace(gpu_run(), rules=rules))).one("section", id="rules")
    (row,) = table(section, "Rules that found nothing")
    assert row[0] == "remote_host On another host"
    assert row[1] == "Nothing in this run shows it."


def test_a_rule_tells_itself_why_it_found_nothing_where_it_can() -> None:
    out = RuledOut(cause="x", because="excluded")
    report = with_findings(replace(finding("a"), ruled_out=(out,)))
    silent = RuleStatus(cause="x", status="silent")
    assert views.why_silent(report, silent) == "excluded"
    assert views.why_silent(report, replace(silent, reason="told")) == "told"


# --- the verdict's small figures ------------------------------------------------------------


def test_health_in_short_is_the_worst_and_its_count() -> None:
    severities: tuple[Severity, ...] = ("info", "error", "warning", "error")
    entries = [Health(id=str(n), severity=s, message="m") for n, s in enumerate(severities)]
    report = replace(gpu_run(), health=tuple(entries))
    assert views.health_in_short(report) == (("error", 2), ("warning", 1), ("info", 1))
    verdict = read(render_page(report)).one("section", id="verdict")
    assert "Trace health error 2 of 4 remarks" in verdict.text


def test_what_is_not_known_is_said_to_be() -> None:
    verdict = read(render_page(empty_run())).one("section", id="verdict").text
    assert "Lost to CPU placement per step unknown no GPU in this trace" in verdict
    assert "Software unknown" in verdict
    assert "Devices unknown" in verdict
    assert "Trace health no limit found" in verdict


# --- notes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_place_for_notes_stands_once_and_not_in_a_script(name: str) -> None:
    page = render_page(EXAMPLES[name]())
    mark = '<div id="kept-notes">'
    assert page.count(mark) == (1 if EXAMPLES[name]().findings else 0)
    assert mark not in assets.script()
    assert len(re.findall(r'id="data-notes">\[\]</script>', page)) == page.count(mark)


# --- down to events and ops ------------------------------------------------------------------


def test_links_lead_to_events_only_where_there_are_some() -> None:
    run = gpu_run()
    assert run.trace is not None
    shown = findings_shown(run)
    assert shown & {f.id for f in run.findings}
    other = finding("not-there")
    page = read(render_page(replace(run, findings=(*run.findings, other))))
    for card in page.one("section", id="findings").all("article"):
        key = card.attributes["data-finding"]
        links = [a.attributes["href"] for a in card.all("a") if a.text.startswith("its events")]
        assert links == ([f"#timeline&time.find=finding%3A{key}&time.at="] if key in shown else [])
    assert findings_shown(replace(run, trace=None)) == frozenset()
    without = replace(run, trace=None, tables=replace(run.tables, all_ops=None))
    assert "What it rests on" not in read(render_page(without)).text


def test_a_finding_of_any_id_can_be_searched_for() -> None:
    assert finding_query("a1b2") == "finding%3Aa1b2"
    assert finding_query("a&b=c#\ud800") == "finding%3Aa%26b%3Dc%23%ED%A0%80"
