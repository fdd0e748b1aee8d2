"""The benchmark's arithmetic, and what it prints; the scripts it runs take minutes."""

from __future__ import annotations

import ast
import random
import re
import statistics
from typing import TYPE_CHECKING

import pytest

from tests.performance.benchmark_capture import (
    SCRIPTS,
    Comparison,
    Runner,
    Taken,
    compare,
    measure,
    median_interval,
    ratios,
    verdict,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_interval_of_ten_leaves_out_the_least_and_the_greatest() -> None:
    found = median_interval([9, 3, 1, 10, 2, 8, 4, 7, 5, 6])

    assert found[:3] == (5.5, 2, 9)
    assert found.coverage == pytest.approx(1 - 22 / 1024)  # tables of the sign test: 97.9 %


def test_interval_of_few_is_all_of_them_and_says_how_little_that_is() -> None:
    assert median_interval([3.0]) == (3.0, 3.0, 3.0, 0.0)
    assert median_interval([1.0, 2.0]) == (1.5, 1.0, 2.0, 0.5)


@pytest.mark.parametrize("count", [6, 10, 15])
def test_interval_holds_the_median_as_often_as_it_says(count: int) -> None:
    drawn = random.Random(count)  # noqa: S311 - the same each time
    intervals = [median_interval(drawn.gauss(1, 0.1) for _ in range(count)) for _ in range(4000)]

    held = statistics.mean(found.low <= 1 <= found.high for found in intervals)
    assert held == pytest.approx(intervals[0].coverage, abs=0.01)
    assert intervals[0].coverage >= 0.95


def test_ratios_are_taken_round_by_round() -> None:
    # The machine was busy in the second round: the ratio of the medians would be 1.5.
    ways = [Taken(2, 2, 4, 4), Taken(20, 2, 40, 4), Taken(3, 2, 6, 4)]
    bases = [Taken(1, 2, 4, 2), Taken(10, 2, 40, 2), Taken(2, 2, 6, 2)]

    found = ratios(ways, bases)

    assert found["own_wall_s"][:3] == (2.0, 1.5, 2.0)
    assert found["own_cpu_s"][:3] == (1.0, 1.0, 1.0)
    assert found["wall_s"][:3] == (1.0, 1.0, 1.0)
    assert found["cpu_s"][:3] == (2.0, 2.0, 2.0)


def test_a_limit_is_kept_or_exceeded_by_the_median() -> None:
    found = median_interval([1.0, 1.04, 1.2])

    assert verdict(found, 1.05).endswith("limit 1.05: kept")
    assert verdict(found, 1.02).endswith("limit 1.02: EXCEEDED")
    assert not verdict(found, None)


def test_runs_all_ways_in_turn_and_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    order = []

    def run(way: str) -> Taken:
        order.append(way)
        return Taken(1.0, 2.0, 3.0, 4.0)

    compare([Comparison("new", "old", 1.05)], measure(["old", "new"], 2, run))

    assert order == ["old", "new", "new", "old"]
    printed = capsys.readouterr().out
    figures = r" +1\.00 +2\.00 +3\.00 +4\.00\n"
    assert re.search(rf" 2  new +{figures}", printed)
    assert re.search(rf"med old +{figures}", printed)
    assert "new / old: median and 50% interval" in printed
    assert re.search(r"own work, wall +1\.000 \[1\.000, 1\.000\]   limit 1\.05: kept\n", printed)
    assert re.search(r"whole process, CPU +1\.000 \[1\.000, 1\.000\]\n", printed)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_end_with_what_they_measured(name: str) -> None:
    (*_, last) = ast.parse(SCRIPTS[name].code).body

    assert ast.unparse(last).startswith("measure(")
    limits = {c.way: c.limit for c in SCRIPTS[name].comparisons if c.base == "no profiler"}
    assert limits["capture, default"] is not None


@pytest.mark.parametrize(("way", "level"), [("capture", None), ("capture, level 3", "3")])
def test_captures_at_the_default_level_unless_another_is_named(
    tmp_path: Path, way: str, level: str | None
) -> None:
    command = Runner(tmp_path, "loop", SCRIPTS["eager_loop"], 1.0).command(way, tmp_path)

    option = "--host-tracer-level"
    assert (command[command.index(option) + 1] if option in command else None) == level
