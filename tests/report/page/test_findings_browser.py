"""Findings in a real browser: folding, anchors, copying, paper, dark and narrow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES, gpu_run
from tests.report.page.browsing import CONTRASTS, OVERFLOWING, until, visit
from traceanalyzer.model import Evidence
from traceanalyzer.report import views
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator

FOLDED = ("41d8e0c6", "9c1d2ab8")  # does no harm, is by design


@pytest.fixture
def much(tmp_path: Path) -> Path:
    """A report with more evidence than stands open."""
    run = gpu_run()
    evidence = tuple(Evidence(kind="fact", text=f"fact number {n}.") for n in range(12))
    first = replace(run.findings[0], evidence=evidence)
    path = tmp_path / "much.html"
    write_page(replace(run, findings=(first, *run.findings[1:])), path)
    return path


@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
def test_every_finding_can_be_read_and_opened(
    browser: Browser, pages: dict[str, Path], *, javascript: bool
) -> None:
    seen = visit(browser, pages["gpu"], java_script_enabled=javascript)
    for number, finding in enumerate(gpu_run().findings, 1):
        assert seen.page.locator(f"#findings a[href='#finding-{finding.id}']").first.is_visible()
        card = seen.page.locator(f"#finding-{finding.id}")
        assert card.is_visible() == (finding.id not in FOLDED)
        if finding.id in FOLDED:
            seen.page.locator(f"details:has(> #finding-{finding.id}) > summary").click()
        assert card.locator("h3").inner_text().startswith(f"{number}.")
    assert seen.page.locator("#findings article:visible").count() == 4
    seen.close()


def test_an_anchor_opens_the_fold_that_its_finding_is_in(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], anchor=f"#finding-{FOLDED[1]}")
    card = seen.page.locator(f"#finding-{FOLDED[1]}")
    assert card.is_visible()
    assert 0 <= card.evaluate("e => e.getBoundingClientRect().top") < 100
    assert not seen.page.locator(f"#finding-{FOLDED[0]}").is_visible()
    seen.close()


def clipboard(browser: Browser, path: Path, button: str) -> str:
    seen = visit(browser, path, permissions=["clipboard-read", "clipboard-write"])
    seen.page.locator(f"#finding-f3a91c07 {button}").first.click()
    until(seen, "document.getElementById('announcements').textContent !== ''")
    told = seen.page.locator("#announcements").text_content()
    assert told is not None
    assert told.endswith("copied.")
    text: str = seen.page.evaluate("navigator.clipboard.readText()")
    assert seen.said == []
    seen.close()
    return text


def test_code_and_link_are_copied(browser: Browser, pages: dict[str, Path]) -> None:
    fix = gpu_run().findings[0].fixes[0]
    assert clipboard(browser, pages["gpu"], ".fixes .code button") == fix.code
    link = clipboard(browser, pages["gpu"], ".card-tools button:has-text('Copy link')")
    assert link == f"{pages['gpu'].as_uri()}#finding-f3a91c07"


def test_the_copy_button_lies_on_no_code(browser: Browser, pages: dict[str, Path]) -> None:
    for width in (380, 1280):
        seen = visit(browser, pages["gpu"], width)
        overlaps = seen.page.evaluate(
            """() => [...document.querySelectorAll(".finding .code")].filter((box) => {
              const range = document.createRange();
              range.selectNodeContents(box.querySelector("pre"));
              const button = box.querySelector("button").getBoundingClientRect();
              return [...range.getClientRects()].some((line) => line.right > button.left
                && line.top < button.bottom && line.bottom > button.top);
            }).length"""
        )
        assert seen.page.locator(".finding .code button").count() >= 3
        assert overlaps == 0
        seen.close()


def shown(locator: Locator) -> bool:
    """Whether what stands there takes room: folded details take none."""
    return bool(locator.evaluate("e => e.checkVisibility() && e.getClientRects().length > 0"))


@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
def test_paper_holds_every_finding_opened_and_numbered(
    browser: Browser, much: Path, *, javascript: bool
) -> None:
    seen = visit(browser, much, 690, java_script_enabled=javascript)
    seen.page.emulate_media(media="print")
    if javascript:
        seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for number, finding in enumerate(gpu_run().findings, 1):
        card = seen.page.locator(f"#finding-{finding.id}")
        assert shown(card)
        assert card.locator("h3").inner_text() == f"{number}. {finding.title}"
    facts = seen.page.locator("#finding-f3a91c07 .evidence li p", has_text="fact number")
    assert facts.count() == 12
    assert shown(facts.last)
    assert seen.page.locator("article .tools:visible").count() == 0
    if javascript:
        seen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert seen.page.locator("details[open]").count() == 0
    seen.close()


def test_a_pdf_has_more_pages_for_what_is_folded(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    """What stands in closed folds goes on paper too: without it there are fewer pages."""

    def leaves(*, without: str) -> int:
        seen = visit(browser, pages["gpu"])
        if without:
            seen.page.evaluate(f"document.querySelectorAll('{without}').forEach((e) => e.remove())")
        path = tmp_path / "printed.pdf"
        seen.page.pdf(path=path)
        seen.close()
        return path.read_bytes().count(b"/Type /Page\n")

    whole = leaves(without="")
    assert whole > leaves(without="#findings details.group") > 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_opened_findings_can_be_read_on_any_ground_and_fit(
    browser: Browser, pages: dict[str, Path], name: str, scheme: str
) -> None:
    seen = visit(browser, pages[name], 380, color_scheme=scheme)
    seen.page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert [entry for entry in seen.page.evaluate(CONTRASTS) if entry[0] < 4.5] == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380
    assert seen.page.evaluate(OVERFLOWING) == []
    seen.close()


def test_buttons_are_large_enough_to_hit(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], 380)
    sizes = seen.page.evaluate(
        """() => [...document.querySelectorAll("#findings button, #findings summary")]
          .map((e) => e.getBoundingClientRect())
          .filter((box) => box.width > 0).map((box) => Math.min(box.width, box.height))"""
    )
    assert len(sizes) > 8
    assert min(sizes) >= 24
    seen.close()


def test_three_figures_stand_out(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    sizes = seen.page.evaluate(
        """() => [...document.querySelectorAll("#verdict data.figure")]
          .map((e) => parseFloat(getComputedStyle(e).fontSize))"""
    )
    assert [size for size in sizes if size > 20] == [26, 26, 26]
    assert len(sizes) > 6
    assert views.why_unknown(gpu_run(), "exposed") is None
    seen.close()


def test_a_finding_leads_to_its_ops_and_its_events(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"])
    card = seen.page.locator("#finding-f3a91c07")
    card.get_by_role("link", name="its op in the table").click()
    until(seen, "document.querySelector('.ops-marked') !== null")
    marked = seen.page.locator(".ops-marked")
    assert "augment/EagerPyFunc" in marked.inner_text()
    assert marked.is_visible()
    # Of several ops the table shows these alone.
    several = seen.page.locator("#finding-9c1d2ab8")
    several.evaluate("e => (e.closest('details').open = true)")
    several.get_by_role("link", name="its ops in the table").click()
    until(seen, "document.querySelector('#ops input').value !== ''")
    assert seen.page.locator("#ops input").first.input_value() == "finding:9c1d2ab8"
    card.get_by_role("link", name="its events in the timeline").click()
    found = "document.querySelector('#timeline .tl-live')?.innerText ?? ''"
    until(seen, rf"/\b[1-9][0-9,]* events?\b/.test({found})")
    assert seen.page.locator("#timeline input").first.input_value() == "finding:f3a91c07"
    top = seen.page.locator("#timeline").evaluate("e => e.getBoundingClientRect().top")
    assert -5 <= top < 100
    assert seen.said == []
    seen.close()
