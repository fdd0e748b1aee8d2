"""Allocations: what the allocators of one host told of, with the op that asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.attributes import type_name
from traceanalyzer.tables.text_columns import categorical, filled, mapped
from traceanalyzer.trace.columns import Selected

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Plane, Strings


_NUMBERS: Final = (
    "requested_bytes",
    "allocation_bytes",
    "bytes_allocated",
    "bytes_reserved",
    "bytes_available",
    "peak_bytes_in_use",
    "addr",
)
# `BFCAllocator::AddTraceMe` (bfc_allocator.cc) of older versions, where no op was at work.
_NOTHING: Final = {"", "(null)"}
_LONGEST_NUMBER: Final = 9  # digits; types have three


def allocation_events(plane: Plane) -> pd.DataFrame:
    """Read `MemoryAllocation` and `MemoryDeallocation` events (bfc_allocator.cc).

    Returns:
        One row an event, in order of time: `start_ps`, `is_allocation`, `allocator`, the numbers
        of `_NUMBERS` (Int64, null where not told), `fragmentation` (Float64), `op_name` (a name
        without a type), `region_type`, `data_type`, `shape`.
    """
    made = plane.named("MemoryAllocation")
    event = np.concatenate([made, plane.named("MemoryDeallocation")])
    order = np.argsort(plane.start_ps[event], kind="stable")
    event = event[order]
    told = Selected(plane, event)
    columns: dict[str, object] = {
        "start_ps": plane.start_ps[event],
        "is_allocation": (np.arange(len(event)) < len(made))[order],
        "allocator": categorical(
            _allocator(told.strings("allocator_name"), told.strings("index_on_host"))
        ),
    }
    for stat in _NUMBERS:
        column = told.integers(stat)
        columns[stat] = pd.arrays.IntegerArray(column.values, ~column.present)
    share = told.floats("fragmentation")
    # Where nothing is free it is a quotient of zeros.
    columns["fragmentation"] = pd.arrays.FloatingArray(share, ~np.isfinite(share))
    columns["op_name"] = categorical(mapped(told.strings("tf_op"), _known))
    columns["region_type"] = categorical(mapped(told.strings("region_type"), _known))
    columns["data_type"] = categorical(mapped(told.strings("data_type"), _type))
    columns["shape"] = categorical(mapped(told.strings("shape"), _known))
    return pd.DataFrame(columns)


def _allocator(name: Strings, index: Strings) -> Strings:
    """Return allocators by name; those of TPUs have none and tell the number of their device."""
    return filled(name, mapped(index, lambda number: f"device {number}"))


def _known(text: str) -> str | None:
    return None if text in _NOTHING else text


def _type(text: str) -> str | None:
    """Return a type by name, `float`, or None for that of nothing (types.proto: DT_INVALID)."""
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        return text
    return type_name(int(text)) if int(text) else None
