"""Many small transfers, for which setting them off takes far longer than sending their bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.transfers.ends import codes_of, grouped, memory_ends, op_ends
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.transfers.ends import Ends
    from traceanalyzer.transfers.traffic import Traffic
    from traceanalyzer.transfers.transfer_steps import TransferSteps

_MANY: Final = 10  # in a step
_MANY_IN_A_TRACE: Final = 100  # without steps
_SLOWDOWN: Final = 4  # over the time that the bytes alone would take
_SLOWEST_BYTES_PER_S: Final = 1e9  # no GPU's link is slower: PCI Express 1 with four lanes
_MAX_EDGES: Final = 5


@dataclass(frozen=True, kw_only=True)
class SmallTransfers:
    """Many small transfers that go the same way."""

    source: str  #: the memory that they leave: `host`, `gpu:0`
    target: str
    direction: str
    count: int
    count_per_step: float | None  #: median over the steps; None without steps
    bytes_each: float  #: median
    time_ps: int
    time_each_ps: float  #: median
    carrying_ps: float | None  #: time that the bytes alone would take; None if the link is unknown
    edges: tuple[tuple[str, str, int], ...]  #: of the transfer graph, with most of them: and count
    edges_total: int


def small_transfers(
    transfers: pd.DataFrame, traffic: Traffic, steps: TransferSteps
) -> tuple[SmallTransfers, ...]:
    """Find many small transfers, those that take longest first.

    A transfer is small if it takes more than four times as long as its bytes would on its link.
    """
    size = transfers["bytes"].fillna(0).to_numpy(np.int64)
    took = transfers["duration_ps"].fillna(0).to_numpy(np.int64)
    rates = np.array([*(link.bytes_per_s for link in traffic.links), np.nan])[traffic.link]
    least_ps = size / np.where(np.isnan(rates), _SLOWEST_BYTES_PER_S, rates) * PS_PER_S
    is_sized = transfers["bytes"].notna().to_numpy()
    small = np.flatnonzero(is_sized & (took > 0) & (took > _SLOWDOWN * least_ps))
    if len(small) < _MANY:
        return ()
    memories, nodes = memory_ends(transfers), op_ends(transfers)
    found = []
    for rows, source, target in _by_ends(transfers, memories, small):
        counts = steps.counts(rows)
        if np.median(counts) < _MANY if len(counts) else len(rows) < _MANY_IN_A_TRACE:
            continue
        edges = [(a, b, len(part)) for part, a, b in _by_ends(transfers, nodes, rows)]
        edges.sort(key=lambda edge: (-edge[2], edge[:2]))
        found.append(
            SmallTransfers(
                source=source,
                target=target,
                direction=str(transfers["direction"].iloc[rows[0]]),
                count=len(rows),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(np.median(size[rows])),
                time_ps=int(took[rows].sum()),
                time_each_ps=float(np.median(took[rows])),
                carrying_ps=None if np.isnan(rates[rows]).any() else float(least_ps[rows].sum()),
                edges=tuple(edges[:_MAX_EDGES]),
                edges_total=len(edges),
            )
        )
    return tuple(sorted(found, key=lambda s: (-s.time_ps, s.source, s.target, s.direction)))


def _by_ends(
    transfers: pd.DataFrame, ends: Ends, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], str, str]]:
    """Divide rows of the transfer table by their ends and direction."""
    for part in grouped(rows, [ends.source, ends.target, codes_of(transfers["direction"])]):
        yield part, ends.nodes[ends.source[part[0]]], ends.nodes[ends.target[part[0]]]
