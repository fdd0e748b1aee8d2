"""Where the time went by name scope: the tree that the names of ops make, cut to bounded size.

The parts of an op's name between slashes are the scopes it was made in: Keras layers, `tf.Module`s
and whatever opened a `tf.name_scope`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.model import Table
from traceanalyzer.model.times import Scopes
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.run import Run

_COLUMNS: Final = ("parent", "name", "kind", "cpu_us", "device_us", "launch_us", "ops")
_MAX_NODES: Final = 2_000
_MAX_DEPTH: Final = 16  # parts of a name; what is deeper stays together in the last
_LONGEST: Final = 400  # characters of a part
_ON_THE_HOST: Final = ("cpu", "host_memory", "unknown")
_EAGER: Final = "run eagerly"
_PIPELINE: Final = "input pipeline (tf.data)"
_NO_FUNCTION: Final = "in no function"
# inline_function_utils.cc puts the name of the call before those of what it called.
_CALLS: Final = re.compile(r"(?:(?:Stateful)?PartitionedCall(?:_\d+)?/)+(?=.)")


def scopes(run: Run) -> Scopes | None:
    """Return the time of a run's ops by name scope; None if no op took any.

    The time of a CPU op is its host time; that of a device op is its kernel time, with its host
    time (to launch it) apart. Events of the runtime are left out.
    """
    ops = run.ops[run.ops["role"] != Role.RUNTIME]
    is_host = ops["placement"].isin(_ON_THE_HOST).to_numpy()
    host_ps = ops["host_self_ps"].to_numpy(np.float64)
    took = np.stack(
        [
            np.where(is_host, host_ps, 0),
            ops["kernel_ps"].to_numpy(np.float64),
            np.where(is_host, 0, host_ps),
        ]
    )
    has_time = took.sum(axis=0) > 0
    if not has_time.any():
        return None
    words = _NameParts()
    tree = _tree(_paths(ops[has_time], words), took[:, has_time])
    return Scopes(nodes=_table(tree, words))


class _NameParts:
    """The parts of names, each with its number; roots have other kinds than scopes."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}

    def code(self, kind: str, word: str) -> int:
        return self.known.setdefault((kind, word), len(self.known))

    def listed(self) -> list[tuple[str, str]]:
        return list(self.known)


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
    is_parent: NDArray[np.bool_]
    took_ps: NDArray[np.float64]  # three kinds of time, by node
    ops: NDArray[np.int64]  # number of ops, by node


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
    parent = np.concatenate(parents)
    is_parent = np.zeros(made, bool)
    is_parent[parent[parent >= 0]] = True
    return _Tree(
        parent, np.concatenate(words), is_parent, np.concatenate(sums, axis=1),
        np.concatenate(counts),
    )  # fmt: skip


def _table(tree: _Tree, words: _NameParts) -> Table:
    """Cut the tree to its longest nodes: what is left out of each is one node, with its count."""
    weight = tree.took_ps[0] + tree.took_ps[1]
    # No node took longer than the one above it, which comes first: what is kept is a tree.
    order = np.lexsort((np.arange(len(weight)), -tree.took_ps[2], -weight))
    kept = order[:_MAX_NODES]
    place = np.full(len(weight) + 1, -1, np.int64)  # the last is of -1, which is nothing
    place[kept] = np.arange(len(kept))
    listed = words.listed()
    rows: list[tuple[Any, ...]] = []
    for node, above in zip(kept.tolist(), place[tree.parent[kept]].tolist(), strict=True):
        kind, word = listed[tree.word[node]]
        if kind == "scope" and not tree.is_parent[node]:
            kind = "op"
        took = (tree.took_ps[:, node] / PS_PER_US).tolist()
        rows.append((None if above < 0 else above, word, kind, *took, int(tree.ops[node])))
    rows += _others(tree, order[_MAX_NODES:], place)
    return Table(columns=_COLUMNS, rows=tuple(rows), total_rows=len(weight))


def _others(tree: _Tree, cut: NDArray[np.int64], place: NDArray[np.int64]) -> list[tuple[Any, ...]]:
    above = tree.parent[cut]
    direct = (above < 0) | (place[above] >= 0)
    cut, above = cut[direct], above[direct]
    found, inverse = np.unique(above, return_inverse=True)
    took = [np.bincount(inverse, part[cut], len(found)) / PS_PER_US for part in tree.took_ps]
    ops = np.bincount(inverse, tree.ops[cut], len(found)).astype(np.int64)
    numbers = np.bincount(inverse, minlength=len(found))
    return [
        (
            None if node < 0 else int(place[node]),
            f"{int(numbers[k]):,} smaller",
            "others",
            *(float(part[k]) for part in took),
            int(ops[k]),
        )
        for k, node in enumerate(found.tolist())
    ]
