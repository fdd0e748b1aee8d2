"""The findings on the page: their order and numbers, what is folded, and what is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.report.examples import gpu_run
from tests.report.markup import Element, read
from traceanalyzer.model import Cost, Finding, Gain, OpRef
from traceanalyzer.report import views
from traceanalyzer.report.page.render import render_page

if TYPE_CHECKING:
    from traceanalyzer.model import Harm, Report


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


# --- what is folded ------------------------------------------------------------------------


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


# --- very many ------------------------------------------------------------------------------


# --- rules ------------------------------------------------------------------------------------


# --- the verdict's small figures ------------------------------------------------------------


# --- notes ------------------------------------------------------------------------------------


# --- down to events and ops ------------------------------------------------------------------
