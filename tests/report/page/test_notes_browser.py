"""Notes and acceptances of a reader: kept by the browser, by the page's own file, and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import gpu_run
from tests.report.markup import Element, read
from tests.report.page.browsing import CONTRASTS, Visit, reload_remembering, until, visit
from traceanalyzer.acceptances import Acceptance, load_acceptances
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

FIRST, SECOND = "f3a91c07", "0be77d52"
# What would end a script, begin a comment, or be read as markup; and what does not show.
HOSTILE = (
    "</script><script>alert(1)</script><!--<script> <img src=x onerror=alert(2)> "
    '&lt;b&gt; "quoted" \u2028\u202egnp </div> \\u003c ${1} \x07 \U0001f600'
)


def note(seen: Visit, key: str, text: str) -> None:
    card = seen.page.locator(f"#finding-{key}")
    card.get_by_role("button", name="Note…").click()
    card.get_by_label("Note", exact=True).last.fill(text)
    card.get_by_role("button", name="Keep note").click()


def accept(seen: Visit, key: str, reason: str, until: str = "") -> None:
    card = seen.page.locator(f"#finding-{key}")
    card.locator(".note-accept").click()
    card.get_by_label("It is accepted because").fill(reason)
    card.get_by_label("Until (may be left out)").fill(until)
    card.get_by_role("button", name="Accept", exact=True).click()


def told(seen: Visit, key: str) -> str:
    return seen.page.locator(f"#finding-{key} .note-told").inner_text()


def counted(seen: Visit) -> str:
    """What the contents say beside the findings."""
    text = seen.page.locator(".contents a[href='#findings'] .note-count").text_content()
    assert text is not None
    return text.strip()


def saved(seen: Visit, button: str, folder: Path) -> Path:
    with seen.page.expect_download() as started:
        seen.page.get_by_role("button", name=button).click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def future(days: int = 40) -> str:
    return (datetime.now(tz=UTC).date() + timedelta(days=days)).isoformat()


# --- on the page ---------------------------------------------------------------------------


def test_an_acceptance_needs_a_reason_and_is_told_where_it_matters(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"])
    card = seen.page.locator(f"#finding-{FIRST}")
    accept(seen, FIRST, "   ")
    assert card.get_by_role("alert").inner_text().startswith("Say why")
    assert card.locator(".note-told").count() == 0
    card.get_by_label("It is accepted because").fill("The blur goes\nwith the next release.")
    card.get_by_label("Until (may be left out)").fill(future())
    card.get_by_role("button", name="Accept", exact=True).click()

    assert card.locator(".note-form").count() == 0
    assert told(seen, FIRST) == (
        f"Accepted, until {future()}. The blur goes\nwith the next release."
    )
    # It stays among the others, with a word in the table and a count in the contents.
    assert card.is_visible()
    row = seen.page.locator(f"#findings tr[data-finding='{FIRST}']")
    assert row.locator(".note-word").inner_text() == "accepted"
    assert counted(seen) == "1 accepted"
    assert seen.said == []
    seen.close()


def test_what_is_accepted_can_be_taken_back(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    accept(seen, FIRST, "for now")
    card = seen.page.locator(f"#finding-{FIRST}")
    card.get_by_role("button", name="Change acceptance…").click()
    assert card.get_by_label("It is accepted because").input_value() == "for now"
    card.get_by_role("button", name="Accept no longer").click()
    assert card.locator(".note-told").count() == 0
    assert seen.page.locator(".note-count, .note-word").count() == 0
    note(seen, FIRST, "look again")
    assert told(seen, FIRST) == "Note. look again"
    note(seen, FIRST, "")
    assert card.locator(".note-told").count() == 0
    seen.close()


def test_keys_reach_and_leave_the_form(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    button = seen.page.locator(f"#finding-{FIRST}").get_by_role("button", name="Note…")
    button.focus()
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.type("d? jk")  # keys of the page mean nothing while one writes
    assert seen.page.locator("html").get_attribute("data-theme") is None
    assert seen.page.locator("#keys").is_visible() is False
    seen.page.keyboard.press("Escape")
    assert seen.page.locator(".note-form").count() == 0
    assert button.evaluate("e => e === document.activeElement")
    seen.close()


def test_the_browser_keeps_notes_for_this_report_alone(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    seen = visit(browser, pages["gpu"])
    note(seen, SECOND, "is int32 needed?")
    reload_remembering(seen)
    assert told(seen, SECOND) == "Note. is int32 needed?"
    run = gpu_run()
    other = replace(run, run=replace(run.run, name="another run"))
    write_page(other, tmp_path / "other.html")
    seen.page.goto((tmp_path / "other.html").as_uri())
    assert seen.page.locator(".note-told").count() == 0
    assert seen.said == []
    seen.close()


def test_an_acceptance_that_has_expired_is_not_counted(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    seen = visit(browser, pages["gpu"])
    load(seen, tmp_path, [{"id": FIRST, "reason": "until then", "until": "2020-02-29"}])
    assert told(seen, FIRST) == "Accepted once, expired, until 2020-02-29. until then"
    assert seen.page.locator(".note-word").inner_text() == "acceptance expired"
    assert seen.page.locator(".note-count").count() == 0
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forms_and_notes_can_be_read_and_fit(
    browser: Browser, pages: dict[str, Path], scheme: str
) -> None:
    seen = visit(browser, pages["gpu"], 380, color_scheme=scheme)
    accept(seen, FIRST, "w" * 300, future())
    seen.page.locator(f"#finding-{SECOND} .note-accept").click()
    seen.page.get_by_role("button", name="Accept", exact=True).click()
    assert [entry for entry in seen.page.evaluate(CONTRASTS) if entry[0] < 4.5] == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 380
    seen.close()


# --- the page's own file ----------------------------------------------------------------------


def without_notes(page: Element) -> Element:
    """The page with its place for notes emptied."""
    page.one("div", id="kept-notes").children.clear()
    return page


def trimmed(element: Element) -> list[Any]:
    """Elements and texts, white space between them left out."""
    children = [
        trimmed(child) if isinstance(child, Element) else child
        for child in element.children
        if isinstance(child, Element) or child.strip()
    ]
    attributes = {name: value or "" for name, value in element.attributes.items()}
    return [element.tag, attributes, *children]


def test_the_saved_page_is_the_same_but_for_the_notes(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    seen = visit(browser, pages["gpu"])
    accept(seen, FIRST, "because", future())
    first = saved(seen, "Save page with notes", tmp_path)
    seen.close()
    assert first.name == "gpu.html"
    before = without_notes(read(pages["gpu"].read_text(encoding="utf-8")))
    text = first.read_text(encoding="utf-8")
    assert text.startswith('<!DOCTYPE html>\n<html lang="en"><head>')  # fmt: skip
    assert trimmed(without_notes(read(text))) == trimmed(before)

    # Saved anew, unchanged, it is the same to the byte.
    (tmp_path / "again").mkdir()
    seen = visit(browser, first)
    assert saved(seen, "Save page with notes", tmp_path / "again").read_bytes() == (
        first.read_bytes()
    )
    seen.close()


def test_the_saved_page_shows_its_notes_in_another_browser(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    seen = visit(browser, pages["gpu"])
    accept(seen, FIRST, "It moves with the next release.")
    note(seen, SECOND, "is int32 needed?")
    path = saved(seen, "Save page with notes", tmp_path)
    seen.close()

    fresh = visit(browser, path)  # a context of its own: nothing is remembered
    assert fresh.said == []  # the policy lets its scripts run
    assert fresh.requests == [path.as_uri()]
    assert fresh.page.evaluate("document.documentElement.className").split() == ["scripted"]
    assert told(fresh, FIRST) == "Accepted. It moves with the next release."
    assert told(fresh, SECOND) == "Note. is int32 needed?"
    assert not fresh.page.locator("#kept-notes").is_visible()
    # What is taken back later does not come back from the file.
    note(fresh, SECOND, "")
    reload_remembering(fresh)
    assert fresh.page.locator(f"#finding-{SECOND} .note-told").count() == 0
    fresh.close()

    plain = visit(browser, path, java_script_enabled=False)
    kept = plain.page.locator("#kept-notes")
    assert kept.locator("h3").inner_text() == "Notes of a reader"
    assert kept.locator("li").all_inner_texts() == [
        "Finding 1: Accepted because: It moves with the next release.",
        "Finding 2: is int32 needed?",
    ]
    assert kept.locator("a").first.get_attribute("href") == f"#finding-{FIRST}"
    plain.close()


def test_hostile_notes_stay_text(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    seen = visit(browser, pages["gpu"], bypass_csp=True)
    note(seen, FIRST, HOSTILE)
    accept(seen, SECOND, HOSTILE)
    shown = told(seen, FIRST)
    path = saved(seen, "Save page with notes", tmp_path)
    seen.close()

    text = path.read_text(encoding="utf-8")
    original = pages["gpu"].read_text(encoding="utf-8")
    assert text.count("<script") == original.count("<script")
    assert text.count("</script") == original.count("</script")
    assert text.count("<!--") == original.count("<!--")
    block = text.partition('id="kept-notes">')[2].partition("</div>")[0]
    assert not set(block) & set("\u2028\u202e\x07")
    for javascript in (True, False):
        fresh = visit(browser, path, bypass_csp=True, java_script_enabled=javascript)
        assert fresh.said == []
        assert fresh.requests == [path.as_uri()]
        assert fresh.page.locator("img").count() == 0
        if javascript:
            assert told(fresh, FIRST) == shown
            assert "</script><script>alert(1)</script><!--<script>" in shown
            assert "⟨U+202E⟩gnp" in shown
            fresh.page.locator(f"#finding-{FIRST}").get_by_role("button", name="Note…").click()
            assert fresh.page.get_by_label("Note", exact=True).last.input_value() == HOSTILE.strip()
        fresh.close()


def test_a_page_whose_notes_were_spoilt_is_a_page_still(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    original = pages["gpu"].read_text(encoding="utf-8")
    entries = [
        None,
        7,
        {"id": FIRST},
        {"id": FIRST, "at": "2026", "note": 3, "accepted": {"reason": " "}},
        {"id": "__proto__", "at": "2026", "note": "x", "accepted": {"reason": 1}},
    ]
    for content in ("{", "null", json.dumps(entries)):
        path = tmp_path / "spoilt.html"
        path.write_text(
            original.replace('id="data-notes">[]', f'id="data-notes">{content}'), encoding="utf-8"
        )
        seen = visit(browser, path)
        assert seen.said == []
        assert seen.page.locator(".note-told").count() == 0
        assert seen.page.locator(".card-tools").count() > 0
        seen.close()


# --- acceptances as JSON -------------------------------------------------------------------------


def load(seen: Visit, folder: Path, content: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    path = folder / "given.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    seen.page.locator(".note-tools input").set_input_files(path)
    until(seen, "document.querySelector('.note-said').textContent !== ''")
    return seen.page.locator(".note-said").inner_text()


def test_python_reads_the_acceptances_that_the_page_writes(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    seen = visit(browser, pages["gpu"])
    assert seen.page.get_by_role("button", name="Save acceptances").is_hidden()
    accept(seen, FIRST, HOSTILE, future())
    accept(seen, SECOND, "Strings live on the host.")
    note(seen, SECOND, "a note is no acceptance")
    path = saved(seen, "Save acceptances", tmp_path)
    seen.close()
    assert path.name == "acceptances.json"
    assert load_acceptances(path) == (
        Acceptance(id=FIRST, reason=HOSTILE.strip(), until=date.fromisoformat(future())),
        Acceptance(id=SECOND, reason="Strings live on the host."),
    )


def test_a_colleagues_acceptances_are_loaded_and_kept_whole(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    given = [
        {"id": FIRST, "reason": "one", "until": None},
        {"id": "gone00", "reason": "of another run", "until": "2099-12-31"},
        {"id": SECOND, "reason": ""},
        {"id": SECOND, "reason": "two", "until": "2099-02-30"},
    ]
    seen = visit(browser, pages["gpu"])
    assert load(seen, tmp_path, given) == (
        "2 of 4 acceptances loaded; 1 of them for findings that this report does not hold; "
        "2 passed over: each needs an id, a reason and, if any, a day as 2027-01-31."
    )
    assert told(seen, FIRST) == "Accepted. one"
    assert counted(seen) == "1 accepted"
    path = saved(seen, "Save acceptances", tmp_path)
    assert json.loads(path.read_text(encoding="utf-8")) == given[:2]
    seen.close()


@pytest.mark.parametrize(
    ("content", "said"), [("{", "That file is no JSON"), ("{}", "holds no list of acceptances")]
)
def test_a_file_that_is_none_changes_nothing(
    browser: Browser, pages: dict[str, Path], tmp_path: Path, content: str, said: str
) -> None:
    seen = visit(browser, pages["gpu"])
    assert said in load(seen, tmp_path, content)
    assert seen.page.locator(".note-told").count() == 0
    seen.close()


def test_without_scripts_nothing_of_notes_is_offered(
    browser: Browser, pages: dict[str, Path]
) -> None:
    seen = visit(browser, pages["gpu"], java_script_enabled=False)
    assert seen.page.locator("#findings button:visible").count() == 0
    assert not seen.page.locator("#kept-notes").is_visible()
    seen.close()
