"""The section that says how the report was made and how its figures are defined."""

from __future__ import annotations

from dataclasses import replace

from tests.report.examples import HOSTILE, cpu_only_run, empty_run, gpu_run
from tests.report.markup import Element, read
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.text import visible


def method(page: str) -> Element:
    return read(page).one("section", id="method")


def said(section: Element, term: str) -> str:
    (found,) = (div for div in section.all("div") if div.one("dt").text == term)
    return found.one("dd").text


def test_a_capture_says_what_to_type_when_it_was_and_at_which_level() -> None:
    section = method(render_page(gpu_run()))
    command = section.one("pre", class_="command").one("code").text
    assert command == "traceanalyzer capture --steps 10:130 train/main.py --token ***"
    assert "runs the program" in said(section, "Command")
    assert section.one("time").attributes["datetime"] == "2026-11-20T17:04:31Z"
    assert said(section, "Recorded") == "2026-11-20 17:04:31 UTC"
    assert said(section, "Host tracer level").startswith("3.")
    assert gpu_run().tool.version in said(section, "Tool")


def test_a_report_of_a_trace_says_how_to_make_it_again() -> None:
    report = empty_run()
    made = replace(report, run=replace(report.run, command="traceanalyzer report logs"))
    section = method(render_page(made))
    assert "traceanalyzer report logs" in said(section, "Command")
    assert "from a trace that is there" in said(section, "Command")


def test_what_is_not_known_is_said_to_be_unknown_and_why() -> None:
    section = method(render_page(cpu_only_run()))
    assert not [d for d in section.all("dt") if d.text == "Command"]
    assert said(section, "Recorded") == "unknown"
    assert said(section, "Host tracer level").startswith("unknown.")
    reasons = {e.attributes.get("title") for e in section.all("span", class_="unknown")}
    assert len(reasons) == 2
    assert None not in reasons


def test_a_hostile_command_is_text() -> None:
    report = gpu_run()
    run = replace(report.run, command=HOSTILE, recorded_at=HOSTILE)
    section = method(render_page(replace(report, run=run)))
    assert section.one("pre", class_="command").one("code").raw == visible(HOSTILE)
    assert not list(section.all("script"))
    assert not list(section.all("img"))


def test_each_term_is_defined_once() -> None:
    terms = [dt.text for dt in method(render_page(gpu_run())).all("dt")]
    assert len(terms) == len(set(terms))
    for term in ("GPU waits", "Gain", "Critical path", "Island", "Memory", "Lines of the program"):
        assert term in terms
