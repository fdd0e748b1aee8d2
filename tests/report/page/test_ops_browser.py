"""The grid of ops in a real browser: sorted, searched, told in full, and left alone without it."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import CONV, HOSTILE, PY_FUNC, empty_run
from tests.report.page.browsing import CONTRASTS, visit
from tests.report.page.made_ops import made_rows, report_of
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.report.page.browsing import Visit

    Row = dict[str, Any]

ROWS = made_rows(240)
FIGURES = ("occurrences", "host_self_us", "exposed_us", "kernel_us", "h2d_bytes")
# From the change to the painted rows, of one change after another.
PAINTED = """
async (changes) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const times = [];
  for (const [kind, value] of changes) {
    await painted();
    const begin = performance.now();
    if (kind === "sort") {
      [...document.querySelectorAll(".ops-head button")]
        .find((button) => button.textContent.startsWith(value)).click();
    } else {
      const box = document.getElementById("ops-filter");
      box.value = value;
      box.dispatchEvent(new Event("input"));
    }
    await painted();
    times.push(performance.now() - begin);
  }
  return times;
}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ops") / "made.html"
    write_page(report_of(ROWS, 900), path)
    return path


@pytest.fixture
def seen(browser: Browser, made: Path) -> Iterator[Visit]:
    opened = look(browser, made)
    yield opened
    assert opened.said == []
    opened.close()


def look(
    browser: Browser,
    path: Path,
    width: int = 1280,
    anchor: str = "",
    **options: Any,  # noqa: ANN401
) -> Visit:
    opened = visit(browser, path, width, anchor, **options)
    opened.page.wait_for_selector(".ops-body .ops-row")
    return opened


def ask(page: Page, query: str) -> None:
    page.locator("#ops-filter").fill(query)


def table(page: Page) -> list[dict[str, str]]:
    """Returns the rows that the grid holds, in their order, as CSV tells them."""
    return list(csv.DictReader(io.StringIO(copied_text(page), newline="")))


def copied_text(page: Page) -> str:
    """Returns what the button puts on the clipboard, which a test does not touch."""
    text: str = page.evaluate(
        """() => new Promise((done) => {
          const clipboard = { writeText: async (text) => done(text) };
          Object.defineProperty(navigator, "clipboard", { value: clipboard, configurable: true });
          [...document.querySelectorAll("#ops button")]
            .find((button) => button.textContent === "Copy as CSV").click();
        })"""
    )
    return text


def names(page: Page) -> list[str]:
    return [row["name"].replace("\ud800", "\ufffd") for row in table(page)]


def guarded(name: str) -> str:
    """Returns a name as CSV has it: no formula, and nothing that UTF-8 cannot hold."""
    name = name.replace("\ud800", "\ufffd")
    return f"'{name}" if name[:1] in "=+-@" else name


def guarded_names(rows: Iterable[Row]) -> list[str]:
    return [guarded(row["name"]) for row in rows]


def heading(page: Page, words: str) -> Any:  # noqa: ANN401
    return page.locator(".ops-head").get_by_role("button", name=words, exact=True)


def drawn(page: Page) -> list[list[str]]:
    return page.evaluate(
        "[...document.querySelectorAll('.ops-body .ops-row')]"
        ".sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)"
        ".map((row) => [...row.children].map((cell) => cell.title))"
    )


# --- sorted --------------------------------------------------------------------------------


def test_rows_stand_in_the_order_worth_reading_until_they_are_sorted(seen: Visit) -> None:
    assert names(seen.page) == guarded_names(ROWS)
    assert seen.page.locator(".ops-head [aria-sort=none]").count() == len(
        seen.page.locator(".ops-head [role=columnheader]").all()
    )


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("Host time", "host_self_us"),
        ("GPU waits", "exposed_us"),
        ("Runs", "occurrences"),
        ("To device", "h2d_bytes"),
    ],
)
def test_a_figure_sorts_from_the_greatest_and_then_from_the_least(
    seen: Visit, words: str, name: str
) -> None:
    known = [row for row in ROWS if row[name] is not None]
    unknown = [row for row in ROWS if row[name] is None]
    for sign, told in ((-1, "descending"), (1, "ascending")):
        heading(seen.page, words).click()
        expected = sorted(known, key=lambda row: sign * row[name]) + unknown
        assert names(seen.page) == guarded_names(expected)
        assert heading(seen.page, words).locator("..").get_attribute("aria-sort") == told
    assert seen.page.locator(".ops-head [aria-sort=ascending]").count() == 1


