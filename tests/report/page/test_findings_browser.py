"""Findings in a real browser: copied, followed to ops and events, noted, and accepted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.bad_input import HOSTILE
from tests.report.examples import gpu_run
from tests.report.markup import Element, read
from tests.report.page.browsing import Visit, reload_remembering, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.report.page.conftest import Pages

    Look = Callable[..., Visit]

FIRST, SECOND, SEVERAL = "f3a91c07", "0be77d52", "9c1d2ab8"
FUTURE = (datetime.now(tz=UTC).date() + timedelta(days=40)).isoformat()


def test_code_and_link_of_a_finding_can_be_copied(look: Look, pages: Pages) -> None:
    seen = look("gpu", permissions=["clipboard-read", "clipboard-write"])
    card = seen.page.locator(f"#finding-{FIRST}")
    for button, expected in (
        (".fixes .code button", gpu_run().findings[0].fixes[0].code),
        (".card-tools button:has-text('Copy link')", f"{pages['gpu'].as_uri()}#finding-{FIRST}"),
    ):
        seen.page.evaluate("document.getElementById('announcements').textContent = ''")
        card.locator(button).first.click()
        until(seen, "document.getElementById('announcements').textContent.endsWith('copied.')")
        assert seen.page.evaluate("navigator.clipboard.readText()") == expected


def test_a_finding_leads_to_its_ops_and_its_events(look: Look) -> None:
    seen = look("gpu")
    card = seen.page.locator(f"#finding-{FIRST}")
    card.get_by_role("link", name="its op in the table").click()
    until(seen, "document.querySelector('.ops-marked') !== null")
    assert "augment/EagerPyFunc" in seen.page.locator(".ops-marked").inner_text()
    # Of several ops the table shows these alone.
    several = seen.page.locator(f"#finding-{SEVERAL}")
    several.evaluate("e => (e.closest('details').open = true)")
    several.get_by_role("link", name="its ops in the table").click()
    until(seen, "document.querySelector('#ops-filter').value !== ''")
    assert seen.page.locator("#ops-filter").input_value() == f"finding:{SEVERAL}"
    card.get_by_role("link", name="its events in the timeline").click()
    found = "document.querySelector('#timeline .tl-live')?.innerText ?? ''"
    until(seen, rf"/\b[1-9][0-9,]* events?\b/.test({found})")
    assert seen.page.locator("#timeline input").first.input_value() == f"finding:{FIRST}"


# --- notes ------------------------------------------------------------------------------------


def note(seen: Visit, key: str, text: str) -> None:
    card = seen.page.locator(f"#finding-{key}")
    card.get_by_role("button", name="Note…").click()
    card.get_by_label("Note", exact=True).last.fill(text)
    card.get_by_role("button", name="Save note").click()


def accept(seen: Visit, key: str, reason: str, until: str = "") -> None:
    card = seen.page.locator(f"#finding-{key}")
    card.locator(".note-accept").click()
    card.get_by_label("It is accepted because").fill(reason)
    card.get_by_label("Until (may be left out)").fill(until)
    card.get_by_role("button", name="Accept", exact=True).click()


def told(seen: Visit, key: str) -> str:
    return seen.page.locator(f"#finding-{key} .note-text").inner_text()


def saved(seen: Visit, button: str, folder: Path) -> Path:
    with seen.page.expect_download() as started:
        seen.page.get_by_role("button", name=button).click()
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    return path


def load(seen: Visit, folder: Path, content: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    path = folder / "given.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    seen.page.evaluate("document.querySelector('.note-said').textContent = ''")
    seen.page.locator(".note-tools input").set_input_files(path)
    until(seen, "document.querySelector('.note-said').textContent !== ''")
    return seen.page.locator(".note-said").inner_text()


@pytest.mark.slow
def test_an_acceptance_needs_a_reason_is_counted_and_can_be_taken_back(look: Look) -> None:
    seen = look("gpu")
    card = seen.page.locator(f"#finding-{FIRST}")
    accept(seen, FIRST, "   ")
    assert card.get_by_role("alert").inner_text().startswith("Give a reason")
    assert card.locator(".note-text").count() == 0
    card.get_by_label("It is accepted because").fill("The blur goes\nwith the next release.")
    card.get_by_label("Until (may be left out)").fill(FUTURE)
    card.get_by_role("button", name="Accept", exact=True).click()
    assert told(seen, FIRST) == f"Accepted, until {FUTURE}. The blur goes\nwith the next release."
    row = seen.page.locator(f"#findings tr[data-finding='{FIRST}']")
    assert row.locator(".note-word").inner_text() == "accepted"
    count = seen.page.locator(".contents .note-count")
    assert (count.text_content() or "").strip() == "1 accepted"
    card.get_by_role("button", name="Change acceptance…").click()
    card.get_by_role("button", name="Withdraw acceptance").click()
    assert seen.page.locator(".note-text, .note-count, .note-word").count() == 0


def trimmed(element: Element) -> list[Any]:
    """Return elements and texts without the white space between them, and without notes."""
    if element.attributes.get("id") == "kept-notes":
        return []
    children = [
        trimmed(child) if isinstance(child, Element) else child
        for child in element.children
        if isinstance(child, Element) or child.strip()
    ]
    attributes = {name: value or "" for name, value in element.attributes.items()}
    return [element.tag, attributes, *children]


def test_the_saved_page_is_the_same_and_shows_its_notes_anywhere(
    look: Look, pages: Pages, tmp_path: Path
) -> None:
    seen = look("gpu")
    accept(seen, FIRST, "It moves with the next release.")
    note(seen, SECOND, "is int32 needed?")
    path = saved(seen, "Save page with notes", tmp_path)
    assert path.name == "gpu.html"
    before, after = (file.read_text(encoding="utf-8") for file in (pages["gpu"], path))
    assert trimmed(read(after)) == trimmed(read(before))

    fresh = look(path)  # a context of its own: nothing is remembered, and the policy holds
    assert told(fresh, FIRST) == "Accepted. It moves with the next release."
    assert told(fresh, SECOND) == "Note. is int32 needed?"
    # Saved again, unchanged, it is the same to the byte.
    (tmp_path / "again").mkdir()
    again = saved(fresh, "Save page with notes", tmp_path / "again")
    assert again.read_bytes() == path.read_bytes()
    # What is taken back later does not come back from the file.
    note(fresh, SECOND, "")
    reload_remembering(fresh)
    assert fresh.page.locator(f"#finding-{SECOND} .note-text").count() == 0

    plain = look(path, java_script_enabled=False)
    assert plain.page.locator("#kept-notes li").all_inner_texts() == [
        "Finding 1: Accepted because: It moves with the next release.",
        "Finding 2: is int32 needed?",
    ]


def test_hostile_notes_stay_text(look: Look, pages: Pages, tmp_path: Path) -> None:
    hostile = f"<!--<script> </div> {HOSTILE}".replace("\x00", "").replace("\ud800", "")
    seen = look("gpu", bypass_csp=True)
    note(seen, FIRST, hostile)
    accept(seen, SECOND, hostile)
    shown = told(seen, FIRST)
    assert "</script><script>alert(1)</script>" in shown
    assert "⟨U+202E⟩gnp" in shown
    path = saved(seen, "Save page with notes", tmp_path)
    original, text = (file.read_text(encoding="utf-8") for file in (pages["gpu"], path))
    for mark in ("<script", "</script", "<!--"):
        assert text.count(mark) == original.count(mark)
    for javascript in (True, False):
        fresh = look(path, bypass_csp=True, java_script_enabled=javascript)
        assert fresh.page.locator("img").count() == 0
        if javascript:
            assert told(fresh, FIRST) == shown
