"""What the report says of transfers: how fast, what is read back, small ones, round trips."""

from pathlib import Path

import traceanalyzer as ta
from tests.report.reading import only, plain, records
from tests.traces import (
    Event,
    call,
    copy,
    executor,
    gpu,
    host,
    kernel,
    old_copy,
    op,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.model import Report
from traceanalyzer.model.blocks import Flows, Fold, Tab, Table
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.transfers import transfers_tab

ROUND_TRIP = [
    old_copy("D2H", 64, us(100, 2), "x/_1:_Send", producer="x", consumer="u"),
    old_copy("H2D", 32, us(120, 2), "u/_2:_Send", producer="u", consumer="y"),
]
SMALL = [copy("D2D", 1, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]


def made(folder: Path, ops: list[Event], on_gpu: list[Event]) -> tuple[Report, Tab]:
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
    return report, tab


def test_edges_tell_rates_and_what_compute_hid(tmp_path: Path) -> None:
    slow = copy("H2D", 1_000_000, us(20, 100), source="pageable", asynchronous=False)
    report, _ = made(tmp_path, [], [kernel("k", us(10, 50), "a:Neg"), slow])

    assert report.transfer_graph is not None
    (devices,) = report.transfer_graph.devices
    (edge,) = report.transfer_graph.edges
    for told in (devices, edge):
        assert (told.hidden_us, told.total_us) == (40.0, 100.0)
        link = (told.bytes_per_s, told.link_bytes_per_s, told.link_source)
        assert link == (1e10, 1e10, "seen")
        assert (told.pageable_count, told.pageable_bytes) == (1, 1_000_000)
        assert (told.pinned_count, told.async_count, told.sync_count) == (0, 0, 1)


def test_the_bytes_and_counts_of_the_picture_are_those_of_the_table(tmp_path: Path) -> None:
    many = [copy("D2D", 8, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]
    _, tab = made(tmp_path, [op("u", "Unique", us(105, 9))], [*ROUND_TRIP, *many])

    flows = only(tab.blocks, Flows).flows
    rows = records(only(tab.blocks, Table))

    directions = [row for row in rows if not row["transfers"].startswith("of these")]
    assert sum(flow.bytes or 0 for flow in flows) == sum(row["bytes"] for row in directions)
    assert sum(flow.count for flow in flows) == sum(row["count"] for row in directions)
    named = {row["transfers"] for row in directions}
    assert named == {"host to device", "device to host", "within a device"}


def test_small_transfers_are_a_row_below_their_direction(tmp_path: Path) -> None:
    report, tab = made(tmp_path, [], SMALL)

    assert report.transfer_graph is not None
    (small,) = report.transfer_graph.small_transfers
    assert (small.count, small.count_per_step, small.each_us) == (24, 12, 1.0)
    assert (small.source, small.target, small.direction) == ("gpu:0", "gpu:0", "d2d")
    nodes = {node.op_id for node in report.transfer_graph.nodes}
    assert nodes >= {end for e in small.edges for end in (e.source, e.target)}
    every, row = records(only(tab.blocks, Table))
    assert (every["transfers"], every["bytes"]) == ("within a device", 24)
    assert row["transfers"] == "of these: small transfers"
    assert (row["count"], row["count_per_step"], row["bytes"]) == (24, 12, None)


def test_a_value_read_back_says_who_reads_it(tmp_path: Path) -> None:
    back = [
        old_copy("D2H", 1, us(t, 2), "p/_1:_HostRecv", producer="p", consumer="cond/x/_6")
        for t in (300, 1300)
    ]
    report, tab = made(tmp_path, [], back)

    assert report.transfer_graph is not None
    (told,) = report.transfer_graph.device_to_host_syncs
    assert (told.reader, told.source, told.source_name) == ("predicate", "name:p", "p")
    assert (told.count_per_step, told.bytes_each, told.total_us) == (1, 1, 4.0)
    _, sync = records(only(tab.blocks, Table))
    assert (sync["transfers"], sync["source"]) == ("of these: device-to-host sync", "p")
    assert "controls a tf.cond or a loop: cond/x/_6" in sync["remark"]


def test_a_round_trip_says_which_of_its_ops_cannot_move(tmp_path: Path) -> None:
    """`Unique` has a GPU kernel; `AsString` has none and stays."""
    copies = [
        *ROUND_TRIP,
        old_copy("D2H", 640, us(200, 2), "x/_3:_Send", producer="x", consumer="s"),
        old_copy("H2D", 320, us(220, 2), "s/_4:_Send", producer="s", consumer="y"),
    ]
    ops = [op("u", "Unique", us(105, 9)), op("s", "AsString", us(205, 9))]
    report, tab = made(tmp_path, ops, copies)

    text, numbers = report.round_trips
    assert ([o.name for o in text.ops], text.cannot_move) == (["s"], ("s",))
    assert ([o.name for o in numbers.ops], numbers.function) == (["u"], "f")
    arriving, leaving = numbers.arriving, numbers.leaving
    assert (arriving.count, arriving.bytes, arriving.total_us, leaving.bytes) == (1, 64, 2.0, 32)
    assert numbers.cannot_move == ()
    fold = only(tab.blocks, Fold)
    table = only(fold.blocks, Table)
    trip = dict(zip([column.name for column in table.columns], table.rows[1], strict=True))
    assert plain(trip["ops"]) == "u"
    assert [trip[name] for name in ("arriving_bytes", "leaving_bytes")] == [64, 32]
    assert trip["remark"] == "TensorFlow has a GPU kernel for each of these op types"
