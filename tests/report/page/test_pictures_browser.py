"""Charts, name scopes and copies in a real browser: pointed at, looked into, sent as a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import gpu_run
from tests.report.page.browsing import Visit, until
from traceanalyzer.model import Table
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from traceanalyzer.model import Report

    Look = Callable[..., Visit]


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


def ready(page: Page) -> None:
    """Wait for what is drawn once its table is open."""
    page.wait_for_selector("#scopes.charted")
    page.wait_for_selector("#steps-chart.charted canvas")


def test_charts_tell_their_points_and_zoom(look: Look, tmp_path: Path) -> None:
    path = tmp_path / "many.html"
    write_page(many_steps(), path)
    page = look(path).page
    ready(page)
    assert not page.locator("#steps-chart svg.plot").is_visible()
    plot = page.locator("#steps-chart .u-over")
    reading = page.locator("#steps-chart .reading")
    plot.hover(position={"x": 2, "y": 50})
    assert reading.inner_text() == "Step 0 (warm-up): 14.0\xa0ms"
    plot.hover(position={"x": plot.evaluate("e => e.clientWidth") - 2, "y": 50})
    assert reading.inner_text() == "Step 399: 18.0\xa0ms"
    box = plot.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    page.mouse.up()
    plot.hover(position={"x": 2, "y": 50})
    assert 97 <= int(reading.inner_text().split()[1].rstrip(":")) <= 103
    page.get_by_role("button", name="Whole").first.click()
    page.locator("#steps-chart .plot-box").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#announcements").inner_text().startswith("Step 1:")
    page.locator("#memory .plot-box").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    memory = page.locator("#memory .reading").inner_text()
    assert memory == "7.76\xa0GB in use from 14.4\xa0ms on, the peak"


# --- name scopes -----------------------------------------------------------------------------


def scope(page: Page, name: str) -> Locator:
    return page.locator(f"#scopes .live g:has(text:text-is('{name}'))")


def test_a_scope_is_looked_into_and_left_by_pointer_keys_and_address(look: Look) -> None:
    seen = look("gpu")
    page = seen.page
    ready(page)
    crumbs = page.locator("#scopes .crumbs bdi")
    whole = page.locator("#scopes .live").bounding_box()
    scope(page, "ranker").click()
    box = scope(page, "ranker").locator("rect").first.bounding_box()
    assert whole is not None
    assert box is not None
    assert box["width"] == pytest.approx(whole["width"], abs=3)
    assert crumbs.inner_text() == "ranker"
    assert "time.scope=2" in page.url
    reading = page.locator("#scopes .reading").inner_text()
    assert reading.startswith("model/ranker: 20.3\xa0%, 30.0\xa0ms on the CPU, 200\xa0ms on")
    page.locator("#scopes").get_by_role("button", name="All scopes").click()
    assert "time.scope" not in page.url
    page.locator("#scopes .live g[tabindex='0']").focus()
    for key in ("ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert crumbs.inner_text() == "backbone"
    page.keyboard.press("u")
    assert crumbs.inner_text() == "model"
    page.keyboard.press("Escape")
    assert crumbs.count() == 0
    page.evaluate("location.hash = '#time&time.scope=0'")
    until(seen, "document.querySelectorAll('#scopes .crumbs bdi').length === 1")
    page.go_back()
    until(seen, "document.querySelectorAll('#scopes .crumbs bdi').length === 0")


# --- copies ----------------------------------------------------------------------------------
