"""Charts and scopes in a real browser: still without scripts, to be looked into with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import empty_run, gpu_run, hostile_run
from tests.report.page.browsing import visit
from traceanalyzer.model import Table
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from traceanalyzer.model import Report

CHARTS = 2  # of the example: its steps, and one allocator's memory


def many_steps() -> Report:
    run = gpu_run()
    kinds = ("warm_up", "regular", "regular", "outlier", "partial")
    rows = tuple(
        ("h", k, "train", 14_000.0 + 10 * k, kinds[k] if k < len(kinds) else "regular")
        for k in range(400)
    )
    columns = ("host", "step", "name", "duration_us", "kind")
    table = Table(columns=columns, rows=rows, total_rows=400)
    return replace(run, tables=replace(run.tables, steps=table))


def one_step() -> Report:
    run = gpu_run()
    table = replace(run.tables.steps, rows=run.tables.steps.rows[:1], total_rows=1)
    return replace(run, tables=replace(run.tables, steps=table), memory=None)


REPORTS = {
    "gpu": gpu_run,
    "many": many_steps,
    "one": one_step,
    "empty": empty_run,
    "hostile": hostile_run,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("time")
    for name, build in REPORTS.items():
        write_page(build(), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in REPORTS}


def ready(page: Page) -> None:
    """Wait for what is drawn once its table is open."""
    page.wait_for_selector("#scopes.charted")
    page.wait_for_selector("#steps-chart.charted canvas")


def scope(page: Page, name: str) -> Locator:
    return page.locator(f"#scopes .live g:has(text:text-is('{name}'))")


def test_without_scripts_all_pictures_are_there(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["gpu"], java_script_enabled=False)
    for picture in ("#scopes .icicle", "#steps .plot", "#memory .plot", "#input-pipeline .plot"):
        box = seen.page.locator(picture).first.bounding_box()
        assert box is not None
        assert box["width"] > 500
        assert box["height"] > 80
    assert seen.page.locator("canvas").count() == 0
    assert seen.page.locator("#scopes .scope text.widest:visible").count() >= 3
    assert seen.said == []
    seen.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REPORTS))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_said_and_nothing_asked_for(
    browser: Browser, made: dict[str, Path], name: str, scheme: str
) -> None:
    seen = visit(browser, made[name], color_scheme=scheme)
    seen.page.wait_for_timeout(300)
    expected = {"gpu": CHARTS, "many": CHARTS, "one": 0, "empty": 0, "hostile": 1}
    assert seen.page.locator(".plot-box canvas").count() == expected[name]
    assert seen.page.locator("#scopes.charted").count() == (name != "empty")
    assert seen.said == []
    assert seen.requests == [made[name].as_uri()]
    seen.close()


def test_a_chart_stands_in_place_of_the_still_picture(
    browser: Browser, made: dict[str, Path]
) -> None:
    seen = visit(browser, made["gpu"])
    ready(seen.page)
    assert not seen.page.locator("#steps-chart svg.plot").is_visible()
    assert seen.page.locator("#steps-chart canvas").is_visible()
    # On paper it is the other way round: lines, not pixels.
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#steps-chart svg.plot").is_visible()
    assert not seen.page.locator("#steps-chart canvas").is_visible()
    assert seen.page.locator("#scopes .still .icicle").is_visible()
    assert not seen.page.locator("#scopes .live").is_visible()
    seen.close()


def test_a_point_tells_its_step(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["many"])
    ready(seen.page)
    plot = seen.page.locator("#steps-chart .u-over")
    plot.hover(position={"x": 2, "y": 50})
    reading = seen.page.locator("#steps-chart .reading")
    assert reading.inner_text() == "Step 0 (warm-up): 14.0\xa0ms"
    width = plot.evaluate("e => e.clientWidth")
    plot.hover(position={"x": width - 2, "y": 50})
    assert reading.inner_text() == "Step 399: 18.0\xa0ms"
    seen.close()


def test_dragging_and_buttons_zoom(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["many"])
    ready(seen.page)
    plot = seen.page.locator("#steps-chart .u-over")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    seen.page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    seen.page.mouse.up()
    reading = seen.page.locator("#steps-chart .reading")
    plot.hover(position={"x": 2, "y": 50})
    first = int(reading.inner_text().split()[1].rstrip(":"))
    assert 97 <= first <= 103
    seen.page.get_by_role("button", name="Whole").first.click()
    plot.hover(position={"x": 2, "y": 50})
    assert reading.inner_text().startswith("Step 0 ")
    seen.page.get_by_role("button", name="Zoom in").first.click()
    plot.hover(position={"x": 2, "y": 50})
    assert not reading.inner_text().startswith("Step 0 ")
    seen.close()


def test_keys_walk_and_zoom_a_chart(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["many"])
    ready(seen.page)
    seen.page.locator("#steps-chart .plot-box").focus()
    reading = seen.page.locator("#steps-chart .reading")
    seen.page.keyboard.press("ArrowRight")
    assert reading.inner_text().startswith("Step 0 (warm-up)")
    seen.page.keyboard.press("ArrowRight")
    assert reading.inner_text().startswith("Step 1:")
    assert seen.page.locator("#announcements").inner_text().startswith("Step 1:")
    for key in ("+", "+", "-", "0"):
        seen.page.keyboard.press(key)
    seen.page.keyboard.press("ArrowLeft")
    assert reading.inner_text().startswith("Step 0 (warm-up)")
    seen.close()


def test_memory_tells_the_moment_and_the_peak(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["gpu"])
    ready(seen.page)
    seen.page.locator("#memory .plot-box").focus()
    reading = seen.page.locator("#memory .reading")
    seen.page.keyboard.press("ArrowRight")
    assert reading.inner_text() == "2.00\xa0GB in use from 0\xa0µs on"
    seen.page.keyboard.press("ArrowRight")
    assert reading.inner_text() == "7.76\xa0GB in use from 14.4\xa0ms on, the peak"
    seen.close()


def test_a_chart_is_drawn_anew_in_the_other_colours(
    browser: Browser, made: dict[str, Path]
) -> None:
    seen = visit(browser, made["gpu"], color_scheme="light")
    ready(seen.page)
    pixels = "e => e.toDataURL()"
    canvas = seen.page.locator("#steps-chart canvas")
    light = canvas.evaluate(pixels)
    seen.page.locator("#theme").click()
    seen.page.wait_for_timeout(100)
    assert canvas.evaluate(pixels) != light
    seen.page.locator("#theme").click()
    seen.page.wait_for_timeout(100)
    assert canvas.evaluate(pixels) == light
    seen.close()


# --- name scopes -----------------------------------------------------------------------------


def test_a_click_makes_a_scope_as_wide_as_the_picture(
    browser: Browser, made: dict[str, Path]
) -> None:
    seen = visit(browser, made["gpu"])
    ready(seen.page)
    live = seen.page.locator("#scopes .live")
    before = scope(seen.page, "ranker").locator("rect").first.bounding_box()
    scope(seen.page, "ranker").click()
    after = scope(seen.page, "ranker").locator("rect").first.bounding_box()
    whole = live.bounding_box()
    assert before is not None
    assert after is not None
    assert whole is not None
    assert before["width"] < whole["width"] / 3
    assert after["width"] == pytest.approx(whole["width"], abs=3)
    assert live.locator(".crumbs button").all_inner_texts() == ["All scopes", "model"]
    assert live.locator(".crumbs bdi").inner_text() == "ranker"
    assert "time.scope=2" in seen.page.url
    reading = live.locator(".reading").inner_text()
    assert reading.startswith(
        "model/ranker: 20.3\xa0%, 30.0\xa0ms on the CPU, 200\xa0ms on devices"
    )
    live.get_by_role("button", name="model", exact=True).click()
    assert "time.scope=0" in seen.page.url
    live.get_by_role("button", name="All scopes").click()
    assert "time.scope" not in seen.page.url
    assert scope(seen.page, "augment").is_visible()
    seen.close()


def test_the_address_leads_to_a_scope(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["gpu"], anchor="#time&time.scope=1")
    ready(seen.page)
    assert seen.page.locator("#scopes .crumbs bdi").inner_text() == "backbone"
    seen.close()
    for odd in ("999", "-1", "x", "7e3", "%00"):
        seen = visit(browser, made["gpu"], anchor=f"#time&time.scope={odd}")
        ready(seen.page)
        assert scope(seen.page, "model").is_visible()
        assert seen.said == []
        seen.close()


def test_keys_reach_every_scope_that_can_be_seen(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["gpu"])
    ready(seen.page)
    stops = seen.page.locator("#scopes .live g[tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    active = "document.activeElement.getAttribute('aria-label').split(':')[0]"
    told = []
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp"):
        seen.page.keyboard.press(key)
        told.append(seen.page.evaluate(active))
    assert told == ["augment", "model", "model/backbone", "model/ranker", "model"]
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    assert seen.page.locator("#scopes .crumbs bdi").inner_text() == "backbone"
    assert seen.page.evaluate(active) == "model/backbone"
    seen.page.keyboard.press("u")
    assert seen.page.locator("#scopes .crumbs bdi").inner_text() == "model"
    seen.page.keyboard.press("Escape")
    assert seen.page.locator("#scopes .crumbs bdi").count() == 0
    assert seen.page.locator("#scopes .live g[tabindex='0']").count() == 1
    seen.page.keyboard.press("?")
    assert "one scope further out" in seen.page.locator("#keys").inner_text()
    seen.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 380, 1280, 2560])
@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
def test_words_stay_in_their_boxes(
    browser: Browser, made: dict[str, Path], width: int, *, javascript: bool
) -> None:
    seen = visit(browser, made["gpu"], width, java_script_enabled=javascript)
    if javascript:
        ready(seen.page)
    faults = """
    () => [...document.querySelectorAll("#scopes .icicle text")].filter((t) => t.checkVisibility())
      .map((t) => [t.textContent, t.getBoundingClientRect(),
        t.parentElement.querySelector("rect").getBoundingClientRect()])
      .filter(([, t, r]) => t.width > 0 && t.right > r.right + 1)
      .map(([text]) => text)
    """
    assert seen.page.evaluate(faults) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.locator("#scopes .icicle text:visible").count() >= 2
    seen.close()


def test_a_window_of_another_width_is_drawn_anew(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["gpu"])
    ready(seen.page)
    seen.page.set_viewport_size({"width": 420, "height": 900})
    seen.page.wait_for_timeout(200)
    for drawn in ("#scopes .live svg", "#steps-chart canvas", "#memory canvas"):
        box = seen.page.locator(drawn).bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 420
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 420
    seen.close()


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, made: dict[str, Path]) -> None:
    seen = visit(browser, made["hostile"], bypass_csp=True)
    seen.page.wait_for_selector("#scopes.charted")
    boxes = seen.page.locator("#scopes .live g[role='button']")
    assert boxes.count() >= 2
    boxes.first.click()
    assert "⟨U+202E⟩gnp.exe" in seen.page.locator("#scopes .reading").inner_text()
    assert seen.page.evaluate("document.images.length") == 0
    assert seen.said == []
    seen.close()
