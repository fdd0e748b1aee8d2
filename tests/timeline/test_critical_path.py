"""Critical paths through the steps of hand-written traces."""

import pytest

from tests.tables.reading import tables_of
from tests.timeline.test_device_parts import gemm, shown
from tests.traces import (
    Plane,
    call,
    copy,
    eager,
    event,
    executor,
    gpu,
    host,
    launch,
    line,
    op,
    step,
    stream,
    thread,
    us,
)
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.timeline.device_parts import host_timeline
from traceanalyzer.timeline.walk import critical_path


def path_of(*planes: Plane) -> tuple[list[tuple[float, float, str, str]], HostTables]:
    tables = tables_of(*planes)
    return shown(critical_path(tables, host_timeline(tables), tables.steps), tables), tables


def test_a_step_that_waits_for_the_device_goes_through_it() -> None:
    python = line("python")(
        step(0, us(0, 100))(
            eager("UniqueV2", us(5, 30)),
            eager("MatMul", us(36, 10))(launch(us(40, 2), 1), launch(us(43, 2), 2)),
            event("cuStreamSynchronize", us(50, 45), correlation_id=9),
        )
    )
    device = stream(13, "Compute")(gemm(us(45, 20), 1), gemm(us(68, 22), 2))

    found, _ = path_of(host(python), gpu(0, device))

    assert found == [
        (0, 5, "PROGRAM", ""),
        (5, 35, "HOST_OP", "UniqueV2"),
        (35, 36, "PROGRAM", ""),
        (36, 40, "LAUNCH", "MatMul"),
        (40, 42, "LAUNCH", ""),
        (42, 45, "QUEUED", ""),
        (45, 65, "COMPUTE", "MatMul"),
        (65, 68, "QUEUED", ""),  # launched long before: the device's own gap
        (68, 90, "COMPUTE", "MatMul"),
        (90, 95, "RUNTIME", ""),  # until the thread heard of it
        (95, 100, "PROGRAM", ""),
    ]


def test_that_a_wait_was_for_what_ended_last_is_proved_only_of_a_single_stream() -> None:
    python = line("python")(
        step(0, us(0, 100))(
            eager("MatMul", us(36, 10))(launch(us(40, 2), 1), launch(us(43, 2), 2)),
            event("cuStreamSynchronize", us(50, 45), correlation_id=9),
        )
    )
    streams = stream(13, "Compute")(gemm(us(45, 20), 1)), stream(14, "Compute")(gemm(us(46, 44), 2))

    found, _ = path_of(host(python), gpu(0, *streams))

    assert found[-3:] == [
        (46, 90, "COMPUTE?", "MatMul"),
        (90, 95, "RUNTIME?", ""),  # the thread may have waited for the other stream
        (95, 100, "PROGRAM", ""),
    ]


def test_a_step_that_waits_for_nothing_stays_on_its_thread() -> None:
    """The device's work goes on beside it, and makes the step no longer."""
    python = line("python")(
        step(0, us(0, 100))(
            eager("MatMul", us(0, 10))(launch(us(5, 2), 1)), eager("UniqueV2", us(20, 70))
        )
    )
    device = stream(13, "Compute")(gemm(us(10, 85), 1))

    found, _ = path_of(host(python), gpu(0, device))

    assert (20, 90, "HOST_OP", "UniqueV2") in found
    assert not [part for part in found if part[2] == "COMPUTE"]


def test_a_program_without_recorded_calls_is_unattributed() -> None:
    """JAX makes no TensorFlow calls, so the trace does not show waits for the device."""
    python = line("python")(step(0, us(0, 100))(event("PjitFunction(f)", us(5, 90))))
    device = stream(13, "Compute")(gemm(us(10, 85), 1))
    planes = host(python), gpu(0, device)

    found, tables = path_of(*planes)

    assert found == [(0, 100, "UNATTRIBUTED", "")]
    (parts,) = host_timeline(tables).devices
    assert shown(parts.parts, tables) == [
        (0, 10, "UNATTRIBUTED", ""),
        (10, 95, "COMPUTE", ""),
        (95, 100, "UNATTRIBUTED", ""),
    ]


@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_the_path_leads_from_a_call_to_the_copy_that_started_it(way: str) -> None:
    """Another op, which ended while the copy ran, did not start the call."""
    python = line("python")(step(0, us(0, 100))(call("f", us(2, 96), step=-7)))
    sends = thread("tf_Compute", 2)(
        executor(us(5, 30), step=-7)(
            op("a", "Unique", us(6, 10)), launch(us(20, 2), 1, f"cuMemcpy{way}Async_v2")
        )
    )
    other = thread("tf_Compute", 3)(executor(us(6, 50), step=-7)(op("b", "Where", us(7, 43))))
    takes = thread("tf_Compute", 4)(executor(us(72, 20), step=-7)(op("c", "Unique", us(73, 18))))
    device = (
        stream(13, "Compute")(gemm(us(1, 1), 9)),
        stream(14, f"Memcpy{way}")(copy(way, 64, us(25, 45), correlation=1)),
    )

    found, _ = path_of(host(python, sends, other, takes), gpu(0, *device))

    assert (25, 70, "COPY?", "") in found
    assert [part[3] for part in found if part[3]] == ["Unique", "Unique"]  # before it, and after
