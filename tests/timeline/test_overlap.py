"""How much of host work and copies is hidden by kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tables.reading import tables_of
from tests.timeline.test_device_parts import US, gemm
from tests.traces import copy, eager, gpu, host, launch, line, stream, us
from traceanalyzer.timeline.device_parts import host_timeline
from traceanalyzer.timeline.intervals import Intervals
from traceanalyzer.timeline.phase import overlap_share


def share(from_us: int, to_us: int, *, with_copy: bool = True) -> float | None:
    python = line("python")(
        eager("MatMul", us(0, 10))(launch(us(5, 2), 1)), eager("UniqueV2", us(20, 40))
    )
    streams = [
        stream(13, "Compute")(gemm(us(10, 20), 1)),
        *([stream(14, "MemcpyH2D")(copy("H2D", 64, us(25, 15)))] if with_copy else []),
    ]
    tables = tables_of(host(python), gpu(0, *streams))
    timeline = host_timeline(tables)
    within = Intervals(np.array([from_us * US]), np.array([to_us * US]))
    return overlap_share(tables, timeline.devices[0], timeline.shifts_ps["/device:GPU:0"], within)


@pytest.mark.parametrize(
    ("from_us", "to_us", "expected"),
    [
        (0, 100, 10 / 40),  # the op from 20 to 60, the copy within it, kernels until 30
        (0, 30, 1.0),
        (30, 100, 0.0),
        (70, 100, None),  # nothing went on beside
    ],
)
def test_of_the_time_of_ops_and_copies(from_us: int, to_us: int, expected: float | None) -> None:
    assert share(from_us, to_us) == expected
