"""Allocations: what the allocators of one host told of, with the op that asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.tables.text_columns import categorical

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Plane

__all__ = ["allocation_events"]

_NUMBERS = (
    "requested_bytes",
    "allocation_bytes",
    "bytes_allocated",
    "bytes_available",
    "peak_bytes_in_use",
    "addr",
)


def allocation_events(plane: Plane) -> pd.DataFrame:
    """Read `MemoryAllocation` and `MemoryDeallocation` events (bfc_allocator.cc).

    Returns:
        One row an event, in order of time: `start_ps`, `is_allocation`, `allocator`, the numbers
        of `_NUMBERS` (Int64, null where not told), `op_name` (a name without a type),
        `region_type`, `data_type`, `shape`.
    """
    made = plane.named("MemoryAllocation")
    event = np.concatenate([made, plane.named("MemoryDeallocation")])
    order = np.argsort(plane.start_ps[event], kind="stable")
    event = event[order]

    def text(stat: str) -> pd.Categorical:
        return categorical(plane.strings(stat).take(event))

    columns: dict[str, object] = {
        "start_ps": plane.start_ps[event],
        "is_allocation": (np.arange(len(event)) < len(made))[order],
        "allocator": text("allocator_name"),
    }
    for stat in _NUMBERS:
        column = plane.integers(stat)
        columns[stat] = pd.arrays.IntegerArray(column.values[event], ~column.present[event])
    for stat, name in (
        ("tf_op", "op_name"),
        ("region_type", "region_type"),
        ("data_type", "data_type"),
        ("shape", "shape"),
    ):
        columns[name] = text(stat)
    return pd.DataFrame(columns)
