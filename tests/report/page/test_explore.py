"""Explore: tabs that share a selection, the drawer, tables, and pictures."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.report.example_explore import LOOKUP
from tests.report.page.looking import Window

See = Callable[..., Window]

ROWS = ".grid-body [role=row]"
STATUS = "#ops .table-tools [role=status]"


def ops(see: See, anchor: str = "#ops", **options: object) -> Window:
    seen = see(anchor=anchor, **options)
    seen.until(f"document.querySelector({ROWS!r})")
    return seen


def ask(seen: Window, query: str) -> None:
    seen.page.locator("#ops input").fill(query)
    seen.until(f"document.querySelector('.grid').dataset.query === {query!r}")


def test_a_link_leads_to_the_ops_that_a_query_finds(see: See) -> None:
    seen = see(anchor='#ops-type:"Gather"')
    seen.until("document.querySelector('#ops input')?.value === 'type:\"Gather\"'")
    assert seen.shows("#ops")


def test_one_tab_shows_at_a_time_and_the_address_says_which(see: See) -> None:
    seen = see()
    assert seen.texts("[role=tab]")[:2] == ["Timeline", "Ops"]
    seen.click("#tab-scopes")
    assert seen.hash == "#tab=scopes"
    assert [p for p in ("timeline", "ops", "scopes") if seen.shows(f"#{p}")] == ["scopes"]
    seen.press("ArrowRight")
    assert seen.hash == "#tab=steps"
    assert seen.run("() => document.activeElement.id") == "tab-steps"
    seen.click(".bar a[href='#memory']")
    assert seen.shows("#memory")
    seen.page.go_back()
    seen.until("document.querySelector('#steps').checkVisibility()")
    seen.press("2")
    assert seen.shows("#ops")


def test_ops_are_filtered_by_a_query_that_the_address_keeps(see: See) -> None:
    seen = ops(see)
    assert seen.text(STATUS) == "194 of 194"
    ask(seen, "type:cast placement:cpu host>1us")
    shown = seen.text(STATUS)
    assert 0 < int(shown.split()[0]) < 17
    assert all("Cast" in row for row in seen.texts(ROWS))
    seen.until_address("ops-table.q=type:cast placement:cpu")
    seen.page.reload()
    seen.until(f"document.querySelector({STATUS!r})?.textContent === {shown!r}")


@pytest.mark.slow
def test_a_query_that_cannot_be_understood_says_what_to_write(see: See) -> None:
    seen = ops(see)
    ask(seen, "host>5")
    assert "write host>1ms" in seen.text("#ops .query-error")
    assert seen.text(STATUS) == "194 of 194"
    ask(seen, "-to_device>5 -h2d>1B")
    assert "there is no field “to_device”" in seen.text("#ops .query-error")
    ask(seen, "-h2d>1B")
    assert "left out because the field is unknown" in seen.text(STATUS)


@pytest.mark.slow
def test_headings_sort(see: See) -> None:
    seen = ops(see)
    column = """() => [...document.querySelectorAll('.grid-body [data-label="Host time"]')]
      .map((cell) => cell.title)"""
    seen.click(".grid-head button:text('Host time')")
    values = [float(v.split("\xa0")[0].replace(",", "")) for v in seen.run(column)]
    assert values == sorted(values, reverse=True)
    assert seen.run("() => document.querySelector('[aria-sort]').ariaSort") == "descending"
    assert "ops-table.sort=-host_us" in seen.hash
    seen.click(".grid-head button:text('Host time')")
    assert seen.run("() => document.querySelector('[aria-sort]').ariaSort") == "ascending"


def test_the_rows_shown_are_saved_as_csv(see: See, tmp_path: Path) -> None:
    seen = ops(see)
    ask(seen, "embedding_lookup")
    with seen.page.expect_download() as saved:
        seen.click("#ops .table-tools button")
    saved.value.save_as(tmp_path / "ops.csv")
    head, row = (tmp_path / "ops.csv").read_text(encoding="utf-8").splitlines()
    assert head.startswith("name,type,placement,")
    assert row.startswith("tower/items/embedding_lookup,")


@pytest.mark.slow
def test_keys_alone_lead_to_an_op_and_back(see: See) -> None:
    seen = see()
    seen.press("/")
    seen.until("document.activeElement?.matches('#ops input')")
    seen.page.keyboard.type("lookup")
    seen.until("document.querySelector('.grid').dataset.query === 'lookup'")
    for _ in range(14):  # past CSV and the headings
        if seen.run("() => document.activeElement.matches('.grid')"):
            break
        seen.press("Tab")
    seen.press("ArrowDown", "Enter")
    seen.until("document.querySelector('#drawer h2')?.textContent.includes('embedding_lookup')")
    assert seen.run("() => document.activeElement.id") == "drawer"
    seen.press("Escape")
    assert not seen.shows("#drawer")
    assert seen.run("() => document.activeElement.matches('.grid')")


def test_a_link_to_an_op_opens_its_drawer(see: See) -> None:
    seen = see(anchor=f"#op-{LOOKUP}")
    seen.until("document.querySelector('#drawer dl')")
    drawer = seen.text("#drawer")
    assert "tower/items/embedding_lookup" in drawer
    assert "Requested device" in drawer
    assert "train.py" in drawer or "Runs" in drawer
    assert seen.hash == f"#op={LOOKUP}"
    seen.click("#drawer a[href='#change-a3f1']")
    assert seen.hash == f"#change-a3f1&op={LOOKUP}"
    seen.page.go_back()
    seen.until_address(f"#op={LOOKUP}")
    seen.click("#drawer [aria-label=Close]")
    assert not seen.shows("#drawer")
    seen.page.go_back()
    seen.until("document.querySelector('#drawer').checkVisibility()")


@pytest.mark.slow
def test_an_op_that_the_page_does_not_hold_is_said_to_be_missing(see: See) -> None:
    seen = see(anchor="#op-ffffffffff")
    seen.until("document.querySelector('#drawer .note')")
    assert "not among those that this file holds" in seen.text("#drawer")


@pytest.mark.slow
def test_the_selected_op_is_marked_in_every_view(see: See) -> None:
    seen = ops(see, anchor=f"#ops&op={LOOKUP}")
    seen.until("document.querySelector('.grid-body [aria-selected=true]')")
    assert "embedding_lookup" in seen.text(".grid-body [aria-selected=true]")
    seen.run("() => document.querySelector('#tab-transfers').click()")
    seen.until("document.querySelector('.flow.selected')")
    seen.run("() => document.querySelector('#tab-scopes').click()")
    seen.until("document.querySelector('.icicle .selected')")
    seen.run("() => document.querySelector('#tab-timeline').click()")
    seen.until("document.querySelector('.tl-about code')")
    assert "op" in seen.text(".tl-about")


@pytest.mark.slow
def test_flows_and_scopes_lead_to_ops(see: See) -> None:
    seen = see(anchor="#transfers")
    seen.until("document.querySelectorAll('.flow').length === 5")
    seen.click(".node.op text")
    seen.until_address(f"op={LOOKUP}")
    seen.press("Escape")
    seen.click("#tab-scopes")
    seen.until("document.querySelector('.icicle [role=button]')")
    seen.run("() => document.querySelector('.icicle .scope').focus()")
    assert "model" in seen.text(".icicle .small")
    seen.press("Enter")
    assert seen.texts(".trail button") == ["All", "model"]
    before = seen.run("() => document.querySelector('.icicle svg').innerHTML")
    seen.click(".choice button:text('GPU')")
    assert seen.run("() => document.querySelector('.icicle svg').innerHTML") != before
    seen.click(".trail button")
    assert seen.texts(".trail button") == ["All"]


@pytest.mark.slow
def test_charts_are_read_by_keys_and_lead_to_the_timeline(see: See) -> None:
    seen = see(anchor="#steps")
    seen.until("document.querySelector('#steps .plot canvas')")
    seen.run("() => document.querySelector('#steps .plot').focus()")
    seen.press("ArrowRight")
    reading = seen.text("#steps .chart > .small")
    assert reading == "Step 0: compute 12.6\xa0ms, transfers 4.20\xa0ms, CPU ops 5.00\xa0ms"
    place = seen.page.locator("#steps .u-over").bounding_box()
    assert place
    seen.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + 150)
    seen.page.mouse.down()
    seen.page.mouse.up()
    seen.until_address("time.range=")
    assert seen.shows("#timeline")


@pytest.mark.slow
@pytest.mark.parametrize(
    "anchor", ["#tab=nothing", "#op=%E0%A4%A&x", "#ops-table.q=%22", "#&&=&a=b=c"]
)
def test_no_address_breaks_the_page(see: See, anchor: str) -> None:
    seen = see(anchor=anchor)
    assert seen.shows("[role=tabpanel]")
