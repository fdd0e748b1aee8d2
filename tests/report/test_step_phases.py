"""What each step went to, as the document tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.test_costs import run_of, run_of_two_gpus, training
from tests.traces import eager, event, host, line, us
from traceanalyzer.report.step_phases import step_phases

if TYPE_CHECKING:
    from traceanalyzer.run import Run


@pytest.fixture(scope="module")
def run() -> Run:
    return run_of_two_gpus()


def test_of_several_devices_the_one_that_computed_least_is_told(run: Run) -> None:
    found = step_phases(run)

    assert found is not None
    assert found.device == "/device:GPU:0"
    assert found.steps.total_rows == 4
    for step in found.steps.records():
        assert (step["kind"], step["duration_us"]) == ("regular", 100.0)
        assert (step["compute_us"], step["host_op_us"]) == (22.0, 40.0)


def test_the_phases_of_a_step_add_up_to_it(run: Run) -> None:
    found = step_phases(run)

    assert found is not None
    phases = found.steps.columns[3:]
    assert all(name.endswith("_us") for name in phases)
    whole = [sum(float(step[name] or 0) for name in phases) for step in found.steps.records()]
    assert whole == pytest.approx([100.0] * 4)


def test_without_a_device_it_is_the_programs_own_thread() -> None:
    python = line("python")(
        *(training(k, 100 * k, eager("Eig", us(100 * k + 30, 40))) for k in range(3))
    )
    found = step_phases(run_of(host(python)))

    assert found is not None
    assert found.device is None
    assert [step["host_op_us"] for step in found.steps.records()] == [56.0, 56.0, 56.0]


def test_a_host_without_a_device_hides_no_device_of_another(run: Run) -> None:
    python = line("python")(
        *(training(k, 100 * k, eager("Eig", us(100 * k + 30, 40))) for k in range(3))
    )
    of_programs = replace(run_of(host(python)).hosts[0], name="worker")
    found = step_phases(replace(run, hosts=(of_programs, *run.hosts)))

    assert found is not None
    assert (found.host, found.device) == (run.hosts[0].name, "/device:GPU:0")


def test_without_steps_nothing_is_told() -> None:
    assert step_phases(run_of(host(line("python")(event("f", us(0, 5)))))) is None
