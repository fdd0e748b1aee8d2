"""What holds of every trace that was recorded by others."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.memory import memory

pytestmark = needs_corpus

# With allocations; the others have none, and say nothing of memory.
WITH_RECORDS: Final = {
    "jax-rocm-attention",
    "jax-rocm-conv08",
    "jax-rocm-convlegacy",
    "jax-rocm-elementwise",
    "tfgpu-e4040-2023-hd2551",
    "tfgpu-fatma-cnn-sandor",
    "tfgpu-tfprofiler-multiworker",
    "tfmac-chiyo-dogsvscats",
    "tpu-xprof-inference2",
}
FOLDERS: Final = sorted(f.name for f in CORPUS.glob("*/")) if CORPUS.is_dir() else []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_parts_of_each_peak_add_up(folder: str) -> None:
    told = 0
    try:
        names = ta.runs(CORPUS / folder)
    except TraceAnalyzerError:
        names = ()
    for name in names:
        try:
            run = ta.load(CORPUS / folder, run=name)
        except TraceAnalyzerError:
            continue
        for host in run.hosts:
            table = host.tables.allocations
            for use in host.memory:
                told += 1
                rows = table[table["allocator"] == use.allocator]
                in_use = (rows["bytes_allocated"] + rows["bytes_reserved"]).to_numpy(np.int64)
                peak = use.peak
                assert peak is not None
                assert peak.bytes == in_use.max()
                parts = (
                    peak.named_bytes,
                    peak.unnamed_bytes,
                    peak.before_bytes,
                    peak.reserved_bytes,
                )
                assert min(parts) >= 0
                assert sum(parts) == peak.bytes
                assert peak.unaccounted_bytes == 0  # none of these traces lost a record
                assert peak.holders["bytes"].sum() == peak.named_bytes + peak.unnamed_bytes
                assert peak.holders["bytes"].is_monotonic_decreasing
                assert use.limit_bytes is not None
                assert use.highest_bytes is not None
                assert peak.bytes <= use.highest_bytes <= use.limit_bytes
                assert len(use.timeline) <= 1000
                assert use.timeline["at_ps"].is_monotonic_increasing
                assert use.timeline["bytes"].max() == peak.bytes
                assert use.timeline["bytes"].min() == in_use.min()
                assert (use.steps["end_bytes"] <= use.steps["peak_bytes"]).all()
                assert (use.steps["peak_bytes"] <= peak.bytes).all()
                assert use.growth is None  # none of them leaks
        assert (memory(run) is None) == (not told)
    assert bool(told) == (folder in WITH_RECORDS)
