"""The transfer graph: bytes in it equal bytes in the table, always."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

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
from traceanalyzer.tables.schema import KERNELS, OPS, STEPS, TRANSFERS, Schema
from traceanalyzer.transfers.costs import transfer_costs
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


_TEXTS = st.sampled_from([None, "a", "b", "host", "gpu:0", "name:a"])
_DEVICES = st.sampled_from(["/device:GPU:0", "/device:GPU:1", "nonsense"])
_TIMES = st.integers(0, 2**40)


def filled(schema: Schema, columns: list[str], rows: list[tuple]) -> pd.DataFrame:
    """A table with values in these columns only."""
    table = pd.DataFrame(rows, columns=columns).astype(object)
    unknown = pd.Series([None] * len(rows), dtype=object)
    parts = {c: table.get(c, unknown) for c in schema.columns}
    for c, dtype in schema.columns.items():
        if dtype == "int64" and c not in columns:
            parts[c] = np.zeros(len(rows), np.int64)
    return schema.frame([parts])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["h2d", "d2h", "d2d", "p2p", "h2h"]),
            st.sampled_from(["h", None]),
            st.one_of(st.none(), _DEVICES),
            st.one_of(st.none(), _TIMES),
            _TIMES,
            st.one_of(st.none(), _TIMES),
            st.one_of(st.none(), _TIMES),
            st.sampled_from([None, True, False]),
            st.sampled_from(["pageable", "pinned", "unknown"]),
            st.sampled_from([None, "python", "_HostRecv"]),
            _TEXTS,
            _TEXTS,
            _TEXTS,
            _TEXTS,
        ),
        max_size=20,
    ),
    st.lists(st.tuples(_DEVICES, _TIMES, _TIMES), max_size=9),
    st.lists(st.tuples(_TIMES, _TIMES), max_size=3),
)
def test_totals_are_those_of_the_table_whatever_it_holds(
    rows: list[tuple], ran: list[tuple], marked: list[tuple]
) -> None:
    columns = ["direction", "host", "device", "bytes", "start_ps", "duration_ps", "launch_ps"]
    columns += ["is_async", "memory", "via"]
    columns += ["producer", "consumer", "producer_name", "consumer_name"]
    copies = filled(TRANSFERS, columns, rows)
    kernels = filled(
        KERNELS, ["host", "device", "start_ps", "duration_ps"], [("h", *times) for times in ran]
    )
    steps = filled(STEPS, ["host", "start_ps", "duration_ps"], [("h", *times) for times in marked])
    ops = OPS.frame([])

    measured = measure(copies, kernels, steps)
    for graph in (transfer_graph(measured, ops), device_graph(measured)):
        check_totals(copies, graph)
        assert all({"label", "placement"} <= set(d) for _, d in graph.nodes(data=True))
    hidden = measured.table["hidden_ps"].array
    assert (measured.table["hidden_ps"].dropna() >= 0).all()
    assert (hidden <= copies["duration_ps"].array).fillna(value=True).all()
    assert hidden.isna()[copies["duration_ps"].isna()].all()
    costs = transfer_costs(measured, ops, [])
    for back in costs.device_to_host_syncs:
        assert 0 < back.count <= len(copies)
        assert (back.wait_us or 0) >= 0
        assert (back.idle_us or 0) >= 0
    assert costs.round_trips == ()


def test_a_copy_between_devices_does_not_stay_on_the_one_it_leaves() -> None:
    _, graph = of(gpu(0)(stream(8)(copy("P2P", 64, us(0, 5)))))

    assert sorted(graph.edges(keys=True)) == [("gpu:0", "another device", "p2p")]
