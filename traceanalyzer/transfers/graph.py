"""Builds the graph of transfers between ops or between devices, and exports it to files."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import networkx as nx
import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.transfers.traffic import Traffic
from traceanalyzer.units import PS_PER_S

# Characters that XML 1.0 forbids (section 2.2) or its readers change: line ends and tabs.
_NOT_IN_XML: Final = re.compile("[^\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def transfer_graph(traffic: Traffic, ops: pd.DataFrame) -> nx.MultiDiGraph[str]:
    """Return the graph of transfers between ops.

    Nodes are op ids, `name:X` for an op known only by name, or a memory such as `host` or `gpu:0`
    for an unknown op. They have the attributes `label` and `placement`. Edges are keyed by
    direction and have the attributes described in `sums`.
    """
    graph = _graph(traffic, "source", "target")
    columns = (ops[c] for c in ("op_id", "name", "type", "placement"))
    known = {
        op_id: {"label": f"{name}:{op_type}", "placement": placement}
        for op_id, name, op_type, placement in zip(*columns, strict=True)
    }
    where: dict[str, str] = {}
    for end in ("source", "target"):
        last = traffic.table[[end, f"{end}_memory"]].drop_duplicates(end, keep="last")
        where |= dict(last.itertuples(index=False, name=None))
    for node, attributes in graph.nodes(data=True):
        label = node.removeprefix("name:")
        attributes.update(known.get(node, {"label": label, "placement": where[node]}))
    return graph


def device_graph(traffic: Traffic) -> nx.MultiDiGraph[str]:
    """Return the graph of transfers between memories (`host`, `gpu:0`); see `transfer_graph`."""
    graph = _graph(traffic, "source_memory", "target_memory")
    for node, attributes in graph.nodes(data=True):
        attributes.update(label=node, placement=node)
    return graph


def _graph(traffic: Traffic, *ends: str) -> nx.MultiDiGraph[str]:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for source, target, direction, figures in sums(traffic, traffic.table, ends):
        graph.add_edge(source, target, key=direction, **figures)
    return graph


def sums(traffic: Traffic, table: pd.DataFrame, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Sum the transfers in a table by the columns `keys` and by direction.

    Returns:
        Sorted tuples of the keys, the direction, and sums of known values (None if none is known):
        `bytes`, `count`, `unknown_bytes` (number of transfers without a size), `total_ps`,
        `exposed_ps` (idle time of devices due to the transfers), `hidden_ps` (time in which a
        kernel of their device ran), `bytes_per_s` (of transfers with size and time),
        `link_bytes_per_s` and `link_source` (see `LinkRate`; None for different links),
        `pageable_count`, `pageable_bytes`, `pinned_count`, and `pinned_bytes` (by host memory),
        `async_count` and `sync_count` (by whether the host waited).
    """
    grouped = table.groupby([*keys, "direction"], observed=True)
    group, number = np.asarray(grouped.ngroup(), np.int64), grouped.ngroups

    def count(chosen: pd.Series[bool]) -> list[int]:
        counts: list[int] = np.bincount(group[chosen.to_numpy(bool)], minlength=number).tolist()
        return counts

    def total(values: pd.Series[Any]) -> list[int | None]:
        known = values.dropna()
        totals = sum_by(group[values.notna()], known.to_numpy(np.int64), number).tolist()
        return [t if n else None for t, n in zip(totals, count(values.notna()), strict=True)]

    size, took, is_async = table["bytes"], table["duration_ps"], table["is_async"]
    is_rated = size.notna() & took.gt(0).fillna(value=False)
    rated = zip(total(size.where(is_rated)), total(took.where(is_rated)), strict=True)
    links = [*traffic.links, None]
    same = grouped["link"].agg(["min", "max"])
    link = [links[low] if low == high else None for low, high in same.itertuples(index=False)]
    columns: dict[str, Sequence[object]] = {
        "bytes": total(size),
        "count": grouped.size().tolist(),
        "unknown_bytes": count(size.isna()),
        "total_ps": total(took),
        "exposed_ps": total(table["exposed_ps"]),
        "hidden_ps": total(table["hidden_ps"]),
        "bytes_per_s": [b * PS_PER_S / t if b is not None and t else None for b, t in rated],
        "link_bytes_per_s": [None if each is None else each.bytes_per_s for each in link],
        "link_source": [None if each is None else each.source for each in link],
    }
    for kind in ("pageable", "pinned"):
        columns[f"{kind}_count"] = count(table["memory"] == kind)
        columns[f"{kind}_bytes"] = total(size.where(table["memory"] == kind))
    columns["async_count"] = count(is_async.fillna(value=False))
    columns["sync_count"] = count(~is_async.fillna(value=True))
    figures = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return sorted(
        ((*key, of_key) for key, of_key in zip(same.index, figures, strict=True)),
        key=lambda row: row[:-1],
    )


# --- the graph as a file -------------------------------------------------------------------------


def as_graphml(graph: nx.MultiDiGraph[str]) -> str:
    r"""Return a transfer graph as GraphML.

    Nodes and edges are numbered. A node's name is in its attribute `node`, and an edge's key in its
    attribute `direction`. Unknown values are left out. Characters that XML forbids become `\x07`.
    """
    plain: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    number = {node: f"n{k}" for k, node in enumerate(graph)}
    for node, attributes in graph.nodes(data=True):
        plain.add_node(number[node], **_known({"node": node, **attributes}))
    edges = graph.edges(keys=True, data=True)
    for k, (source, target, direction, attributes) in enumerate(edges):
        known = _known({"direction": direction, **attributes})
        plain.add_edge(number[source], number[target], key=f"e{k}", edge=f"e{k}", **known)
    stream = io.BytesIO()
    nx.write_graphml_xml(plain, stream, named_key_ids=True, edge_id_from_attribute="edge")
    return stream.getvalue().decode("utf-8") + "\n"


def as_json(graph: nx.MultiDiGraph[str]) -> str:
    """Return a transfer graph as JSON, for `networkx.node_link_graph(data, edges="edges")`."""
    return json.dumps(nx.node_link_data(graph, edges="edges"), allow_nan=False, indent=1) + "\n"


# By the ending of the file name.
FORMATS: Mapping[str, Callable[[nx.MultiDiGraph[str]], str]] = {
    ".graphml": as_graphml,
    ".json": as_json,
}


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _safe(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _safe(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
