"""The timeline in a real browser: it is moved in, searched, read by keyboard, sent as a link."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import gpu_run
from tests.report.page.browsing import Visit, settle, until
from traceanalyzer.model import Evidence, TraceWhere
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def test_buttons_wheel_and_dragging_zoom_and_pan(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    press(page, "Whole run")
    assert view(seen) == pytest.approx((0, 14_100 * 39 + 14_021.5), abs=1)
    for _ in range(4):
        press(page, "Zoom in")
    first = view(seen)
    span = first[1] - first[0]
    press(page, "Later")
    second = view(seen)
    assert second[0] - first[0] == pytest.approx(span / 2, rel=0.01)
    assert second[1] - second[0] == pytest.approx(span, rel=0.01)
    place = page.locator(".tl-canvas").bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 700, place["y"] + 60)
    page.mouse.down()
    page.mouse.move(place["x"] + 600, place["y"] + 60, steps=4)
    page.mouse.up()
    third = view(seen)
    share = 100 / (place["width"] - 190)
    assert third[0] - second[0] == pytest.approx(share * span, rel=0.02)
    # The wheel scrolls the page; with Ctrl it zooms where the pointer is.
    page.mouse.move(place["x"] + place["width"] - 5, place["y"] + 60)
    page.mouse.wheel(0, 10)
    assert view(seen) == third
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    fourth = view(seen)
    assert fourth[1] - fourth[0] < 0.5 * span
    assert fourth[1] == pytest.approx(third[1], rel=0.02)


def test_an_event_tells_of_itself_and_leads_to_its_op_and_finding(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    place = page.locator(".tl-canvas").bounding_box()
    assert place is not None
    # The row of tf_Compute is the fifth; the Python function is in the middle of its step.
    page.mouse.click(place["x"] + 190 + (place["width"] - 190) * 0.53, place["y"] + 26 + 4.4 * 30)
    page.mouse.move(place["x"] + 5, place["y"] + 5)
    settle(seen)
    for words in ("augment/EagerPyFunc", "op on the host", "2.11", "tf_Compute/2087"):
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


@pytest.mark.slow
def test_the_keyboard_goes_from_event_to_event_and_on(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline"))
    page = seen.page
    page.locator(".tl-canvas").focus()
    page.keyboard.press("0")
    settle(seen)
    for key, words in (
        ("ArrowRight", "train 0"),
        ("ArrowRight", "train 1"),
        ("ArrowLeft", "train 0"),
        ("ArrowDown", "Stream #13"),
        ("ArrowDown", "Stream #14"),
        ("ArrowDown", "python"),
        ("ArrowDown", "tf_Compute/2087"),
    ):
        page.keyboard.press(key)
        assert words in details(page)
    assert "tf_Compute/2087" in page.locator("#announcements").inner_text()
    whole = view(seen)
    page.keyboard.press("w")
    near = view(seen)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 1.6, rel=0.01)
    page.keyboard.press("d")  # moves on; the page stays as light as it was
    assert view(seen)[0] > near[0]
    assert page.evaluate("document.documentElement.dataset.theme ?? null") is None
    page.keyboard.press("Escape")
    assert "Point at an event" in details(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") != "tl-canvas"


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
    page.get_by_role("button", name="Take the mark away").press("Enter")
    settle(seen)
    assert not page.locator(".tl-note").is_visible()
    assert "time.at" not in page.url
    assert colours(page) != marked


@pytest.mark.slow
def test_evidence_leads_to_its_event(look: Look, tmp_path: Path) -> None:
    run = gpu_run()
    assert run.trace is not None
    (lane,) = (one for one in run.trace.lanes if one.name == "tf_Compute/2087")
    assert lane.begin_us is not None
    where = TraceWhere(
        host=lane.host,
        plane=lane.plane,
        line=lane.name,
        offset_ps=round((6_700 - lane.begin_us) * 1e6),
        duration_ps=2_114_000_000,
    )
    evidence = (Evidence(kind="event", text="It ran on this thread.", where=where),)
    first = replace(run.findings[0], evidence=evidence)
    path = tmp_path / "evidence.html"
    write_page(replace(run, findings=(first, *run.findings[1:])), path)
    seen = look(path)
    page = seen.page
    page.get_by_role("link", name="in the timeline", exact=True).first.click()
    page.locator(".tl-note").wait_for()
    settle(seen)
    assert said(page).startswith(
        "Evidence of finding 1, A Python function runs inside every step: It ran on this thread. "
        "Marked in the row tf_Compute/2087."
    )
    assert "augment/EagerPyFunc" in details(page)


@pytest.mark.slow
def test_a_link_to_events_shows_some_wherever_the_reader_is(look: Look) -> None:
    seen = drawn(look("gpu", 1280, "#timeline&time.view=0.000-2000.000&ops.q=type%3ACast"))
    page = seen.page
    link = page.get_by_role("link", name="its events in the timeline").first
    for _ in range(2):  # the second time the address stays the same
        link.click()
        after = view(seen)
        assert after[0] > 2_000
        assert "Finding" in details(page)
        assert page.locator("#ops-filter").input_value() == "type:Cast"
        for _ in range(10):
            press(page, "Zoom in")
            press(page, "Earlier")
        page.locator(".tl-canvas").focus()
        page.keyboard.press("Escape")
        settle(seen)
        assert "Finding" not in details(page)