def test_texts_sort_as_readers_do_and_the_unknown_stay_last(seen: Visit) -> None:
    def natural(text: str) -> str:
        return re.sub(r"\d+", lambda digits: digits[0].zfill(12), text.lower())

    known = [row for row in ROWS if row["source"] is not None]
    unknown = [row for row in ROWS if row["source"] is None]
    heading(seen.page, "Source").click()
    expected = sorted(known, key=lambda row: natural(row["source"])) + unknown
    assert names(seen.page) == guarded_names(expected)
    heading(seen.page, "Source").click()
    assert names(seen.page)[-len(unknown) :] == guarded_names(unknown)
    assert table(seen.page)[0]["source"] == "train/model.py:90"


def test_what_needs_no_cause_stands_after_the_causes(seen: Visit) -> None:
    for _ in range(2):
        heading(seen.page, "Cause").click()
        causes = [row["cause"] for row in table(seen.page)]
        assert "" in causes
        assert "" not in causes[: causes.index("")]
        assert set(causes[causes.index("") :]) == {""}


# --- searched ------------------------------------------------------------------------------


def holds(row: Row, name: str, part: str) -> bool:
    return part in (row[name] or "").lower() if row[name] is not None else False


def copied(row: Row) -> int | None:
    return None if row["h2d_bytes"] is None else row["h2d_bytes"] + row["d2h_bytes"]


def above(value: float | None, bound: float) -> bool:
    return value is not None and value > bound


QUERIES: dict[str, Callable[[Row], bool]] = {
    "": lambda _: True,
    "layer_3": lambda row: holds(row, "name", "layer_3"),
    "EVALUATE": lambda row: holds(row, "function", "evaluate"),
    "train/model.py:4": lambda row: holds(row, "source", "train/model.py:4"),
    "cast block_1": lambda row: (
        holds(row, "name", "block_1") and (holds(row, "type", "cast") or holds(row, "name", "cast"))
    ),
    '"my file"': lambda row: holds(row, "source", "my file"),
    'source:"my file"': lambda row: holds(row, "source", "my file"),
    "placement:cpu": lambda row: row["placement"] == "cpu",
    "on:gpu": lambda row: row["placement"].startswith("gpu"),
    "Placement:GPU:1": lambda row: row["placement"] == "gpu:1",
    "-placement:cpu": lambda row: row["placement"] != "cpu",
    "placement=gpu": lambda _: False,
    "type=Cast": lambda row: row["type"] == "Cast",
    "-type:cast": lambda row: row["type"] != "Cast",
    "cause:dtype": lambda row: "dtype" in row["cause"],
    "cause:no_gpu_kernel": lambda row: "no_gpu_kernel" in row["cause"],
    'cause:"no GPU"': lambda row: "no_gpu" in row["cause"],
    "cause:dragged": lambda row: "dragged" in row["cause"],
    "cause:unexplained": lambda row: row["cause"] == "unexplained",
    "cause=": lambda row: row["cause"] == "",
    "certainty:likely": lambda row: "likely" in row["certainty"],
    "dtype:int32": lambda row: holds(row, "input_types", "int32"),
    "input:string": lambda row: holds(row, "input_types", "string"),
    "-dtype:float": lambda row: (
        row["input_types"] is not None and "float" not in row["input_types"]
    ),
    "dtype=unknown": lambda row: row["input_types"] is None,
    "device:CPU": lambda row: row["device"] is not None,
    "device=unknown": lambda row: row["device"] is None,
    "role:runtime": lambda row: row["role"] == "runtime",
    "eager:yes pipeline:no": lambda row: (
        row["is_eager"] == "yes" and row["in_input_pipeline"] == "no"
    ),
    "asked:gpu": lambda row: holds(row, "requested_device", "gpu"),
    "machine:trainer": lambda _: True,
    "finding:0be77d52": lambda row: "0be77d52" in row["findings"],
    ">1ms": lambda row: row["host_self_us"] > 1000,
    "<100us": lambda row: row["host_self_us"] < 100,
    "host>=0.5ms": lambda row: row["host_self_us"] >= 500,
    "total>1ms": lambda row: row["host_self_us"] + row["host_nested_us"] > 1000,
    "kernel<=100µs": lambda row: row["kernel_us"] <= 100,
    "kernels>=10": lambda row: row["kernels"] >= 10,
    "kernels=0": lambda row: row["kernels"] == 0,
    "runs>5 runs<=20": lambda row: 5 < row["occurrences"] <= 20,
    "waits>0": lambda row: above(row["exposed_us"], 0),
    "-waits>0": lambda row: row["exposed_us"] == 0,
    "waits=unknown": lambda row: row["exposed_us"] is None,
    "-waits:unknown": lambda row: row["exposed_us"] is not None,
    "bytes>1MB": lambda row: above(copied(row), 10**6),
    ">1MiB": lambda row: above(copied(row), 2**20),
    "to-host>1,000": lambda row: row["d2h_bytes"] > 1000,
    "to-device>50MB": lambda row: above(row["h2d_bytes"], 5 * 10**7),
    "placement:cpu cause:dtype >1ms": lambda row: (
        row["placement"] == "cpu" and "dtype" in row["cause"] and row["host_self_us"] > 1000
    ),
    "a::b": lambda _: False,
    "no-such-text": lambda _: False,
}


