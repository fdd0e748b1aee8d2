"""The browser, and the example pages as files for it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.report.example_page import MARKDOWN, example_page
from tests.report.hostile_page import hostile_page
from tests.report.page.browsing import ARGUMENTS, NAMES, chromium
from tests.report.page.looking import Window, strange, window_of
from traceanalyzer.report.html import render_page


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


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The example pages as files."""
    folder = tmp_path_factory.mktemp("made")
    files = {}
    for name, page in (("example", example_page()), ("hostile", hostile_page())):
        files[name] = folder / f"{name}.html"
        files[name].write_text(render_page(page, MARKDOWN), encoding="utf-8", newline="\n")
    return files


@pytest.fixture(scope="session")
def shared_window(browser: Browser, made: dict[str, Path]) -> Iterator[Window]:
    """A window for all tests that need no other: a new one takes as long as a test."""
    seen = window_of(browser, made["example"])
    yield seen
    seen.page.context.close()


@pytest.fixture
def see(
    browser: Browser, made: dict[str, Path], shared_window: Window
) -> Iterator[Callable[..., Window]]:
    """Open a page, by name or file; none may say anything, or ask for anything."""
    opened: list[Window] = []

    def open_(
        page: str | Path = "example",
        anchor: str = "",
        width: int = 1280,
        **options: Any,  # noqa: ANN401
    ) -> Window:
        path = made[page] if isinstance(page, str) else page
        seen = window_of(browser, path, width, **options) if options or opened else shared_window
        seen.path = path
        seen.said.clear()
        seen.requests.clear()
        seen.page.set_viewport_size({"width": width, "height": 900})
        opened.append(seen)
        seen.go(anchor)
        return seen

    yield open_
    said = [(seen.path, [*seen.said], strange(seen.requests, seen.path)) for seen in opened]
    for seen in opened:
        if seen is not shared_window:
            seen.page.context.close()
            continue
        seen.page.emulate_media(media="null", color_scheme="null")
        seen.page.evaluate("() => localStorage.clear()")
        seen.page.goto("about:blank")
    assert [entry for entry in said if entry[1] or entry[2]] == []
