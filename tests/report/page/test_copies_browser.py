"""The pictures of copies in a real browser: they fit, lead somewhere, and answer to scripts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.examples import gpu_run
from tests.report.page.browsing import PICTURE_FAULTS, visit
from tests.report.page.test_device_copies import copies
from tests.report.page.test_group_copies import flow, group
from traceanalyzer.model import CopyGraph, CopyGroups
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from traceanalyzer.model import Report

SHOWN = """
() => [...document.querySelectorAll("#copies svg[data-measure]")]
  .filter((svg) => svg.checkVisibility()).map((svg) => svg.dataset.measure)
"""

# Marks of a picture that stand out of it, and links that lead nowhere.
ASTRAY = """
() => [...document.querySelectorAll("svg.graph")].filter((svg) => svg.checkVisibility())
  .flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const marks = [...svg.querySelectorAll("rect, path, line, polygon")].filter((mark) => {
      const b = mark.getBoundingClientRect();
      return b.left < frame.left - 1 || b.right > frame.right + 1
        || b.top < frame.top - 1 || b.bottom > frame.bottom + 1;
    });
    const links = [...svg.querySelectorAll("a")]
      .filter((a) => !document.getElementById(a.getAttribute("href").slice(1)));
    return [...marks, ...links].map((element) => element.outerHTML.slice(0, 200));
  })
"""


def big_machine() -> Report:
    """Eight GPUs that copy to the host and to each other, and as many groups as there may be."""
    devices = [copies("host", f"gpu:{k}", 10**9 * (k + 1), "h2d") for k in range(8)]
    devices += [copies(f"gpu:{k}", "host", 10**6, "d2h") for k in range(8)]
    devices += [copies(f"gpu:{k}", "another device", 10**8, "p2p") for k in range(8)]
    every = tuple(group(f"model/block_{k}/attention/output/MatMul") for k in range(24))
    flows = [flow(k, (7 * k) % 24, 10**k % 10**9, f"host gpu:{k % 8}") for k in range(24)]
    flows += [flow(k, k, 10**6, f"gpu:{k % 8} host") for k in range(24)]
    groups = CopyGroups(sources=every, targets=every, flows=tuple(flows))
    graph = CopyGraph(nodes=(), edges=(), devices=tuple(devices), groups=groups)
    return replace(gpu_run(), copy_graph=graph)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("big") / "big.html"
    write_page(big_machine(), path)
    return path


@pytest.fixture
def gpu(pages: dict[str, Path]) -> Path:
    return pages["gpu"]


def opacity(page: Page, selector: str) -> str:
    # Moves are animated nowhere, but styles are applied with the next frame.
    return str(page.locator(selector).first.evaluate("e => getComputedStyle(e).opacity"))


@pytest.mark.parametrize("width", [320, 1280])
def test_pictures_of_a_big_machine_fit(browser: Browser, big: Path, width: int) -> None:
    seen = visit(browser, big, width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for measure in ("Bytes", "Copy time", "Copies"):
        seen.page.locator("#copies-by").get_by_role("button", name=measure, exact=True).click()
        assert seen.page.evaluate(PICTURE_FAULTS) == []
        assert seen.page.evaluate(ASTRAY) == []
    assert seen.said == []
    seen.close()


@pytest.mark.parametrize("name", ["gpu", "hostile"])
def test_marks_stay_in_their_pictures_and_links_lead_on(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    seen = visit(browser, pages[name], 380)
    assert seen.page.locator("svg.graph:visible").count() >= 3
    assert seen.page.evaluate(ASTRAY) == []
    seen.close()


def test_without_scripts_one_measure_is_shown(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu, java_script_enabled=False)
    shown = seen.page.locator("#copies svg[data-measure]:visible")
    assert [shown.nth(k).get_attribute("data-measure") for k in range(shown.count())] == [
        "bytes",
        "bytes",
    ]
    assert not seen.page.locator("#copies-by").is_visible()
    seen.close()


def test_what_widths_stand_for_can_be_chosen_and_is_kept(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu)
    assert seen.page.evaluate(SHOWN) == ["bytes", "bytes"]
    seen.page.get_by_role("button", name="Copy time", exact=True).click()
    assert seen.page.evaluate(SHOWN) == ["time", "time"]
    captions = seen.page.locator("#copies .caption:visible")
    assert captions.count() == 2
    assert "as wide as its copies took" in captions.first.inner_text()
    assert seen.page.url.endswith("#copies.by=time")
    seen.page.reload()
    assert seen.page.evaluate(SHOWN) == ["time", "time"]
    pressed = seen.page.locator("#copies-by [aria-pressed=true]")
    assert pressed.all_inner_texts() == ["Copy time"]
    seen.page.get_by_role("button", name="Bytes", exact=True).click()
    assert "copies.by" not in seen.page.url
    seen.close()


def test_a_measure_that_does_not_exist_is_the_first(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu, anchor="#copies.by=%3Cb%3E")
    assert seen.page.evaluate(SHOWN) == ["bytes", "bytes"]
    assert seen.said == []
    seen.close()


def test_the_pointer_brings_out_what_belongs_together(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu)
    picture = seen.page.locator("svg.sankey:visible")
    picture.scroll_into_view_if_needed()
    picture.locator("[data-key=t1] .post").hover()
    assert opacity(seen.page, "svg.sankey [data-key=f1]") == "1"
    assert float(opacity(seen.page, "svg.sankey [data-key=f0]")) < 0.5
    seen.page.mouse.move(0, 0)
    assert opacity(seen.page, "svg.sankey [data-key=f0]") == "1"
    seen.close()


def test_the_keyboard_reaches_the_ops_and_follows_them(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu)
    node = seen.page.locator("svg.sankey:visible a.node[data-key=f2]")
    node.focus()
    assert float(opacity(seen.page, "svg.sankey [data-key=f0]")) < 0.5
    assert opacity(seen.page, "svg.sankey [data-key=t0]") == "1"
    seen.page.keyboard.press("Tab")
    focused = seen.page.evaluate("document.activeElement.getAttribute('href')")
    assert focused == "#island-1"
    node.focus()
    target = node.get_attribute("href")
    seen.page.keyboard.press("Enter")
    assert seen.page.evaluate("location.hash") == target
    seen.close()


def test_a_group_leads_to_its_row_although_the_table_is_folded(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu)
    row = seen.page.locator("#copies-from-3")
    assert not row.is_visible()
    seen.page.locator("svg.sankey:visible a.node[data-key=f3]").focus()
    seen.page.keyboard.press("Enter")
    row.wait_for(state="visible")
    assert row.locator("th").inner_text() == "model/head"
    seen.close()


def test_directions_differ_by_more_than_colour(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu)
    fills = seen.page.evaluate(
        "Object.fromEntries(['h2d', 'd2h', 'p2p'].map((way) => [way, getComputedStyle("
        "document.querySelector(`svg.sankey .band.${way} path`)).fill]))"
    )
    assert "pattern-d2h" in fills["d2h"]
    assert "pattern-p2p" in fills["p2p"]
    assert "url" not in fills["h2d"]
    seen.close()


def test_pictures_fit_on_paper(browser: Browser, gpu: Path) -> None:
    seen = visit(browser, gpu, width=680)
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate(PICTURE_FAULTS) == []
    widths = seen.page.evaluate(
        "[...document.querySelectorAll('svg.graph')].map((s) => s.getBoundingClientRect().right)"
    )
    assert max(widths) <= 680
    assert not seen.page.locator("#copies-by").is_visible()
    seen.close()
