"""The table of ops in a real browser: sorted, searched, copied, and quick with many ops."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.page.browsing import Visit, settle
from tests.report.page.made_ops import made_rows, report_of
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from playwright.sync_api import Page

    Look = Callable[..., Visit]
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


def ask(page: Page, query: str) -> None:
    page.locator("#ops-filter").fill(query)


def table(page: Page) -> list[dict[str, str]]:
    """Returns the rows that the grid holds, in their order, as CSV tells them."""
    return list(csv.DictReader(io.StringIO(copied_text(page), newline="")))


def copied_text(page: Page) -> str:
    """Returns what the button puts on the clipboard, which a test does not touch."""
    page.wait_for_selector(".ops-body", state="attached")
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


def test_columns_sort_both_ways_and_the_unknown_stay_last(look: Look, made: Path) -> None:
    page = look(made).page
    assert names(page) == guarded_names(ROWS)  # the order worth reading
    for words, name in (("Host time", "host_self_us"), ("GPU waits", "exposed_us")):
        known = [row for row in ROWS if row[name] is not None]
        unknown = [row for row in ROWS if row[name] is None]
        for sign, told in ((-1, "descending"), (1, "ascending")):
            heading(page, words).click()
            expected = sorted(known, key=lambda row: sign * row[name]) + unknown
            assert names(page) == guarded_names(expected)
            assert heading(page, words).locator("..").get_attribute("aria-sort") == told

    def natural(text: str) -> str:
        return re.sub(r"\d+", lambda digits: digits[0].zfill(12), text.lower())

    known = [row for row in ROWS if row["source"] is not None]
    unknown = [row for row in ROWS if row["source"] is None]
    heading(page, "Source").click()
    expected = sorted(known, key=lambda row: natural(row["source"])) + unknown
    assert names(page) == guarded_names(expected)


def holds(row: Row, name: str, part: str) -> bool:
    return part in (row[name] or "").lower() if row[name] is not None else False


def copied(row: Row) -> int | None:
    return None if row["h2d_bytes"] is None else row["h2d_bytes"] + row["d2h_bytes"]


def above(value: float | None, bound: float) -> bool:
    return value is not None and value > bound


QUERIES: dict[str, Callable[[Row], bool]] = {
    "": lambda _: True,
    "layer_3": lambda row: holds(row, "name", "layer_3"),
    "cast block_1": lambda row: (
        holds(row, "name", "block_1") and (holds(row, "type", "cast") or holds(row, "name", "cast"))
    ),
    'source:"my file"': lambda row: holds(row, "source", "my file"),
    "placement:cpu": lambda row: row["placement"] == "cpu",
    "placement=gpu": lambda _: False,
    "-type:cast": lambda row: row["type"] != "Cast",
    "cause:dtype": lambda row: "dtype" in row["cause"],
    "cause:unexplained": lambda row: row["cause"] == "unexplained",
    "cause=": lambda row: row["cause"] == "",
    "dtype:int32": lambda row: holds(row, "input_types", "int32"),
    "-dtype:float": lambda row: (
        row["input_types"] is not None and "float" not in row["input_types"]
    ),
    "dtype=unknown": lambda row: row["input_types"] is None,
    "eager:yes pipeline:no": lambda row: (
        row["is_eager"] == "yes" and row["in_input_pipeline"] == "no"
    ),
    "finding:0be77d52": lambda row: "0be77d52" in row["findings"],
    ">1ms": lambda row: row["host_self_us"] > 1000,
    "total>1ms": lambda row: row["host_self_us"] + row["host_nested_us"] > 1000,
    "kernels>=10": lambda row: row["kernels"] >= 10,
    "runs>5 runs<=20": lambda row: 5 < row["occurrences"] <= 20,
    "waits>0": lambda row: above(row["exposed_us"], 0),
    "waits=unknown": lambda row: row["exposed_us"] is None,
    "bytes>1MB": lambda row: above(copied(row), 10**6),
    "placement:cpu cause:dtype >1ms": lambda row: (
        row["placement"] == "cpu" and "dtype" in row["cause"] and row["host_self_us"] > 1000
    ),
    "a::b": lambda _: False,
}


USUAL = ("cast block_1", "-type:cast", "dtype=unknown", "placement:cpu cause:dtype >1ms")


@pytest.mark.parametrize(
    "queries", [USUAL, pytest.param((*QUERIES,), marks=pytest.mark.slow)], ids=["usual", "all"]
)
def test_queries_find_what_they_say(look: Look, made: Path, queries: tuple[str, ...]) -> None:
    page = look(made).page
    for query in queries:
        ask(page, query)
        expected = guarded_names(filter(QUERIES[query], ROWS))
        assert names(page) == expected, query
        assert page.locator(".ops-count").text_content() == f"{len(expected)} of 240 ops", query
        assert page.locator("#ops-error").text_content() == "", query


@pytest.mark.slow
def test_a_query_that_is_not_understood_says_what_to_write(look: Look, made: Path) -> None:
    page = look(made).page
    ask(page, "type=Cast")
    before = names(page)
    for query, said in (
        ("plcement:cpu", "there is no field “plcement”; there are name, type, cause, certainty"),
        ('"abc', 'the quote is not closed; write "abc"'),
        ("host>5", "“5” is no time with its unit; write host>1ms"),
        ("type>Cast", "“type” is a text; write type:Cast"),
        ("<lambda>", '“lambda>” is no figure; write <1ms, or "<lambda>" for the text'),
    ):
        ask(page, f"type:Cast {query}")
        assert said in (page.locator("#ops-error").text_content() or "")
        assert page.locator("#ops-filter").get_attribute("aria-invalid") == "true"
        assert names(page) == before
    # The examples beside the box are understood.
    page.get_by_text("What can be written").click()
    for example in page.locator(".ops-example").all():
        example.click()
        assert page.locator("#ops-error").text_content() == "", example.text_content()


def test_csv_holds_what_is_found_exactly_and_harms_no_spreadsheet(look: Look, made: Path) -> None:
    page = look(made).page
    text = copied_text(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "ops.csv"
    kept = download.value.path().read_bytes().decode("utf-8")
    assert kept == text.replace("\ud800", "\ufffd")
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(lines) == len(ROWS)
    for told, row in zip(lines, ROWS, strict=True):
        assert told["name"].replace("\ud800", "\ufffd") == guarded(row["name"])
        for name in FIGURES:
            assert (float(told[name]) if told[name] else None) == pytest.approx(row[name])
    assert lines[1]["name"].startswith("'=HYPERLINK")


def test_what_was_chosen_stands_in_the_address(look: Look, made: Path) -> None:
    seen = look(made)
    page = seen.page
    ask(page, 'type:Cast "my file"')
    heading(page, "GPU waits").click()
    page.get_by_text("Columns", exact=True).click()
    page.locator("#ops fieldset").get_by_label("Function").check()
    page.locator("#ops fieldset").get_by_label("Type", exact=True).uncheck()
    settle(seen)
    anchor = "#" + page.url.partition("#")[2]
    rows = table(page)
    assert "function" in rows[0]
    assert "type" not in rows[0]

    again = look(made, anchor=anchor).page
    assert table(again) == rows
    assert again.locator("#ops-filter").input_value() == 'type:Cast "my file"'
    assert again.locator(".ops-head [aria-sort=descending]").text_content() == "GPU waits▼"
    again.get_by_role("button", name="Reset").click()
    assert len(table(again)) == 240
    assert "ops." not in again.url


def test_fifty_thousand_ops_are_quick_and_right(look: Look, tmp_path: Path) -> None:
    rows = made_rows(50_000)
    path = tmp_path / "many.html"
    report = report_of(rows)
    packed = report.tables.all_ops
    assert packed is not None
    rows = rows[: packed.rows]
    assert len(rows) > 20_000
    write_page(report, path)
    page = look(path).page
    page.wait_for_selector(".ops-body", state="attached")
    told = page.locator(".ops-live .cutting").text_content() or ""
    assert told.startswith(f"The most expensive {len(rows):,} of 50,000 ops are in this file.")
    query = "placement:cpu cause:dtype >1ms"
    times = page.evaluate(PAINTED, [["sort", "Host time"], ["filter", query]])
    assert max(times) < 1000, times
    expected = sorted(filter(QUERIES[query], rows), key=lambda row: -row["host_self_us"])
    assert names(page) == guarded_names(expected)
