"""The copy graph: bytes in it equal bytes in the table, always."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus import CORPUS, needs_corpus
from tests.tables.reading import tables_of
from tests.traces import (
    copy,
    executor,
    gpu,
    host,
    kernel,
    launch,
    old_copy,
    op,
    send,
    stream,
    thread,
    us,
)
from traceanalyzer.copy_graph.graph import HOST, copy_graph, device_graph
from traceanalyzer.run import load
from traceanalyzer.tables.schema import COPIES, OPS
from traceanalyzer.trace.discovery import find_runs

if TYPE_CHECKING:
    import networkx as nx


def edges(graph: nx.MultiDiGraph[str], *, labels: bool = True) -> dict[tuple, tuple]:
    """Bytes, count, copies without a size and time of each edge, by its ends' labels."""
    return {
        (
            graph.nodes[a]["label"] if labels else a,
            graph.nodes[b]["label"] if labels else b,
            direction,
        ): (e["bytes"], e["count"], e["unknown_bytes"], e["total_ps"])
        for a, b, direction, e in graph.edges(keys=True, data=True)
    }


def of(*planes: Any) -> tuple[nx.MultiDiGraph[str], nx.MultiDiGraph[str]]:  # noqa: ANN401
    """The two views of a hand-written trace."""
    tables = tables_of(*planes)
    copies = COPIES.frame([tables.copies])
    return copy_graph(copies, OPS.frame([tables.ops])), device_graph(copies)


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


def test_unknown_ends_are_known_by_name_else_by_their_memory() -> None:
    graph, _ = of(
        gpu(0)(
            stream(8)(
                old_copy("D2H", 1, us(0, 1), "x/_2:_HostRecv", producer="x", consumer="y"),
                copy("H2D", 2, us(2, 1)),
                copy("D2D", 3, us(4, 1)),
            )
        ),
        gpu(1)(stream(8)(copy("D2H", 4, us(0, 1)))),
    )

    assert edges(graph, labels=False) == {
        ("name:x", "name:y", "d2h"): (1, 1, 0, 1_000_000),
        (HOST, "gpu:0", "h2d"): (2, 1, 0, 1_000_000),
        ("gpu:0", "gpu:0", "d2d"): (3, 1, 0, 1_000_000),
        ("gpu:1", HOST, "d2h"): (4, 1, 0, 1_000_000),
    }
    assert {n: (d["label"], d["placement"]) for n, d in graph.nodes(data=True)} == {
        "name:x": ("x", "gpu:0"),
        "name:y": ("y", "host"),
        "host": ("host", "host"),
        "gpu:0": ("gpu:0", "gpu:0"),
        "gpu:1": ("gpu:1", "gpu:1"),
    }


def test_copies_of_unknown_size_and_duration_are_counted_not_made_up() -> None:
    graph, devices = of(
        host(
            thread("t", 1)(
                executor(us(0, 9), context=1)(
                    send("a", "b", us(1, 1), "CPU:0", "CPU:1"),
                    send("c", "d", us(3, 1), "CPU:0", "GPU:3", edge=2),
                )
            )
        )
    )

    assert edges(graph) == {
        ("a", "b", "h2h"): (None, 1, 1, 0),
        ("c", "d", "h2d"): (None, 1, 1, None),
    }
    assert edges(devices) == {
        ("host", "host", "h2h"): (None, 1, 1, 0),
        ("host", "device", "h2d"): (None, 1, 1, None),
    }


def test_an_edge_of_known_and_unknown_sizes_says_how_many_lack_one() -> None:
    graph, _ = of(
        host(thread("t", 1)(launch(us(0, 1), 7))),
        gpu(0)(
            stream(8)(
                copy("H2D", 4, us(0, 1)),
                copy("H2D", 0, us(2, 1)),
                kernel("MemcpyH2D", us(4, 1)),
            )
        ),
    )

    assert edges(graph) == {("host", "gpu:0", "h2d"): (4, 3, 1, 3_000_000)}


def test_no_edge_tells_yet_how_long_a_device_idled_for_it() -> None:
    graph, _ = of(gpu(0)(stream(8)(copy("H2D", 4, us(0, 1)))))

    assert [e["exposed_ps"] for *_, e in graph.edges(data=True)] == [None]


def test_no_copies_are_an_empty_graph() -> None:
    graph, devices = of(host())

    assert len(graph) == len(devices) == 0


_TEXTS = st.sampled_from([None, "a", "b", "host", "gpu:0", "name:a"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["h2d", "d2h", "d2d", "p2p", "h2h"]),
            st.sampled_from([None, "/device:GPU:0", "/device:GPU:1", "nonsense"]),
            st.one_of(st.none(), st.integers(0, 2**40)),
            st.one_of(st.none(), st.integers(0, 2**40)),
            _TEXTS,
            _TEXTS,
            _TEXTS,
            _TEXTS,
        ),
        max_size=20,
    )
)
@settings(deadline=None)
def test_totals_are_those_of_the_table_whatever_it_holds(rows: list[tuple]) -> None:
    columns = ["direction", "device", "bytes", "duration_ps"]
    columns += ["producer", "consumer", "producer_name", "consumer_name"]
    table = pd.DataFrame(rows, columns=columns).astype(object)
    filled = {c: table.get(c, pd.Series([None] * len(rows), dtype=object)) for c in COPIES.columns}
    filled |= {c: np.zeros(len(rows), np.int64) for c in ("start_ps", "correlation_id")}
    copies = COPIES.frame([filled])
    ops = OPS.frame([])

    for graph in (copy_graph(copies, ops), device_graph(copies)):
        check_totals(copies, graph)
        assert all({"label", "placement"} <= set(d) for _, d in graph.nodes(data=True))


@needs_corpus
@pytest.mark.parametrize(
    "folder",
    [
        "tfgpu-tfprofiler-multiworker",
        "tfgpu-e4040-2023-hd2551",
        "tfgpu-fatma-cnn-sandor",
        "tfmac-chiyo-dogsvscats",
        "jax-rocm-convlegacy",
        "jax-rocm-attention",
    ],
)
def test_totals_are_those_of_the_table_on_recorded_traces(folder: str) -> None:
    for found in find_runs(CORPUS / folder):
        run = load(CORPUS / folder, run=found.name)
        assert len(run.copies) > 0
        check_totals(run.copies, run.copy_graph)
        check_totals(run.copies, device_graph(run.copies))


def test_a_copy_between_devices_does_not_stay_on_the_one_it_leaves() -> None:
    copies = tables_of(gpu(0)(stream(8)(copy("P2P", 64, us(0, 5))))).copies

    graph = device_graph(COPIES.frame([copies]))

    assert sorted(graph.edges(keys=True)) == [("gpu:0", "another device", "p2p")]
