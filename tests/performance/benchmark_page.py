"""Measures the report's page in a browser: how soon it is there and how soon it answers.

Run as `python -m tests.performance.benchmark_page`, from the folder of the repository. Prints
milliseconds: the median of several and the longest, each from the call to the painted frame.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

import traceanalyzer
from tests.performance.benchmark_report import write_trace
from tests.performance.synthetic import synthetic_trace
from tests.report.made_timeline import with_many_events
from tests.report.page.browsing import ARGUMENTS, chromium, visit
from tests.report.page.made_ops import made_rows, report_of
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.events import event_timeline
from traceanalyzer.report.page.render import write_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser

__all__ = ["main"]

_ROUNDS: Final = 5
_OPS: Final = 50_000
_SORTS: Final = ("Op", "Type", "Cause", "Host time", "GPU waits", "Source")
_QUERIES: Final = (
    "placement:cpu cause:dtype >1ms",
    "block_3 matmul",
    "-layer",
    "type:Cast -placement:cpu bytes>1MB source:train",
    "l",
    "",
)
_FIRST_PAINT: Final = """
() => performance.getEntriesByType("paint")
  .find((entry) => entry.name === "first-contentful-paint").startTime
"""
_SECONDS_TO_GRID: Final = """
() => new Promise((done) => {
  const look = () => document.querySelector(".ops-body .ops-row")
    ? done(performance.now()) : requestAnimationFrame(look);
  look();
})
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
    '[...document.querySelectorAll(".ops-head button")]'
    ".find((button) => button.textContent.startsWith(act)).click()",
)
_FILTER: Final = _PAINTED.replace(
    "ACT",
    'const box = document.getElementById("ops-filter"); box.value = act;'
    ' box.dispatchEvent(new Event("input"))',
)
_SCROLL: Final = _PAINTED.replace(
    "ACT", 'document.querySelector(".ops-grid").scrollTop = Number(act)'
)


_EVENTS: Final = 10_000_000
_OPEN_TIMELINE: Final = """
async () => {
  const begin = performance.now();
  document.getElementById("timeline").scrollIntoView();
  while (!performance.getEntriesByName("timeline-draw").length)
    await new Promise((done) => setTimeout(done, 2));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begin;
}
"""
_DRAWN: Final = 'performance.getEntriesByName("timeline-draw")[0].duration'
_TIMELINE_KEY: Final = _PAINTED.replace(
    "ACT",
    'document.querySelector(".tl-canvas").dispatchEvent('
    'new KeyboardEvent("keydown", { key: act, bubbles: true }))',
)
# The box waits for a pause in the typing; Enter asks at once.
_TIMELINE_FIND: Final = _PAINTED.replace(
    "ACT",
    'const box = document.querySelector(".tl-tools input"); box.value = act;'
    ' box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }))',
)


def main() -> None:
    """Measures each part of the page."""
    executable = chromium()
    if executable is None:
        msg = "no chromium on PATH; name one in CHROMIUM"
        raise SystemExit(msg)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        print(f"chromium {browser.version}, {os.cpu_count()} cores")
        measure_ops(browser, Path(folder))
        measure_timeline(browser, Path(folder))
        browser.close()


def measure_ops(browser: Browser, folder: Path) -> None:
    """Measures the table of every op: sorted, filtered and scrolled."""
    report = report_of(made_rows(_OPS))
    packed = report.tables.all_ops
    if packed is None:
        raise AssertionError
    path = folder / "ops.html"
    write_page(report, path)
    print(f"{packed.rows:,} of {_OPS:,} ops in {len(packed.data) / 1e6:.2f} MB of base64")
    print(f"page {path.stat().st_size / 1e6:.2f} MB")
    paints, grids = [], []
    for _ in range(_ROUNDS):
        seen = visit(browser, path)
        grids.append(seen.page.evaluate(_SECONDS_TO_GRID))
        paints.append(seen.page.evaluate(_FIRST_PAINT))
        seen.close()
    _tell("first contentful paint", paints)
    _tell("grid of ops drawn", grids)
    page = visit(browser, path).page
    page.evaluate(_SECONDS_TO_GRID)
    for heading in _SORTS:
        _tell(f"sort by {heading}", [page.evaluate(_SORT, heading) for _ in range(2)])
    for query in _QUERIES:
        times = []
        for _ in range(_ROUNDS):
            page.evaluate(_FILTER, "no-such-op")
            times.append(page.evaluate(_FILTER, query))
        _tell(f"filter {query or '(nothing)'}", times)
    tops = [str(28 * packed.rows * k // _ROUNDS) for k in range(_ROUNDS)]
    _tell("scroll far", [page.evaluate(_SCROLL, top) for top in tops])


def measure_timeline(browser: Browser, folder: Path) -> None:
    """Measures the timeline of ten million events: made, opened, moved in and searched."""
    logs = write_trace(folder / "logs", synthetic_trace(2))
    diagnosis = traceanalyzer.diagnose(traceanalyzer.load(logs))
    many = with_many_events(diagnosis, _EVENTS)
    begin = time.perf_counter()
    trace = event_timeline(many)
    print(f"{'timeline put together':<52} {1000 * (time.perf_counter() - begin):7.0f}")
    if trace is None:
        raise AssertionError
    size = (len(trace.events.data) + len(trace.names.data)) / 1e6
    print(
        f"{trace.events_total:,} events as {trace.events.rows:,} pieces in {size:.2f} MB of base64"
    )
    path = folder / "timeline.html"
    report = replace(assemble(diagnosis), trace=trace)
    begin = time.perf_counter()
    write_page(report, path)
    print(f"{'page written':<52} {1000 * (time.perf_counter() - begin):7.0f}")
    print(f"page {path.stat().st_size / 1e6:.2f} MB")
    paints, opens = [], []
    for _ in range(_ROUNDS):
        seen = visit(browser, path)
        paints.append(seen.page.evaluate(_FIRST_PAINT))
        opens.append(seen.page.evaluate(_OPEN_TIMELINE))
        seen.close()
    _tell("first contentful paint", paints)
    _tell("timeline opened and drawn", opens)
    page = visit(browser, path).page
    page.evaluate(_OPEN_TIMELINE)
    for name, key in (("whole run", "0"), ("zoomed in", "w"), ("moved", "d")):
        times, draws = [], []
        for _ in range(_ROUNDS):
            times.append(page.evaluate(_TIMELINE_KEY, key))
            draws.append(page.evaluate(_DRAWN))
        _tell(f"timeline, {name}", times)
        _tell(f"  of it drawing, {name}", draws)
    page.evaluate(_TIMELINE_KEY, "0")
    words = ("matmul", "layer_3", "no such name")
    _tell("timeline, search", [page.evaluate(_TIMELINE_FIND, word) for word in words])
    _tell("  of it drawing", [page.evaluate(_DRAWN)])


def _tell(what: str, times: Sequence[float]) -> None:
    print(f"{what:<52} {median(times):7.0f} {max(times):7.0f}")


if __name__ == "__main__":
    main()