@pytest.mark.slow
def test_queries_find_what_they_say(seen: Visit) -> None:
    for query, is_found in QUERIES.items():
        ask(seen.page, query)
        expected = [guarded(row["name"]) for row in ROWS if is_found(row)]
        assert names(seen.page) == expected, query
        count = seen.page.locator(".ops-count")
        assert count.text_content() == f"{len(expected)} of 240 ops", query
        assert seen.page.locator("#ops-error").text_content() == "", query
    found = [sum(map(is_found, ROWS)) for is_found in QUERIES.values()]
    assert sum(0 < count < 240 for count in found) >= len(found) - 6  # few queries tell nothing


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("plcement:cpu", "there is no field “plcement”; there are name, type, cause, certainty"),
        ('"abc', 'the quote is not closed; write "abc"'),
        ("placement:", "a value is missing; write placement:text"),
        ("host>", "a value is missing; write host>1ms"),
        ("host>5", "“5” is no time with its unit; write host>1ms"),
        ("runs>5ms", "“5ms” is no number; write runs>10"),
        ("bytes>many", "“many” is no size; write bytes>1MB"),
        ("host:1ms", "“host” is a figure; write host>1ms"),
        ("type>Cast", "“type” is a text; write type:Cast"),
        (">5", "a unit or a field is missing; write >5ms or runs>5"),
        ("<lambda>", '“lambda>” is no figure; write <1ms, or "<lambda>" for the text'),
    ],
)
def test_a_query_that_is_not_understood_says_what_to_write(
    seen: Visit, query: str, said: str
) -> None:
    ask(seen.page, "type=Cast")
    before = names(seen.page)
    ask(seen.page, f"type:Cast {query}")
    error = seen.page.locator("#ops-error")
    assert said in (error.text_content() or "")
    assert "\n" not in (error.text_content() or "")
    assert seen.page.locator("#ops-filter").get_attribute("aria-invalid") == "true"
    assert names(seen.page) == before
    ask(seen.page, "type=Cast")
    assert error.text_content() == ""


