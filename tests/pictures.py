"""Takes the pictures of reports that are kept beside them: light, dark, narrow and on paper.

`python -m tests.samples --pictures` calls it; it needs Playwright and a Chromium.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from playwright.sync_api import Browser, sync_playwright

from tests.report.page.browsing import ARGUMENTS, chromium
from tests.report.page.looking import window_of

__all__ = ["LOOKS", "Look", "take"]


@dataclass(frozen=True)
class Look:
    """How a page is looked at.

    Attributes:
        name: Of the picture.
        width: Of the window, in CSS pixels.
        height: Of what is kept of the page, from its top.
        options: Of the browser's context.
    """

    name: str
    width: int
    height: int
    options: dict[str, Any]


LOOKS = (
    Look("report", 1100, 1240, {"color_scheme": "light"}),  # what the README shows
    Look("light", 1280, 3600, {"color_scheme": "light"}),
    Look("dark", 1280, 3600, {"color_scheme": "dark"}),
    Look("narrow", 380, 3600, {"color_scheme": "light"}),
    Look("print", 760, 3600, {"color_scheme": "light"}),
)


OF_A_KIND = Look("", 1280, 1500, {"color_scheme": "light"})


def take(page: Path, folder: Path) -> None:
    """Takes a page's pictures.

    Args:
        page: The page.
        folder: Where they go, one file a look.
    """
    _take_all([(page, look, folder / f"{look.name}.png") for look in LOOKS])


def take_kinds(pages: Mapping[str, Path], folder: Path) -> None:
    """Take a picture of a page of each kind, such as `A.png`."""
    _take_all([(page, OF_A_KIND, folder / f"{kind}.png") for kind, page in pages.items()])


def _take_all(pictures: Sequence[tuple[Path, Look, Path]]) -> None:
    executable = chromium()
    if executable is None:
        msg = "there is no chromium on PATH"
        raise click.ClickException(msg)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        for page, look, file in pictures:
            _take(browser, page, look, file)
        browser.close()


def _take(browser: Browser, page: Path, look: Look, file: Path) -> None:
    seen = window_of(browser, page, look.width, reduced_motion="reduce", **look.options)
    seen.go("")
    if look.name == "print":
        seen.page.emulate_media(media="print")
    seen.page.wait_for_load_state("networkidle")
    # What scripts draw is drawn when it comes near.
    seen.run("() => document.querySelector('.tabs')?.scrollIntoView()")
    seen.page.wait_for_timeout(500)
    seen.run("() => scrollTo(0, 0)")
    whole = seen.page.evaluate("document.documentElement.scrollHeight")
    frame = {"x": 0, "y": 0, "width": look.width, "height": min(look.height, whole)}
    seen.page.screenshot(path=file, full_page=True, clip=frame)  # type: ignore[arg-type]
    seen.page.context.close()
