"""Where the time goes, in all and in each step, as the document tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_costs import run_of, run_of_two_gpus
from tests.traces import (
    eager,
    event,
    gpu,
    host,
    kernel,
    launch,
    line,
    step,
    stream,
    us,
    write,
    xspace,
)
from traceanalyzer.costs import Costs
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.steps import critical_paths, timeline
from traceanalyzer.run import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.run import Run


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of_two_gpus()


def test_the_phases_of_each_device_add_up_to_its_step(run: Run) -> None:
    found = timeline(run)

    assert found is not None
    for device in found.devices:
        assert (device.steps, device.us_per_step) == (4, 100)
        assert sum(p.us for p in device.phases) == pytest.approx(100)
        assert sum(p.share for p in device.phases) == pytest.approx(1)


def test_the_gpus_idle_share_is_of_the_steps_not_of_the_recording(tmp_path: Path) -> None:
    python = line("python")(
        step(0, us(0, 100))(eager("MatMul", us(0, 10))(launch(us(5, 2), 1))),
        event("shut down", us(100, 900)),
    )
    device = stream(13, "Compute")(kernel("gemm", us(10, 75), correlation=1))
    run = load(write(tmp_path, xspace(host(python), gpu(0, device))))

    report = assemble(diagnose(run))

    assert report.run.duration_us == 1000
    assert report.summary.gpu_idle_share == pytest.approx(0.25)


def test_without_steps_the_whole_recording_is_told_of() -> None:
    python = line("python")(eager("MatMul", us(0, 10))(launch(us(5, 2), 1)))
    run = run_of(
        host(python),
        gpu(0, stream(13, "Compute")(kernel("gemm", us(10, 20), correlation=1))),
    )

    found = timeline(run)

    assert found is not None
    (device,) = found.devices
    assert (device.steps, device.us_per_step) == (None, 20)
    assert critical_paths(Costs(run)) == ()


def test_without_a_device_the_programs_thread_is_told_of() -> None:
    run = run_of(host(line("python")(step(0, us(0, 50))(eager("Unique", us(10, 30))))))

    found = timeline(run)

    assert found is not None
    (program,) = found.devices
    assert program.device is None
    assert {p.phase: p.us for p in program.phases} == {"host_op": 30, "program": 20}


def test_what_is_not_attributed_is_not_proved() -> None:
    waiting = event("cuStreamSynchronize", us(20, 70), correlation_id=9)
    python = line("python")(step(0, us(0, 100))(eager("MatMul", us(5, 10)), waiting))
    device = stream(13, "Compute")(kernel("gemm", us(40, 40)))  # nothing tells who launched it

    (path,) = critical_paths(Costs(run_of(host(python), gpu(0, device))))

    found = {p.phase: p.us for p in path.phases}
    assert found == {"compute": 40, "runtime": 10, "program": 10, "unattributed": 40}
    assert path.proved_share == 0.6
