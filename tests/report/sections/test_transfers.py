"""The tab Transfers: a picture and a table of the same transfers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.report.sections.reading import only, plain, records
from tests.report.sections.samples import sample
from tests.traces import (
    Event,
    call,
    copy,
    executor,
    gpu,
    host,
    old_copy,
    op,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.model.blocks import Bullets, Flows, Fold, Table
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.transfers import transfers_tab

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model.blocks import Tab


def tab_of(folder: Path, ops: list[Event], on_gpu: list[Event]) -> Tab:
    """Of two steps; the ops are of one call of `f`."""
    space = xspace(
        host(
            thread("python", 1)(
                step(0, us(0, 1000))(call("__inference_f_1", us(1, 900), step=5)),
                step(1, us(1000, 1000)),
            ),
            thread("tf_Compute", 2)(executor(us(2, 998), step=5)(*ops)),
        ),
        gpu(0, memory_bandwidth=4 * 10**11)(stream(9)(*on_gpu)),
    )
    diagnosis = ta.diagnose(ta.load(write(folder, space)))
    report = assemble(diagnosis)
    tab = transfers_tab(diagnosis.run, report.transfer_graph, report.round_trips)
    assert tab is not None
    return tab


ROUND_TRIP = [
    old_copy("D2H", 64, us(100, 2), "x/_1:_Send", producer="x", consumer="u"),
    old_copy("H2D", 32, us(120, 2), "u/_2:_Send", producer="u", consumer="y"),
]


def test_the_bytes_and_counts_of_the_picture_are_those_of_the_table(tmp_path: Path) -> None:
    many = [copy("D2D", 8, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]
    tab = tab_of(tmp_path, [op("u", "Unique", us(105, 9))], [*ROUND_TRIP, *many])

    flows = only(tab.blocks, Flows).flows
    rows = records(only(tab.blocks, Table))

    directions = [row for row in rows if not row["transfers"].startswith("of these")]
    assert sum(flow.bytes or 0 for flow in flows) == sum(row["bytes"] for row in directions)
    assert sum(flow.count for flow in flows) == sum(row["count"] for row in directions) == tab.count
    assert {row["transfers"] for row in directions} == {
        "host to device", "device to host", "within a device",
    }  # fmt: skip


def test_small_transfers_are_a_row_below_their_direction(tmp_path: Path) -> None:
    many = [copy("D2D", 1, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]

    every, small = records(only(tab_of(tmp_path, [], many).blocks, Table))

    assert (every["transfers"], every["bytes"]) == ("within a device", 24)
    assert small["transfers"] == "of these: small transfers"
    assert (small["count"], small["count_per_step"], small["bytes"]) == (24, 12, None)


def test_a_value_read_back_says_who_reads_it(tmp_path: Path) -> None:
    back = [
        old_copy("D2H", 1, us(t, 2), "p/_1:_HostRecv", producer="p", consumer="cond/x/_6")
        for t in (300, 1300)
    ]

    _, sync = records(only(tab_of(tmp_path, [], back).blocks, Table))

    assert sync["transfers"] == "of these: device-to-host sync"
    assert sync["source"] == "p"
    assert "decides a tf.cond or a loop: cond/x/_6" in sync["remark"]


def test_a_size_that_was_not_recorded_is_no_zero(tmp_path: Path) -> None:
    tab = tab_of(tmp_path, [], [copy("H2D", None, us(20, 100))])

    (flow,) = only(tab.blocks, Flows).flows
    assert flow.bytes is None
    (row,) = records(only(tab.blocks, Table))
    assert row.get("bytes") is None


def test_a_round_trip_says_what_to_move(tmp_path: Path) -> None:
    tab = tab_of(tmp_path, [op("u", "Unique", us(105, 9))], ROUND_TRIP)

    fold = only(tab.blocks, Fold)
    (trip,) = only(fold.blocks, Bullets).items
    assert plain(trip).startswith("u: 64 bytes in 1 transfer from a GPU, 32 bytes in 1 transfer to")
    assert "Least is copied with u to the GPU: saves 96 bytes." in plain(trip)


def test_without_transfers_there_is_no_tab() -> None:
    assert transfers_tab(sample("recommender").run, None, ()) is None
