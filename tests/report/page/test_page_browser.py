"""The page in a real browser: it shows everything, loads nothing, and fits every window."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.report.bad_input import HOSTILE_TEXTS, with_texts
from tests.report.examples import EXAMPLES, gpu_run
from tests.report.page.browsing import (
    CONTRASTS,
    OPEN_ALL,
    OVERFLOWING,
    PICTURE_FAULTS,
    Visit,
    until,
)
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.report.page.conftest import Pages

    Look = Callable[..., Visit]

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
# Marks of a picture that stand out of it, and links in it that lead nowhere.
_ASTRAY = """
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


with_and_without_scripts = pytest.mark.parametrize(
    "javascript",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["js-off", "js-on"],
)


def assert_fits(seen: Visit, width: int) -> None:
    seen.page.set_viewport_size({"width": width, "height": 900})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OVERFLOWING) == []


def assert_readable(seen: Visit) -> None:
    contrasts = seen.page.evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [entry for entry in contrasts if entry[0] < 4.5] == []


@pytest.mark.parametrize(
    "name",
    ["gpu", *(pytest.param(n, marks=pytest.mark.slow) for n in sorted({*EXAMPLES} - {"gpu"}))],
)
def test_every_section_is_there_fits_and_can_be_read(look: Look, name: str) -> None:
    """Narrow and wide, folded and not, light and dark."""
    seen = look(name, 320)
    sections = seen.page.locator("main > section")
    assert sections.count() >= 10
    assert all(section.locator("h2").is_visible() for section in sections.all())
    assert_fits(seen, 320)
    assert seen.page.evaluate(PICTURE_FAULTS) == []
    assert seen.page.evaluate(_ASTRAY) == []
    seen.page.evaluate(OPEN_ALL)
    for width in (320, 1280, 2560):
        assert_fits(seen, width)
    for scheme, is_light in (("light", True), ("dark", False)):
        seen.page.emulate_media(color_scheme=scheme)
        assert_readable(seen)
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == is_light
    # Exact figures and whole names take more room.
    seen.page.get_by_label("Exact figures").check()
    assert_fits(seen, 320)


def test_without_scripts_verdict_findings_and_tables_can_be_read(look: Look) -> None:
    seen = look("gpu", java_script_enabled=False)
    page = seen.page
    assert page.locator("p.verdict").inner_text() == gpu_run().summary.verdict
    for number, finding in enumerate(gpu_run().findings, 1):
        assert page.locator(f"#findings a[href='#finding-{finding.id}']").first.is_visible()
        card = page.locator(f"#finding-{finding.id}")
        if not card.is_visible():  # harmless, or by design
            page.locator(f"details:has(> #finding-{finding.id}) > summary").click()
        assert card.locator("h3").inner_text() == f"{number}. {finding.title}"
    assert page.locator(".ops-static table").is_visible()
    assert page.locator("#gaps-table tbody tr").count() == 20
    for picture in (".tl-lane", "#scopes .icicle", "#steps .plot", "svg.sankey:visible"):
        assert page.locator(picture).first.is_visible()
    # Nothing is offered that needs them.
    assert page.locator("canvas, .tl-live, #ops [role=grid]").count() == 0
    assert (
        page.locator("#findings button:visible, #kept-notes:visible, #theme:visible").count() == 0
    )


def test_the_policy_lets_nothing_else_run_or_load(look: Look) -> None:
    """What a name smuggled in would do, had it got past the escaping."""
    seen = look("gpu")
    seen.page.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "window.hit = 1";
      document.body.append(script);
      document.body.insertAdjacentHTML("beforeend",
        "<img src='data:image/gif;base64,x' onerror='window.hit = 2'>"
        + "<iframe src='data:text/html,x'></iframe>");
    }""")
    until(seen, "document.querySelector('iframe') !== null")
    assert seen.page.evaluate("fetch('https://evil.example/').then(() => 1, () => 0)") == 0
    assert seen.page.evaluate("window.hit ?? null") is None
    refused = " ".join(seen.said)
    assert "script-src" in refused
    assert "default-src" in refused
    seen.said.clear()
    seen.requests[1:] = []


def poke(seen: Visit) -> None:
    """Pass by everything, unfolded, and write into what takes words."""
    page = seen.page
    page.evaluate(OPEN_ALL)
    for box in page.locator("input[type=search], input[type=text]").all():
        if box.is_visible():
            box.fill("a\u202e</script><img src=x onerror=window.hit=1>")
            box.fill("")
    height = page.evaluate("document.documentElement.scrollHeight")
    for top in range(0, min(height, 60_000), 3_000):
        page.evaluate("(top) => scrollTo(0, top)", top)
    if page.locator(".tl-canvas").count():
        page.locator(".tl-canvas").focus()
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "w"):
            page.keyboard.press(key)
    page.wait_for_timeout(100)


def assert_inert(seen: Visit) -> None:
    assert seen.page.evaluate("window.hit ?? null") is None
    assert seen.page.evaluate("document.images.length") == 0


def test_hostile_names_do_nothing_even_without_the_policy(look: Look) -> None:
    seen = look("hostile", bypass_csp=True)
    poke(seen)
    assert_inert(seen)
    assert "\u202e" not in seen.page.locator("main").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("text", sorted(HOSTILE_TEXTS))
def test_one_hostile_text_everywhere_does_nothing_and_fits(
    look: Look, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "page.html"
    write_page(with_texts(gpu_run(), HOSTILE_TEXTS[text]), path)
    seen = look(path, 1280)
    poke(seen)
    assert_inert(seen)
    for width in (1280, 320):
        assert_fits(seen, width)


def test_data_that_cannot_be_opened_leave_the_page_as_without_scripts(
    look: Look, pages: Pages, tmp_path: Path
) -> None:
    page = pages["gpu"].read_text(encoding="utf-8")
    broken, count = re.subn(r'(id="data-(?:ops|trace|scopes|steps)">)[^<]+', r"\1AAAA", page)
    broken = broken.replace('id="data-notes">[]', 'id="data-notes">{')
    assert count == 4
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    seen = look(path, anchor="#timeline")
    seen.page.wait_for_timeout(300)
    for part in (".ops-static table", ".tl-lane", "#scopes .icicle", "#steps .plot"):
        assert seen.page.locator(part).first.is_visible()
    live = "#timeline canvas, #steps-chart canvas, #ops [role=grid], .note-text"
    assert seen.page.locator(live).count() == 0
    assert seen.page.locator(".card-tools").count() > 0
    assert {text for text in seen.said if "fetch" not in text} == set()  # how tables are opened
    seen.said.clear()


# --- paper ----------------------------------------------------------------------------------


@with_and_without_scripts
def test_paper_holds_everything_opened_and_no_tools(look: Look, *, javascript: bool) -> None:
    seen = look("gpu", 690, java_script_enabled=javascript)
    page = seen.page
    page.emulate_media(media="print", color_scheme="dark")
    if javascript:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for finding in gpu_run().findings:
        card = page.locator(f"#finding-{finding.id}")
        assert card.evaluate("e => e.checkVisibility() && e.getClientRects().length > 0")
    for part in ("#rules tbody tr", ".ops-static table", ".tl-lane", "#steps-chart svg.plot"):
        assert page.locator(part).first.is_visible()
    assert page.locator(":is(.contents, .tools, .ops-live, canvas):visible").count() == 0
    assert re.search(r"Run\s+\S+", page.locator(".masthead .facts").inner_text())
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(PICTURE_FAULTS) == []
    assert_fits(seen, 690)
    if javascript:
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0


# --- what is shown short, in full ---------------------------------------------------------------
