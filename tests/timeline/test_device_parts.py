"""The parts of devices' time in hand-written traces."""

import numpy as np
import pandas as pd
import pytest

from tests.tables.reading import tables_of
from tests.traces import (
    Event,
    Line,
    Plane,
    Span,
    copy,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    stream,
    thread,
    us,
)
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.timeline.device_parts import host_timeline, overlap_share, with_exposed
from traceanalyzer.timeline.intervals import Intervals
from traceanalyzer.timeline.walk import Parts, Phase

US = 1_000_000


def shown(parts: Parts, tables: HostTables) -> list[tuple[float, float, str, str]]:
    """Start and end in us, phase, and type of the op."""
    types = [*tables.ops["type"], ""]
    columns = zip(parts.start_ps, parts.end_ps, parts.phase, parts.row, strict=True)
    return [(start / US, end / US, Phase(p).name, types[row]) for start, end, p, row in columns]


def parts_of(*planes: Plane, device: int = 0) -> list[tuple[float, float, str, str]]:
    tables = tables_of(*planes)
    timeline = host_timeline(tables)
    (found,) = [d for d in timeline.devices if d.device == f"/device:GPU:{device}"]
    return shown(found.parts, tables)


def gemm(at: Span, correlation: int) -> Event:
    """A kernel that names no op: that of the eager op it was launched in."""
    return kernel("gemm", at, correlation=correlation)


def between_two_launches(*events: Event) -> Line:
    return line("python")(
        eager("MatMul", us(0, 10))(launch(us(5, 2), 1)),
        *events,
        eager("MatMul", us(75, 10))(launch(us(80, 2), 2)),
    )


DEVICE = gpu(0, stream(13, "Compute")(gemm(us(10, 5), 1), gemm(us(85, 5), 2)))


def test_a_device_waits_for_the_op_that_kept_its_thread() -> None:
    found = parts_of(host(between_two_launches(eager("UniqueV2", us(20, 50)))), DEVICE)

    assert found == [
        (10, 15, "COMPUTE", ""),
        (15, 20, "PROGRAM", ""),
        (20, 70, "HOST_OP", "UniqueV2"),
        (70, 75, "PROGRAM", ""),
        (75, 80, "LAUNCH", "MatMul"),
        (80, 82, "LAUNCH", ""),
        (82, 85, "QUEUED", ""),
        (85, 90, "COMPUTE", ""),
    ]


@pytest.mark.parametrize(
    ("op_type", "phase", "exposed_us"),
    [("Unique", "UNPLACED", None), ("IteratorGetNext", "INPUT", 50)],
)
def test_an_op_of_unknown_placement_is_no_op_of_the_host_but_input_is_waited_for_anyway(
    op_type: str, phase: str, exposed_us: int | None
) -> None:
    """Both ops have kernels for both devices, and the trace does not show which one ran."""
    tables = tables_of(host(between_two_launches(eager(op_type, us(20, 50)))), DEVICE)
    timeline = host_timeline(tables)

    assert (20, 70, phase, op_type) in shown(timeline.devices[0].parts, tables)
    ops = with_exposed(tables, timeline).ops.set_index("type")
    assert ops["placement"][op_type] == "unknown"
    assert ops["exposed_ps"]["MatMul"] == 0
    exposed_ps = ops["exposed_ps"][op_type]
    assert (None if pd.isna(exposed_ps) else exposed_ps / US) == exposed_us


def test_an_occupant_of_a_gap_is_not_its_producer() -> None:
    python = line("python")(
        eager("MatMul", us(0, 10))(launch(us(5, 2), 1)),
        eager("MatMul", us(80, 10))(launch(us(80, 2), 2)),
    )
    other = line("worker")(eager("UniqueV2", us(20, 50)))  # of a thread that launches nothing
    device = stream(13, "Compute")(gemm(us(10, 5), 1), gemm(us(82, 5), 2))

    found = parts_of(host(python, other), gpu(0, device))

    assert found[1:3] == [(15, 80, "PROGRAM", ""), (80, 82, "LAUNCH", "")]


