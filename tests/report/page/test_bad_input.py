"""A correct page of whatever the document holds: hostile texts and impossible numbers."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from tests.report.bad_input import kinds_of_records, with_numbers
from tests.report.examples import EXAMPLES, gpu_run
from tests.report.markup import Element, read
from traceanalyzer.report.page.render import render_page

LARGEST = 5_000_000  # characters; the page's budget in bytes
KINDS = sorted(kinds_of_records(gpu_run()), key=lambda kind: kind.__name__)

# Words of programs, which no figure may read as.
_WRONG = re.compile(
    r"\b(NaN|nan|undefined|null|None|Infinity|inf|Undefined)\b|(?<![\w.,%])[-\u2212]0(\.0*)?(?![\d.])"
)


def said(page: Element) -> str:
    """Returns what the page says, without its scripts and code."""

    def words(element: Element) -> str:
        if element.tag in {"script", "style", "code", "pre", "bdi"}:
            return ""
        return " ".join(c if isinstance(c, str) else words(c) for c in element.children)

    return " ".join(words(page).split())


def wrong_figures(page: Element) -> list[str]:
    text = said(page)
    found = [text[max(0, m.start() - 30) : m.end() + 10] for m in _WRONG.finditer(text)]
    for element in page.all():
        for name, value in element.attributes.items():
            if name not in {"content", "href", "id"} and value and _WRONG.search(value):
                found.append(f"<{element.tag} {name}={value[:60]}>")
    return found


def wrong_geometry(page: Element) -> list[str]:
    """Returns what browsers refuse to draw: sizes below nothing, and what is no number."""
    return [
        f"<{element.tag} {name}={value}>"
        for element in page.all()
        for name, value in element.attributes.items()
        if name in {"width", "height", "r", "rx"} and value and value.startswith("-")
    ]


NUMBERS = (math.nan, math.inf, -math.inf, -12.5, -0.0, 0.0, 1e-9, 1e18)


@pytest.mark.parametrize(
    "number", [math.nan, *(pytest.param(n, marks=pytest.mark.slow) for n in NUMBERS[1:])]
)
def test_a_number_everywhere_gives_a_correct_page(number: float) -> None:
    page = read(render_page(with_numbers(gpu_run(), number)))
    assert wrong_figures(page) == []
    assert wrong_geometry(page) == []


def test_examples_have_no_wrong_figures() -> None:
    for build in EXAMPLES.values():
        page = read(render_page(build()))
        assert wrong_figures(page) == []
        assert wrong_geometry(page) == []


@pytest.mark.parametrize(
    "missing", ["steps", "timeline", "copy_graph", "memory", "scopes", "trace"]
)
def test_a_part_that_is_missing_leaves_the_others(missing: str) -> None:
    page = read(render_page(replace(gpu_run(), **{missing: None})))
    assert wrong_figures(page) == []
    for name in ("verdict", "findings", "copies", "ops", "steps", "rules", "method"):
        assert page.one("section", id=name).one("h2").text