def test_a_negated_term_says_nothing_of_what_is_unknown(seen: Visit) -> None:
    page = seen.page
    ask(page, "type:Cast -dtype:int32")
    casts = [row for row in ROWS if row["type"] == "Cast"]
    known = [row for row in casts if row["input_types"] is not None]
    unknown = [row for row in casts if row["input_types"] is None]
    assert unknown
    assert names(page) == guarded_names(r for r in known if "int32" not in r["input_types"])
    left = page.locator(".ops-left")
    assert left.inner_text().startswith(
        f"Left out besides: {len(unknown)} ops of which “Input types” is unknown."
    )
    left.get_by_role("button", name="Show them").click()
    assert page.locator("#ops-filter").input_value() == "type:Cast dtype=unknown"
    assert names(page) == guarded_names(unknown)
    assert left.inner_text() == ""
    # A figure is neither more nor less than another where it is unknown.
    ask(page, "-waits>0")
    waits = [row["exposed_us"] for row in ROWS]
    assert len(names(page)) == waits.count(0.0)
    assert f"{waits.count(None)} ops of which “GPU waits” is unknown" in left.inner_text()


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        ("-to-device>1MB -to-device>2MB", ["to-device=unknown"]),
        ("-placement:cpu -dtype:int32 -input:string", ["-placement:cpu input=unknown"]),
        (
            "-dtype:int32 type:Cast -waits>0",
            [
                "type:Cast -waits>0 dtype=unknown",
                "-dtype:int32 type:Cast waits=unknown",
                "type:Cast dtype=unknown waits=unknown",
            ],
        ),
        ("-to-device>0 to-device=unknown", ["to-device=unknown"]),
    ],
)
def test_each_op_that_is_left_out_is_offered_once_and_found(
    seen: Visit, query: str, offered: list[str]
) -> None:
    page = seen.page
    ask(page, query)
    shown = set(names(page))
    lines = page.locator(".ops-left p").count()
    found: dict[str, list[str]] = {}
    for place in range(lines):
        ask(page, query)
        line = page.locator(".ops-left p").nth(place)
        told = re.match(r"Left out besides: (\d+) ops? of which", line.inner_text())
        assert told is not None
        line.get_by_role("button").click()
        asked = page.locator("#ops-filter").input_value()
        found[asked] = names(page)
        assert len(found[asked]) == int(told[1]) > 0
    assert sorted(found) == sorted(offered)
    everything = [*shown, *(name for rows in found.values() for name in rows)]
    assert len(everything) == len(set(everything))


def test_examples_can_be_clicked(seen: Visit) -> None:
    seen.page.get_by_text("What can be written").click()
    for example in seen.page.locator(".ops-example").all():
        query = example.text_content() or ""
        example.click()
        assert seen.page.locator("#ops-filter").input_value() == query
        assert seen.page.locator("#ops-error").text_content() == "", query


def test_sorting_keeps_to_what_was_searched(seen: Visit) -> None:
    ask(seen.page, "type=Cast")
    heading(seen.page, "Host time").click()
    casts = [row for row in ROWS if row["type"] == "Cast"]
    expected = sorted(casts, key=lambda row: -row["host_self_us"])
    assert names(seen.page) == guarded_names(expected)


# --- columns and CSV -----------------------------------------------------------------------


def test_the_reader_chooses_columns(seen: Visit) -> None:
    seen.page.get_by_text("Columns", exact=True).click()
    chooser = seen.page.locator("#ops fieldset")
    chooser.get_by_label("Function").check()
    chooser.get_by_label("Type", exact=True).uncheck()
    headings = seen.page.locator(".ops-head [role=columnheader]").all_text_contents()
    assert "Function" in headings
    assert "Type" not in headings
    assert list(table(seen.page)[0])[:2] == ["name", "cause"]
    assert "function" in table(seen.page)[0]
    assert chooser.get_by_label("Op", exact=True).is_disabled()
    grid = seen.page.get_by_role("grid")
    assert grid.get_attribute("aria-colcount") == str(len(headings))