def test_exposed_is_not_blocking() -> None:
    """A kernel launched long before waits in the device's queue, whatever the host does."""
    python = line("python")(
        eager("MatMul", us(0, 10))(launch(us(2, 2), 1), launch(us(5, 2), 2)),
        eager("UniqueV2", us(12, 60)),
    )
    device = stream(13, "Compute")(gemm(us(10, 5), 1), gemm(us(40, 5), 2))

    found = parts_of(host(python), gpu(0, device))

    assert found == [(10, 15, "COMPUTE", ""), (15, 40, "QUEUED", ""), (40, 45, "COMPUTE", "")]


def test_a_thread_pool_shows_which_thread_handed_work_over() -> None:
    python = line("python")(
        eager("UniqueV2", us(10, 40)),
        event("ThreadpoolListener::Record", us(52), _pt=13, _p=99),
        eager("ListDiff", us(55, 40)),  # afterwards, and so of no matter
    )
    worker = thread("tf_Compute", 1)(
        event("ThreadpoolListener::StartRegion", us(60), _ct=13, _c=99),
        executor(us(61, 9), step=7)(launch(us(62, 2), 2)),
    )
    device = stream(13, "Compute")(
        kernel("fill", us(0, 5), op="zeros/Fill:Fill"),
        kernel("gather", us(66, 5), op="gather/Gather:Gather", correlation=2),
    )

    found = parts_of(host(python, worker), gpu(0, device))

    assert found == [
        (0, 5, "COMPUTE", ""),
        (5, 10, "PROGRAM", ""),
        (10, 50, "HOST_OP", "UniqueV2"),
        (50, 52, "PROGRAM", ""),
        (52, 62, "RUNTIME", ""),
        (62, 64, "LAUNCH", ""),
        (64, 66, "QUEUED", ""),
        (66, 71, "COMPUTE", ""),
    ]


def test_devices_clocks_that_are_early_are_set_right() -> None:
    python = line("python")(
        eager("MatMul", us(100, 10))(launch(us(105, 2), 1)),
        eager("UniqueV2", us(120, 50)),
        eager("MatMul", us(170, 10))(launch(us(170, 2), 2)),
    )
    early = stream(13, "Compute")(gemm(us(70, 5), 1), gemm(us(135, 5), 2))  # by 35 us
    tables = tables_of(host(python), gpu(0, early))

    timeline = host_timeline(tables)

    assert timeline.shifts_ps == {"/device:GPU:0": 35 * US}
    assert shown(timeline.devices[0].parts, tables) == [
        (105, 110, "COMPUTE", ""),
        (110, 120, "PROGRAM", ""),
        (120, 170, "HOST_OP", "UniqueV2"),
        (170, 175, "COMPUTE", ""),
    ]


@pytest.mark.parametrize(
    ("from_us", "to_us", "expected"),
    [
        (0, 100, 10 / 40),  # the op from 20 to 60, the copy within it, kernels until 30
        (0, 30, 1.0),
        (30, 100, 0.0),
        (70, 100, None),  # nothing went on beside
    ],
)
def test_how_much_of_the_time_of_ops_and_copies_a_kernel_hides(
    from_us: int, to_us: int, expected: float | None
) -> None:
    python = line("python")(
        eager("MatMul", us(0, 10))(launch(us(5, 2), 1)), eager("UniqueV2", us(20, 40))
    )
    copied = stream(14, "MemcpyH2D")(copy("H2D", 64, us(25, 15)))
    tables = tables_of(host(python), gpu(0, stream(13, "Compute")(gemm(us(10, 20), 1)), copied))
    timeline = host_timeline(tables)
    within = Intervals(np.array([from_us * US]), np.array([to_us * US]))
    shift_ps = timeline.shifts_ps["/device:GPU:0"]
    assert overlap_share(tables, timeline.devices[0], shift_ps, within) == expected
