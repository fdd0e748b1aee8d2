"""The browser, and the example reports as files for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.report.examples import EXAMPLES
from tests.report.page.browsing import ARGUMENTS, NAMES, chromium
from tests.samples import CASES
from traceanalyzer.report.page import write_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[test]'"
    )
    executable = chromium()
    if executable is None:
        pytest.skip(f"no chromium on PATH ({', '.join(NAMES)}) and CHROMIUM is not set")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield started
        started.close()


class Pages(dict[str, "Path"]):
    """The example reports as files, each written when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        self[name] = self._folder / f"{name}.html"
        write_page(EXAMPLES[name](), self[name])
        return self[name]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def sample_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports of the sample traces, made anew."""
    folder = tmp_path_factory.mktemp("samples")
    for case in CASES:
        case.write(folder / case.name)
    return {case.name: folder / case.name / "report.html" for case in CASES}
