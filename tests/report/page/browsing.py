"""What the tests in a real browser share: which browser it is, and a look at a page in it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# The ratio of luminance, WCAG 2, of each text to the nearest ground painted behind it.
CONTRASTS = """
() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) =>
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const painted = channels(getComputedStyle(e).backgroundColor);
      if (painted.length < 4 || painted[3] === 1) return painted;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest("svg, defs, title")) continue;
    const own = luminance(channels(getComputedStyle(element).color));
    const behind = luminance(ground(element));
    const ratio = (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05);
    found.push([ratio, walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
}
"""

# Opens all folds.
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => (d.open = true))"

# Elements that reach beyond the right edge of the window, but for what scrolls in its own box.
OVERFLOWING = """
() => [...document.querySelectorAll("body *")]
  .filter((e) => !e.closest(".scroll, .ops-grid, pre, .skip, svg, .said"))
  .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`)
"""

# Words of pictures that leave them, or that lie upon other words.
PICTURE_FAULTS = """
() => [...document.querySelectorAll("svg.graph")].filter((svg) => svg.checkVisibility())
  .flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll("text")]
      .map((t) => [t.textContent, t.getBoundingClientRect()]);
    const faults = words
      .filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1
        || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
      .map(([text]) => `${text} leaves the picture`);
    words.forEach(([text, a], i) => words.slice(i + 1).forEach(([other, b]) => {
      const beside = a.left >= b.right - 1 || b.left >= a.right - 1;
      const below = a.top >= b.bottom - 2 || b.top >= a.bottom - 2;
      if (!beside && !below)
        faults.push(`${text} lies upon ${other}`);
    }));
    return faults;
  })
"""


def chromium() -> str | None:
    """Returns the browser that CHROMIUM names, or the first on PATH."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@dataclass
class Visit:
    """A page in a window of its own, and what it said and asked for."""

    page: Page
    address: str
    said: list[str] = field(default_factory=list)  # console, errors, dialogs
    requests: list[str] = field(default_factory=list)

    def open(self, path: Path, anchor: str = "") -> None:
        self.address = path.as_uri()
        self.said.clear()
        self.requests.clear()
        self.page.goto(self.address + anchor)

    def close(self) -> None:
        self.page.context.close()


def settle(seen: Visit) -> None:
    """Wait until what was asked for is drawn and stands in the address (`RESTS_MS` in state.js)."""
    seen.page.evaluate(
        "new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 260))"
    )


def until(seen: Visit, condition: str) -> None:
    """Waits for an expression to hold; the page's policy keeps Playwright's own off."""
    for _ in range(200):
        if seen.page.evaluate(condition):
            return
        seen.page.wait_for_timeout(25)
    msg = f"never came true: {condition}"
    raise AssertionError(msg)


_STORED = "JSON.stringify(Object.entries(localStorage).sort())"


def reload_remembering(seen: Visit) -> None:
    """Reloads the page, again until it is given what it has stored.

    Chromium keeps that in another process, and a page that is loaded at once may be given what was
    there before: seen twice in two runs of all tests on two busy cores.
    """
    stored = seen.page.evaluate(_STORED)
    for _ in range(20):
        seen.page.reload()
        if seen.page.evaluate(_STORED) == stored:
            return
        seen.page.wait_for_timeout(50)
    msg = f"never remembered: {stored}"
    raise AssertionError(msg)


def _note(seen: Visit, text: str) -> None:
    if "willReadFrequently" not in text:  # what Chromium says of a test that reads a canvas twice
        seen.said.append(text)


def visit(
    browser: Browser,
    path: Path,
    width: int = 1280,
    anchor: str = "",
    **options: Any,  # noqa: ANN401
) -> Visit:
    """Opens a page, without a network; `options` are those of `Browser.new_context`."""
    settings = {"viewport": {"width": width, "height": 900}, "offline": True, **options}
    context = browser.new_context(**settings)
    seen = Visit(context.new_page(), "")
    seen.page.on("console", lambda message: _note(seen, message.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("dialog", lambda dialog: (seen.said.append(dialog.message), dialog.dismiss()))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.open(path, anchor)
    return seen
