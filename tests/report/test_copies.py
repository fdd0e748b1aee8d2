"""What the report says of copies: how fast, what is read back, small_transfers, and round trips."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.traces import (
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
from traceanalyzer.model.transfers import MovedOp
from traceanalyzer.report.assemble import assemble

if TYPE_CHECKING:
    from pathlib import Path

    from tests.traces import Event
    from traceanalyzer.model import Report


def made(folder: Path, ops: list[Event], on_gpu: list[Event]) -> Report:
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
    return assemble(ta.diagnose(ta.load(write(folder, space))))


def test_edges_tell_rates_and_what_compute_hid(tmp_path: Path) -> None:
    report = made(
        tmp_path,
        [],
        [
            kernel("k", us(10, 50), "a:Neg"),
            copy("H2D", 1_000_000, us(20, 100), source="pageable", asynchronous=False),
        ],
    )

    assert report.transfer_graph is not None
    (devices,) = report.transfer_graph.devices
    (edge,) = report.transfer_graph.edges
    for told in (devices, edge):
        assert (told.hidden_us, told.total_us) == (40.0, 100.0)
        assert (told.bytes_per_s, told.link_bytes_per_s, told.link_source) == (
            1e10,
            1e10,
            "seen",
        )
        assert (told.pageable_count, told.pageable_bytes, told.pinned_count) == (
            1,
            1_000_000,
            0,
        )
        assert (told.async_count, told.sync_count) == (0, 1)


def test_a_predicate_read_back_and_a_storm(tmp_path: Path) -> None:
    back = [
        old_copy("D2H", 1, us(t, 2), "p/_1:_HostRecv", producer="p", consumer="cond/x/_6")
        for t in (300, 1300)
    ]
    storm = [copy("D2D", 1, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]
    report = made(tmp_path, [], [*back, *storm])

    graph = report.transfer_graph
    assert graph is not None
    (told,) = graph.device_to_host_syncs
    assert (told.reader, told.source, told.source_name) == ("predicate", "name:p", "p")
    assert (told.count_per_step, told.bytes_each, told.total_us) == (1, 1, 4.0)
    assert graph.device_to_host_syncs_total == 1
    (small,) = graph.small_transfers
    assert (small.count, small.count_per_step, small.each_us) == (24, 12, 1.0)
    assert (small.source, small.target, small.direction) == ("gpu:0", "gpu:0", "d2d")
    nodes = {node.op_id for node in graph.nodes}
    assert nodes >= {"name:p", *(end for e in small.edges for end in (e.source, e.target))}


def test_an_island_and_what_to_move(tmp_path: Path) -> None:
    """`Unique` has a GPU kernel; `AsString` has none and stays."""
    copies = [
        old_copy("D2H", 64, us(100, 2), "x/_1:_Send", producer="x", consumer="u"),
        old_copy("H2D", 32, us(120, 2), "u/_2:_Send", producer="u", consumer="y"),
        old_copy("D2H", 640, us(200, 2), "x/_3:_Send", producer="x", consumer="s"),
        old_copy("H2D", 320, us(220, 2), "s/_4:_Send", producer="s", consumer="y"),
    ]
    ops = [op("u", "Unique", us(105, 9)), op("s", "AsString", us(205, 9))]
    report = made(tmp_path, ops, copies)

    text, numbers = report.round_trips
    assert [o.name for o in text.ops] == ["s"]
    assert text.move is None
    assert [o.name for o in numbers.ops] == ["u"]
    assert numbers.function == "f"
    assert (numbers.arriving.count, numbers.arriving.bytes) == (1, 64)
    assert numbers.arriving.total_us == 2.0
    assert numbers.leaving.bytes == 32
    assert numbers.move is not None
    assert numbers.move.to_gpu == (MovedOp(op_id=numbers.ops[0].op_id, name="u", type="Unique"),)
    assert numbers.move.to_cpu == ()
    assert (numbers.move.saved_bytes, numbers.move.stays_bytes) == (96, 0)
    assert (numbers.move.saved_us, numbers.move.stays_us) == (None, None)
