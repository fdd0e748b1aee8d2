"""The way around the page: its colours, its keys, its address, and going back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.report.page.browsing import Visit, reload_remembering, until

if TYPE_CHECKING:
    from collections.abc import Callable

    Look = Callable[..., Visit]

FINDING = "finding-0be77d52"
FOLDED = "finding-9c1d2ab8"  # it is by design
_TOP = "document.getElementById({}).getBoundingClientRect().top"


def theme(seen: Visit) -> str:
    colour: str = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return "light" if colour == "rgb(255, 255, 255)" else "dark"


def comes_to(seen: Visit, address: str, place: str = "") -> None:
    """Wait for an address, and for its place at the top: a link is followed in its own time."""
    until(seen, f"location.hash === {json.dumps(address and '#' + address)}")
    if place:
        top = _TOP.format(json.dumps(place))
        until(seen, f"{top} >= 0 && {top} < 100")


def test_light_or_dark_is_the_systems_until_it_is_chosen_and_then_stays(look: Look) -> None:
    seen = look("gpu", color_scheme="light")
    assert theme(seen) == "light"
    seen.page.emulate_media(color_scheme="dark")
    assert theme(seen) == "dark"
    button = seen.page.locator("#theme")
    assert button.inner_text() == "Light page"
    button.click()
    assert theme(seen) == "light"
    assert button.inner_text() == "Dark page"
    # Chosen, it is there before anything is drawn.
    seen.page.add_init_script("""
      new MutationObserver((_, observer) => {
        if (!document.body) return;
        window.themeAtBody = document.documentElement.dataset.theme;
        observer.disconnect();
      }).observe(document, { childList: true, subtree: true });
    """)
    reload_remembering(seen)
    assert seen.page.evaluate("window.themeAtBody") == "light"
    assert theme(seen) == "light"


def test_keys_are_listed_lead_on_and_can_be_switched_off(look: Look) -> None:
    seen = look("gpu")
    page = seen.page
    page.keyboard.press("?")
    dialog = page.locator("dialog#keys")
    assert {"?", "j", "k", "d"} <= set(dialog.locator("kbd").all_inner_texts())
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    # `j` and `k` lead through every section and finding that is not folded.
    at = "document.activeElement.closest('article.finding, main > section')?.id"
    ids: list[str] = page.evaluate(
        "[...document.querySelectorAll('main > section, article.finding')]"
        ".filter((e) => e.checkVisibility()).map((e) => e.id)"
    )
    passed = []
    for _ in ids:
        page.keyboard.press("j")
        passed.append(page.evaluate(at))
    start = ids.index(passed[0])
    assert start <= 1
    assert passed == [*ids[start:], *[ids[-1]] * start]
    page.keyboard.press("k")
    assert page.evaluate(at) == ids[-2]
    # Where one writes they are text; switched off, they do nothing, and stay so.
    page.locator("#ops-filter").press_sequentially("j?d")
    assert page.locator("#ops-filter").input_value() == "j?d"
    assert not dialog.is_visible()
    page.locator("#show-keys").click()
    page.locator("#keys-on").uncheck()
    page.locator("#close-keys").click()
    reload_remembering(seen)
    page.keyboard.press("d")
    page.keyboard.press("?")
    assert theme(seen) == "light"
    assert not dialog.is_visible()


ANCHORS = [
    "#%E0%A4%A",
    "#&&&=&",
    "#ops.q=%E0%A4%A&ops.sort=%FF&ops.cols=x,y",
    "#timeline&time.view=5-4&time.find=%ZZ&time.scope=999&copies.by=%3Cb%3E",
    "#timeline&time.view=1e3-2e9&time.scope=-1&time.at=gap-99999",
    "#timeline&time.view=9999999-99999999&ops.sort=-nonsense",
    "#no-such-place",
    "#op-nothere",
    "#<img src=x onerror=alert(1)>",
    "#__proto__=1&constructor=2",
    f"#{'x' * 200_000}",
    f"#ops.q={'%20'.join(['placement:cpu'] * 5_000)}",
    "#\u202egnp",
]


@pytest.mark.parametrize(
    "anchor",
    [
        pytest.param(anchor, marks=() if k == 3 else pytest.mark.slow, id=f"{k}")
        for k, anchor in enumerate(ANCHORS)
    ],
)
def test_a_damaged_address_does_no_harm(look: Look, anchor: str) -> None:
    seen = look("gpu", anchor=anchor)
    seen.page.keyboard.press("j")
    assert seen.page.evaluate("scrollY") > 0
    seen.page.locator("#theme").click()
    assert theme(seen) == "dark"
    assert seen.page.evaluate("document.images.length") == 0


def test_an_address_leads_to_its_place_and_links_keep_what_was_chosen(look: Look) -> None:
    seen = look("gpu", anchor=f"#{FOLDED}&test.words=a%20b%3Dc")
    comes_to(seen, f"{FOLDED}&test.words=a%20b%3Dc", FOLDED)
    assert seen.page.locator(f"#{FOLDED}").is_visible()
    seen.page.locator(".contents a[href='#steps']").click()
    comes_to(seen, "steps&test.words=a%20b%3Dc", "steps")
    # Without the scrolling that a pointer needs: who goes back is where the page was left.
    seen.page.locator(f"a[href='#{FINDING}']").first.evaluate("a => a.click()")
    comes_to(seen, f"{FINDING}&test.words=a%20b%3Dc", FINDING)
    seen.page.go_back()
    comes_to(seen, "steps&test.words=a%20b%3Dc", "steps")
    # An op that is at home in a closed list opens it.
    seen.page.evaluate("location.hash = '#op-d0000000'")
    until(seen, "document.getElementById('op-d0000000').checkVisibility()")


@pytest.mark.slow
def test_the_keyboard_passes_the_contents_by_and_reaches_the_tables(look: Look) -> None:
    seen = look("gpu", 380, reduced_motion="reduce")
    seen.page.keyboard.press("Tab")
    assert seen.page.locator(".skip").evaluate("e => e.getBoundingClientRect().left") >= 0
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("Boolean(document.activeElement.closest('main'))")
    boxes = seen.page.locator(".scroll")
    assert boxes.count() > 5
    assert boxes.evaluate_all("es => es.every((e) => e.tabIndex === 0 && e.ariaLabel)")
    # Nothing moves for those who asked for stillness.
    assert (
        seen.page.evaluate("""[...document.querySelectorAll('*')].filter((e) => {
      const style = getComputedStyle(e);
      const lasts = `${style.transitionDuration}, ${style.animationDuration}`;
      return lasts.split(', ').some((d) => parseFloat(d) > 0) || style.scrollBehavior === 'smooth';
    }).length""")
        == 0
    )
