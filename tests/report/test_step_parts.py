"""How steps divide into parts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.sections.samples import SAMPLES, sample
from tests.test_costs import run_of, run_of_two_gpus
from tests.traces import eager, event, gpu, host, kernel, launch, line, step, stream, us
from traceanalyzer.report.steps import step_parts


def test_the_parts_of_each_step_add_up_to_it() -> None:
    found = step_parts(run_of_two_gpus())

    assert [steps.device for steps in found] == ["/device:GPU:0", "/device:GPU:1"]
    for steps in found:
        assert steps.duration_us.tolist() == [100] * 4
        assert sum(steps.took_us.values()).tolist() == [100] * 4
        assert sum(part.value for part in steps.parts()) == pytest.approx(steps.step_us)


def test_what_a_step_spent_before_the_devices_first_event_is_unknown() -> None:
    python = line("python")(step(0, us(0, 100))(event("work", us(0, 100))))
    run = run_of(host(python), gpu(0, stream(13, "Compute")(kernel("gemm", us(40, 60)))))

    (steps,) = step_parts(run)

    assert {part.label: part.value for part in steps.parts()} == {"Compute": 60, "Unknown": 40}


def test_a_warm_up_step_does_not_count_in_the_mean() -> None:
    first = step(0, us(0, 900))(eager("Unique", us(10, 30)))
    steps = [first, *(step(k, us(800 + 100 * k, 100)) for k in range(1, 6))]

    (found,) = step_parts(run_of(host(line("python")(*steps))))

    assert found.kind[0] == "warm_up"
    assert found.step_us == 100
    assert found.duration_us[0] == 900


def test_without_steps_the_recording_counts_as_one() -> None:
    python = line("python")(eager("MatMul", us(0, 10))(launch(us(5, 2), 1)))
    device = stream(13, "Compute")(kernel("gemm", us(10, 20), correlation=1))

    (steps,) = step_parts(run_of(host(python), gpu(0, device)))

    assert (steps.has_steps, steps.step_us) == (False, 20)


@pytest.mark.parametrize("name", SAMPLES)
def test_no_part_of_a_recorded_step_is_left_out_or_counted_twice(name: str) -> None:
    for steps in step_parts(sample(name).run):
        np.testing.assert_allclose(sum(steps.took_us.values()), steps.duration_us, atol=2e-3)
