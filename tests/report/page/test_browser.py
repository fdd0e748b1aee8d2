"""The page in a real browser: it shows everything, asks for nothing, and fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES
from tests.report.page.browsing import CONTRASTS, OVERFLOWING, PICTURE_FAULTS, visit

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_page_asks_for_nothing_and_shows_everything(
    browser: Browser, pages: dict[str, Path], name: str, *, javascript: bool
) -> None:
    seen = visit(browser, pages[name], java_script_enabled=javascript)
    assert seen.requests == [pages[name].as_uri()]
    assert seen.said == []
    sections = seen.page.locator("main > section")
    assert sections.count() >= 10
    for index in range(sections.count()):
        assert sections.nth(index).is_visible()
        assert sections.nth(index).locator("h2").is_visible()
    # The style is let in by its hash: without it the ground would be transparent.
    assert seen.page.locator(".contents ol").evaluate("e => getComputedStyle(e).listStyleType") == (
        "none"
    )
    seen.close()


@pytest.mark.parametrize(
    "width",
    [320, 2560, *(pytest.param(between, marks=pytest.mark.slow) for between in (380, 768, 1280))],
)
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_page_is_never_wider_than_its_window(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    seen = visit(browser, pages[name], width)
    seen.page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OVERFLOWING) == []
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_text_stands_out_from_its_ground(
    browser: Browser, pages: dict[str, Path], name: str, scheme: str
) -> None:
    seen = visit(browser, pages[name], color_scheme=scheme)
    contrasts = seen.page.evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [entry for entry in contrasts if entry[0] < 4.5] == []
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    seen.close()


@pytest.mark.parametrize("width", [380, 1280])
def test_words_of_pictures_lie_apart(browser: Browser, pages: dict[str, Path], width: int) -> None:
    for name in ("gpu", "hostile"):
        seen = visit(browser, pages[name], width)
        assert seen.page.evaluate(PICTURE_FAULTS) == []
        seen.close()


def test_one_type_scale(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    sizes = seen.page.evaluate(
        "[...new Set([...document.querySelectorAll('body *')].filter((e) => !e.closest("
        "'code, pre, kbd, .name, .cause-id, .permalink, svg'))"
        ".map((e) => getComputedStyle(e).fontSize))]"
    )
    assert set(sizes) <= {"13px", "15px", "17px", "22px", "26px", "28px"}
    seen.close()


def test_figures_of_a_column_end_on_one_line(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], 1600, java_script_enabled=False)
    edges = seen.page.evaluate(
        "[...document.querySelectorAll('#ops .ops-static > .scroll tbody tr')].map((row) =>"
        " [...row.querySelectorAll('td.n')].map((c) => c.getBoundingClientRect().right))"
    )
    assert len(edges) == 14
    assert edges[0][-1] > edges[0][0] > 0
    assert all(row == edges[0] for row in edges)
    seen.close()


def test_an_anchor_leads_to_its_finding(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    seen.page.goto(f"{pages['gpu'].as_uri()}#finding-0be77d52")
    top = seen.page.locator("#finding-0be77d52").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < 100
    # An op that is at home in a closed list opens it.
    seen.page.goto(f"{pages['gpu'].as_uri()}#op-d0000000")
    assert seen.page.locator("#op-d0000000").is_visible()
    seen.close()


def test_keyboard_reaches_the_tables(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], 380)
    boxes = seen.page.locator(".scroll")
    for index in range(boxes.count()):
        assert boxes.nth(index).get_attribute("tabindex") == "0"
        assert boxes.nth(index).get_attribute("aria-label")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    assert seen.page.locator(".skip").evaluate("e => e.getBoundingClientRect().left") >= 0
    seen.close()


def test_paper_shows_what_is_folded_and_fits(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], 690)
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 690
    assert not seen.page.locator(".contents").is_visible()
    assert seen.page.locator("#rules tbody tr").first.is_visible()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    seen.close()


def test_hostile_names_do_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["hostile"], java_script_enabled=True, bypass_csp=True)
    assert seen.said == []
    assert seen.requests == [pages["hostile"].as_uri()]
    assert seen.page.evaluate("document.images.length") == 0
    seen.close()
