"""The page's shell: its ground, its address, its keys and the way around."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.report.page.browsing import Visit, reload_remembering, until, visit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

FINDING = "finding-0be77d52"
_TOP = "(id) => document.getElementById(id).getBoundingClientRect().top"


@pytest.fixture
def seen(browser: Browser, pages: dict[str, Path]) -> Iterator[Visit]:
    opened = visit(browser, pages["gpu"])
    yield opened
    assert opened.said == []
    opened.close()


def theme(seen: Visit) -> str:
    colour: str = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return "light" if colour == "rgb(255, 255, 255)" else "dark"


def current(seen: Visit) -> list[str]:
    # Marked with the frame after the one that is scrolled to.
    seen.page.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    marked: list[str] = seen.page.locator(".contents a[aria-current=location]").evaluate_all(
        "links => links.map((a) => a.hash)"
    )
    return marked


def comes_to(seen: Visit, expected: str, place: str = "") -> None:
    """Waits for an address, and for its place at the top: a link is followed in its own time."""
    until(seen, f"location.hash === {json.dumps('#' + expected)}")
    if place:
        top = f"({_TOP})({json.dumps(place)})"
        until(seen, f"{top} >= 0 && {top} < 100")


# --- the ground ----------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_ground_is_the_systems_until_the_reader_chooses(
    browser: Browser, pages: dict[str, Path], system: str
) -> None:
    seen = visit(browser, pages["gpu"], color_scheme=system)
    other = {"light": "dark", "dark": "light"}[system]
    assert theme(seen) == system
    button = seen.page.locator("#theme")
    assert button.inner_text() == f"{other.capitalize()} page"
    button.click()
    assert theme(seen) == other
    assert button.inner_text() == f"{system.capitalize()} page"
    reload_remembering(seen)
    assert theme(seen) == other
    seen.page.keyboard.press("d")
    assert theme(seen) == system
    assert seen.said == []
    seen.close()


def test_a_chosen_ground_is_there_before_anything_is_drawn(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], color_scheme="light")
    seen.page.locator("#theme").click()
    # Looks at the theme at the moment that the body begins.
    seen.page.add_init_script("""
      window.themeAtBody = "not looked at";
      new MutationObserver((_, observer) => {
        if (!document.body) return;
        window.themeAtBody = document.documentElement.dataset.theme ?? "not set";
        observer.disconnect();
      }).observe(document, { childList: true, subtree: true });
    """)
    reload_remembering(seen)
    assert seen.page.evaluate("window.themeAtBody") == "dark"
    seen.close()


def test_the_systems_change_is_followed(seen: Visit) -> None:
    seen.page.emulate_media(color_scheme="dark")
    assert theme(seen) == "dark"
    assert seen.page.locator("#theme").inner_text() == "Light page"


# --- keys ----------------------------------------------------------------------------------


def test_help_lists_the_keys_and_closes(seen: Visit) -> None:
    seen.page.locator("#theme").focus()
    seen.page.keyboard.press("?")
    dialog = seen.page.locator("dialog#keys")
    assert dialog.is_visible()
    listed = dialog.locator("kbd").all_inner_texts()
    assert {"?", "j", "k", "d"} <= set(listed)
    assert all(text.strip() for text in dialog.locator("dd").all_inner_texts())
    # While it is open no key but those of the browser does anything.
    seen.page.keyboard.press("j")
    assert seen.page.evaluate("scrollY") == 0
    seen.page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert seen.page.evaluate("document.activeElement.id") == "theme"
    seen.page.locator("#show-keys").click()
    assert dialog.is_visible()
    seen.page.locator("#close-keys").click()
    assert not dialog.is_visible()
    assert seen.page.evaluate("document.activeElement.id") == "show-keys"


def test_single_keys_can_be_switched_off_and_stay_so(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"])
    seen.page.locator("#show-keys").click()
    seen.page.locator("#keys-on").uncheck()
    seen.page.locator("#close-keys").click()
    before = theme(seen)
    for _ in range(2):
        seen.page.keyboard.press("d")
        seen.page.keyboard.press("?")
        assert theme(seen) == before
        assert not seen.page.locator("dialog#keys").is_visible()
        reload_remembering(seen)
    seen.page.locator("#show-keys").click()
    assert not seen.page.locator("#keys-on").is_checked()
    seen.page.locator("#keys-on").check()
    seen.page.locator("#close-keys").click()
    seen.page.keyboard.press("d")
    assert theme(seen) != before
    seen.close()


def test_no_key_is_listed_twice_for_the_same_place(seen: Visit) -> None:
    seen.page.keyboard.press("?")
    entries = seen.page.locator("dialog#keys .keys-list > div").all_inner_texts()
    assert len(entries) == len(set(entries)) > 3


@pytest.mark.parametrize("width", [380, 1280])
def test_j_and_k_lead_through_every_section_and_back(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    seen = visit(browser, pages["gpu"], width)
    heading = "document.activeElement.closest('article.finding, main > section')?.id ?? ''"
    ids: list[str] = seen.page.evaluate(
        "[...document.querySelectorAll('main > section, article.finding')]"
        ".filter((e) => e.checkVisibility()).map((e) => e.id)"
    )
    passed = []
    for _ in range(len(ids) + 1):
        seen.page.keyboard.press("j")
        passed.append(seen.page.evaluate(heading))
    start = ids.index(passed[0])
    assert start <= 1
    assert passed == [*ids[start:], *[ids[-1]] * (len(ids) + 1 - len(ids[start:]))]
    for expected in reversed(ids[:-1]):
        seen.page.keyboard.press("k")
        assert seen.page.evaluate(heading) == expected
    assert seen.said == []
    seen.close()


def test_a_key_typed_into_a_field_is_text(seen: Visit) -> None:
    seen.page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
    seen.page.locator("main > textarea").press_sequentially("j?d")
    assert seen.page.locator("main > textarea").input_value() == "j?d"
    assert not seen.page.locator("dialog#keys").is_visible()
    assert theme(seen) == "light"


# --- the address ---------------------------------------------------------------------------


def test_an_address_leads_to_its_place(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], anchor=f"#{FINDING}&x.y=1")
    assert 0 <= seen.page.evaluate(_TOP, FINDING) < 100
    comes_to(seen, f"{FINDING}&x.y=1")
    assert seen.said == []
    seen.close()


@pytest.mark.parametrize(
    "anchor",
    [
        "#%E0%A4%A",
        "#%",
        "#a=b=c",
        "#=",
        "#&&&=&",
        "#ops.q=%E0%A4%A&ops.sort=%FF",
        "#no-such-place",
        "#<img src=x onerror=alert(1)>",
        "#__proto__=1&constructor=2",
        f"#{'x' * 200_000}",
        f"#ops.q={'%20'.join(['placement:cpu'] * 5_000)}",
        "#\u202egnp",
    ],
    ids=lambda anchor: anchor[:24],
)
def test_a_damaged_address_does_no_harm(
    browser: Browser, pages: dict[str, Path], anchor: str
) -> None:
    seen = visit(browser, pages["gpu"], anchor=anchor)
    assert seen.said == []
    seen.page.keyboard.press("j")
    assert seen.page.evaluate("scrollY") > 0
    seen.page.locator("#theme").click()
    assert theme(seen) == "dark"
    assert seen.page.evaluate("document.images.length") == 0
    assert seen.said == []
    seen.close()


def test_choices_stay_when_a_link_is_followed(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], anchor="#test.words=a%20b%3Dc")
    seen.page.locator(".contents a[href='#steps']").click()
    comes_to(seen, "steps&test.words=a%20b%3Dc")
    # Without the scrolling that a pointer needs: who goes back is where the page was left.
    seen.page.locator(f"a[href='#{FINDING}']").first.evaluate("a => a.click()")
    comes_to(seen, f"{FINDING}&test.words=a%20b%3Dc", FINDING)
    seen.page.go_back()
    comes_to(seen, "steps&test.words=a%20b%3Dc", "steps")
    seen.page.go_forward()
    comes_to(seen, f"{FINDING}&test.words=a%20b%3Dc", FINDING)
    assert seen.said == []
    seen.close()


# --- back and forth ------------------------------------------------------------------------


def test_going_back_undoes_what_a_link_chose(seen: Visit) -> None:
    box = seen.page.locator("#ops-filter")
    seen.page.evaluate("document.querySelector(\"#findings a[href*='ops.q=finding']\").click()")
    until(seen, "location.hash.startsWith('#ops&ops.q=finding')")
    asked = box.input_value()
    assert asked.startswith("finding:")
    seen.page.go_back()
    until(seen, "location.hash === ''")
    assert box.input_value() == ""
    seen.page.go_forward()
    until(seen, "location.hash.startsWith('#ops&ops.q=finding')")
    assert box.input_value() == asked


def test_what_was_written_last_belongs_to_the_place_that_is_left(seen: Visit) -> None:
    seen.page.locator("#ops-filter").fill("type:Cast")
    seen.page.locator(f"a[href='#{FINDING}']").first.click()  # before the address follows
    comes_to(seen, f"{FINDING}&ops.q=type%3ACast", FINDING)
    seen.page.go_back()
    comes_to(seen, "ops.q=type%3ACast")
    assert seen.page.locator("#ops-filter").input_value() == "type:Cast"


def test_going_back_folds_what_a_link_opened_and_finds_the_reader_there(seen: Visit) -> None:
    folded = seen.page.locator("#rules details", has_text="found something").first
    folded.locator("summary").click()
    link = folded.locator("a").first
    target = (link.get_attribute("href") or "")[1:]
    link.focus()
    before = seen.page.evaluate("scrollY")
    link.press("Enter")
    comes_to(seen, target, target)
    opened = seen.page.locator("details[open]").count()
    seen.page.evaluate("document.querySelector('#steps details').open = true")
    seen.page.go_back()
    until(seen, "location.hash === ''")
    until(seen, f"Math.abs(scrollY - {before}) < 3")
    # What was opened by hand stands open, what was opened since does not.
    assert folded.get_attribute("open") is not None
    assert seen.page.locator("#steps details").first.get_attribute("open") is None
    assert link.evaluate("e => e === document.activeElement")
    seen.page.go_forward()
    comes_to(seen, target, target)
    assert seen.page.locator("details[open]").count() == opened + 1


def test_a_scope_that_was_looked_into_is_gone_back_from(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"])
    crumbs = "document.querySelectorAll('.crumbs > *').length"
    until(seen, f"{crumbs} === 1")
    seen.page.evaluate("location.hash = '#time&time.scope=0'")
    until(seen, f"{crumbs} > 1")
    seen.page.go_back()
    until(seen, f"{crumbs} === 1")
    assert seen.said == []
    seen.close()


# --- the way around ------------------------------------------------------------------------


@pytest.mark.parametrize("width", [380, 1280, 2560])
def test_the_contents_tell_where_the_reader_is(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    seen = visit(browser, pages["gpu"], width)
    ids: list[str] = seen.page.locator("main > section").evaluate_all("es => es.map((e) => e.id)")
    assert current(seen) == ["#verdict"]
    for name in ids:
        seen.page.evaluate("(id) => (location.hash = id)", name)
        assert current(seen) == [f"#{name}"]
    seen.page.evaluate("scrollTo(0, 0)")
    assert current(seen) == ["#verdict"]
    seen.page.evaluate("scrollTo(0, document.getElementById('copies').offsetTop + 100)")
    assert current(seen) == ["#copies"]
    seen.close()


def test_every_section_is_in_the_contents_in_its_order(seen: Visit) -> None:
    listed = seen.page.locator(".contents a").evaluate_all("ls => ls.map((a) => a.hash.slice(1))")
    there = seen.page.locator("main > section").evaluate_all("es => es.map((e) => e.id)")
    assert listed == there


def test_the_contents_fold_where_there_is_little_room(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], 380)
    summary, links = seen.page.locator(".contents summary"), seen.page.locator(".contents a")
    assert not links.first.is_visible()
    seen.page.evaluate("scrollTo(0, 3000)")
    # It stays in reach, and covers little.
    box = summary.bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= 8
    assert box["height"] <= 48
    summary.click()
    assert links.first.is_visible()
    links.nth(1).click()
    assert not links.first.is_visible()
    target = seen.page.evaluate(_TOP, "findings")
    assert box["y"] + box["height"] - 8 <= target < 100
    summary.focus()
    seen.page.keyboard.press("Enter")
    assert links.first.is_visible()
    seen.page.keyboard.press("Tab")
    seen.page.keyboard.press("Escape")
    assert not links.first.is_visible()
    assert seen.page.evaluate("document.activeElement.localName") == "summary"
    seen.close()


@pytest.mark.parametrize("javascript", [False, True], ids=["js-off", "js-on"])
def test_the_contents_are_open_where_there_is_room(
    browser: Browser, pages: dict[str, Path], *, javascript: bool
) -> None:
    seen = visit(browser, pages["gpu"], 1280, java_script_enabled=javascript)
    assert seen.page.locator(".contents a").first.is_visible()
    assert not seen.page.locator(".contents summary").is_visible()
    seen.close()


def test_the_skip_link_passes_the_contents_by(seen: Visit) -> None:
    seen.page.keyboard.press("Tab")
    assert seen.page.locator(".skip").evaluate("e => e.getBoundingClientRect().left") >= 0
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("Boolean(document.activeElement.closest('main'))")


def test_nothing_moves_for_those_who_asked_for_stillness(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], reduced_motion="reduce")
    moving = seen.page.evaluate("""[...document.querySelectorAll('*')].filter((e) => {
      const style = getComputedStyle(e);
      const lasts = `${style.transitionDuration}, ${style.animationDuration}`;
      return lasts.split(', ').some((d) => parseFloat(d) > 0) || style.scrollBehavior === 'smooth';
    }).length""")
    assert moving == 0
    seen.close()


def test_paper_tells_which_run_it_is(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"], 700)
    seen.page.emulate_media(media="print")
    facts = seen.page.locator(".masthead .facts").inner_text()
    assert re.search(r"Run\s+\S+", facts)
    assert not seen.page.locator(".tools").first.is_visible()
    seen.close()
