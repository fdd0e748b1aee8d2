"""What limits a trace."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.traces import (
    Event,
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
    xla_kernel,
    xspace,
)
from traceanalyzer.health import trace_health
from traceanalyzer.model import Health
from traceanalyzer.run import Run, load
from traceanalyzer.trace.columns import Damage

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


def health_of(run: Run) -> dict[str, Health]:
    found = trace_health(run)
    assert len({h.message for h in found}) == len(found)
    return {h.id: h for h in found}


def test_a_sound_trace_has_little_to_say(recorded: Loader) -> None:
    run = recorded(host(STEP), gpu(0)(KERNEL), task_environment(options=b"\x10\x02\x18\x01"))

    assert {h.id: h.severity for h in trace_health(run)} == {
        "tf_version_unknown": "info",
        "tracer_level": "info",
    }


CALLS = line("python")(*(call("__inference_f_1", us(10 * k, 8)) for k in range(3)))
NEGS = line("python")(eager("Neg", us(0, 1500)), eager("Abs", us(2000, 1)))


@pytest.mark.parametrize(
    ("planes", "health_id", "words"),
    [
        ([host(), task_environment(options=b"\x10\x02")], "device_tracer_off", ""),
        ([host(STEP, line("python")(allocation(4, us(0), "a")))], "no_device_plane", "GPU_0_bfc"),
        ([host(CALLS)], "steps_inferred", ""),
        ([host(STEP, NEGS), gpu(0)(KERNEL)], "placement_unknown", "2 ops ran (1.50 ms"),
    ],
)
def test_what_limits_a_trace(
    recorded: Loader, planes: list[Any], health_id: str, words: str
) -> None:
    found = health_of(recorded(*planes))

    assert words in found[health_id].message
    assert "steps_missing" not in found


def test_a_jax_program_is_told_how_jax_marks_steps(recorded: Loader) -> None:
    fusion = xla_kernel("fusion", us(0, 5), hlo_op="fusion.1")

    found = health_of(recorded(host(), gpu(0)(stream(1)(fusion))))

    assert "jax.profiler.StepTraceAnnotation" in found["steps_missing"].message


def test_a_loop_over_eager_ops(recorded: Loader) -> None:
    def steps(ops: int) -> Iterator[Event]:
        for k in range(30):
            yield from (eager(f"Op{n}", us(1000 * k + 10 * n, 8)) for n in range(ops))
            yield call("__inference_f_1", us(1000 * k + 900, 8))

    loop = health_of(recorded(host(line("python")(steps(40)))))["eager_loop"].message

    assert "1.00 ms" in loop
    assert "eager_loop" not in health_of(recorded(host(line("python")(steps(3)))))


def test_what_the_profiler_itself_reported(recorded: Loader) -> None:
    found = health_of(recorded(host(), errors=["no CUPTI"], warnings=["dropped 5 events"]))

    assert "no CUPTI" in found["xspace_error"].message
    assert found["xspace_warning"].severity == "warning"


def test_damage_is_counted(recorded: Loader) -> None:
    run = recorded(host(STEP))
    (one,) = run.hosts
    trace = replace(one.trace, damage=Damage(bytes_lost=1234, places=1, events_kept=5678))
    damaged = replace(run, hosts=(replace(one, trace=trace),))

    message = health_of(damaged)["damaged"].message
    assert all(part in message for part in ("1,234 bytes", "5,678 events", "1 place:"))


def test_eager_ops_that_ran_asynchronously(recorded: Loader) -> None:
    """Older traces name the run, too, which is not counted as handed over again."""
    python = line("python")(event("EagerLocalExecute: MatMul", us(0, 5)))
    run = old_op("MatMul", "MatMul", us(7, 80), eager=True)
    runs = thread("eager_async_executor", 1)(event("EagerKernelExecute", us(6, 90))(run))

    message = health_of(recorded(host(STEP, python, runs)))["eager_ops_handed_over"].message

    assert "1 eager op " in message


def test_of_early_clocks_each_device_is_named(recorded: Loader) -> None:
    python = line("python")(
        eager("Neg", us(100, 20))(launch(us(101, 2), 1), launch(us(105, 2), 2, number=1))
    )
    early, right = (
        stream(7)(kernel("k", us(at, 4), correlation=n)) for at, n in ((66, 1), (107, 2))
    )

    run = recorded(host(STEP, python), gpu(0)(early), gpu(1)(right))

    message = health_of(run)["clock_skew"].message
    assert "/device:GPU:0 by 35.0 µs" in message
    assert "GPU:1" not in message
