"""The transfer graph: bytes in it equal bytes in the table, always."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pandas as pd

from tests.tables.reading import tables_of
from tests.traces import (
    copy,
    executor,
    gpu,
    host,
    kernel,
    old_copy,
    op,
    send,
    stream,
    thread,
    us,
)
from traceanalyzer.tables.schema import KERNELS, OPS, STEPS, TRANSFERS
from traceanalyzer.transfers.graph import device_graph, transfer_graph
from traceanalyzer.transfers.traffic import measure


def edges(graph: nx.MultiDiGraph[str]) -> dict[tuple, tuple]:
    """Bytes, count, copies without a size and time of each edge, by its ends' labels."""
    return {
        (graph.nodes[a]["label"], graph.nodes[b]["label"], direction): (
            *(e["bytes"], e["count"], e["unknown_bytes"], e["total_ps"]),
        )
        for a, b, direction, e in graph.edges(keys=True, data=True)
    }


def of(*planes: Any) -> tuple[nx.MultiDiGraph[str], nx.MultiDiGraph[str]]:  # noqa: ANN401
    """The two views of a hand-written trace."""
    tables = tables_of(*planes)
    measured = measure(
        TRANSFERS.frame([tables.transfers]),
        KERNELS.frame([tables.kernels]),
        STEPS.frame([tables.steps]),
    )
    return transfer_graph(measured, OPS.frame([tables.ops])), device_graph(measured)


def check_totals(copies: pd.DataFrame, graph: nx.MultiDiGraph[str]) -> None:
    """Sums over the edges are sums over the table, in all and by direction."""
    told = [e for *_, e in graph.edges(keys=True, data=True)]
    assert sum(e["count"] for e in told) == len(copies)
    assert sum(e["bytes"] or 0 for e in told) == int(copies["bytes"].sum())
    assert sum(e["unknown_bytes"] for e in told) == int(copies["bytes"].isna().sum())
    assert sum(e["total_ps"] or 0 for e in told) == int(copies["duration_ps"].sum())
    for direction, part in copies.groupby("direction", observed=True):
        mine = [e for *_, key, e in graph.edges(keys=True, data=True) if key == direction]
        assert sum(e["bytes"] or 0 for e in mine) == int(part["bytes"].sum())
        assert sum(e["count"] for e in mine) == len(part)
    for e in told:
        assert (e["bytes"] is None) == (e["unknown_bytes"] == e["count"])
        assert 0 <= (e["hidden_ps"] or 0) <= (e["total_ps"] or 0)
        assert 0 <= (e["exposed_ps"] or 0) <= (e["total_ps"] or 0)
        assert e["pageable_count"] + e["pinned_count"] <= e["count"]
        assert (e["pageable_bytes"] or 0) + (e["pinned_bytes"] or 0) <= (e["bytes"] or 0)
        assert e["async_count"] + e["sync_count"] <= e["count"]


def test_copies_between_the_same_ops_are_one_edge_a_direction() -> None:
    graph, devices = of(
        host(
            thread("t", 1)(executor(us(0, 9))(op("a", "Neg", us(0, 1)), send("a", "b", us(2, 1))))
        ),
        gpu(0)(
            stream(8)(
                kernel("k", us(0, 1), "b:Abs"),
                old_copy("H2D", 4, us(2, 1), "a/_1:_Send", producer="a", consumer="b"),
                old_copy("H2D", 6, us(4, 2), "a/_1:_Send", producer="a", consumer="b"),
                old_copy("D2H", 1, us(7, 1), "b/_2:_HostRecv", producer="b", consumer="a"),
            )
        ),
    )

    assert edges(graph) == {
        ("a:Neg", "b:Abs", "h2d"): (10, 2, 0, 3_000_000),
        ("b:Abs", "a:Neg", "d2h"): (1, 1, 0, 1_000_000),
    }
    assert {d["label"]: d["placement"] for _, d in graph.nodes(data=True)} == {
        "a:Neg": "cpu",
        "b:Abs": "gpu:0",
    }
    assert edges(devices) == {
        ("host", "gpu:0", "h2d"): (10, 2, 0, 3_000_000),
        ("gpu:0", "host", "d2h"): (1, 1, 0, 1_000_000),
    }


def test_a_copy_between_devices_does_not_stay_on_the_one_it_leaves() -> None:
    _, graph = of(gpu(0)(stream(8)(copy("P2P", 64, us(0, 5)))))

    assert sorted(graph.edges(keys=True)) == [("gpu:0", "another device", "p2p")]
