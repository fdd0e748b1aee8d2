"""What limits a trace, told before all else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.traces import (
    allocation,
    call,
    eager,
    event,
    gpu,
    host,
    kernel,
    launch,
    line,
    old_op,
    step,
    stream,
    task_environment,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.health import trace_health
from traceanalyzer.run import load
from traceanalyzer.trace.columns import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.traces import Event
    from traceanalyzer.model import Health
    from traceanalyzer.run import Run

STEP = line("steps")(step(1, us(0, 900)))
KERNEL = stream(7)(kernel("k", us(0, 1), "a:Neg"))


class Loader:
    """Writes traces and loads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *planes: Any, **more: Any) -> Run:  # noqa: ANN401  # words of the language
        write(self.folder, xspace(*planes, **more))
        return load(self.folder)


@pytest.fixture
def recorded(tmp_path: Path) -> Loader:
    return Loader(tmp_path)


def told(run: Run) -> dict[str, Health]:
    found = trace_health(run)
    assert len({h.message for h in found}) == len(found)
    return {h.id: h for h in found}


def test_a_sound_trace_has_little_to_say(recorded: Loader) -> None:
    run = recorded(host(STEP), gpu(0)(KERNEL), task_environment(options=b"\x10\x02\x18\x01"))

    assert {h.id: h.severity for h in trace_health(run)} == {
        "tf_version_unknown": "info",
        "tracer_level": "info",
    }


class TestTracerLevel:
    def test_a_device_tracer_that_was_off(self, recorded: Loader) -> None:
        assert "device_tracer_off" in told(recorded(host(), task_environment(options=b"\x10\x02")))
        assert "device_tracer_off" not in told(recorded(host()))


class TestDevices:
    def test_none_although_one_was_used(self, recorded: Loader) -> None:
        found = told(recorded(host(STEP, line("python")(allocation(4, us(0), "a")))))

        assert found["no_device_plane"].severity == "warning"
        assert "allocations of GPU_0_bfc" in found["no_device_plane"].message


class TestRuns:
    def test_inferred_steps(self, recorded: Loader) -> None:
        calls = (call("__inference_f_1", us(10 * k, 8)) for k in range(3))

        found = told(recorded(host(line("python")(calls))))

        assert "steps_missing" not in found
        assert "inferred from what it repeats" in found["steps_inferred"].message
        assert "steps_inferred" not in told(recorded(host(STEP)))

    def test_a_loop_over_eager_ops_is_named(self, recorded: Loader) -> None:
        def steps(ops: int) -> Iterator[Event]:
            for k in range(30):
                yield from (eager(f"Op{n}", us(1000 * k + 10 * n, 8)) for n in range(ops))
                yield call("__inference_f_1", us(1000 * k + 900, 8))

        loop = told(recorded(host(line("python")(steps(40)))))["eager_loop"].message

        assert "@tf.function" in loop
        assert "1 ms" in loop
        assert "eager_loop" not in told(recorded(host(line("python")(steps(3)))))

    def test_what_the_profiler_itself_reported(self, recorded: Loader) -> None:
        found = told(recorded(host(), errors=["no CUPTI"], warnings=["dropped 5 events"]))

        assert found["xspace_error"].message == "host: the profiler reported: no CUPTI"
        assert found["xspace_warning"].severity == "warning"

    def test_damage_is_counted(self, recorded: Loader) -> None:
        run = recorded(host(STEP))
        damage = Damage(bytes_lost=1234, places=1, events_kept=5678)
        damaged = replace(run, hosts=(replace(run.hosts[0], damage=damage),))

        message = told(damaged)["damaged"].message
        assert "1,234 bytes" in message
        assert "5,678 events" in message
        assert "1 place;" in message


@pytest.mark.parametrize("is_named", [False, True])
def test_of_eager_ops_that_ran_asynchronously_it_is_told_whether_the_run_is_named(
    recorded: Loader,
    is_named: bool,  # noqa: FBT001  # a case
) -> None:
    """Older traces name it; the run is not counted as handed over again."""
    python = line("python")(event("EagerLocalExecute: MatMul", us(0, 5)))
    run = old_op("MatMul", "MatMul", us(7, 80), eager=True)
    runs = thread("eager_async_executor", 1)(
        event("EagerKernelExecute", us(6, 90))(*([run] if is_named else []))
    )

    message = told(recorded(host(STEP, python, runs)))["eager_ops_handed_over"].message

    assert "1 time the program handed one over" in message
    assert ("whose events name none" in message) is not is_named
    assert ("seen twice" in message) is is_named


def test_of_early_clocks_each_device_is_named(recorded: Loader) -> None:
    python = line("python")(
        eager("Neg", us(100, 20))(launch(us(101, 2), 1), launch(us(105, 2), 2, number=1))
    )
    early, right = (
        stream(7)(kernel("k", us(at, 4), correlation=n)) for at, n in ((66, 1), (107, 2))
    )

    run = recorded(host(STEP, python), gpu(0)(early), gpu(1)(right))

    message = told(run)["clock_skew"].message
    assert message.endswith("times count of /device:GPU:0 as 35.0 us later")


class TestPlacements:
    def test_ops_that_ran_nobody_knows_where_are_counted_with_their_time(
        self, recorded: Loader
    ) -> None:
        run = recorded(
            host(STEP, line("python")(eager("Neg", us(0, 1500)), eager("Abs", us(2000, 1)))),
            gpu(0)(KERNEL),
        )

        message = told(run)["placement_unknown"].message
        assert "2 ops (1,501 µs" in message
        assert "not counted as CPU-placed" in message
