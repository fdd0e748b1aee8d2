"""From top to bottom: the answer, the step bar, what to change, the cards."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.page.looking import Window

See = Callable[..., Window]


def test_the_first_screen_says_what_happened_and_what_to_do(see: See) -> None:
    seen = see()
    assert seen.text("h1").startswith(
        "The GPU waits 9.20\xa0ms of each 30.0\xa0ms step (30.7\xa0%)"
    )
    first_screen = seen.run(
        "() => [...document.querySelectorAll('.next, .step-bar, .changes')]"
        ".map((e) => e.getBoundingClientRect().bottom < innerHeight)"
    )
    assert first_screen == [True, True, True]


def test_parts_of_a_step_fill_the_bar_and_the_bracket_spans_what_placement_causes(see: See) -> None:
    seen = see()
    bar, first, last, bracket, transfers, cpu_ops = seen.run(
        """() => [".whole", ".part", ".part:last-child", ".bracket div", ".part.transfer",
        ".part.cpu_op"].map((s) => document.querySelector(s).getBoundingClientRect())
        .map(({left, right}) => [left, right])"""
    )
    assert first[0] == bar[0]
    assert abs(last[1] - bar[1]) <= 2
    assert abs(bracket[0] - transfers[0]) <= 2
    assert abs(bracket[1] - cpu_ops[1]) <= 2


def test_the_first_card_is_open_and_a_change_leads_to_its_card(see: See) -> None:
    seen = see()
    is_open = "() => [...document.querySelectorAll('.card')].map((card) => card.open)"
    assert seen.run(is_open) == [True, False, False]
    seen.click(".changes a[href='#change-77aa']")
    assert seen.run(is_open) == [True, True, False]
    assert seen.hash == "#change-77aa"
    assert seen.run("() => document.activeElement.closest('.card').id") == "change-77aa"


def test_a_link_opens_a_card_and_all_that_it_is_folded_in(see: See) -> None:
    seen = see(anchor="#change-0c0c")
    assert seen.shows("#change-0c0c .inside")
    seen.go("#term-certainty")
    assert seen.shows("#term-certainty")


@pytest.mark.slow
def test_j_and_k_go_through_the_changes(see: See) -> None:
    seen = see()
    ids = []
    for key in ("j", "j", "j", "j", "k"):
        seen.press(key)
        ids.append(seen.hash)
    assert ids == ["#change-a3f1", "#change-77aa", "#change-0c0c", "#change-0c0c", "#change-77aa"]


def test_diff_link_and_texts_are_copied(see: See) -> None:
    seen = see()
    seen.watch_copies()
    for button in (
        ".copy-diff",
        "#change-a3f1 [data-copy]",
        "#change-a3f1 [data-link]",
        ".bar [data-copy]",
    ):
        seen.click(button)
    diff, card, link, page = seen.copies()
    assert diff == (
        "--- train.py\n+++ train.py\n@@ -49,1 +49,3 @@\n-emb = Embedding(50_000, 128)\n"
        '+with tf.device("/GPU:0"):\n+    emb = Embedding(50_000, 128)\n+    emb.build(None)\n'
    )
    assert card == "## Move `tower/items` to the GPU"
    assert link.endswith("example.html#change-a3f1")
    assert page == "# The GPU waits"
    assert not seen.run("() => document.querySelector('#change-0c0c [data-copy]')")  # has no text


@pytest.mark.slow
def test_a_note_on_a_change_is_kept_and_copied_with_it(see: See) -> None:
    seen = see()
    seen.click("#change-a3f1 .note-fold summary")
    seen.page.locator("#change-a3f1 textarea").fill("Ask Kim <b>first</b>.")
    seen.until("document.querySelector('#change-a3f1 .noted').checkVisibility()")
    seen.page.wait_for_timeout(100)
    seen.page.reload()
    seen.until("document.querySelector('#change-a3f1 textarea')?.value.startsWith('Ask Kim')")
    seen.watch_copies()
    seen.click("#change-a3f1 [data-copy]")
    seen.click(".bar [data-copy]")
    assert all(text.endswith("\n> Ask Kim <b>first</b>.\n") for text in seen.copies())


@pytest.mark.slow
def test_figures_are_exact_on_request_and_the_address_says_so(see: See) -> None:
    seen = see()
    seen.press("e")
    assert "9,200\xa0µs" in seen.text("h1").replace(" ", "\xa0")
    assert "figures=exact" in seen.hash
    seen.page.reload()
    assert "9,200\xa0µs" in seen.text("h1").replace(" ", "\xa0")
    seen.press("e")
    assert "9.20\xa0ms" in seen.text("h1")


@pytest.mark.slow
def test_a_term_opens_its_entry_beside_it(see: See) -> None:
    seen = see()
    seen.click(".changes .term")
    assert seen.text("#term").split("\n\n") == ["certainty", "How well a statement is supported."]
    seen.press("Escape")
    assert not seen.shows("#term")


@pytest.mark.slow
def test_the_theme_is_chosen_and_remembered(see: See) -> None:
    seen = see(color_scheme="light")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    assert seen.run(ground) == "rgb(255, 255, 255)"
    seen.click("#menu-button")
    seen.click("#menu button")
    assert seen.run(ground) == "rgb(20, 23, 28)"
    seen.page.wait_for_timeout(100)
    seen.page.reload()
    seen.until("getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 28)'")


@pytest.mark.slow
def test_shortcuts_are_listed_and_single_keys_can_be_switched_off(see: See) -> None:
    seen = see()
    seen.press("?")
    assert "Next change" in seen.text("#keys")
    seen.click("#keys-on")
    seen.press("Escape")
    seen.press("j")
    assert seen.hash == ""


@pytest.mark.slow
def test_on_paper_the_summary_has_two_pages_and_marks_without_colour(see: See) -> None:
    seen = see()
    pdf = seen.page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 2
    seen.page.emulate_media(media="print")
    assert not seen.shows(".section-explore")
    assert seen.shows(".changes")
    assert not seen.shows("#change-77aa")
    look = """(selector) => { const style = getComputedStyle(document.querySelector(selector));
      return style.backgroundColor + style.backgroundImage; }"""
    looks = [
        seen.run(look, f".legend .{kind}")
        for kind in ("compute", "transfer", "cpu_op", "input", "runtime", "program")
    ]
    assert len(set(looks)) == 6
    seen.run("() => { window.print = () => dispatchEvent(new Event('beforeprint')); }")
    seen.page.emulate_media(media=None)
    seen.run("""() => [...document.querySelectorAll("#menu button")]
      .find((one) => one.textContent === "Print everything").click()""")
    seen.until("!document.querySelector('.tab[hidden]')")
    seen.page.emulate_media(media="print")
    tabs = ("timeline", "ops", "transfers", "scopes", "steps", "memory")
    assert all(seen.shows(f"#{tab}") for tab in tabs)
    seen.run("() => dispatchEvent(new Event('afterprint'))")
    assert not seen.shows("#memory")


@pytest.mark.slow
def test_narrow_windows_show_tables_as_cards(see: See) -> None:
    seen = see(width=400)
    beyond = """() => [...document.querySelectorAll("main *, header *")]
      .filter((e) => e.checkVisibility() && !e.closest("pre, .scroll, .grid, nav, .unseen, svg"))
      .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
      .map((e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`)"""
    assert seen.run(beyond) == []
    assert (
        "Saves: "
        in seen.run(
            "() => getComputedStyle(document.querySelector('.changes td.n'), '::before').content"
        )
        or seen.run("() => document.querySelector('.changes td.n').dataset.label") == "Saves"
    )
    for tab in ("ops", "transfers", "scopes", "steps", "memory"):
        seen.click(f"#tab-{tab}")
        seen.until(f"!document.querySelector('#{tab} .needs-scripts')")
        assert seen.run(beyond) == [], tab


def test_without_scripts_all_but_pictures_is_there(see: See, made: dict[str, Path]) -> None:
    seen = see(made["example"], java_script_enabled=False)
    assert seen.shows("h1")
    assert seen.shows("#transfers table")  # tabs follow each other
    assert seen.shows("#memory h3")
    assert "The timeline needs scripts." in seen.texts(".needs-scripts")
    assert not seen.shows(".bar button")
    seen.click("#change-77aa > summary")
    assert seen.shows("#change-77aa .diff")
