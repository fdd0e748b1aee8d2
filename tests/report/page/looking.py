"""What the browser's tests share: a page in a window, and what the window said and asked for."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

# The page's policy keeps Playwright's own waiting off: each condition is evaluated from outside.
_ROUNDS, _PAUSE_MS = 240, 25
_COPYING = """
() => {
  window.copied = [];
  navigator.clipboard.writeText = async (text) => { window.copied.push(text); };
}
"""


@dataclass
class Window:
    """A window, which is used for one page after another."""

    page: Page
    path: Path
    said: list[str] = field(default_factory=list)  # console, errors, dialogs
    requests: list[str] = field(default_factory=list)

    def run(self, script: str, *given: Any) -> Any:  # noqa: ANN401
        return self.page.evaluate(script, *given)

    def text(self, selector: str) -> str:
        """Return what a reader sees of an element."""
        return str(self.page.locator(selector).first.inner_text())

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]

    def shows(self, selector: str) -> bool:
        return bool(self.page.locator(selector).first.is_visible())

    def click(self, selector: str) -> None:
        self.page.locator(selector).first.click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def until(self, condition: str) -> None:
        """Wait for an expression to hold."""
        for _ in range(_ROUNDS):
            if self.run(f"() => Boolean({condition})"):
                return
            self.page.wait_for_timeout(_PAUSE_MS)
        msg = f"never came true: {condition}"
        raise AssertionError(msg)

    def until_address(self, part: str) -> None:
        self.until(f"decodeURIComponent(location.hash).includes({part!r})")

    @property
    def hash(self) -> str:
        return str(self.run("() => decodeURIComponent(location.hash)"))

    def watch_copies(self) -> None:
        self.run(_COPYING)

    def copies(self) -> list[str]:
        self.page.wait_for_timeout(30)
        return list(self.run("() => window.copied"))

    def go(self, anchor: str) -> None:
        """Open the page at an anchor."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.path.as_uri()}{anchor}")


def window_of(browser: Browser, path: Path, width: int = 1280, **options: Any) -> Window:  # noqa: ANN401
    """Open a page in a window of its own, without a network."""
    settings = {"viewport": {"width": width, "height": 900}, "offline": True, **options}
    page = browser.new_context(**settings).new_page()
    seen = Window(page, path)
    page.on("console", lambda message: _note(seen, message.text))
    page.on("pageerror", lambda error: seen.said.append(str(error)))
    page.on("dialog", lambda dialog: (seen.said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.requests.append(request.url))
    return seen


def _note(seen: Window, text: str) -> None:
    if "willReadFrequently" not in text:  # what Chromium says of a test that reads a canvas twice
        seen.said.append(text)


def strange(requests: list[str], path: Path) -> set[str]:
    """Return what was asked for beside the page itself and files that it offers."""
    known = re.compile(rf"(?:blob:|about:|{re.escape(path.as_uri())}(?:#|$))")
    return {url for url in requests if not known.match(url)}
