"""Storms of small copies: what it takes to set them off is far more than what they carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.transfers.graph import memory_ends, op_ends
from traceanalyzer.transfers.grouping import codes_of, grouped
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.transfers.graph import Ends
    from traceanalyzer.transfers.occasions import Occasions
    from traceanalyzer.transfers.traffic import Traffic

__all__ = ["Storm", "storms"]

_MANY: Final = 10  # in a step
_MANY_IN_A_TRACE: Final = 100  # where no steps are known
_FAR: Final = 4  # so many times what their bytes would take
_SLOWEST_BYTES_PER_S: Final = 1e9  # no GPU's link is slower: PCI Express 1 with four lanes
_EDGES: Final = 5


@dataclass(frozen=True, kw_only=True)
class Storm:
    """Many small copies that go the same way.

    Attributes:
        source: The memory that they leave: `host`, `gpu:0`.
        target: The one that they reach.
        direction: `h2d` and so on.
        count: How many.
        count_per_step: How many in a step, as the median over the steps; None without steps.
        bytes_each: Size, as their median.
        time_ps: Their time, summed.
        time_each_ps: Time of one, as their median.
        carrying_ps: What their bytes alone would take on their link; None where it is not known.
        edges: The edges of the copy graph with most of them: both nodes, and how many.
        edges_total: How many edges have some.
    """

    source: str
    target: str
    direction: str
    count: int
    count_per_step: float | None
    bytes_each: float
    time_ps: int
    time_each_ps: float
    carrying_ps: float | None
    edges: tuple[tuple[str, str, int], ...]
    edges_total: int


def storms(copies: pd.DataFrame, traffic: Traffic, when: Occasions) -> tuple[Storm, ...]:
    """Find storms of small copies, those that take longest first.

    A copy is small if it takes four times what its bytes would on its link, and more: that is what
    any copy takes, however few bytes it carries. Ten in a step are a storm.

    Args:
        copies: The copy table.
        traffic: What else is known of its rows.
        when: The steps of its rows.
    """
    size = copies["bytes"].fillna(0).to_numpy(np.int64)
    took = copies["duration_ps"].fillna(0).to_numpy(np.int64)
    rates = np.array([*(link.bytes_per_s for link in traffic.links), np.nan])[traffic.link]
    least_ps = size / np.where(np.isnan(rates), _SLOWEST_BYTES_PER_S, rates) * PS_PER_S
    is_sized = copies["bytes"].notna().to_numpy()
    small = np.flatnonzero(is_sized & (took > 0) & (took > _FAR * least_ps))
    if len(small) < _MANY:
        return ()
    memories, nodes = memory_ends(copies), op_ends(copies)
    found = []
    for rows, (source, target, direction) in _edges(copies, memories, small):
        counts = when.counts(rows)
        if np.median(counts) < _MANY if len(counts) else len(rows) < _MANY_IN_A_TRACE:
            continue
        links = np.unique(rates[rows])
        edges = [(len(r), e) for r, e in _edges(copies, nodes, rows)]
        edges.sort(key=lambda edge: (-edge[0], edge[1]))
        found.append(
            Storm(
                source=source,
                target=target,
                direction=direction,
                count=len(rows),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(np.median(size[rows])),
                time_ps=int(took[rows].sum()),
                time_each_ps=float(np.median(took[rows])),
                carrying_ps=None if np.isnan(links).any() else float(least_ps[rows].sum()),
                edges=tuple((a, b, n) for n, (a, b, _) in edges[:_EDGES]),
                edges_total=len(edges),
            )
        )
    return tuple(sorted(found, key=lambda s: (-s.time_ps, s.source, s.target, s.direction)))


def _edges(
    copies: pd.DataFrame, ends: Ends, rows: NDArray[np.int64]
) -> list[tuple[NDArray[np.int64], tuple[str, str, str]]]:
    """Divide rows of the copy table by their ends and direction."""
    direction = copies["direction"]
    parts = grouped(rows, [ends.source, ends.target, codes_of(direction)])
    return [
        (
            part,
            (
                ends.nodes[ends.source[part[0]]],
                ends.nodes[ends.target[part[0]]],
                str(direction.iloc[part[0]]),
            ),
        )
        for part in parts
    ]
