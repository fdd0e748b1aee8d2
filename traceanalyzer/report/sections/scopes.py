"""The tab Scopes: where the time went by name scope, as a tree.

The parts of an op's name between slashes are the scopes it was made in: Keras layers, `tf.Module`s
and whatever opened a `tf.name_scope`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from traceanalyzer.model.blocks import Icicle, IcicleNode, Note, Tab
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.model.blocks import Unit
    from traceanalyzer.run import Run

_MEASURES: Final[tuple[tuple[str, Unit], ...]] = (
    ("CPU and device time", "us"),
    ("CPU-op time", "us"),
    ("Device time", "us"),
    ("Launch time", "us"),
    ("Ops", "count"),
)
_MAX_NODES: Final = 1_000
_MAX_DEPTH: Final = 16  # parts of a name; what is deeper stays together in the last
_LONGEST: Final = 200  # characters of a part
_ON_THE_HOST: Final = ("cpu", "host_memory", "unknown")
_EAGER: Final = "run eagerly"
_PIPELINE: Final = "input pipeline (tf.data)"
_NO_FUNCTION: Final = "in no function"
# inline_function_utils.cc puts the name of the call before those of what it called.
_CALLS: Final = re.compile(r"(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+(?=.)")


def scopes_tab(run: Run) -> Tab | None:
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
    words = _NameParts()
    ops = ops[has_time]
    tree = _tree(_paths(ops, words), took[:, has_time])
    note = "Time of the whole recording. A name between slashes is a scope, such as a Keras layer."
    icicle = _known(
        Icicle(measures=_MEASURES, nodes=tuple(_nodes(tree, words, ops["op_id"].tolist())))
    )
    return Tab(id="scopes", title="Scopes", blocks=(icicle, Note(text=(note,))))


def _known(icicle: Icicle) -> Icicle:
    """Return a tree without the measures that are zero everywhere."""
    shown = [k for k in range(len(_MEASURES)) if any(node.values[k] for node in icicle.nodes)]
    nodes = (replace(n, values=tuple(n.values[k] for k in shown)) for n in icicle.nodes)
    return Icicle(measures=tuple(_MEASURES[k] for k in shown), nodes=tuple(nodes))


class _NameParts:
    """The parts of names, each with its number; roots have other kinds than scopes."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}

    def code(self, kind: str, word: str) -> int:
        return self.known.setdefault((kind, word), len(self.known))


def _paths(ops: pd.DataFrame, words: _NameParts) -> NDArray[np.int64]:
    """Return a row of words for each op, from the root on; -1 after its end."""
    names = ops["name"].astype("category")
    by_name = _split(names.cat.categories.astype(str).tolist(), words)
    own = by_name[names.cat.codes.to_numpy(np.int64)]
    root = _roots(ops, words, is_bare=own[:, 1] < 0)
    full = np.concatenate([root[:, None], own], axis=1)
    bare = root < 0
    full[bare, :-1] = full[bare, 1:]
    full[bare, -1] = -1
    return full


def _split(names: Sequence[str], words: _NameParts) -> NDArray[np.int64]:
    out = np.full((len(names), _MAX_DEPTH), -1, np.int64)
    for row, name in enumerate(names):
        parts = _CALLS.sub("", name, count=1) if "PartitionedCall" in name[:24] else name
        found = parts.split("/", _MAX_DEPTH - 1)
        kept = [part for part in found if part] or [name]
        out[row, : len(kept)] = [words.code("scope", _short(part)) for part in kept]
    return out


def _short(part: str) -> str:
    half = _LONGEST // 2
    return part if len(part) <= _LONGEST else f"{part[:half]}…{part[-half:]}"