def test_columns_that_hold_nothing_are_shown_only_when_chosen(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "bare.html"
    bare = {"exposed_us": None, "kernel_us": 0.0, "input_types": None}
    write_page(report_of([row | bare for row in made_rows(20)]), path)
    opened = look(browser, path)
    headings = opened.page.locator(".ops-head [role=columnheader]").all_text_contents()
    assert "Host time" in headings
    assert not {"GPU waits", "Kernel time", "Input types"} & set(headings)
    opened.page.get_by_text("Columns", exact=True).click()
    opened.page.locator("#ops fieldset").get_by_label("GPU waits").check()
    assert opened.page.locator(".ops-head").get_by_text("GPU waits").is_visible()
    assert {row["exposed_us"] for row in table(opened.page)} == {""}
    opened.close()


def test_csv_holds_what_is_found_exactly_and_harms_no_spreadsheet(seen: Visit) -> None:
    text = copied_text(seen.page)
    seen.page.wait_for_function("document.getElementById('announcements').textContent")
    assert seen.page.locator("#announcements").text_content() == "240 rows copied"
    with seen.page.expect_download() as download:
        seen.page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "ops.csv"
    kept = download.value.path().read_bytes().decode("utf-8")
    assert kept == text.replace("\ud800", "\ufffd")
    assert text.endswith("\r\n")
    assert '"a ""quoted"", name"' in text
    assert '"two\nlines"' in text
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(lines) == len(ROWS)
    for told, row in zip(lines, ROWS, strict=True):
        assert told["name"].replace("\ud800", "\ufffd") == guarded(row["name"])
        assert not told["name"].startswith(("=", "+", "-", "@"))
        for name in FIGURES:
            expected = row[name]
            assert (float(told[name]) if told[name] else None) == pytest.approx(expected)
    assert lines[1]["name"].startswith("'=HYPERLINK")


# --- the address ---------------------------------------------------------------------------


def test_what_was_chosen_stands_in_the_address(browser: Browser, made: Path) -> None:
    first = look(browser, made)
    ask(first.page, 'type:Cast "my file"')
    heading(first.page, "GPU waits").click()
    first.page.get_by_text("Columns", exact=True).click()
    first.page.locator("#ops fieldset").get_by_label("Copied").check()
    first.page.wait_for_function("location.hash.includes('ops.q')")
    anchor = "#" + first.page.url.partition("#")[2]
    rows = table(first.page)
    first.close()

    again = look(browser, made, anchor=anchor)
    assert again.page.locator("#ops-filter").input_value() == 'type:Cast "my file"'
    assert table(again.page) == rows
    assert again.page.locator(".ops-head [aria-sort=descending]").text_content() == "GPU waits▼"
    again.page.get_by_role("button", name="Reset").click()
    assert len(table(again.page)) == 240
    assert "ops." not in again.page.url
    again.page.evaluate("location.hash = '#ops.q=type%3DCast'")
    again.page.wait_for_function("document.querySelector('#ops-filter').value === 'type=Cast'")
    assert set(names(again.page)) == {guarded(r["name"]) for r in ROWS if r["type"] == "Cast"}
    assert again.said == []
    again.close()


@pytest.mark.slow
@pytest.mark.parametrize("anchor", ["#ops.sort=-nonsense", "#ops.cols=x,y", "#ops.q=%ZZ"])
def test_an_address_of_nonsense_does_no_harm(browser: Browser, made: Path, anchor: str) -> None:
    opened = look(browser, made, anchor=anchor)
    assert len(table(opened.page)) == 240
    assert opened.said == []
    opened.close()


def test_a_link_to_an_op_leads_to_its_row(browser: Browser, pages: dict[str, Path]) -> None:
    opened = look(browser, pages["gpu"], anchor=f"#op-{CONV.op_id}")
    marked = opened.page.locator(".ops-marked")
    marked.wait_for()
    assert CONV.name in (marked.locator("[role=rowheader]").get_attribute("title") or "")
    assert opened.page.locator(".ops-grid").evaluate(
        "(e) => e.getBoundingClientRect().top < innerHeight"
    )
    # Another link leads to another row, though a filter hides it.
    ask(opened.page, "type=Conv2D")
    opened.page.evaluate(f"location.hash = '#op-{PY_FUNC.op_id}'")
    opened.page.wait_for_function("document.querySelector('#ops-filter').value === ''")
    assert marked.locator("[role=rowheader]").get_attribute("title") == PY_FUNC.name
    assert opened.page.evaluate("document.activeElement.title") == PY_FUNC.name
    assert opened.said == []
    opened.close()


def test_a_link_to_an_op_that_is_not_held_says_so(browser: Browser, made: Path) -> None:
    opened = look(browser, made, anchor="#op-nothere")
    opened.page.wait_for_function(
        "document.getElementById('announcements').textContent.includes('nothere')"
    )
    assert opened.said == []
    opened.close()


# --- drawn ---------------------------------------------------------------------------------


def test_only_rows_in_view_are_drawn_and_all_can_be_reached(seen: Visit) -> None:
    grid = seen.page.get_by_role("grid")
    assert grid.get_attribute("aria-rowcount") == "241"
    assert seen.page.locator(".ops-body .ops-row").count() < 80
    met: dict[int, str] = {}
    for top in range(0, 240 * 28, 400):
        grid.evaluate("(e, top) => e.scrollTo(0, top)", top)
        seen.page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        met |= dict(
            seen.page.evaluate(
                "[...document.querySelectorAll('.ops-body .ops-row')]"
                ".map((row) => [Number(row.ariaRowIndex), row.firstElementChild.title])"
            )
        )
    assert sorted(met) == list(range(2, 242))
    assert met[241] == ROWS[-1]["name"]


def test_keyboard_leads_through_the_grid(seen: Visit) -> None:
    page = seen.page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "ops-filter"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "ops-filter"
    active = "(({ ariaColIndex, parentElement }) => [parentElement.ariaRowIndex, ariaColIndex])"

    def at() -> list[str]:
        return page.evaluate(f"{active}(document.activeElement.closest('.ops-cell'))")

    heading(page, "Op").focus()
    assert page.locator(".ops-grid [tabindex='0']").count() == 1
    for key, place in (
        ("ArrowDown", ["2", "1"]),
        ("ArrowRight", ["2", "2"]),
        ("ArrowDown", ["3", "2"]),
        ("ArrowLeft", ["3", "1"]),
        ("ArrowLeft", ["3", "1"]),
        ("End", ["3", "13"]),
        ("Home", ["3", "1"]),
        ("Control+End", ["241", "13"]),
        ("ArrowDown", ["241", "13"]),
        ("Control+Home", ["2", "1"]),
        ("ArrowUp", ["1", "1"]),
        ("ArrowUp", ["1", "1"]),
    ):
        page.keyboard.press(key)
        assert at() == place, key
    page.keyboard.press("ArrowDown")
    page.keyboard.press("PageDown")
    below = int(at()[0])
    assert below > 10
    page.keyboard.press("PageUp")
    assert at() == ["2", "1"]
    assert page.locator(".ops-grid [tabindex='0']").count() == 1
    # What has the focus is in view, and is told in full below the grid.
    page.keyboard.press("Control+End")
    box = page.evaluate("document.activeElement.getBoundingClientRect().toJSON()")
    frame = page.locator(".ops-grid").bounding_box()
    assert frame is not None
    assert frame["y"] <= box["top"] <= box["bottom"] <= frame["y"] + frame["height"] + 1
    assert frame["x"] <= box["left"] <= box["right"] <= frame["x"] + frame["width"] + 1
    assert (page.locator(".ops-whole").text_content() or "").startswith("Source: ")


def test_enter_on_a_cause_leads_to_its_finding(browser: Browser, pages: dict[str, Path]) -> None:
    opened = look(browser, pages["gpu"])
    heading(opened.page, "Op").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        opened.page.keyboard.press(key)
    assert opened.page.url.endswith("#finding-f3a91c07")
    opened.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 380, 768, 2560])
