"""What each transfer goes between: ops, where they are known, and memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.tables.placements import placement_of_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

HOST: Final = "host"
"""Node for an unknown op in host memory; `gpu:0` and the like stand for devices."""

_UNSEEN_DEVICE: Final = "device"  # the far end of a transfer that only the host recorded
_PEER: Final = "another device"  # a transfer between devices is recorded on the one it leaves


@dataclass(frozen=True, eq=False)
class Ends:
    """What each transfer goes between: indices into `nodes`, int64."""

    nodes: tuple[str, ...]
    source: NDArray[np.int64]
    target: NDArray[np.int64]


def memory_ends(transfers: pd.DataFrame) -> Ends:
    """Return the memory that each transfer reads and the one that it writes."""
    device = codes_of(transfers["device"])
    names = [*map(placement_of_device, transfers["device"].cat.categories), _UNSEEN_DEVICE]
    nodes = list(dict.fromkeys((HOST, _PEER, *names)))
    own = np.array([nodes.index(name) for name in names], np.int64)[device]
    direction = transfers["direction"]
    return Ends(
        tuple(nodes),
        np.where(direction.isin(("h2d", "h2h")).to_numpy(), nodes.index(HOST), own),
        np.select(
            [direction.isin(("d2h", "h2h")).to_numpy(), (direction == "p2p").to_numpy()],
            [nodes.index(HOST), nodes.index(_PEER)],
            own,
        ),
    )


def op_ends(transfers: pd.DataFrame) -> Ends:
    """Return what is at each end of each transfer: the op, else its name, else the memory."""
    memories = memory_ends(transfers)
    numbers: dict[str, int] = {}
    found = []
    for end, memory in (("producer", memories.source), ("consumer", memories.target)):
        op, name = codes_of(transfers[end]), codes_of(transfers[f"{end}_name"])
        op_ids, names = transfers[end].cat.categories, transfers[f"{end}_name"].cat.categories
        texts = [*map(str, op_ids), *(f"name:{n}" for n in names), *memories.nodes]
        which = np.where(name >= 0, len(op_ids) + name, len(op_ids) + len(names) + memory)
        which = np.where(op >= 0, op, which)
        used, place = np.unique(which, return_inverse=True)
        number = [numbers.setdefault(texts[k], len(numbers)) for k in used.tolist()]
        found.append(np.array(number, np.int64)[place.reshape(-1)])
    return Ends(tuple(numbers), *found)


def codes_of(column: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the codes of a column of text, -1 for null."""
    return np.asarray(column.cat.codes, np.int64)


def text_or_none(value: object) -> str | None:
    """Return a value of a text column, None for null."""
    return value if isinstance(value, str) else None


def grouped(
    rows: NDArray[np.int64], columns: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """Divide rising rows by their values in columns of codes, in the order of the codes."""
    if not len(rows):
        return []
    number = np.zeros(len(rows), np.int64)
    for column in columns:
        codes = column[rows] + 1
        number = number * (int(codes.max()) + 1) + codes
        # Numbered again with each column, so that the product always fits.
        number = np.unique(number, return_inverse=True)[1].reshape(-1).astype(np.int64)
    order = np.argsort(number, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(number[order])) + 1)
