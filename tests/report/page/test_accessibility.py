"""The page is open to all: axe-core finds nothing, with and without scripts, light and dark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.page.browsing import OPEN_ALL, Visit
from tests.samples import CASES, REPORTS, Case

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.report.page.conftest import Pages

    Look = Callable[..., Visit]

axe_core = pytest.importorskip(
    "axe_playwright_python.base",
    reason="axe-playwright-python is not installed: pip install -e '.[test]'",
)

# All of WCAG 2.2, A and AA, and what axe-core's makers hold to be good practice besides.
# `target-size` (WCAG 2.2) is off in axe-core unless its tag is named.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """
([within, tags]) => axe.run(document.querySelector(within), {
  runOnly: { type: "tag", values: tags },
  resultTypes: ["violations", "incomplete"],
})
"""


# Opens all folds. Of what is alike, as rows are, the first ones do: axe-core takes long.
_PREPARE = (
    OPEN_ALL
    + """;
for (const body of document.querySelectorAll("tbody")) {
  for (const row of [...body.rows].slice(3)) row.remove();
}
for (const parent of document.querySelectorAll("svg, svg g, .ops-body")) {
  for (const mark of [...parent.children].slice(8)) mark.remove();
}
"""
)


def violations(seen: Visit, within: str = "html") -> list[str]:
    """Return what axe-core finds, a line for each place."""
    # The page's own policy holds: what the test's driver evaluates is not the page's script.
    seen.page.evaluate(axe_core.AXE_SCRIPT)
    found: dict[str, Any] = seen.page.evaluate(_RUN, [within, _TAGS])
    assert found["testEngine"]["name"] == "axe-core"
    return [
        f"{entry['id']}: {node['target']} {node['html'][:120]} {node['failureSummary']}"
        for entry in found["violations"]
        for node in entry["nodes"]
    ]


def without_scripts(path: Path, folder: Path) -> Path:
    """Return the page with a policy that lets none of its scripts run, as axe-core's must."""
    page = path.read_text(encoding="utf-8")
    changed = re.sub(r"script-src [^;]+;", "script-src 'none';", page, count=1)
    assert changed != page
    assert "<noscript" not in page  # would not be shown this way
    copy = folder / "without-scripts.html"
    copy.write_text(changed, encoding="utf-8")
    return copy


# A look at a full page takes seconds: one is had in every run of the tests.
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("gpu", 380, "dark"),
        *(
            pytest.param(*look, marks=pytest.mark.slow)
            for look in (
                ("gpu", 1280, "light"),
                ("cpu_only", 380, "light"),
                ("hostile", 1280, "dark"),
                ("empty", 380, "dark"),
            )
        ),
    ],
)
def test_examples_are_open_to_all(look: Look, name: str, width: int, scheme: str) -> None:
    seen = look(name, width, color_scheme=scheme)
    seen.page.evaluate(_PREPARE)
    assert violations(seen) == []
    if width > 1000:
        seen.page.keyboard.press("?")
        assert violations(seen, "dialog#keys") == []


@pytest.mark.slow
def test_it_is_open_to_all_without_scripts(look: Look, pages: Pages, tmp_path: Path) -> None:
    seen = look(without_scripts(pages["gpu"], tmp_path), 380)
    seen.page.evaluate(_PREPARE)
    assert violations(seen) == []
    seen.said.clear()  # that scripts were refused


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reports_of_real_traces_are_open_to_all(look: Look, case: Case) -> None:
    seen = look(REPORTS / case.name / "report.html", 1280)
    seen.page.evaluate(_PREPARE)
    assert violations(seen) == []
