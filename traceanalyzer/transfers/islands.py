"""Finds the islands of a host: by the graphs that a capture recorded, else by copies alone.

With a capture the graph that ran says which ops are on the way. Without one only what the copies
themselves prove counts: an op that takes a value off a GPU and gives one back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.transfers.crossings import Crossings
from traceanalyzer.transfers.proved_islands import proved_islands
from traceanalyzer.transfers.recorded_islands import recorded_islands

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.transfers.dataflow import Recorded
    from traceanalyzer.transfers.island import Island

__all__ = ["islands"]


def islands(
    copies: pd.DataFrame, ops: pd.DataFrame, recorded: Recorded | None = None
) -> tuple[Island, ...]:
    """Find the islands of one host, those that copy most first.

    Args:
        copies: Its rows of the copy table.
        ops: Its rows of the op table, in the order of the records.
        recorded: The graphs that a capture recorded, or None.
    """
    crossing = Crossings(copies, ops)
    if not len(crossing.leaving):
        return ()
    found: list[Island] = []
    if recorded is not None:
        found = list(recorded_islands(crossing, recorded))
    seen = {op.op_id for island in found for op in island.ops}
    found += proved_islands(crossing, seen, guess=recorded is None)
    return tuple(
        sorted(
            found,
            key=lambda i: (
                -((i.arriving.bytes or 0) + (i.leaving.bytes or 0)),
                -((i.arriving.count or 0) + (i.leaving.count or 0)),
                i.function or "",
                [op.key for op in i.ops],
            ),
        )
    )
