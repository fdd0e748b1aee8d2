"""The copy graph: who copied what to whom, by op and by device, and how well that went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import networkx as nx
import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.transfers.grouping import codes_of
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.transfers.traffic import Traffic

__all__ = [
    "HOST",
    "Ends",
    "copy_graph",
    "device_graph",
    "edges_between",
    "memory_ends",
    "op_ends",
]

HOST: Final = "host"
"""Node that stands for an unknown op in host memory; `gpu:0` and the like do for devices."""

_UNSEEN_DEVICE: Final = "device"  # the far end of a copy that only the host told of
_PEER: Final = "another device"  # a copy between devices is recorded on the one it leaves
_FROM_HOST: Final = ("h2d", "h2h")
_TO_HOST: Final = ("d2h", "h2h")


@dataclass(frozen=True, eq=False, kw_only=True)
class Ends:
    """What each copy goes between.

    Attributes:
        nodes: The distinct ends.
        source: Index into `nodes` of the end that each copy leaves, int64.
        target: Of the one that it reaches, int64.
    """

    nodes: tuple[str, ...]
    source: NDArray[np.int64]
    target: NDArray[np.int64]


def copy_graph(
    copies: pd.DataFrame, ops: pd.DataFrame, traffic: Traffic | None = None
) -> nx.MultiDiGraph[str]:
    """Aggregate copies into a graph of ops.

    Args:
        copies: The copy table.
        ops: The op table.
        traffic: What else is known of each copy, as from `copy_graph.traffic.traffic`.

    Returns:
        Nodes are op ids, `name:X` for an op that is only known by name, `host` or `gpu:0` where
        nothing is known; attributes `label`, `placement`. Edges, keyed by direction, carry sums
        over those of their copies that tell, None where none does:

        `bytes`, `count`, `unknown_bytes` (how many copies lack a size), `total_ps` (their time),
        `exposed_ps` (how long a device idled because of them), `hidden_ps` (of their time, while
        a kernel of their device ran); `bytes_per_s` of the copies whose size and time are known;
        `link_bytes_per_s` and `link_source`, what could be had (see `copy_graph.links.Link`; None
        where they took different links); `pageable_count`, `pageable_bytes`, `pinned_count`,
        `pinned_bytes`, by the host memory used; `async_count` and `sync_count`, whether the host
        waited. Of the others of `count` neither is known.
    """
    ends = op_ends(copies)
    graph = edges_between(copies, ends, traffic)
    known = {
        op_id: {"label": f"{name}:{op_type}", "placement": placement}
        for op_id, name, op_type, placement in zip(
            *(ops[c] for c in ("op_id", "name", "type", "placement")), strict=True
        )
    }
    memories = memory_ends(copies)
    where: dict[str, str] = {}
    for own, memory in ((ends.source, memories.source), (ends.target, memories.target)):
        last = dict(zip(own.tolist(), memory.tolist(), strict=True))
        where |= {ends.nodes[node]: memories.nodes[there] for node, there in last.items()}
    for node, attributes in graph.nodes(data=True):
        label = node.removeprefix("name:")
        attributes.update(known.get(node, {"label": label, "placement": where[node]}))
    return graph


def device_graph(copies: pd.DataFrame, traffic: Traffic | None = None) -> nx.MultiDiGraph[str]:
    """Aggregate copies by the memories they go between: `host`, `gpu:0`, ...; edges as above."""
    graph = edges_between(copies, memory_ends(copies), traffic)
    for node, attributes in graph.nodes(data=True):
        attributes.update(label=node, placement=node)
    return graph


def memory_ends(copies: pd.DataFrame) -> Ends:
    """Return the memory that each copy reads and the one it writes."""
    direction, directions = _coded(copies["direction"])
    device, devices = _coded(copies["device"])
    names = [*(placement_of_device(d) for d in devices), _UNSEEN_DEVICE]
    nodes = _Numbered()
    host, peer = nodes.number(HOST), nodes.number(_PEER)
    own = np.array([nodes.number(name) for name in names], np.int64)[device]
    told = np.array([*directions, None], dtype=object)
    from_host, to_host, to_peer = (
        np.isin(told, which)[direction] for which in (_FROM_HOST, _TO_HOST, ("p2p",))
    )
    return Ends(
        nodes=nodes.texts,
        source=np.where(from_host, host, own),
        target=np.where(to_host, host, np.where(to_peer, peer, own)),
    )


def op_ends(copies: pd.DataFrame) -> Ends:
    """Return what is at each end of each copy: the op, else its name, else the memory."""
    memories = memory_ends(copies)
    nodes = _Numbered()
    found = []
    for end, memory in (("producer", memories.source), ("consumer", memories.target)):
        op, op_ids = _coded(copies[end])
        name, names = _coded(copies[f"{end}_name"])
        texts = [*op_ids, *(f"name:{n}" for n in names), *memories.nodes]
        which = np.where(name >= 0, len(op_ids) + name, len(op_ids) + len(names) + memory)
        which = np.where(op >= 0, op, which)
        used = np.unique(which)
        number = np.full(len(texts), -1, np.int64)
        number[used] = [nodes.number(texts[k]) for k in used.tolist()]
        found.append(number[which])
    return Ends(nodes=nodes.texts, source=found[0], target=found[1])


class _Numbered:
    """Numbers texts in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def _coded(column: pd.Series[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Return a column of text as codes, -1 for null, and the texts."""
    return codes_of(column), [str(text) for text in column.cat.categories]


def edges_between(
    copies: pd.DataFrame, ends: Ends, traffic: Traffic | None = None
) -> nx.MultiDiGraph[str]:
    """Aggregate copies by what each goes between: nodes without attributes, edges as above."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    if copies.empty:
        return graph
    direction, directions = _coded(copies["direction"])
    # The last stands for a direction that is not known.
    keys = [*directions, "unknown"]
    direction = np.where(direction < 0, len(directions), direction)
    width = len(ends.nodes)
    packed = (ends.source * width + ends.target) * len(keys) + direction
    distinct, edge = np.unique(packed, return_inverse=True)
    sums = _Sums(edge.reshape(-1), len(distinct))
    columns = _columns(copies, sums, traffic)
    named = [
        (
            ends.nodes[e // len(keys) // width],
            ends.nodes[e // len(keys) % width],
            keys[e % len(keys)],
        )
        for e in distinct.tolist()
    ]
    for k in sorted(range(len(named)), key=named.__getitem__):
        source, target, key = named[k]
        attributes = {name: values[k] for name, values in columns.items()}
        graph.add_edge(source, target, key=key, **attributes)
    return graph


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the copies of each edge.

    Attributes:
        edge: The edge of each copy, int64.
        size: How many edges there are.
    """

    edge: NDArray[np.int64]
    size: int

    def count(self, which: NDArray[np.bool_]) -> list[int]:
        """Return how many of each edge's copies are among those marked."""
        counts: list[int] = np.bincount(self.edge[which], minlength=self.size).tolist()
        return counts

    def known(self, values: NDArray[np.int64], which: NDArray[np.bool_]) -> list[int | None]:
        """Return the sums of the values marked, None where an edge has none."""
        sums = sum_by(np.where(which, self.edge, -1), values, self.size).tolist()
        return [s if n else None for s, n in zip(sums, self.count(which), strict=True)]

    def shared(self, codes: NDArray[np.int64]) -> list[int]:
        """Return the code that all copies of an edge have, -1 where they differ."""
        low = np.full(self.size, np.iinfo(np.int64).max)
        high = np.full(self.size, -1, np.int64)
        np.minimum.at(low, self.edge, codes)
        np.maximum.at(high, self.edge, codes)
        same: list[int] = np.where(low == high, high, -1).tolist()
        return same


def _columns(
    copies: pd.DataFrame, sums: _Sums, traffic: Traffic | None
) -> dict[str, Sequence[object]]:
    every = np.ones(len(copies), np.bool_)
    size, sized = _integers(copies["bytes"])
    took, timed = _integers(copies["duration_ps"])
    exposed, has_exposed = _integers(copies["exposed_ps"])
    queued = copies["is_async"]
    is_known = queued.notna().to_numpy()
    is_async = queued.fillna(value=False).to_numpy(np.bool_) & is_known
    count = sums.count(every)
    both = sized & timed & (took > 0)
    columns: dict[str, Sequence[object]] = {
        "bytes": sums.known(size, sized),
        "count": count,
        "unknown_bytes": [n - m for n, m in zip(count, sums.count(sized), strict=True)],
        "total_ps": sums.known(took, timed),
        "exposed_ps": sums.known(exposed, has_exposed),
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
    memory, memories = _coded(copies["memory"])
    for kind in ("pageable", "pinned"):
        of_kind = np.array([*(m == kind for m in memories), False], np.bool_)[memory]
        columns[f"{kind}_count"] = sums.count(of_kind)
        columns[f"{kind}_bytes"] = sums.known(size, of_kind & sized)
    columns["async_count"] = sums.count(is_async)
    columns["sync_count"] = sums.count(is_known & ~is_async)
    return columns


def _integers(column: pd.Series[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a column of integers, 0 where null, and where it is not null."""
    return column.fillna(0).to_numpy(np.int64), column.notna().to_numpy()