def test_the_grid_scrolls_within_itself(browser: Browser, made: Path, width: int) -> None:
    opened = look(browser, made, width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    right = opened.page.locator(".ops-grid").evaluate("(e) => e.getBoundingClientRect().right")
    assert right <= width
    heights = opened.page.evaluate(
        "[...document.querySelectorAll('.ops-body .ops-row')].map((r) => r.offsetHeight)"
    )
    assert set(heights) == {28}
    # No text of a cell runs into the next.
    spilt = opened.page.evaluate(
        "[...document.querySelectorAll('.ops-row .ops-cell > :first-child')].filter((e) =>"
        " e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right + 1)"
        ".map((e) => e.textContent)"
    )
    assert spilt == []
    opened.close()


def test_figures_of_a_column_end_on_one_line(seen: Visit) -> None:
    edges: dict[str, list[float]] = seen.page.evaluate(
        """() => {
          const edges = {};
          for (const unit of document.querySelectorAll(".ops-body .n .unit")) {
            const { left } = unit.getBoundingClientRect();
            (edges[unit.closest(".ops-cell").ariaColIndex] ??= []).push(left);
          }
          return edges;
        }"""
    )
    assert len(edges) == 5
    for column in edges.values():
        assert len(column) > 3
        assert max(column) - min(column) < 0.1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_the_grid_stands_out_from_its_ground(
    browser: Browser, made: Path, scheme: str
) -> None:
    opened = look(browser, made, anchor=f"#op-{ROWS[9]['op_id']}", color_scheme=scheme)
    opened.page.locator(".ops-marked").wait_for()
    opened.page.get_by_text("What can be written").click()
    ask(opened.page, "runs>many")
    contrasts = opened.page.evaluate(CONTRASTS)
    told = {text for _, text in contrasts}
    assert any("“many” is no number" in text for text in told)
    assert {"cause:unexplained", "unexplained", "none needed"} <= told
    assert [entry for entry in contrasts if entry[0] < 4.5] == []
    opened.close()


# --- beside scripts ------------------------------------------------------------------------


def test_the_table_stands_where_the_grid_cannot(browser: Browser, made: Path) -> None:
    opened = visit(browser, made, java_script_enabled=False)
    assert opened.page.locator(".ops-static table").is_visible()
    assert opened.page.locator("#ops").get_by_role("grid").count() == 0
    opened.close()


def test_the_table_stands_where_the_data_cannot_be_opened(
    browser: Browser, made: Path, tmp_path: Path
) -> None:
    page = made.read_text(encoding="utf-8")
    broken = re.sub(r'(id="data-ops">)[^<]+', r"\1AAAA", page)
    assert broken != page
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    opened = visit(browser, path)
    opened.page.wait_for_selector(".ops-static table")
    assert opened.page.locator("#ops").get_by_role("grid").count() == 0
    opened.close()


def test_paper_has_the_table_and_not_the_grid(seen: Visit) -> None:
    assert not seen.page.locator(".ops-static table").is_visible()
    seen.page.emulate_media(media="print")
    assert seen.page.locator(".ops-static table").is_visible()
    assert not seen.page.locator(".ops-live").is_visible()


def test_the_page_says_how_many_ops_it_leaves_out(seen: Visit) -> None:
    said = seen.page.locator(".ops-live .cutting").text_content()
    assert said == (
        "The dearest 240 of 900 ops are in this file. All of them: traceanalyzer tables PATH -o DIR"
    )


def test_hostile_names_stay_text(browser: Browser, made: Path) -> None:
    opened = look(browser, made, bypass_csp=True)
    assert guarded(HOSTILE) in names(opened.page)
    shown = opened.page.locator(".ops-body").inner_text()
    assert "⟨U+202E⟩" in drawn(opened.page)[0][0]
    assert "\u202e" not in shown
    ask(opened.page, f'"{HOSTILE.replace(chr(34), "")}"')
    assert opened.said == []
    assert opened.requests == [made.as_uri()]
    opened.close()


def test_a_run_without_ops_has_no_grid(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "empty.html"
    write_page(empty_run(), path)
    opened = visit(browser, path)
    assert opened.page.locator("#ops .nothing").is_visible()
    assert opened.page.get_by_role("grid").count() == 0
    assert opened.said == []
    opened.close()


# --- fifty thousand ------------------------------------------------------------------------


def test_fifty_thousand_ops_are_quick_and_right(browser: Browser, tmp_path: Path) -> None:
    rows = made_rows(50_000)
    path = tmp_path / "many.html"
    report = report_of(rows)
    packed = report.tables.all_ops
    assert packed is not None
    assert len(packed.data) <= 1_900_000
    rows = rows[: packed.rows]
    assert len(rows) > 20_000
    write_page(report, path)
    opened = look(browser, path)
    query = "placement:cpu cause:dtype >1ms"
    times = opened.page.evaluate(PAINTED, [["sort", "Host time"], ["filter", query]])
    assert max(times) < 1000, times
    expected = sorted(filter(QUERIES[query], rows), key=lambda row: -row["host_self_us"])
    assert names(opened.page) == guarded_names(expected)
    assert opened.said == []
    opened.close()
