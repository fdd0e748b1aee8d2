"""Packed tables opened by the page's script: the same values as in Python."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from traceanalyzer.report.packed import Numbers, Texts, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser, Page

_OPEN = """
async ([script, data]) => {
  const holder = document.createElement("script");
  holder.type = "application/octet-stream";
  holder.id = "data-t";
  holder.textContent = `\\n${data}\\n`;
  document.body.replaceChildren(holder);
  const table = await new Function(`${script}; return packedTable("t");`)();
  if (table === null) return null;
  return Object.fromEntries(Object.entries(table.columns)
    .map(([name, column]) => [name, Array.from({ length: table.rows }, (_, k) => column.at(k))]));
}
"""


@pytest.fixture
def page(browser: Browser) -> Any:  # noqa: ANN401 - an iterator of pages
    opened = browser.new_page()
    yield opened
    opened.close()


def both(page: Page, columns: Mapping[str, Numbers | Texts]) -> tuple[dict[str, Any], Any]:
    table = pack(columns, 0)
    script = resources.files("traceanalyzer.report.page").joinpath("scripts", "packed.js")
    found = page.evaluate(_OPEN, [script.read_text(encoding="utf-8"), table.data])
    return unpack(table), found


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 3000])
def test_the_page_opens_what_python_packs(page: Page, rows: int) -> None:
    chance = np.random.default_rng(rows)
    holes = chance.random(rows) < 0.2
    texts = ["", "é\u2028</script>", "long " * 30_000, *map(str, range(400))]
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
    expected, found = both(page, columns)
    assert list(found) == list(columns)
    assert found == expected


def test_a_page_without_the_table_says_so(page: Page) -> None:
    script = resources.files("traceanalyzer.report.page").joinpath("scripts", "packed.js")
    program = script.read_text(encoding="utf-8")
    opened = page.evaluate(
        "(script) => new Function(`${script}; return packedTable('t');`)()", program
    )
    assert opened is None
