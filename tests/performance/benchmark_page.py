"""Measures the report's page in a browser: how soon it is there and how soon it answers.

Run as `python -m tests.performance.benchmark_page`, from the folder of the repository. Prints
milliseconds: the median of several and the longest, each from the call to the painted frame.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

from tests.report.page.browsing import ARGUMENTS, chromium, visit
from tests.report.page.made_ops import made_rows, report_of
from traceanalyzer.report.page import write_page

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


def _tell(what: str, times: Sequence[float]) -> None:
    print(f"{what:<52} {median(times):7.0f} {max(times):7.0f}")


if __name__ == "__main__":
    main()
