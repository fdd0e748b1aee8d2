"""The browser, and the example reports as files for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import EXAMPLES
from tests.report.page.browsing import ARGUMENTS, NAMES, Visit, chromium, visit
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="session")
def window(browser: Browser, pages: Pages) -> Iterator[Visit]:
    """A window for all tests that want no other: to make one takes as long as to open a page."""
    seen = visit(browser, pages["empty"])
    yield seen
    seen.close()


@pytest.fixture
def look(browser: Browser, pages: Pages, window: Visit) -> Iterator[Callable[..., Visit]]:
    """Open examples, by name, or files, and close them; none says or asks for anything."""
    opened: list[Visit] = []

    def open_(page: str | Path, width: int = 1280, anchor: str = "", **options: Any) -> Visit:  # noqa: ANN401
        path = pages[page] if isinstance(page, str) else page
        if options or opened:
            opened.append(visit(browser, path, width, anchor, **options))
        else:
            window.page.set_viewport_size({"width": width, "height": 900})
            window.open(path, anchor)
            opened.append(window)
        return opened[-1]

    yield open_
    for seen in opened:
        if seen is not window:
            seen.close()
    told = [(seen.address, [*seen.said], {*seen.requests}) for seen in opened]
    if window in opened:
        window.page.emulate_media(media="null", color_scheme="null")
        window.page.evaluate("localStorage.clear(), sessionStorage.clear()")
        window.page.goto("about:blank")
    for address, said, requests in told:
        assert said == []
        assert {url for url in requests if not url.startswith("blob:")} == {address}
