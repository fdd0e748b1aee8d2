"""The copy graph: who copied what to whom, by op and by device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import networkx as nx
import numpy as np
import pandas as pd

from traceanalyzer.tables.placements import placement_of_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HOST", "copy_graph", "device_graph"]

HOST: Final = "host"
"""Node that stands for an unknown op in host memory; `gpu:0` and the like do for devices."""

_UNSEEN_DEVICE: Final = "device"  # the far end of a copy that only the host told of
_PEER: Final = "another device"  # a copy between devices is recorded on the one it leaves
_FROM_HOST: Final = ("h2d", "h2h")
_TO_HOST: Final = ("d2h", "h2h")


def copy_graph(copies: pd.DataFrame, ops: pd.DataFrame) -> nx.MultiDiGraph[str]:
    """Aggregate copies into a graph of ops.

    Args:
        copies: The copy table.
        ops: The op table.

    Returns:
        Nodes are op ids, `name:X` for an op that is only known by name, `host` or `gpu:0` where
        nothing is known; attributes `label`, `placement`. Edges, keyed by direction, carry `bytes`
        (of the copies whose size is known; None if none is), `count`, `unknown_bytes` (how many
        copies lack a size), `total_ps` (None if no duration is known) and `exposed_ps` (None until
        it is computed).
    """
    memories = _memories(copies)
    source, target = (
        _nodes(copies, end, memory)
        for end, memory in zip(("producer", "consumer"), memories, strict=True)
    )
    graph = _aggregate(copies, source, target)
    known = {
        op_id: {"label": f"{name}:{op_type}", "placement": placement}
        for op_id, name, op_type, placement in zip(
            *(ops[c] for c in ("op_id", "name", "type", "placement")), strict=True
        )
    }
    where = dict(zip(source.tolist(), memories[0].tolist(), strict=True))
    where |= dict(zip(target.tolist(), memories[1].tolist(), strict=True))
    for node, attributes in graph.nodes(data=True):
        label = node.removeprefix("name:")
        attributes.update(known.get(node, {"label": label, "placement": where[node]}))
    return graph


def device_graph(copies: pd.DataFrame) -> nx.MultiDiGraph[str]:
    """Aggregate copies by the memories they go between: `host`, `gpu:0`, ...; edges as above."""
    graph = _aggregate(copies, *_memories(copies))
    for node, attributes in graph.nodes(data=True):
        attributes.update(label=node, placement=node)
    return graph


def _memories(copies: pd.DataFrame) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the memory that each copy reads and the one it writes."""
    direction = copies["direction"].astype(object).to_numpy()
    categories = copies["device"].cat.categories
    names = [*(placement_of_device(str(c)) for c in categories), _UNSEEN_DEVICE]
    device = np.array(names, dtype=object)[copies["device"].cat.codes.to_numpy()]
    reached = np.where(direction == "p2p", _PEER, device)
    return (
        np.where(np.isin(direction, _FROM_HOST), HOST, device),
        np.where(np.isin(direction, _TO_HOST), HOST, reached),
    )


def _nodes(copies: pd.DataFrame, end: str, memory: NDArray[Any]) -> NDArray[Any]:
    """Return the node at one end of each copy: the op, else its name, else the memory."""
    op = copies[end].astype(object).to_numpy()
    name = copies[f"{end}_name"].astype(object).to_numpy()
    named = np.array(
        [f"name:{n}" if isinstance(n, str) else m for n, m in zip(name, memory, strict=True)],
        dtype=object,
    )
    return np.where(pd.notna(op), op, named)


def _aggregate(
    copies: pd.DataFrame, source: NDArray[Any], target: NDArray[Any]
) -> nx.MultiDiGraph[str]:
    size, took = copies["bytes"], copies["duration_ps"]
    table = pd.DataFrame(
        {
            "source": source,
            "target": target,
            "direction": copies["direction"].astype(object).to_numpy(),
            "bytes": size.fillna(0).to_numpy(np.int64),
            "sized": size.notna().to_numpy(np.int64),
            "total_ps": took.fillna(0).to_numpy(np.int64),
            "timed": took.notna().to_numpy(np.int64),
            "copies": np.ones(len(copies), np.int64),
        }
    )
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    sums = table.groupby(["source", "target", "direction"], sort=True).sum().reset_index()
    columns = (sums[name].tolist() for name in table.columns)
    for a, b, direction, known_bytes, sized, total_ps, timed, count in zip(*columns, strict=True):
        graph.add_edge(
            a,
            b,
            key=direction,
            bytes=known_bytes if sized else None,
            count=count,
            unknown_bytes=count - sized,
            total_ps=total_ps if timed else None,
            exposed_ps=None,
        )
    return graph
