"""The timeline in a real browser: it is moved in, searched, read by keyboard, sent as a link."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import gpu_run
from tests.report.page.browsing import Visit, visit
from traceanalyzer.model import Evidence, TraceWhere
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

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


def opened(
    browser: Browser,
    path: Path,
    width: int = 1280,
    anchor: str = "#timeline",
    **options: Any,  # noqa: ANN401
) -> Visit:
    seen = visit(browser, path, width, anchor, **options)
    seen.page.locator(".tl-canvas").wait_for()
    return seen


@pytest.fixture
def seen(browser: Browser, pages: dict[str, Path]) -> Iterator[Visit]:
    found = opened(browser, pages["gpu"])
    yield found
    assert faults(found) == []
    assert len(found.requests) == 1
    found.close()


def press(page: Page, name: str) -> None:
    page.locator(".tl-tools").get_by_role("button", name=name, exact=True).click()


def faults(seen: Visit) -> list[str]:
    """What the page said, but for what the browser says of a test that looks at a canvas twice."""
    return [text for text in seen.said if "willReadFrequently" not in text]


def settle(page: Page) -> None:
    """Waits until what was asked for is drawn and stands in the address."""
    page.wait_for_timeout(400)


def view(page: Page) -> tuple[float, float]:
    """What the address says is shown, in microseconds."""
    settle(page)
    found = re.search(r"time\.view=([\d.]+)-([\d.]+)", page.url)
    assert found is not None
    return float(found[1]), float(found[2])


def details(page: Page) -> str:
    return page.locator(".tl-details").inner_text()


def box(page: Page) -> dict[str, float]:
    found = page.locator(".tl-canvas").bounding_box()
    assert found is not None
    return dict(found)


def colours(page: Page) -> dict[str, int]:
    found: dict[str, int] = page.locator(".tl-canvas").evaluate(_COLOURS)
    return found


def test_the_picture_gives_way_to_one_that_is_drawn(seen: Visit) -> None:
    page = seen.page
    assert not page.locator(".tl-lane").first.is_visible()
    found = colours(page)
    assert len(found) > 6
    ground = max(found.values())
    assert sum(found.values()) - ground > 20_000


def test_without_scripts_the_picture_and_the_gaps_are_there(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], java_script_enabled=False)
    assert seen.page.locator(".tl-lane").count() == 6
    assert all(seen.page.locator(".tl-lane").nth(k).is_visible() for k in range(6))
    assert seen.page.locator(".tl-live").count() == 0
    assert seen.page.locator("#gaps-table tbody tr").count() == 20
    assert seen.page.locator("#gaps-table").is_visible()
    seen.close()


def test_buttons_zoom_and_pan(seen: Visit) -> None:
    page = seen.page
    press(page, "Zoom in")
    first = view(page)
    press(page, "Later")
    second = view(page)
    span = first[1] - first[0]
    assert second[0] - first[0] == pytest.approx(span / 2, rel=0.01)
    assert second[1] - second[0] == pytest.approx(span, rel=0.01)
    press(page, "Zoom out")
    third = view(page)
    assert third[1] - third[0] == pytest.approx(span * 1.6, rel=0.01)
    press(page, "Whole run")
    assert view(page) == pytest.approx((0, 14_100 * 39 + 14_021.5), abs=1)
    press(page, "One step")
    settle(page)
    assert "time.view" not in page.url


def test_the_wheel_zooms_where_the_pointer_is_and_only_with_ctrl(seen: Visit) -> None:
    page = seen.page
    page.locator(".tl-box").scroll_into_view_if_needed()
    place = box(page)
    press(page, "Whole run")
    before = view(page)
    page.mouse.move(place["x"] + place["width"] - 5, place["y"] + 60)
    page.mouse.wheel(0, 10)
    assert view(page) == before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    after = view(page)
    assert after[1] - after[0] < 0.5 * (before[1] - before[0])
    # What was under the pointer, almost at the right edge, still is.
    assert after[1] == pytest.approx(before[1], rel=0.02)


def test_dragging_moves_what_is_under_the_pointer(seen: Visit) -> None:
    page = seen.page
    press(page, "Zoom in")
    before = view(page)
    place = box(page)
    page.mouse.move(place["x"] + 700, place["y"] + 60)
    page.mouse.down()
    page.mouse.move(place["x"] + 600, place["y"] + 60, steps=4)
    page.mouse.up()
    after = view(page)
    share = 100 / (place["width"] - 190)
    assert after[0] - before[0] == pytest.approx(share * (before[1] - before[0]), rel=0.02)
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], rel=0.001)


def test_pointing_tells_of_an_event_and_a_click_keeps_it(seen: Visit) -> None:
    page = seen.page
    place = box(page)
    # The row of tf_Compute is the fifth; the Python function is in the middle of its step.
    x, y = place["x"] + 190 + (place["width"] - 190) * 0.53, place["y"] + 26 + 4.4 * 30
    page.mouse.move(x, y)
    settle(page)
    told = details(page)
    assert "augment/EagerPyFunc" in told
    assert "op on the host" in told
    assert "2.11" in told
    assert "tf_Compute/2087" in told
    assert "1: A Python function runs inside every step" in told
    page.mouse.click(x, y)
    page.mouse.move(place["x"] + 5, place["y"] + 5)
    settle(page)
    assert "augment/EagerPyFunc" in details(page)
    links = page.locator(".tl-details a")
    assert links.nth(0).get_attribute("href") == "#op-a41f09c2"
    assert links.nth(1).get_attribute("href") == "#finding-f3a91c07"
    links.nth(1).click()
    settle(page)
    top = page.locator("#finding-f3a91c07").evaluate("e => e.getBoundingClientRect().top")
    assert -5 <= top < 200


def test_searching_counts_dims_and_steps_through_matches(seen: Visit) -> None:
    page = seen.page
    press(page, "Whole run")
    before = colours(page)
    search = page.get_by_label("Find events by name")
    search.fill("eagerpyfunc")
    settle(page)
    assert page.locator(".tl-tools [role=status]").inner_text().startswith("40 events")
    assert colours(page) != before
    assert "time.find=eagerpyfunc" in page.url
    press(page, "Next match")
    first = details(page)
    assert "6.70" in first
    search.press("Enter")
    assert "20.8" in details(page)
    press(page, "Previous match")
    assert details(page) == first
    # Before the first comes the last.
    press(page, "Previous match")
    assert "557" in details(page)
    search.fill("no such thing")
    settle(page)
    assert page.locator(".tl-tools [role=status]").inner_text().startswith("0 events")
    press(page, "Next match")
    search.fill("")
    settle(page)
    assert page.locator(".tl-tools [role=status]").inner_text() == ""
    assert "time.find" not in page.url


def test_the_keyboard_goes_from_event_to_event(seen: Visit) -> None:
    page = seen.page
    canvas = page.locator(".tl-canvas")
    canvas.focus()
    page.keyboard.press("0")
    settle(page)
    page.keyboard.press("ArrowRight")
    assert "train 0" in details(page)
    page.keyboard.press("ArrowRight")
    assert "train 1" in details(page)
    page.keyboard.press("ArrowLeft")
    assert "train 0" in details(page)
    page.keyboard.press("ArrowDown")
    assert "Stream #13" in details(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "tf_Compute/2087" in details(page)
    assert "tf_Compute/2087" in page.locator("#announcements").inner_text()
    page.keyboard.press("ArrowUp")
    assert "python" in details(page)
    whole = view(page)
    page.keyboard.press("w")
    near = view(page)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 1.6, rel=0.01)
    theme = page.evaluate("document.documentElement.dataset.theme ?? ''")
    page.keyboard.press("d")
    assert view(page)[0] > near[0]
    page.keyboard.press("a")
    assert view(page)[0] == pytest.approx(near[0], abs=1)
    # Within the timeline `d` moves; the page stays as light as it was.
    assert page.evaluate("document.documentElement.dataset.theme ?? ''") == theme
    page.keyboard.press("Escape")
    assert "Point at an event" in details(page)
    # Tab leads on: the timeline is no trap.
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") != "tl-canvas"


def test_the_help_lists_the_keys(seen: Visit) -> None:
    seen.page.keyboard.press("?")
    assert "Timeline: zoom in and out" in seen.page.locator("#keys").inner_text()


def test_what_is_shown_is_restored_from_the_address(
    browser: Browser, pages: dict[str, Path]
) -> None:
    anchor = "#timeline&time.view=100000-120000&time.find=Cast"
    seen = opened(browser, pages["gpu"], anchor=anchor)
    press(seen.page, "Zoom in")
    before = view(seen.page)
    assert 100_000 < before[0] < before[1] < 120_000
    seen.page.reload()
    seen.page.locator(".tl-canvas").wait_for()
    assert seen.page.get_by_label("Find events by name").input_value() == "Cast"
    press(seen.page, "Zoom out")
    assert view(seen.page) == pytest.approx((100_000, 120_000), abs=1)
    assert faults(seen) == []
    seen.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["5-4", "x", "1-", "1e3-2e9", "-5-10", "<script>", "9999999-99999999"]
)
def test_an_address_of_nonsense_does_nothing(
    browser: Browser, pages: dict[str, Path], text: str
) -> None:
    seen = opened(browser, pages["gpu"], anchor=f"#timeline&time.view={text}")
    settle(seen.page)
    assert faults(seen) == []
    assert len(colours(seen.page)) > 3
    seen.close()


def test_a_gap_leads_to_its_place(seen: Visit) -> None:
    page = seen.page
    page.locator("#gaps-table a").first.click()
    settle(page)
    # A gap from 6.65 ms, of 2.35 ms, and half of that about it.
    assert view(page) == pytest.approx((5_475, 10_175), abs=1)
    top = page.locator("#timeline").evaluate("e => e.getBoundingClientRect().top")
    assert abs(top) < 60
    note = said(page)
    assert note.startswith("/device:GPU:0 ran nothing for 2.35 ms, from 6.65 ms on, in train 0.")
    assert "an op on the host for 2.11 ms of it, augment/EagerPyFunc (finding 1)." in note
    assert "Stream #13" in note
    # Whoever reads on or tabs on is there too.
    assert page.evaluate("document.activeElement.id") == "timeline-title"


def said(page: Page) -> str:
    """What the timeline says of how the reader came there."""
    return page.locator(".tl-note").inner_text().replace("\N{NO-BREAK SPACE}", " ")


def test_the_mark_of_a_gap_leads_back_and_can_be_taken_away(seen: Visit) -> None:
    page = seen.page
    page.locator("#gaps-table a").first.click()
    settle(page)
    assert "time.at=gap-1" in page.url
    marked = colours(page)
    page.get_by_role("link", name="Back to where it is listed").click()
    settle(page)
    assert page.locator("#gap-1").evaluate("e => e.getBoundingClientRect().top") < 100
    page.get_by_role("button", name="Take the mark away").press("Enter")
    settle(page)
    assert not page.locator(".tl-note").is_visible()
    # The button goes with it: the keyboard is at the timeline then, not at the page's top.
    assert page.evaluate("document.activeElement.className") == "tl-canvas"
    assert "time.at" not in page.url
    assert colours(page) != marked


def test_evidence_tells_on_arrival_what_it_is_and_chooses_its_event(
    browser: Browser, tmp_path: Path
) -> None:
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
    seen = visit(browser, path)
    page = seen.page
    page.get_by_role("link", name="in the timeline", exact=True).first.click()
    page.locator(".tl-note").wait_for()
    settle(page)
    assert said(page).startswith(
        "Evidence of finding 1, A Python function runs inside every step: It ran on this thread. "
        "Marked in the row tf_Compute/2087."
    )
    assert "augment/EagerPyFunc" in details(page)
    assert page.locator(".tl-details a").first.get_attribute("href") == "#op-a41f09c2"
    # A mark that is restored moves nothing; one that goes takes nothing along that a link asks for.
    press(page, "Whole run")
    for _ in range(14):
        press(page, "Zoom in")
    moved = view(page)
    page.reload()
    page.locator(".tl-note").wait_for()
    assert view(page) == moved
    assert "augment/EagerPyFunc" in details(page)
    page.get_by_role("link", name="in the timeline", exact=True).first.click()
    settle(page)
    page.get_by_role("link", name="its events in the timeline").first.click()
    settle(page)
    assert said(page).startswith("The events of finding 1,")
    assert "augment/EagerPyFunc" in details(page)
    page.locator(".tl-details a").first.click()
    page.locator(".ops-marked").wait_for()
    assert "augment/EagerPyFunc" in page.locator(".ops-marked").inner_text()
    assert faults(seen) == []
    seen.close()


def test_going_back_takes_the_mark_and_the_search_of_a_link_away(seen: Visit) -> None:
    page = seen.page
    page.locator("#gaps-table a").first.click()
    settle(page)
    page.get_by_role("link", name="its events in the timeline").first.click()
    settle(page)
    assert said(page).startswith("The events of finding 1, A Python function runs")
    assert "40 events, in the row tf_Compute/2087; all others are pale." in said(page)
    assert "Finding" in details(page)
    page.go_back()
    settle(page)
    assert said(page).startswith("/device:GPU:0 ran nothing")
    assert page.get_by_label("Find events by name").input_value() == ""
    page.go_back()
    settle(page)
    assert not page.locator(".tl-note").is_visible()
    assert "Point at an event" in details(page)


def test_a_link_to_events_keeps_what_else_was_chosen(seen: Visit) -> None:
    page = seen.page
    page.locator("#ops-filter").fill("type:Cast")
    press(page, "Whole run")
    whole = view(page)
    page.get_by_role("link", name="its events in the timeline").first.click()
    settle(page)
    assert page.locator("#ops-filter").input_value() == "type:Cast"
    assert view(page) == whole
    find = page.get_by_label("Find events by name")
    assert find.input_value().startswith("finding:")
    # The op is none of those that were asked for: the filter gives way to it.
    page.get_by_role("link", name="its op in the table").first.click()
    settle(page)
    assert page.locator("#ops-filter").input_value() == ""
    assert find.input_value().startswith("finding:")
    assert view(page) == whole
    # What is gone back to says all that was chosen.
    page.go_back()
    settle(page)
    assert page.locator("#ops-filter").input_value() == "type:Cast"


def test_a_link_to_events_shows_some_wherever_one_was(seen: Visit) -> None:
    page = seen.page
    press(page, "Whole run")
    for _ in range(14):
        press(page, "Zoom in")
    before = view(page)
    page.get_by_role("link", name="its events in the timeline").first.click()
    after = view(page)
    assert after[1] < before[0] or after[0] > before[1]
    assert "Finding" in details(page)


def test_a_link_to_events_leads_to_one_each_time(seen: Visit) -> None:
    page = seen.page
    link = page.get_by_role("link", name="its events in the timeline").first
    link.click()
    settle(page)
    # The address is that of the link, and then another.
    for is_moved in (False, True):
        page.locator(".tl-canvas").focus()
        page.keyboard.press("Escape")
        if is_moved:
            for _ in range(14):
                press(page, "Zoom in")
        settle(page)
        assert "Finding" not in details(page)
        link.click()
        settle(page)
        assert "Finding" in details(page)


def test_a_view_with_a_search_is_restored_as_it_was_left(
    browser: Browser, pages: dict[str, Path]
) -> None:
    place = (0, 2_000)  # none of what is searched for
    anchor = "#timeline&time.view=0.000-2000.000&time.find=EagerPyFunc"
    seen = opened(browser, pages["gpu"], anchor=anchor)
    page = seen.page
    assert view(page) == place
    assert page.get_by_label("Find events by name").input_value() == "EagerPyFunc"
    page.locator("#gaps-table a").first.click()
    settle(page)
    assert view(page) != place
    page.get_by_label("Find events by name").fill("")
    settle(page)
    page.go_back()
    assert view(page) == place
    assert page.get_by_label("Find events by name").input_value() == "EagerPyFunc"
    assert faults(seen) == []
    seen.close()


def test_a_search_without_a_view_leads_to_what_it_finds(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = opened(browser, pages["gpu"], anchor="#timeline&time.find=EagerPyFunc")
    settle(seen.page)
    assert "augment/EagerPyFunc" in details(seen.page)
    assert faults(seen) == []
    seen.close()


def test_it_is_drawn_where_the_system_has_colours_of_its_own(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = opened(browser, pages["gpu"], forced_colors="active")
    settle(seen.page)
    assert len(colours(seen.page)) > 6
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_drawn_in_the_colours_of_the_page(
    browser: Browser, pages: dict[str, Path], scheme: str
) -> None:
    seen = opened(browser, pages["gpu"], color_scheme=scheme)
    settle(seen.page)
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    ground = ",".join(re.findall(r"\d+", paper))
    found = colours(seen.page)
    assert max(found, key=lambda colour: found[colour]) == ground
    seen.page.locator("#theme").click()
    settle(seen.page)
    turned = colours(seen.page)
    assert max(turned, key=lambda colour: turned[colour]) != ground
    assert faults(seen) == []
    seen.close()


@pytest.mark.parametrize("width", [320, 380, 2560])
def test_it_fits(browser: Browser, pages: dict[str, Path], width: int) -> None:
    seen = opened(browser, pages["gpu"], width)
    settle(seen.page)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    place = box(seen.page)
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= width
    for button in seen.page.locator(".tl-tools button").all():
        size = button.bounding_box()
        assert size is not None
        assert min(size["width"], size["height"]) >= 24
    assert len(colours(seen.page)) > 6
    seen.close()


def test_it_follows_the_window(seen: Visit) -> None:
    seen.page.set_viewport_size({"width": 700, "height": 800})
    settle(seen.page)
    sizes = seen.page.locator(".tl-canvas").evaluate("c => [c.width, c.clientWidth]")
    assert sizes[0] == pytest.approx(sizes[1] * 1, abs=1)
    assert sizes[1] < 700


def test_paper_has_the_picture_that_needs_no_script(seen: Visit) -> None:
    seen.page.emulate_media(media="print")
    assert seen.page.locator(".tl-lane").first.is_visible()
    assert not seen.page.locator(".tl-canvas").is_visible()


def test_hostile_names_do_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["hostile"], bypass_csp=True)
    seen.page.locator(".tl-canvas").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "w", "s"):
        seen.page.keyboard.press(key)
    seen.page.get_by_label("Find events by name").fill("script")
    settle(seen.page)
    assert faults(seen) == []
    assert seen.page.evaluate("document.images.length") == 0
    seen.close()
