"""Measures the report's page in a browser: how soon it is there and how soon it answers.

Run as `python -m tests.performance.benchmark_page`, from the folder of the repository. Prints
milliseconds: the median of several and the longest, each from the call to the painted frame.
Figures that miss their limit are listed at the end, and the exit code is 1.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from tests.report.example_explore import packed_ops, timeline
from tests.report.example_page import example_page
from tests.report.page.browsing import ARGUMENTS, chromium
from tests.report.page.looking import Window, window_of
from traceanalyzer.report.html import render_page

__all__ = ["main"]

_ROUNDS: Final = 5
_OPS: Final = (10_000, 50_000)
_EVENTS_PER_LANE: Final = 25_000  # 100,000 in all
_FRAMES: Final = 120
_MOST_MS: Final = 100  # to sort or filter 10,000 ops
_MOST_PAINT_MS: Final = 300
_FEWEST_FRAMES: Final = 50  # per second
_missed: list[str] = []
_QUERIES: Final = ("placement:cpu cause:dtype >1ms", "block_3 matmul", "-layer", "l", "")
_SORTS: Final = ("Op", "Type", "Host time", "GPU wait", "Source")
_FIRST_PAINT: Final = """
async () => {
  for (;;) {
    const [entry] = performance.getEntriesByName("first-contentful-paint");
    if (entry) return entry.startTime;
    await new Promise((done) => setTimeout(done, 5));
  }
}
"""
_PAINTED: Final = """
async (act) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await painted();
  const begin = performance.now();
  ACT;
  await painted();
  return performance.now() - begin;
}
"""
_SORT: Final = _PAINTED.replace(
    "ACT",
    '[...document.querySelectorAll(".grid-head button")]'
    ".find((button) => button.textContent.startsWith(act)).click()",
)
# From the last key to the painted rows, the pause in typing included.
_FILTER: Final = """
async (query) => {
  const grid = document.querySelector(".grid");
  const box = document.querySelector("#ops input");
  const begin = performance.now();
  box.value = query;
  box.dispatchEvent(new Event("input"));
  while (grid.dataset.query !== query) await new Promise((done) => setTimeout(done, 1));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}
"""
_SCROLL: Final = _PAINTED.replace("ACT", 'document.querySelector(".grid").scrollTop = Number(act)')
# Zooms in and moves along, a frame at a time; returns frames per second and the longest drawing.
_PAN: Final = """
async (frames) => {
  const canvas = document.querySelector(".tl-box canvas");
  const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const frame = () => new Promise(requestAnimationFrame);
  press("0");
  for (let k = 0; k < 3; k += 1) press("w");
  await frame();
  let longest = 0;
  const begin = performance.now();
  for (let k = 0; k < frames; k += 1) {
    press(k % 40 < 20 ? "d" : "a");
    await frame();
    longest = Math.max(longest, performance.getEntriesByName("timeline-draw")[0]?.duration ?? 0);
  }
  return [(1000 * frames) / (performance.now() - begin), longest];
}
"""


def main() -> None:
    """Measures the example with many ops and events."""
    executable = chromium()
    if executable is None:
        msg = "no chromium on PATH; name one in CHROMIUM"
        raise SystemExit(msg)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        print(f"chromium {browser.version}, {os.cpu_count()} cores")
        for count in _OPS:
            measure_ops(browser, Path(folder), count)
        measure_timeline(browser, Path(folder))
        browser.close()
    if _missed:
        raise SystemExit("\n".join(["", "limits missed:", *_missed]))


def measure_ops(browser: Browser, folder: Path, count: int) -> None:
    """Measures the table of every op: sorted, filtered and scrolled."""
    print(f"\n{count:,} ops")
    path = written(render_page(example_page(packed_ops(count))), folder)
    first_paint(browser, path)
    seen = opened(browser, path, "#ops")
    seen.until("document.querySelector('.grid-body [role=row]')")
    most = _MOST_MS if count == _OPS[0] else None
    for heading in _SORTS:
        tell(f"sort by {heading}", [seen.run(_SORT, heading) for _ in range(3)], most)
    for query in _QUERIES:
        times = []
        for _ in range(_ROUNDS):
            seen.run(_FILTER, "no-such-op")
            times.append(seen.run(_FILTER, query))
        tell(f"filter {query or '(nothing)'}", times, most)
    tops = [str(30 * count * k // _ROUNDS) for k in range(_ROUNDS)]
    tell("scroll far", [seen.run(_SCROLL, top) for top in tops])
    seen.page.context.close()


def measure_timeline(browser: Browser, folder: Path) -> None:
    """Measures the timeline of 100,000 events: opened and moved in."""
    events = timeline(_EVENTS_PER_LANE)
    print(f"\n{events.events.events_total:,} events")
    path = written(render_page(example_page(events=events)), folder)
    first_paint(browser, path)
    opens = []
    for _ in range(_ROUNDS):
        seen = opened(browser, path)
        begin = time.perf_counter()
        seen.run("() => document.querySelector('.timeline').scrollIntoView()")
        seen.until("performance.getEntriesByName('timeline-draw').length")
        opens.append(1000 * (time.perf_counter() - begin))
        seen.page.context.close()
    tell("timeline opened and drawn", opens)
    seen = opened(browser, path, "#timeline")
    seen.until("performance.getEntriesByName('timeline-draw').length")
    runs = [seen.run(_PAN, _FRAMES) for _ in range(3)]
    frames = median(rate for rate, _ in runs)
    print(f"{'frames per second, moving':<52} {frames:7.0f}")
    if frames < _FEWEST_FRAMES:
        _missed.append(f"{frames:.0f} frames per second, not {_FEWEST_FRAMES}")
    tell("longest drawing", [longest for _, longest in runs])
    seen.page.context.close()


def written(text: str, folder: Path) -> Path:
    """Write a page."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"page {path.stat().st_size / 1e6:.2f} MB")
    return path


def opened(browser: Browser, path: Path, anchor: str = "") -> Window:
    """Open a page in a window of its own."""
    seen = window_of(browser, path)
    seen.go(anchor)
    return seen


def first_paint(browser: Browser, path: Path) -> None:
    """Measures how soon something is seen."""
    paints = []
    for _ in range(_ROUNDS):
        seen = opened(browser, path)
        paints.append(seen.run(_FIRST_PAINT))
        seen.page.context.close()
    tell("first contentful paint", paints, _MOST_PAINT_MS)


def tell(what: str, times: Sequence[float], most_ms: float | None = None) -> None:
    """Print the median and the longest of times; note a median above its limit."""
    print(f"{what:<52} {median(times):7.0f} {max(times):7.0f}")
    if most_ms is not None and median(times) > most_ms:
        _missed.append(f"{what}: {median(times):.0f} ms, not {most_ms:.0f}")


if __name__ == "__main__":
    main()
