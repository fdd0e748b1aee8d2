"""The tab Memory: what was in use, the limit, and what held it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.report.sections.reading import only, plain, records
from tests.traces import (
    allocation,
    deallocation,
    gpu,
    host,
    line,
    op,
    step,
    us,
    write,
    xspace,
)
from traceanalyzer.model.blocks import Chart, Fold, KeyValues, Note, Table
from traceanalyzer.report.memory import memory, memory_tab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.traces import Event
    from traceanalyzer.model.blocks import Tab

KIB = 1024


def tab_of(folder: Path, *events: Event) -> Tab | None:
    space = xspace(host(line("a")(op("x", "Cast", us(5, 1)), *events)), gpu(0))
    return memory_tab(memory(ta.load(write(folder, space))))


def test_the_chart_shows_what_was_in_use_below_the_limit(tmp_path: Path) -> None:
    tab = tab_of(
        tmp_path,
        step(3, us(6, 10)),
        allocation(KIB, us(8), "x", in_use=3 * KIB, available=KIB, shape="[256]"),
        deallocation(KIB, us(9), in_use=2 * KIB, available=2 * KIB),
    )

    assert tab is not None
    chart = only(tab.blocks, Chart)
    assert (chart.x, chart.series[0].values) == ((3.0, 4.0), (3 * KIB, 2 * KIB))
    assert chart.limit == ("TensorFlow's limit", 4 * KIB)
    (allocator,) = records(only(tab.blocks, Table))
    assert (allocator["peak_bytes"], allocator["peak_share"]) == (3 * KIB, 0.75)


def test_the_peak_says_what_held_it_and_what_came_before(tmp_path: Path) -> None:
    tab = tab_of(
        tmp_path,
        allocation(KIB, us(8), "x", in_use=3 * KIB, available=KIB, shape="[256]"),
        deallocation(KIB, us(9), in_use=2 * KIB, available=2 * KIB),
    )

    assert tab is not None
    peak = only(tab.blocks, Fold)
    facts = {name: plain(text) for name, text in only(peak.blocks, KeyValues).rows}
    assert facts["Allocated before the trace began"] == f"{2 * KIB} bytes"
    assert "Reserved by the allocator" not in facts  # none was
    (holder,) = records(only(peak.blocks, Table))
    assert (holder["op"], holder["shape"], holder["bytes"]) == ("x", "[256]", KIB)


def test_growth_is_warned_of_and_says_what_grew(tmp_path: Path) -> None:
    steps = [
        (
            step(k, us(10 * k + 10, 9)),
            allocation(2000, us(10 * k + 11), "kept", address=k, in_use=2048 * (k + 1)),
        )
        for k in range(5)
    ]

    tab = tab_of(tmp_path, *steps)  # type: ignore[arg-type]

    assert tab is not None
    assert "grew in each of 5 steps" in plain(only(tab.blocks, Note).text)
    _, growth = (block for block in tab.blocks if isinstance(block, Fold))
    (grew,) = records(only(growth.blocks, Table))
    assert (grew["op"], grew["bytes"], grew["count"]) == ("kept", 4 * 2048, 4)


def test_without_records_there_is_no_tab(tmp_path: Path) -> None:
    assert tab_of(tmp_path) is None