def _roots(
    ops: pd.DataFrame, words: _NameParts, *, is_bare: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the root above an op's name: its function if the name has no scope."""
    functions = ops["function"].astype("category")
    coded = [words.code("function", _short(str(f))) for f in functions.cat.categories]
    of_function = np.array([*coded, words.code("group", _NO_FUNCTION)], np.int64)
    root = np.where(is_bare, of_function[functions.cat.codes.to_numpy(np.int64)], -1)
    is_eager = ops["is_eager"].to_numpy(bool) & is_bare & ops["function"].isna().to_numpy()
    root = np.where(is_eager, words.code("group", _EAGER), root)
    in_pipeline = ops["in_input_pipeline"].to_numpy(bool)
    return np.where(in_pipeline, words.code("group", _PIPELINE), root)


@dataclass(frozen=True, eq=False)
class _Tree:
    """Nodes, those of a level before those of the next."""

    parent: NDArray[np.int64]  # -1 at the top
    word: NDArray[np.int64]  # number of its word
    took_ps: NDArray[np.float64]  # three kinds of time, by node
    ops: NDArray[np.int64]  # number of ops, by node
    op: NDArray[np.int64]  # an op of the node itself, -1 for none


def _tree(paths: NDArray[np.int64], took: NDArray[np.float64]) -> _Tree:
    at = np.full(len(paths), -1, np.int64)  # the node of each op, level by level
    parents, words, sums, counts = [], [], [], []
    made, factor = 0, int(paths.max()) + 1
    for level in range(paths.shape[1]):
        (rows,) = np.nonzero(paths[:, level] >= 0)
        if not len(rows):
            break
        keys = (at[rows] + 1) * factor + paths[rows, level]
        found, inverse = np.unique(keys, return_inverse=True)
        parents.append(found // factor - 1)
        words.append(found % factor)
        sums.append(np.stack([np.bincount(inverse, part[rows], len(found)) for part in took]))
        counts.append(np.bincount(inverse, minlength=len(found)))
        at[rows] = made + inverse
        made += len(found)
    op = np.full(made, -1, np.int64)
    op[at] = np.arange(len(at))
    return _Tree(
        np.concatenate(parents), np.concatenate(words), np.concatenate(sums, axis=1),
        np.concatenate(counts), op,
    )  # fmt: skip


def _nodes(tree: _Tree, words: _NameParts, op_ids: Sequence[str]) -> Iterator[IcicleNode]:
    """Yield the longest nodes; what is left out of each is one node, with its count."""
    weight = tree.took_ps[0] + tree.took_ps[1]
    # No node took longer than the one above it, which comes first: what is kept is a tree.
    order = np.lexsort((np.arange(len(weight)), -tree.took_ps[2], -weight))
    kept, cut = order[:_MAX_NODES], order[_MAX_NODES:]
    place = np.full(len(weight) + 1, -1, np.int64)  # the last is of -1, which is nothing
    place[kept] = np.arange(len(kept))
    listed, parents = list(words.known), set(tree.parent.tolist())
    for node in kept.tolist():
        kind, label = listed[tree.word[node]]
        kind = "op" if kind == "scope" and node not in parents else kind
        above = int(place[tree.parent[node]])
        made = _node(above, label, kind, tree.took_ps[:, node], int(tree.ops[node]))
        op = int(tree.op[node])
        yield replace(made, op_id=op_ids[op]) if op >= 0 and tree.ops[node] == 1 else made
    is_below_kept = (tree.parent[cut] < 0) | (place[tree.parent[cut]] >= 0)
    below = place[tree.parent[cut[is_below_kept]]]
    for above in np.unique(below).tolist():
        rest = cut[is_below_kept][below == above]
        label = f"{len(rest):,} smaller"
        yield _node(
            above, label, "others", tree.took_ps[:, rest].sum(axis=1), int(tree.ops[rest].sum())
        )


def _node(above: int, label: str, kind: str, took_ps: NDArray[np.float64], ops: int) -> IcicleNode:
    cpu, device, launch = (round(ps / PS_PER_US, 3) for ps in took_ps.tolist())
    return IcicleNode(
        parent=above,
        label=label,
        kind=kind,
        values=(round(cpu + device, 3), cpu, device, launch, float(ops)),
    )
