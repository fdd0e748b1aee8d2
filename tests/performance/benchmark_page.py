"""Measures reports in a browser: how large and long they are, and how soon they answer.

Run as `python -m tests.performance.benchmark_page`, from the folder of the repository. Times are in
milliseconds, from the call to the painted frame: the median of several, and the longest. Figures
that miss their limit are listed at the end, and the exit code is 1.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from playwright.sync_api import Browser, sync_playwright

import traceanalyzer as ta
from tests.corpus import CORPUS
from tests.page_kinds import write_pages
from tests.report.example_explore import packed_ops, timeline
from tests.report.example_page import example_page
from tests.report.page.browsing import ARGUMENTS, chromium
from tests.report.page.looking import Window, window_of
from tests.samples import CASES
from traceanalyzer.report.html import render_page
from traceanalyzer.trace.discovery import find_runs

__all__ = ["main"]

_ROUNDS: Final = 5
_PAGES: Final = 20  # the largest ones
_OPS: Final = 10_000
_EVENTS_PER_LANE: Final = 25_000  # 100,000 in all
_FRAMES: Final = 120
_MOST_BYTES: Final = 2_000_000
_SCREEN: Final = 800
_MOST_SCREENS: Final = 8
_MOST_MS: Final = 100  # to sort or filter
_MOST_PAINT_MS: Final = 300
_FEWEST_FRAMES: Final = 50  # per second
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
_SORT: Final = """
async (title) => {
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  await painted();
  const begin = performance.now();
  [...document.querySelectorAll(".grid-head button")]
    .find((button) => button.textContent.startsWith(title)).click();
  await painted();
  return performance.now() - begin;
}
"""
# From the last key to the painted rows, including the pause after typing.
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
# Zooms in and moves along, a frame at a time; returns frames per second.
_PAN: Final = """
async (frames) => {
  const canvas = document.querySelector(".tl-box canvas");
  const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const frame = () => new Promise(requestAnimationFrame);
  press("0");
  for (let k = 0; k < 3; k += 1) press("w");
  await frame();
  const begin = performance.now();
  for (let k = 0; k < frames; k += 1) {
    press(k % 40 < 20 ? "d" : "a");
    await frame();
  }
  return (1000 * frames) / (performance.now() - begin);
}
"""
_HEIGHT: Final = """
() => {
  document.querySelectorAll("details.card").forEach((card) => (card.open = false));
  return document.documentElement.scrollHeight;
}
"""


class _Limits:
    """Prints figures, and collects those that miss their limit."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def check(self, what: str, value: float, *, most: float = float("inf"), more: str = "") -> None:
        line = f"{what:<52} {value:8,.0f}{more}"
        print(line)
        if value > most:
            self.missed.append(f"{line}, limit {most:,.0f}")

    def times(self, what: str, times: Sequence[float], most_ms: float) -> None:
        self.check(what, median(times), most=most_ms, more=f" {max(times):8,.0f}")


def main() -> None:
    """Measure the largest pages of the samples and the corpus, then made ones."""
    limits = _Limits()
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        executable = chromium() or ""
        browser = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        pages = sorted(_real_pages(Path(folder)), key=lambda page: -page.stat().st_size)[:_PAGES]
        for page in pages:
            _measure_page(browser, page, limits)
        _first_paint(browser, pages[0], limits)
        _measure_ops(browser, _made_page(Path(folder) / "ops.html", ops=_OPS), limits)
        _measure_timeline(browser, _made_page(Path(folder) / "events.html"), limits)
        browser.close()
    if limits.missed:
        raise SystemExit("\n".join(["", "limits missed:", *limits.missed]))


def _real_pages(folder: Path) -> Iterator[Path]:
    """Write the pages of all runs of the samples, the kinds, and the corpus."""
    yield from write_pages(folder).values()
    traces = [case.logs for case in CASES]
    traces += [each for each in CORPUS.iterdir() if each.is_dir()] if CORPUS.is_dir() else []
    for trace in traces:
        try:
            for run in find_runs(trace):
                page = folder / f"{trace.name}-{trace.parent.name}-{run.name}.html"
                ta.write_report(ta.diagnose(ta.load(trace, run=run.name)), html=page)
                yield page
        except ta.TraceAnalyzerError as error:
            print(f"{trace.name}: {error}")


def _made_page(path: Path, *, ops: int = 0) -> Path:
    page = example_page(packed_ops(ops)) if ops else example_page(events=timeline(_EVENTS_PER_LANE))
    path.write_text(render_page(page), encoding="utf-8", newline="\n")
    return path


def _opened(browser: Browser, path: Path, anchor: str = "") -> Window:
    seen = window_of(browser, path)
    seen.go(anchor)
    return seen


def _measure_page(browser: Browser, path: Path, limits: _Limits) -> None:
    seen = _opened(browser, path, "#ops")
    seen.until("![...document.querySelectorAll('.needs-scripts')].some((e) => e.checkVisibility())")
    limits.check(f"bytes of {path.stem[:40]}", path.stat().st_size, most=_MOST_BYTES)
    limits.check("  height in pixels", seen.run(_HEIGHT), most=_MOST_SCREENS * _SCREEN)
    seen.page.context.close()


def _first_paint(browser: Browser, path: Path, limits: _Limits) -> None:
    paints = []
    for _ in range(_ROUNDS):
        seen = _opened(browser, path)
        paints.append(seen.run(_FIRST_PAINT))
        seen.page.context.close()
    limits.times(f"first paint of {path.stem[:36]}", paints, _MOST_PAINT_MS)


def _measure_ops(browser: Browser, path: Path, limits: _Limits) -> None:
    seen = _opened(browser, path, "#ops")
    seen.until("document.querySelector('.grid-body [role=row]')")
    for title in _SORTS:
        times = [seen.run(_SORT, title) for _ in range(_ROUNDS)]
        limits.times(f"sort {_OPS:,} ops by {title}", times, _MOST_MS)
    for query in _QUERIES:
        times = []
        for _ in range(_ROUNDS):
            seen.run(_FILTER, "no-such-op")
            times.append(seen.run(_FILTER, query))
        limits.times(f"filter {_OPS:,} ops with {query or '(nothing)'}", times, _MOST_MS)
    seen.page.context.close()


def _measure_timeline(browser: Browser, path: Path, limits: _Limits) -> None:
    seen = _opened(browser, path, "#timeline")
    seen.until("performance.getEntriesByName('timeline-draw').length")
    rates = [seen.run(_PAN, _FRAMES) for _ in range(3)]
    limits.times(
        "ms per frame while the timeline moves",
        [1000 / rate for rate in rates],
        1000 / _FEWEST_FRAMES,
    )
    seen.page.context.close()


if __name__ == "__main__":
    main()
