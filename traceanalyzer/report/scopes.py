"""Builds the "Scopes" tab: the time spent in each name scope, as a tree.

An op's name contains the scopes in which the op was created, separated by slashes: Keras layers,
`tf.Module`s, and other `tf.name_scope`s.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import pandas as pd
from msgspec.structs import replace
from numpy.typing import NDArray

from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import cut, phrase
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

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
# inline_function_utils.cc prefixes the ops of an inlined function with the name of the call.
_CALLS: Final = re.compile(r"(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+(?=.)")

_Place: TypeAlias = tuple[int, str, str]  # the node above (-1: none), kind, label


def scopes_tab(run: Run) -> b.Tab | None:
    """Return the "Scopes" tab, or None if no op took any time.

    A CPU op's time is its host time. A device op's time is its kernel time; its host time, for
    the launch, is shown separately. Runtime events are left out.
    """
    ops = run.ops[run.ops["role"] != Role.RUNTIME]
    is_host = ops["placement"].isin(_ON_THE_HOST).to_numpy()
    host_ps = ops["host_self_ps"].to_numpy(np.float64)
    kernel_ps = ops["kernel_ps"].to_numpy(np.float64)
    ones = np.ones(len(ops))
    own = np.stack([np.where(is_host, host_ps, 0), kernel_ps, np.where(is_host, 0, host_ps), ones])
    has_time = own[:-1].sum(axis=0) > 0
    if not has_time.any():
        return None
    ops, own = ops[has_time], own[:, has_time]
    places: dict[_Place, int] = {}  # each node comes after the node above it
    leaf = np.full(len(ops), -1, np.int64)
    for k, path in enumerate(_paths(ops)):
        for kind, label in path:
            place = (int(leaf[k]), kind, cut(label, _LONGEST))
            leaf[k] = places.setdefault(place, len(places))
    summed = [np.bincount(leaf, column, len(places)) for column in own]
    values = np.stack(summed).astype(np.float64)
    above = [place[0] for place in places]
    for node in range(len(above) - 1, -1, -1):
        if above[node] >= 0:
            values[:, above[node]] += values[:, node]
    op_of = dict(zip(leaf.tolist(), ops["op_id"], strict=True))
    nodes = list(_nodes(list(places), values, op_of))
    shown = [k for k in range(len(_MEASURES)) if any(node.values[k] for node in nodes)]
    icicle = b.Icicle(
        measures=tuple(_MEASURES[k] for k in shown),
        nodes=tuple(replace(n, values=tuple(n.values[k] for k in shown)) for n in nodes),
    )
    return b.Tab(id="scopes", title="Scopes", blocks=(icicle, b.Note(text=(phrase("scopes"),))))


def _paths(ops: pd.DataFrame) -> Iterator[list[tuple[str, str]]]:
    """Yield each op's path from the root, as the kinds and labels of its nodes."""
    columns = ("name", "function", "is_eager", "in_input_pipeline")
    for name, function, is_eager, in_pipeline in zip(*(ops[c] for c in columns), strict=True):
        parts = _CALLS.sub("", str(name), count=1).split("/", _MAX_DEPTH - 1)
        path = [("scope", part) for part in parts if part] or [("scope", str(name))]
        if in_pipeline:
            yield [("group", "input pipeline (tf.data)"), *path]
        elif len(path) > 1:
            yield path
        elif pd.isna(function):
            yield [("group", "run eagerly" if is_eager else "in no function"), *path]
        else:
            yield [("function", str(function)), *path]


def _nodes(
    places: list[_Place], values: NDArray[np.float64], op_of: dict[int, str]
) -> Iterator[b.IcicleNode]:
    """Yield the nodes with the most time. A node's other children are combined into one."""
    above = np.array([place[0] for place in places])
    # No node took longer than its parent, which comes first: the kept nodes form a tree.
    order = np.lexsort((np.arange(len(above)), -values[2], -values[0] - values[1]))
    kept, rest = order[:_MAX_NODES], order[_MAX_NODES:]
    place = np.full(len(above) + 1, -1)  # the last entry is for -1, no node
    place[kept] = np.arange(len(kept))
    parents = set(above.tolist())
    for node in kept.tolist():
        _, kind, label = places[node]
        yield b.IcicleNode(
            parent=int(place[above[node]]),
            label=label,
            kind="op" if kind == "scope" and node not in parents else kind,
            values=_shown(values[:, node]),
            op_id=op_of.get(node) if values[-1, node] == 1 else None,
        )
    rest = rest[(above[rest] < 0) | (place[above[rest]] >= 0)]  # below a node that is kept
    for parent in np.unique(place[above[rest]]).tolist():
        smaller = rest[place[above[rest]] == parent]
        label, summed = f"{len(smaller):,} smaller", _shown(values[:, smaller].sum(axis=1))
        yield b.IcicleNode(parent=parent, label=label, kind="others", values=summed)


def _shown(values: NDArray[np.float64]) -> tuple[float, ...]:
    cpu, device, launch = (round(ps / PS_PER_US, 3) for ps in values[:3].tolist())
    return round(cpu + device, 3), cpu, device, launch, float(values[-1])
