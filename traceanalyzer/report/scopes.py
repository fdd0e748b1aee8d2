"""The tab Scopes: where the time went by name scope, as a tree.

An op's name contains the scopes it was made in, separated by slashes: Keras layers, `tf.Module`s
and other `tf.name_scope`s.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd
from msgspec.structs import replace

from traceanalyzer.model import blocks as b
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.run import Run

_MEASURES: Final[tuple[tuple[str, b.Unit], ...]] = (
    ("CPU and device time", "us"),
    ("CPU-op time", "us"),
    ("Device time", "us"),
    ("Launch time", "us"),
    ("Ops", "count"),
)
_MAX_NODES: Final = 1_000
_MAX_DEPTH: Final = 16  # parts of a name; the last contains all deeper ones
_LONGEST: Final = 200  # characters of a part
_ON_THE_HOST: Final = ("cpu", "host_memory", "unknown")
_NOTE: Final = (
    "Time of the whole recording. A name between slashes is a scope, such as a Keras layer."
)
# inline_function_utils.cc prefixes the ops of an inlined function with the name of the call.
_CALLS: Final = re.compile(r"(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+(?=.)")


class _Tree:
    """Nodes, each after its parent; the root is not among them."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, str, str], int] = {}  # node above, kind, label
        self.op_of: dict[int, int] = {}  # the op of a node

    def add(self, path: list[tuple[str, str]]) -> int:
        """Add the nodes of a path; return the last."""
        at = -1
        for kind, label in path:
            at = self.places.setdefault((at, kind, _short(label)), len(self.places))
        return at


def scopes_tab(run: Run) -> b.Tab | None:
    """Return the tab; None if no op took any time.

    The time of a CPU op is its host time; that of a device op is its kernel time, with its host
    time (to launch it) apart. Events of the runtime are left out.
    """
    ops = run.ops[run.ops["role"] != Role.RUNTIME]
    is_host = ops["placement"].isin(_ON_THE_HOST).to_numpy()
    host_ps = ops["host_self_ps"].to_numpy(np.float64)
    kernel_ps = ops["kernel_ps"].to_numpy(np.float64)
    took = np.stack([np.where(is_host, host_ps, 0), kernel_ps, np.where(is_host, 0, host_ps)])
    has_time = took.sum(axis=0) > 0
    if not has_time.any():
        return None
    ops, tree = ops[has_time], _Tree()
    leaf = np.array([tree.add(path) for path in _paths(ops)], np.int64)
    tree.op_of = dict(zip(leaf.tolist(), range(len(leaf)), strict=True))
    ones = np.ones((1, len(leaf)))
    own = np.concatenate([took[:, has_time], ones])
    sums = [np.bincount(leaf, column, len(tree.places)) for column in own]
    values = np.stack(sums).astype(np.float64)
    above = [place[0] for place in tree.places]
    for node in range(len(above) - 1, -1, -1):  # children come after parents
        if above[node] >= 0:
            values[:, above[node]] += values[:, node]
    nodes = list(_nodes(tree, values, ops["op_id"].tolist()))
    shown = [k for k in range(len(_MEASURES)) if any(node.values[k] for node in nodes)]
    icicle = b.Icicle(
        measures=tuple(_MEASURES[k] for k in shown),
        nodes=tuple(replace(n, values=tuple(n.values[k] for k in shown)) for n in nodes),
    )
    return b.Tab(id="scopes", title="Scopes", blocks=(icicle, b.Note(text=(_NOTE,))))


def _paths(ops: pd.DataFrame) -> Iterator[list[tuple[str, str]]]:
    """Yield the kinds and labels of the nodes from the root to each op."""
    columns = ("name", "function", "is_eager", "in_input_pipeline")
    for name, function, is_eager, in_pipeline in zip(*(ops[c] for c in columns), strict=True):
        parts = _CALLS.sub("", str(name), count=1).split("/", _MAX_DEPTH - 1)
        path = [("scope", part) for part in parts if part] or [("scope", str(name))]
        root: list[tuple[str, str]] = []
        if in_pipeline:
            root = [("group", "input pipeline (tf.data)")]
        elif len(path) == 1 and not pd.isna(function):
            root = [("function", str(function))]
        elif len(path) == 1:
            root = [("group", "run eagerly" if is_eager else "in no function")]
        yield root + path


def _short(part: str) -> str:
    half = _LONGEST // 2
    return part if len(part) <= _LONGEST else f"{part[:half]}…{part[-half:]}"


def _nodes(tree: _Tree, values: NDArray[np.float64], op_ids: list[str]) -> Iterator[b.IcicleNode]:
    """Yield the longest nodes; the omitted children of each become one node, with their number."""
    above = np.array([place[0] for place in tree.places])
    # No node took longer than its parent, which comes first: the kept nodes form a tree.
    order = np.lexsort((np.arange(len(above)), -values[2], -values[0] - values[1]))
    kept, cut = order[:_MAX_NODES], order[_MAX_NODES:]
    place = np.full(len(above) + 1, -1)  # the last entry is for -1, no node
    place[kept] = np.arange(len(kept))
    parents, known = set(above.tolist()), list(tree.places)
    for node in kept.tolist():
        _, kind, label = known[node]
        kind = "op" if kind == "scope" and node not in parents else kind
        is_op = node in tree.op_of and values[3, node] == 1
        op_id = op_ids[tree.op_of[node]] if is_op else None
        yield _node(int(place[above[node]]), label, kind, values[:, node], op_id)
    cut = cut[(above[cut] < 0) | (place[above[cut]] >= 0)]  # below a node that is kept
    for parent in np.unique(place[above[cut]]).tolist():
        rest = cut[place[above[cut]] == parent]
        yield _node(parent, f"{len(rest):,} smaller", "others", values[:, rest].sum(axis=1))


def _node(
    above: int, label: str, kind: str, values: NDArray[np.float64], op_id: str | None = None
) -> b.IcicleNode:
    cpu, device, launch = (round(ps / PS_PER_US, 3) for ps in values[:3].tolist())
    shown = (round(cpu + device, 3), cpu, device, launch, float(values[3]))
    return b.IcicleNode(parent=above, label=label, kind=kind, values=shown, op_id=op_id)
