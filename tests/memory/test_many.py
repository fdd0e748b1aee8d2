"""Many records: the work is that of arrays, and grows with their number."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd

from traceanalyzer.memory.use import memory_use
from traceanalyzer.tables.schema import ALLOCATIONS, STEPS

PAIRS = 250_000


def records() -> pd.DataFrame:
    """As many blocks, taken and given back at random, in two allocators."""
    draw = np.random.default_rng(7)
    start = np.sort(draw.integers(0, 10**12, PAIRS))
    at = np.concatenate([start, start + draw.integers(1, 10**9, PAIRS)])
    order = np.argsort(at, kind="stable")
    block = np.tile(np.arange(PAIRS), 2)[order]
    is_allocation = np.repeat([True, False], PAIRS)[order]
    size = (draw.integers(1, 4000, PAIRS) * 256)[block]
    pool = draw.integers(0, 2, PAIRS)[block]
    signed = np.where(is_allocation, size, -size)
    in_use = np.where(pool == 0, np.cumsum(signed * (pool == 0)), np.cumsum(signed * (pool == 1)))

    def texts(prefix: str, number: int) -> pd.Categorical:
        names = [f"{prefix}{k}" for k in range(number)]
        return pd.Categorical.from_codes((block % number).tolist(), names)

    columns = {
        "host": "h",
        "start_ps": at[order],
        "is_allocation": is_allocation,
        "allocator": pd.Categorical.from_codes(pool.tolist(), ["GPU_0_bfc", "gpu_host_bfc"]),
        "requested_bytes": size - 7,
        "allocation_bytes": size,
        "bytes_allocated": in_use,
        "bytes_reserved": 0,
        "bytes_available": 10**12 - in_use,
        "peak_bytes_in_use": in_use,
        "fragmentation": 0.5,
        "addr": draw.integers(0, 2**47, PAIRS)[block],
        "op_id": None,
        "op_name": texts("op", 2000),
        "region_type": texts("region", 3),
        "data_type": texts("type", 5),
        "shape": texts("shape", 500),
    }
    return ALLOCATIONS.frame([pd.DataFrame(columns)])


def test_half_a_million_records_take_no_second() -> None:
    table, steps = records(), STEPS.frame([])
    memory_use(table.head(1000), steps)  # loads machine code

    begin = time.process_time()
    found = memory_use(table, steps)
    took = time.process_time() - begin

    assert [use.allocator for use in found] == ["GPU_0_bfc", "gpu_host_bfc"]
    assert sum(use.records for use in found) == 2 * PAIRS
    for use in found:
        rows = table[table["allocator"] == use.allocator]
        assert use.peak is not None
        assert use.peak.bytes == rows["bytes_allocated"].max()
        assert (use.peak.before_bytes, use.peak.unaccounted_bytes) == (0, 0)
        assert use.peak.holders["bytes"].sum() == use.peak.bytes
        assert use.timeline["bytes"].max() == use.peak.bytes
    # An eighth of it where nothing else runs; a loop over records takes several seconds.
    assert took < 1
