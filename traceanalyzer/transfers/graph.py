"""The transfer graph: who sent what to whom, by op and by device, and how well that went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.transfers.ends import codes_of, memory_ends, op_ends
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.transfers.ends import Ends
    from traceanalyzer.transfers.traffic import Traffic


def transfer_graph(
    transfers: pd.DataFrame, ops: pd.DataFrame, traffic: Traffic | None = None
) -> nx.MultiDiGraph[str]:
    """Aggregate transfers into a graph of ops.

    Returns:
        Nodes are op ids, `name:X` for an op that is only known by name, `host` or `gpu:0` if
        nothing is known; attributes `label`, `placement`. Edges are keyed by direction. Their
        attributes are sums over the transfers with a known value, None if there are none:

        `bytes`, `count`, `unknown_bytes` (how many transfers lack a size), `total_ps` (their time),
        `exposed_ps` (how long a device idled because of them), `hidden_ps` (of their time, while
        a kernel of their device ran); `bytes_per_s` of the transfers of known size and time;
        `link_bytes_per_s` and `link_source`, the possible rate (see `Link`; None if they took
        different links); `pageable_count`, `pageable_bytes`, `pinned_count`, `pinned_bytes`, by the
        host memory used; `async_count` and `sync_count`, whether the host waited. The rest of
        `count` is unknown.
    """
    ends = op_ends(transfers)
    graph = edges_between(transfers, ends, traffic)
    known = {
        op_id: {"label": f"{name}:{op_type}", "placement": placement}
        for op_id, name, op_type, placement in zip(
            *(ops[c] for c in ("op_id", "name", "type", "placement")), strict=True
        )
    }
    memories = memory_ends(transfers)
    where: dict[str, str] = {}
    for own, memory in ((ends.source, memories.source), (ends.target, memories.target)):
        last = dict(zip(own.tolist(), memory.tolist(), strict=True))
        where |= {ends.nodes[node]: memories.nodes[there] for node, there in last.items()}
    for node, attributes in graph.nodes(data=True):
        label = node.removeprefix("name:")
        attributes.update(known.get(node, {"label": label, "placement": where[node]}))
    return graph


def device_graph(transfers: pd.DataFrame, traffic: Traffic | None = None) -> nx.MultiDiGraph[str]:
    """Aggregate transfers by the memories they go between: `host`, `gpu:0`; edges as above."""
    graph = edges_between(transfers, memory_ends(transfers), traffic)
    for node, attributes in graph.nodes(data=True):
        attributes.update(label=node, placement=node)
    return graph


def edges_between(
    transfers: pd.DataFrame, ends: Ends, traffic: Traffic | None = None
) -> nx.MultiDiGraph[str]:
    """Aggregate transfers by their ends: nodes without attributes, edges as above."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    if transfers.empty:
        return graph
    direction = codes_of(transfers["direction"])
    keys = [*map(str, transfers["direction"].cat.categories), "unknown"]
    direction = np.where(direction < 0, len(keys) - 1, direction)
    width = len(ends.nodes)
    packed = (ends.source * width + ends.target) * len(keys) + direction
    distinct, edge = np.unique(packed, return_inverse=True)
    columns = _columns(transfers, _Sums(edge.reshape(-1), len(distinct)), traffic)
    named = []
    for k, number in enumerate(distinct.tolist()):
        between, key = divmod(number, len(keys))
        source, target = divmod(between, width)
        named.append((ends.nodes[source], ends.nodes[target], keys[key], k))
    for source_name, target_name, direction_name, k in sorted(named):
        attributes = {name: values[k] for name, values in columns.items()}
        graph.add_edge(source_name, target_name, key=direction_name, **attributes)
    return graph


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the transfers of each edge."""

    edge: NDArray[np.int64]  #: of each transfer
    size: int  #: number of edges

    def count(self, which: NDArray[np.bool_]) -> list[int]:
        """Return how many of each edge's transfers are among those marked."""
        counts: list[int] = np.bincount(self.edge[which], minlength=self.size).tolist()
        return counts

    def known(self, values: NDArray[np.int64], which: NDArray[np.bool_]) -> list[int | None]:
        """Return the sums of the values marked, None where an edge has none."""
        sums = sum_by(np.where(which, self.edge, -1), values, self.size).tolist()
        return [s if n else None for s, n in zip(sums, self.count(which), strict=True)]

    def shared(self, codes: NDArray[np.int64]) -> list[int]:
        """Return the code that all transfers of an edge have, -1 where they differ."""
        low = np.full(self.size, np.iinfo(np.int64).max)
        high = np.full(self.size, -1, np.int64)
        np.minimum.at(low, self.edge, codes)
        np.maximum.at(high, self.edge, codes)
        same: list[int] = np.where(low == high, high, -1).tolist()
        return same


def _columns(
    transfers: pd.DataFrame, sums: _Sums, traffic: Traffic | None
) -> dict[str, Sequence[object]]:
    size, sized = _integers(transfers["bytes"])
    took, timed = _integers(transfers["duration_ps"])
    count = sums.count(np.ones(len(transfers), np.bool_))
    both = sized & timed & (took > 0)
    columns: dict[str, Sequence[object]] = {
        "bytes": sums.known(size, sized),
        "count": count,
        "unknown_bytes": [n - m for n, m in zip(count, sums.count(sized), strict=True)],
        "total_ps": sums.known(took, timed),
        "exposed_ps": sums.known(*_integers(transfers["exposed_ps"])),
        "hidden_ps": [None] * sums.size,
        "bytes_per_s": [
            None if b is None or not t else b * PS_PER_S / t
            for b, t in zip(sums.known(size, both), sums.known(took, both), strict=True)
        ],
        "link_bytes_per_s": [None] * sums.size,
        "link_source": [None] * sums.size,
    }
    if traffic is not None:
        columns["hidden_ps"] = sums.known(*_integers(pd.Series(traffic.hidden_ps)))
        links = [None if k < 0 else traffic.links[k] for k in sums.shared(traffic.link)]
        columns["link_bytes_per_s"] = [None if x is None else x.bytes_per_s for x in links]
        columns["link_source"] = [None if x is None else x.source for x in links]
    for kind in ("pageable", "pinned"):
        of_kind = (transfers["memory"] == kind).to_numpy(np.bool_)
        columns[f"{kind}_count"] = sums.count(of_kind)
        columns[f"{kind}_bytes"] = sums.known(size, of_kind & sized)
    for name, is_async in (("async_count", True), ("sync_count", False)):
        known = (transfers["is_async"] == is_async).fillna(value=False)
        columns[name] = sums.count(known.to_numpy(np.bool_))
    return columns


def _integers(column: pd.Series[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column of integers, 0 where null, and where it is not null."""
    return column.fillna(0).to_numpy(np.int64), column.notna().to_numpy()
