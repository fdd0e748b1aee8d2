"""What is shown short, in full: by keys, by touch, without scripts, and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES
from tests.report.page.browsing import OVERFLOWING, Visit, until, visit

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

# Of what has more to say than it shows: what the style sheet shows beside it, and what it is.
_TOLD = """
(selector) => [...document.querySelectorAll(selector)].map((element) => {
  const { content } = getComputedStyle(element, "::after");
  return [content === "none" ? "" : content, element.title];
})
"""
_SHORT = ("main .figure[title]", "main .unknown[title]", "main .name[title]")
_SHOWN_TWICE = """
[...document.querySelectorAll("main :is(.name, .figure)[title]")]
  .map((e) => [e.textContent.replace("\u00a0", " "), e.title])
  .filter(([shown, whole]) => shown === whole)
"""


def told(seen: Visit, selector: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = seen.page.evaluate(_TOLD, selector)
    assert found
    return found


@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
def test_figures_names_and_reasons_are_told_where_the_reader_asks(
    browser: Browser, pages: dict[str, Path], *, javascript: bool
) -> None:
    seen = visit(browser, pages["hostile"], java_script_enabled=javascript)
    for selector in _SHORT:
        assert {shown for shown, _ in told(seen, selector)} == {""}
    box = seen.page.get_by_label("Exact figures")
    box.focus()
    seen.page.keyboard.press("Space")
    for selector in _SHORT:
        for shown, exact in told(seen, selector):
            assert exact.replace('"', '\\"') in shown
    seen.close()


@pytest.mark.parametrize("name", ["gpu", "hostile"])
def test_nothing_that_is_shown_whole_is_told_again(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    seen = visit(browser, pages[name], anchor="#timeline&time.find=e&time.scope=0")
    seen.page.locator(".tl-details .name").first.wait_for()
    seen.page.locator(".crumbs .name").wait_for()
    assert seen.page.evaluate(_SHOWN_TWICE) == []
    # What is cut is told: the scope of that page bears a long name.
    assert seen.page.locator(".crumbs .name[title]").count() == (name == "hostile")
    seen.close()


def test_only_what_a_cell_is_stands_on_lines_of_its_own(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], anchor="#figures=full")
    displays = {
        tuple(found)
        for found in seen.page.evaluate("""
          [...document.querySelectorAll("main td .figure[title]")].map((e) =>
            [e.closest("td, .at").matches(".at"), getComputedStyle(e, "::after").display])
        """)
    }
    assert displays == {(True, "inline"), (False, "block")}
    seen.close()


def test_the_choice_stands_in_the_address_and_has_a_key(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"])
    box = seen.page.get_by_label("Exact figures")
    seen.page.keyboard.press("x")
    assert box.is_checked()
    until(seen, "location.hash === '#figures=full'")
    seen.page.reload()
    assert box.is_checked()
    seen.page.keyboard.press("x")
    assert not box.is_checked()
    until(seen, "location.hash === ''")
    assert seen.said == []
    seen.close()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize("width", [320, 1280])
def test_the_page_fits_with_it(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    seen = visit(browser, pages[name], width, anchor="#figures=full")
    seen.page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert seen.page.get_by_label("Exact figures").is_checked()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OVERFLOWING) == []
    seen.close()


def test_paper_tells_reasons_and_figures_where_they_were_asked_for(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["cpu_only"])
    seen.page.emulate_media(media="print")
    for shown, reason in told(seen, "dd > .unknown[title]"):
        assert reason in shown
    assert {shown for shown, _ in told(seen, "main .figure[title]")} == {""}
    seen.page.evaluate("document.getElementById('in-full').click()")
    for shown, exact in told(seen, "main .figure[title]"):
        assert exact in shown
    seen.close()


def test_the_grid_tells_why_a_cell_is_unknown(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    seen.page.locator("#ops-filter").fill("to-device=unknown")
    cell = seen.page.locator(".ops-body .ops-cell", has_text="unknown").first
    cell.click()
    whole = seen.page.locator(".ops-whole").inner_text()
    assert "unknown: the trace does not say how much was copied" in whole
    assert seen.said == []
    seen.close()
