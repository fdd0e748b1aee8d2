"""Bad input in a real browser: nothing runs, nothing is asked for, nothing leaves its box."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.report.bad_input import HOSTILE_TEXTS, with_numbers, with_texts
from tests.report.examples import gpu_run
from tests.report.page.browsing import OVERFLOWING, Visit, visit
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from traceanalyzer.model import Report

_OPEN_ALL = "document.querySelectorAll('details').forEach((d) => (d.open = true))"
# What the page says: its code and the names of a trace are not ours.
_WRONG = """
() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data;
    if (walker.currentNode.parentElement.closest("script, style, code, pre, bdi, .name")) continue;
    if (/\\b(NaN|undefined|null|None|Infinity)\\b|\\[object|(^|\\s)-0(\\s|$)/.test(text)) {
      found.push(text.slice(0, 80));
    }
  }
  return found;
}
"""


def opened(browser: Browser, report: Report, folder: Path, width: int) -> Visit:
    """Opens a page, everything unfolded, drawn and passed by, and what takes words given some."""
    path = folder / "page.html"
    write_page(report, path)
    seen = visit(browser, path, width)
    seen.page.evaluate(_OPEN_ALL)
    for box in seen.page.locator("input[type=search], input[type=text]").all():
        if box.is_visible():
            box.fill("a\u202e</script><img src=x onerror=window.hit=1>")
            box.fill("")
    height = seen.page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, min(height, 60_000), 3_000):
        seen.page.evaluate("(top) => scrollTo(0, top)", top)
    seen.page.wait_for_timeout(300)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("text", sorted(HOSTILE_TEXTS))
def test_hostile_texts_do_nothing_and_fit(
    browser: Browser, tmp_path: Path, text: str, width: int
) -> None:
    report = with_texts(gpu_run(), HOSTILE_TEXTS[text])
    seen = opened(browser, report, tmp_path, width)
    assert seen.said == []
    assert seen.requests == [(tmp_path / "page.html").as_uri()]
    assert seen.page.evaluate("typeof window.hit") == "undefined"
    assert seen.page.evaluate("document.images.length") == 0
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OVERFLOWING) == []
    seen.close()


# The longest time that a trace can hold is 1e13 microseconds.
@pytest.mark.slow
@pytest.mark.parametrize("number", [math.nan, -12.5, 0.0, 1e13])
def test_impossible_numbers_are_never_words_of_a_program(
    browser: Browser, tmp_path: Path, number: float
) -> None:
    seen = opened(browser, with_numbers(gpu_run(), number), tmp_path, 380)
    assert seen.said == []
    assert seen.page.evaluate(_WRONG) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380
    seen.close()
