"""The timeline in a real browser: it is moved in, searched, read by keyboard, sent as a link."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.report.page.browsing import Visit, settle, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    Look = Callable[..., Visit]

# What is painted of the canvas, by colour: no blank picture passes for a drawn one.
_COLOURS = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Map();
  for (let k = 0; k < data.length; k += 4) {
    const colour = `${data[k]},${data[k + 1]},${data[k + 2]}`;
    found.set(colour, (found.get(colour) ?? 0) + 1);
  }
  return Object.fromEntries(found);
}
"""


def drawn(seen: Visit) -> Visit:
    seen.page.locator(".tl-canvas").wait_for()
    settle(seen)
    return seen


def press(page: Page, name: str) -> None:
    page.locator(".tl-tools").get_by_role("button", name=name, exact=True).click()


def view(seen: Visit) -> tuple[float, float]:
    """Return what the address says is shown, in microseconds."""
    settle(seen)
    found = re.search(r"time\.view=([\d.]+)-([\d.]+)", seen.page.url)
    assert found is not None
    return float(found[1]), float(found[2])


def details(page: Page) -> str:
    return page.locator(".tl-details").inner_text()


def said(page: Page) -> str:
    """Return what the timeline says of how the reader came there."""
    return page.locator(".tl-note").inner_text().replace("\N{NO-BREAK SPACE}", " ")


def colours(page: Page) -> dict[str, int]:
    found: dict[str, int] = page.locator(".tl-canvas").evaluate(_COLOURS)
    return found


def test_it_is_drawn_in_the_colours_of_the_page_and_fits(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline", color_scheme="light"))
    page = seen.page
    assert not page.locator(".tl-lane").first.is_visible()  # the still picture has given way
    for ground in ("255,255,255", None):
        found = colours(page)
        assert len(found) > 6
        most = max(found, key=lambda colour: found[colour])
        assert (most == "255,255,255") == (ground is not None)
        assert sum(found.values()) - found[most] > 20_000
        page.locator("#theme").click()
        settle(seen)
    for width in (320, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        settle(seen)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert len(colours(page)) > 6


def test_an_event_tells_of_itself_and_leads_to_its_op_and_finding(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    place = page.locator(".tl-canvas").bounding_box()
    assert place is not None
    # The row of tf_Compute is the fifth; the Python function is in the middle of its step.
    page.mouse.click(place["x"] + 190 + (place["width"] - 190) * 0.53, place["y"] + 26 + 4.4 * 30)
    page.mouse.move(place["x"] + 5, place["y"] + 5)
    settle(seen)
    for words in ("augment/EagerPyFunc", "CPU op", "2.11", "tf_Compute/2087"):
        assert words in details(page)
    links = page.locator(".tl-details a")
    assert links.nth(0).get_attribute("href") == "#op-a41f09c2"
    links.nth(1).click()
    until(seen, "location.hash.startsWith('#finding-f3a91c07')")
    links.nth(0).click()
    until(seen, "document.querySelector('.ops-marked') !== null")


def test_searching_counts_dims_and_steps_through_matches(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    press(page, "Whole run")
    settle(seen)
    before = colours(page)
    search = page.get_by_label("Find events by name")
    status = page.locator(".tl-tools [role=status]")
    search.fill("eagerpyfunc")
    settle(seen)
    assert status.inner_text().startswith("40 events")
    assert colours(page) != before
    press(page, "Next match")
    first = details(page)
    assert "6.70" in first
    search.press("Enter")
    assert "20.8" in details(page)
    press(page, "Previous match")
    assert details(page) == first
    # The address restores the search and the view.
    place = view(seen)
    assert "time.find=eagerpyfunc" in page.url
    page.reload()
    drawn(seen)
    assert search.input_value() == "eagerpyfunc"
    assert view(seen) == place
    search.fill("no such thing")
    settle(seen)
    assert status.inner_text().startswith("0 events")


def test_a_gap_leads_to_its_place_and_back_and_gives_way_to_another_link(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    page.locator("#gaps-table a").first.click()
    # A gap from 6.65 ms, of 2.35 ms, and half of that about it.
    assert view(seen) == pytest.approx((5_475, 10_175), abs=1)
    assert said(page).startswith("/device:GPU:0 ran nothing for 2.35 ms, from 6.65 ms on")
    assert "time.at=gap-1" in page.url
    marked = colours(page)
    page.get_by_role("link", name="its events in the timeline").first.click()
    settle(seen)
    assert said(page).startswith("The events of finding 1, A Python function runs")
    page.go_back()
    settle(seen)
    assert said(page).startswith("/device:GPU:0 ran nothing")
    assert page.get_by_label("Find events by name").input_value() == ""
    page.get_by_role("link", name="Back to where it is listed").click()
    until(seen, "document.getElementById('gap-1').getBoundingClientRect().top < 100")
    page.get_by_role("button", name="Clear highlight").press("Enter")
    settle(seen)
    assert not page.locator(".tl-note").is_visible()
    assert "time.at" not in page.url
    assert colours(page) != marked
