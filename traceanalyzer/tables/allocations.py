"""What the allocators of one host recorded, with the op that each allocation was for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.attributes import type_name
from traceanalyzer.tables.arrays import categorical, filled, mapped
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Plane

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
    """Read `MemoryAllocation` and `MemoryDeallocation` events (bfc_allocator.cc), in order of time.

    The rows lack the column `op_id`: see `with_op_ids`.
    """
    made = plane.named("MemoryAllocation")
    event = np.concatenate([made, plane.named("MemoryDeallocation")])
    order = np.argsort(plane.start_ps[event], kind="stable")
    event = event[order]
    # Allocators of TPUs have no name, only the number of their device.
    by_number = mapped(plane.strings("index_on_host", event), lambda number: f"device {number}")
    columns: dict[str, object] = {
        "start_ps": plane.start_ps[event],
        "is_allocation": (np.arange(len(event)) < len(made))[order],
        "allocator": categorical(filled(plane.strings("allocator_name", event), by_number)),
    }
    for stat in _NUMBERS:
        column = plane.integers(stat, event)
        columns[stat] = pd.arrays.IntegerArray(column.values, ~column.present)
    share = plane.floats("fragmentation", event)
    # Where nothing is free it is a quotient of zeros.
    columns["fragmentation"] = pd.arrays.FloatingArray(share, ~np.isfinite(share))
    columns["op_name"] = categorical(mapped(plane.strings("tf_op", event), _text))
    columns["region_type"] = categorical(mapped(plane.strings("region_type", event), _text))
    columns["data_type"] = categorical(mapped(plane.strings("data_type", event), _type))
    columns["shape"] = categorical(mapped(plane.strings("shape", event), _text))
    return pd.DataFrame(columns)


def _text(text: str) -> str | None:
    return None if text in _NOTHING else text


def _type(text: str) -> str | None:
    """Return a type by name, `float`, or None for that of nothing (types.proto: DT_INVALID)."""
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        return text
    return type_name(int(text)) if int(text) else None


def with_op_ids(allocations: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Link allocations, which name an op without its type, to the row that alone has this name."""
    named = ops[~ops["is_eager"]]
    single = named[~named["name"].duplicated(keep=False)]
    ids = dict(zip(single["name"], single["op_id"], strict=True))
    names = allocations["op_name"].cat
    op_names = Strings(names.codes.to_numpy().astype(np.int32), tuple(names.categories))
    return allocations.assign(op_id=categorical(mapped(op_names, ids.get)))
