"""Where the time goes, as the document and the page tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_costs import gemms, run_of, run_of_two_gpus, training
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
from traceanalyzer.model import PhaseTime
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.phases import phase_meaning, phase_name, stacked
from traceanalyzer.report.timeline import critical_paths, timeline
from traceanalyzer.run import load
from traceanalyzer.timeline.phase import Phase

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


def test_the_first_device_is_not_representative(run: Run) -> None:
    """NVIDIA: rank 0 is not the others. Each is told of by itself, with how unlike they are."""
    found = timeline(run)

    assert found is not None
    computed = [next(p.us for p in d.phases if p.phase == "compute") for d in found.devices]
    assert computed == [22, 90]
    assert (found.idlest_share, found.busiest_share) == (0.22, 0.9)


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
    assert "of a step, for any reason" in render_page(report)


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


def test_the_critical_path_names_its_ops(run: Run) -> None:
    (path,) = critical_paths(Costs(run))

    assert (path.steps, path.us_per_step, path.proved_share) == (4, 100, 1)
    assert sum(p.us for p in path.phases) == pytest.approx(100)
    unique = next(op for op in path.ops if op.type == "UniqueV2")
    assert (unique.us_per_step, unique.share) == (40, 0.4)


def test_what_is_not_attributed_is_not_proved() -> None:
    waiting = event("cuStreamSynchronize", us(20, 70), correlation_id=9)
    python = line("python")(step(0, us(0, 100))(eager("MatMul", us(5, 10)), waiting))
    device = stream(13, "Compute")(kernel("gemm", us(40, 40)))  # nothing tells who launched it

    (path,) = critical_paths(Costs(run_of(host(python), gpu(0, device))))

    found = {p.phase: p.us for p in path.phases}
    assert found == {"compute": 40, "runtime": 10, "program": 10, "unattributed": 40}
    assert path.proved_share == 0.6


def test_there_is_no_path_through_a_program_of_which_nothing_is_recorded() -> None:
    python = line("python")(step(0, us(0, 100))(event("PjitFunction(f)", us(5, 90))))
    device = stream(13, "Compute")(kernel("fusion", us(10, 85)))

    assert critical_paths(Costs(run_of(host(python), gpu(0, device)))) == ()


def test_each_phase_has_a_name_and_a_meaning() -> None:
    names = {phase_name(p.name.lower()) for p in Phase}

    assert len(names) == len(Phase)
    assert all(phase_meaning(p.name.lower()).endswith(".") for p in Phase)


def test_a_bar_is_as_wide_as_its_shares() -> None:
    pieces = stacked(
        [PhaseTime(phase="compute", us=30, share=0.75), PhaseTime(phase="copy", us=10, share=0.25)]
    )

    assert [(p.x, p.width) for p in pieces] == [(0, 75), (75, 25)]
    assert pieces[0].label == "computing: 30.0 µs (75.0%)"


def test_the_page_shows_devices_and_path(run: Run) -> None:
    page = render_page(assemble(diagnose(run)))

    section = page[page.index('id="time"') : page.index('id="copies"')]
    assert section.count('class="phases"') == 3  # of two devices and the path
    assert "The busiest device computed" in section
    assert "waiting for an op" in section
    assert "an op, where is unknown" not in section


def test_waiting_for_an_op_of_unknown_placement_has_a_name_of_its_own() -> None:
    python = line("python")(
        *(training(k, 100 * k, eager("Unique", us(100 * k + 30, 40))) for k in range(4))
    )
    device = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))

    page = render_page(assemble(diagnose(run_of(host(python), gpu(0, device)))))

    section = page[page.index('id="time"') : page.index('id="copies"')]
    assert "an op, where is unknown" in section
    assert "waiting for an op" not in section
