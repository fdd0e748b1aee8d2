"""What the page's scripts write and read is what Python writes: figures, names, packed tables."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.report.bad_input import HOSTILE_TEXTS
from tests.report.page.browsing import visit
from traceanalyzer.format import duration, share, size
from traceanalyzer.report import text
from traceanalyzer.report.packed import Numbers, Texts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tests.report.page.conftest import Pages

# As numbers: a lone surrogate does not survive the way to the browser.
_TEXTS = """
([texts, name, length]) => texts.map((points) => {
  const units = points.map((point) => String.fromCodePoint(point)).join("");
  return [...window.traceanalyzer[name](units, length)].map((c) => c.codePointAt(0));
})
"""
_FIGURES = """
([values, name]) => values.map((v) => window.traceanalyzer.quantity(window.traceanalyzer[name](v)))
"""
_OPEN = """
async ([name, data]) => {
  const holder = document.createElement("script");
  holder.type = "application/octet-stream";
  holder.id = `data-${name}`;
  holder.textContent = `\\n${data}\\n`;
  document.body.append(holder);
  const table = await window.traceanalyzer.packedTable(name);
  holder.remove();
  return Object.fromEntries(Object.entries(table.columns)
    .map(([name, column]) => [name, Array.from({ length: table.rows }, (_, k) => column.at(k))]));
}
"""
_STRANGE = [
    *(hostile[:9_000] for hostile in HOSTILE_TEXTS.values()),
    *("\ud83d", "\udc00\ud83d x", "x" * 47 + "😀" * 3 + "y" * 48),
]


@pytest.fixture(scope="module")
def page(browser: Browser, pages: Pages) -> Iterator[Page]:
    seen = visit(browser, pages["empty"])
    yield seen.page
    assert seen.said == []
    seen.close()


def in_page(page: Page, name: str, values: list[str], length: int = 96) -> list[str]:
    points = [[ord(c) for c in value] for value in values]
    found: list[list[int]] = page.evaluate(_TEXTS, [points, name, length])
    return ["".join(map(chr, one)) for one in found]


def assigned(drawn: str) -> str:
    """Leave out what one Unicode version has assigned and another has not."""
    return "".join(c for c in drawn if unicodedata.category(c) != "Cn")


@example(_STRANGE)
@given(st.lists(st.text(max_size=150).map(assigned), max_size=40))
def test_names_are_made_visible_and_cut_alike(page: Page, values: list[str]) -> None:
    assert in_page(page, "visible", values) == [text.visible(value) for value in values]
    for length in (8, 96):
        assert in_page(page, "cutName", values, length) == [text.cut(v, length) for v in values]


def halves() -> list[float]:
    """Returns what lies just between two figures, where rounding can go either way."""
    scales = (0.0005, 0.125, 0.0625, 1.125, 1.375, 10.25, 12.75, 100.5, 101.5, 999.5, 998.5)
    return [scale * factor for scale in scales for factor in (1, 1e3, 1e6)]


_EDGES = [0, 0.0, -0.0, 0.0004, -0.0004, 0.9995, 9.995, 99.95, 999.5, 999_500, 1e15, -12.5, 1e-9]


WRITTEN = {
    "durationParts": (duration, st.floats(-1e6, 1e13)),
    "sizeParts": (size, st.floats(-1e6, 1e16) | st.integers(0, 2**53)),
    "shareParts": (share, st.floats(-0.5, 1.5) | st.integers(0, 4000).map(lambda n: n / 4000)),
}


@pytest.mark.parametrize("name", WRITTEN)
@given(data=st.data())
def test_figures_are_written_alike(page: Page, name: str, data: st.DataObject) -> None:
    written, numbers = WRITTEN[name]
    values = [*_EDGES, *halves(), *data.draw(st.lists(numbers, max_size=60))]
    found: list[str] = page.evaluate(_FIGURES, [values, name])
    assert found == [str(written(value)) for value in values]
    assert not [figure for figure in found if figure.startswith("-0\u00a0")]


def test_counts_are_written_alike(page: Page) -> None:
    values = [0, 1, 999, 1000, -1, -1234, 2**53, -(2**53)]
    found: list[str] = page.evaluate("values => values.map(traceanalyzer.countText)", values)
    assert found == [f"{value:,}" for value in values]


@pytest.mark.parametrize("rows", [0, 9, 3000])
def test_the_page_opens_what_python_packs(page: Page, rows: int) -> None:
    chance = np.random.default_rng(rows)
    holes = chance.random(rows) < 0.2
    texts = ["", "é\u2028</script>", "long " * 3_000, *map(str, range(400))]
    columns = {
        "u1": Numbers(np.where(holes, np.nan, chance.integers(0, 250, rows))),
        "u2": Numbers(np.where(holes, np.nan, chance.integers(0, 60_000, rows))),
        "u4": Numbers(np.where(holes, np.nan, chance.integers(0, 2**32 - 2, rows))),
        "f8": Numbers(np.where(holes, np.nan, chance.normal(0, 1e12, rows))),
        "below_zero": Numbers(chance.integers(-900, 900, rows)),
        "us": Numbers(np.round(chance.exponential(1e3, rows), 3), per=1000),
        "start_us": Numbers(np.sort(chance.integers(0, 10**9, rows)) / 1000, per=1000, delta=True),
        "text": Texts(chance.integers(-1, len(texts), rows), texts),
        "few": Texts(chance.integers(-1, 3, rows), texts[:3]),
    }
    table = pack(columns, 0)
    found = page.evaluate(_OPEN, [f"made{rows}", table.data])
    assert list(found) == list(columns)
    assert found == unpack(table)
