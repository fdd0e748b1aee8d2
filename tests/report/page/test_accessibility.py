"""The page is open to all: axe-core finds nothing, with and without scripts, light and dark."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import EXAMPLES
from tests.report.page.browsing import Visit, visit
from tests.samples import CASES

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

axe_core = pytest.importorskip(
    "axe_playwright_python.base",
    reason="axe-playwright-python is not installed: pip install -e '.[test]'",
)

# All of WCAG 2.2, A and AA, and what axe-core's makers hold to be good practice besides.
# `target-size` (WCAG 2.2) is off in axe-core unless its tag is named.
_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """
(tags) => axe.run(document, {
  runOnly: { type: "tag", values: tags },
  resultTypes: ["violations", "incomplete"],
})
"""
_OPEN_ALL = "document.querySelectorAll('details').forEach((d) => (d.open = true))"

# A look at a full page takes seconds: two are had in every run of the tests, the others with the
# slow ones.
USUAL = ("gpu", 1280, "light"), ("gpu", 380, "dark")
LOOKS = [
    pytest.param(*look, marks=() if look in USUAL else pytest.mark.slow)
    for look in itertools.product(sorted(EXAMPLES), (380, 1280), ("light", "dark"))
]
looks = pytest.mark.parametrize(("name", "width", "scheme"), LOOKS)


def violations(seen: Visit) -> list[str]:
    """Returns what axe-core finds, a line for each place."""
    # The page's own policy holds: what the test's driver evaluates is not the page's script.
    seen.page.evaluate(axe_core.AXE_SCRIPT)
    found: dict[str, Any] = seen.page.evaluate(_RUN, _TAGS)
    assert found["testEngine"]["name"] == "axe-core"
    return [
        f"{entry['id']}: {node['target']} {node['html'][:120]} {node['failureSummary']}"
        for entry in found["violations"]
        for node in entry["nodes"]
    ]


def look(browser: Browser, path: Path, width: int, scheme: str) -> list[str]:
    seen = visit(browser, path, width, color_scheme=scheme)
    seen.page.evaluate(_OPEN_ALL)
    found = violations(seen)
    seen.close()
    return found


def without_scripts(path: Path) -> Path:
    """Returns the page with a policy that lets none of its scripts run, as axe-core's must."""
    page = path.read_text(encoding="utf-8")
    changed = re.sub(r"script-src [^;]+;", "script-src 'none';", page, count=1)
    assert changed != page
    assert "<noscript" not in page  # would not be shown this way
    copy = path.with_name(f"{path.stem}-without-scripts.html")
    copy.write_text(changed, encoding="utf-8")
    return copy


@looks
def test_examples_are_open_to_all(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert look(browser, pages[name], width, scheme) == []


@pytest.mark.slow
@looks
def test_examples_are_open_to_all_without_scripts(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert look(browser, without_scripts(pages[name]), width, scheme) == []


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(380, "dark"), (1280, "light")])
@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_reports_of_real_traces_are_open_to_all(
    browser: Browser, sample_pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    assert look(browser, sample_pages[name], width, scheme) == []


def test_the_help_is_open_to_all(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    seen.page.keyboard.press("?")
    assert seen.page.locator("dialog#keys").is_visible()
    assert violations(seen) == []
    seen.close()


def test_axe_finds_what_is_wrong(browser: Browser, pages: dict[str, Path]) -> None:
    seen = visit(browser, pages["gpu"])
    seen.page.evaluate("document.getElementById('theme').textContent = ''")
    seen.page.evaluate("document.querySelector('h2').style.color = '#eeeeee'")
    ids = {line.partition(":")[0] for line in violations(seen)}
    assert ids == {"button-name", "color-contrast"}
    seen.close()
