"""What the report says of steps: how they were found, and their parts."""

from pathlib import Path

import numpy as np
import pytest

import traceanalyzer as ta
from tests.input_pipeline.paced import made_ahead
from tests.report.reading import only, plain, records
from tests.samples import SAMPLES, sample
from tests.test_costs import run_of, run_of_two_gpus
from tests.traces import (
    Event,
    Line,
    call,
    eager,
    event,
    gpu,
    host,
    kernel,
    launch,
    line,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.model.blocks import Chart, KeyValues, Note, Tab, Table
from traceanalyzer.model.figures import StepKinds, Steps
from traceanalyzer.report.input_pipeline import input_pipeline
from traceanalyzer.report.page import page_of
from traceanalyzer.report.steps import steps_of, steps_tab, timeline
from traceanalyzer.run import Run
from traceanalyzer.step_parts import step_parts

LAUNCHED = eager("MatMul", us(0, 10))(launch(us(5, 2), 1))


# --- steps -------------------------------------------------------------------------------------


def marked(*durations: float) -> Line:
    """Steps one after the other, a microsecond between them."""
    starts = [sum(durations[:k]) + k for k in range(len(durations))]
    return line("python")(
        step(k, us(*at)) for k, at in enumerate(zip(starts, durations, strict=True))
    )


@pytest.mark.parametrize(
    ("steps", "note", "kinds", "us_"),
    [
        (
            marked(900, 100, 102, 104, 400, 106),
            "marked train (step_num); left out of the figures: 1 warming up, 1",
            (4, 1, 1, 0),
            (103.0, 105.7),
        ),
    ],
)
def test_figures_are_of_the_regular_steps(
    steps: Line, note: str, kinds: tuple[int, ...], us_: tuple[float, float]
) -> None:
    found = steps_of(run_of(host(steps)))

    assert found.note is not None
    assert found.note.startswith(note)
    assert found == Steps(
        source="markers",
        note=found.note,
        count=sum(kinds),
        kinds=StepKinds(**dict(zip(StepKinds.__dataclass_fields__, kinds, strict=True))),
        median_us=us_[0],
        p95_us=pytest.approx(us_[1]),
    )


def test_inferred_steps_are_said_to_be() -> None:
    calls = (call("__inference_f_1", us(10 * k, 8)) for k in range(4))
    found = steps_of(run_of(host(line("python")(calls))))

    assert (found.source, found.count) == ("inferred", 4)
    assert found.note is not None
    assert "no steps, so they are inferred from function calls: f;" in found.note


def test_no_steps() -> None:
    idle = thread("tf_Compute", 1)(event("ExecutorState::Process", us(0, 5)))
    found = steps_of(run_of(host(idle)))

    assert (found.source, found.count, found.median_us) == ("missing", 0, None)


# --- their parts -------------------------------------------------------------------------------


def test_the_parts_of_each_step_add_up_to_it() -> None:
    run = run_of_two_gpus()
    found, data = step_parts(run), timeline(run)

    assert [steps.device for steps in found] == ["/device:GPU:0", "/device:GPU:1"]
    for steps in found:
        assert sum(steps.took_us.values()).tolist() == steps.duration_us.tolist() == [100] * 4
        assert sum(steps.mean_us().values()) == pytest.approx(steps.step_us)
    assert data is not None
    for device in data.devices:
        assert (device.steps, device.us_per_step) == (4, 100)
        assert sum(p.us for p in device.phases) == pytest.approx(100)
        assert sum(p.share for p in device.phases) == pytest.approx(1)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_part_of_a_recorded_step_is_left_out_or_counted_twice(name: str) -> None:
    (device,) = step_parts(sample(name).run)
    np.testing.assert_allclose(sum(device.took_us.values()), device.duration_us, atol=2e-3)

    chart = only(tab_of(sample(name).run).blocks, Chart)

    sums = np.sum([series.values for series in chart.series], axis=0)
    np.testing.assert_allclose(sums, device.duration_us, atol=0.01)
    assert len(chart.to) == len(chart.x) == len(device.number)


def test_what_a_step_spent_before_the_devices_first_event_is_unknown() -> None:
    python = line("python")(step(0, us(0, 100))(event("work", us(0, 100))))
    run = run_of(host(python), gpu(0, stream(13, "Compute")(kernel("gemm", us(40, 60)))))

    (steps,) = step_parts(run)

    assert steps.mean_us() == {"compute": 60, "unknown": 40}


def test_without_steps_the_recording_counts_as_one() -> None:
    device = stream(13, "Compute")(kernel("gemm", us(10, 20), correlation=1))
    run = run_of(host(line("python")(LAUNCHED)), gpu(0, device))

    (steps,), found = step_parts(run), timeline(run)

    assert (steps.has_steps, steps.step_us) == (False, 20)
    assert found is not None
    assert [(d.steps, d.us_per_step) for d in found.devices] == [(None, 20)]


def test_without_a_device_the_programs_thread_is_told_of() -> None:
    run = run_of(host(line("python")(step(0, us(0, 50))(eager("Unique", us(10, 30))))))

    found = timeline(run)

    assert found is not None
    (program,) = found.devices
    assert program.device is None
    assert {p.phase: p.us for p in program.phases} == {"cpu_op": 30, "program": 20}


# --- the tab -----------------------------------------------------------------------------------


def tab_of(run: Run) -> Tab:
    tab = steps_tab(step_parts(run), steps_of(run), input_pipeline(run))
    assert tab is not None
    return tab


def test_of_several_devices_the_chart_is_about_the_one_that_computed_least() -> None:
    tab = tab_of(run_of_two_gpus())

    values = {series.label: series.values for series in only(tab.blocks, Chart).series}
    assert (values["Compute"], values["CPU ops"]) == ((22.0,) * 4, (40.0,) * 4)
    assert "GPU:0, which spent the least time computing" in plain(only(tab.blocks, Note).text)
    facts = [name for name, _ in only(tab.blocks, KeyValues).rows]
    assert facts.count("Host and transfer time overlapping compute") == 2  # one for each device


def test_steps_of_one_number_stand_side_by_side() -> None:
    steps = (step(0, us(0, 100))(eager("Unique", us(10, 30))), step(0, us(100, 100)))

    assert only(tab_of(run_of(host(line("python")(*steps)))).blocks, Chart).x == (0.0, 1.0)


def test_the_stage_that_bounds_the_rate_is_marked(tmp_path: Path) -> None:
    threads = made_ahead(10_000, 6_000, 10_000, python=True)

    tab = tab_of(ta.load(write(tmp_path, xspace(host(*threads)))))

    stages = records(next(b for b in tab.blocks if isinstance(b, Table) and b.id == "stages"))
    assert [row["stage"] for row in stages if row["slow"]] == ["Root::ParallelMapV2"]
    said = " ".join(plain(block.text) for block in tab.blocks if isinstance(block, Note))
    assert "The input pipeline is too slow on the CPU" in said


# --- steps that build graphs -------------------------------------------------------------------


def built(number: int, at: float, took: float, building: float) -> Event:
    """A marked step, the first part of which builds a graph."""
    graph = event("tf.function-graph_building", us(at, building)) if building else ()
    return step(number, us(at, took))(graph, eager("UniqueV2", us(at + took - 20, 15)))


def happened(run: Run) -> str:
    return plain(page_of(ta.diagnose(run)).happened)


def test_if_all_recorded_steps_built_graphs_the_page_says_so_first(tmp_path: Path) -> None:
    write(tmp_path, xspace(host(line("python")(built(0, 0, 900, building=700)))))
    run = ta.load(tmp_path)

    (steps,) = step_parts(run)
    assert steps.mean_us()["preparation"] == 700
    assert "no usual step: profile later ones" in happened(run)


def test_if_only_the_first_step_built_graphs_it_is_left_out(tmp_path: Path) -> None:
    events = [built(0, 0, 900, building=700), *(built(k, 900 + 100 * k, 90, 0) for k in range(5))]
    write(tmp_path, xspace(host(line("python")(*events))))
    run = ta.load(tmp_path)

    (steps,) = step_parts(run)
    assert "preparation" not in steps.mean_us()
    assert "profile later" not in happened(run)


def test_steps_that_build_graphs_again_and_again_are_the_steps(tmp_path: Path) -> None:
    events = [built(k, 200 * k, 190, building=k % 2 * 100) for k in range(10)]
    write(tmp_path, xspace(host(line("python")(*events))))
    run = ta.load(tmp_path)

    (steps,) = step_parts(run)
    assert steps.mean_us()["preparation"] == 50
    assert "profile later" not in happened(run)
