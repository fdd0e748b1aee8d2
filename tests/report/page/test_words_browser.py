"""What scripts write reads as what Python writes: `words.js` against `report/text.py`."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.report.examples import HOSTILE
from tests.report.page.browsing import visit
from traceanalyzer.report import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

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
_STRANGE = [
    "",
    "a",
    HOSTILE,
    "\u202egnp.exe",
    "zero\u200bwidth\ufeff",
    "😀" * 300,
    "👩‍👩‍👧 family 🏳️‍🌈",
    "\ud83d",
    "\udc00\ud83d x",
    "a" * 100_000,
    "😀" * 50_000,
    "\x00\x07\x1b[31m\x9b",
    "\u2028\u2029\u0085",
    "e\u0301 \u0627\u0644 \u05d0",
    "\ue000\U000f0000\uffff",
    "Z" + "\u0351\u036b\u0343\u032a" * 40 + "y",
    "no\u00a0break\u3000wide",
    "x" * 47 + "😀" * 3 + "y" * 48,
]


@pytest.fixture(scope="module")
def page(browser: Browser, pages: dict[str, Path]) -> Iterator[Page]:
    seen = visit(browser, pages["empty"])
    yield seen.page
    assert seen.said == []
    seen.close()


def made(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Returns values that Hypothesis makes: the same each time."""
    values: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value: Any) -> None:  # noqa: ANN401
        values.append(value)

    keep()
    return values


def texts() -> list[str]:
    # What one Unicode version has assigned and another has not, they tell apart.
    drawn = made(st.text(max_size=150), 600)
    return _STRANGE + ["".join(c for c in t if unicodedata.category(c) != "Cn") for t in drawn]


def in_page(page: Page, name: str, values: list[str], length: int = 96) -> list[str]:
    points = [[ord(c) for c in value] for value in values]
    found: list[list[int]] = page.evaluate(_TEXTS, [points, name, length])
    return ["".join(map(chr, one)) for one in found]


def test_names_are_made_visible_alike(page: Page) -> None:
    values = [value for value in texts() if len(value) < 10_000]
    assert in_page(page, "visible", values) == [text.visible(value) for value in values]


@pytest.mark.parametrize("length", [8, 40, 96])
def test_names_are_cut_alike(page: Page, length: int) -> None:
    values = texts()
    assert in_page(page, "cutName", values, length) == [text.cut(v, length) for v in values]


def halves() -> list[float]:
    """Returns what lies just between two figures, where rounding can go either way."""
    scales = (0.0005, 0.125, 0.0625, 1.125, 1.375, 10.25, 12.75, 100.5, 101.5, 999.5, 998.5)
    return [scale * factor for scale in scales for factor in (1, 1e3, 1e6)]


_EDGES = [0, 0.0, -0.0, 0.0004, -0.0004, 0.9995, 9.995, 99.95, 999.5, 999_500, 1e15, -12.5, 1e-9]


@pytest.mark.parametrize(
    ("name", "written", "numbers"),
    [
        ("durationParts", text.duration, st.floats(-1e6, 1e13)),
        ("sizeParts", text.size, st.floats(-1e6, 1e16)),
        ("sizeParts", text.size, st.integers(0, 2**53)),
        ("shareParts", text.share, st.floats(-0.5, 1.5)),
        ("shareParts", text.share, st.integers(0, 4000).map(lambda n: n / 4000)),
    ],
)
def test_figures_are_written_alike(
    page: Page,
    name: str,
    written: Callable[[float], text.Quantity],
    numbers: st.SearchStrategy[float],
) -> None:
    values = [*_EDGES, *halves(), *made(numbers, 1000)]
    found: list[str] = page.evaluate(_FIGURES, [values, name])
    differing = [
        (value, mine, str(written(value)))
        for value, mine in zip(values, found, strict=True)
        if mine != str(written(value))
    ]
    assert differing == []
    assert not [figure for figure in found if figure.startswith("-0\u00a0")]


def test_counts_are_written_alike(page: Page) -> None:
    values = [0, 1, 999, 1000, -1, -1234, *made(st.integers(-(2**53), 2**53), 500)]
    found: list[str] = page.evaluate("values => values.map(traceanalyzer.countText)", values)
    assert found == [text.count(value) for value in values]


def test_what_is_shown_to_the_console_cannot_be_changed(page: Page) -> None:
    assert page.evaluate("Object.isFrozen(window.traceanalyzer)")
