"""Ops that XLA compiled for the CPU, as in JAX programs there."""

from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.traces import (
    Event,
    Span,
    event,
    gpu,
    host,
    kernel,
    line,
    plane,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.health import trace_health
from traceanalyzer.model import blocks as b
from traceanalyzer.report.page import page_of
from traceanalyzer.report.text import plain

JAX = plane("/host:metadata", stats={"jax_version": "0.7.1"})


def compiled(op: str, at: Span, *inside: Event) -> Event:
    return event(op, at, stats={"hlo_op": op, "hlo_module": "jit_update"})(*inside)


def loop(callback: str = "pure_callback.4") -> tuple[Any, ...]:
    """Steps of 1 ms, in which another thread runs a part of an op."""
    steps, parts = [], []
    for k in range(8):
        begin = 2_000 * k
        python = event("$model.py:31 smooth", us(begin + 110, 480))
        inner = event("$callback.py:74 pure_callback_impl", us(begin + 105, 490))(python)
        ops = (
            compiled("dot.2", us(begin + 5, 90)),
            compiled(callback, us(begin + 100, 500), inner),
        )
        call = event("PjitFunction(update)", us(begin + 2, 900))(*ops)
        steps.append(step(k, us(begin, 1000))(call))
        parts.append(compiled("dot.2", us(begin + 700, 60)))
    return line("python")(*steps), thread("tf_XLAEigen", 1)(*parts)


def read(tmp_path: Path, *planes: Any) -> tuple[ta.Run, b.Page]:  # noqa: ANN401
    run = ta.load(write(tmp_path, xspace(*planes)))
    return run, page_of(ta.diagnose(run))


def test_ops_have_their_times_modules_and_device(tmp_path: Path) -> None:
    run, page = read(tmp_path, host(*loop()), JAX)

    rows = run.ops.set_index("name")
    assert set(rows.index) == {"dot.2", "pure_callback.4"}
    assert rows.loc["dot.2", ["type", "function", "occurrences"]].tolist() == [
        "dot",
        "jit_update",
        16,
    ]
    assert set(rows["device"]) == {"/device:CPU:0"}
    assert rows.loc["pure_callback.4", "host_self_ps"] == 8 * 500_000_000
    assert rows.loc["dot.2", "host_self_ps"] == 8 * 150_000_000
    words = plain(page.happened)
    assert "JAX 0.7.1" in words
    assert "ran on the CPU" in words
    assert "500\N{NO-BREAK SPACE}µs per step" in words
    assert "TensorFlow" not in f"{words} {plain(page.next)}"
    assert "JAX 0.7.1" in page.facts


@pytest.mark.parametrize("callback", ["pure_callback.4", "io_callback"])
def test_python_callbacks_are_named_with_their_line(tmp_path: Path, callback: str) -> None:
    run, page = read(tmp_path, host(*loop(callback)), JAX)

    row = run.ops.set_index("name").loc[callback]
    assert (row["source_file"], row["source_line"]) == ("model.py", 31)
    assert "calls Python (model.py:31)" in plain(page.happened)


def test_jax_without_a_version_is_jax(tmp_path: Path) -> None:
    run, page = read(tmp_path, host(*loop()))

    assert "JAX" in plain(page.happened)
    assert "TensorFlow" not in plain(page.next)
    assert "tf_version_unknown" not in {each.id for each in trace_health(run)}


def test_a_tensorflow_function_that_xla_compiled_is_not_jax(tmp_path: Path) -> None:
    ops = [compiled("fusion.1", us(10 * k, 8)) for k in range(3)]
    _, page = read(tmp_path, host(line("python")(*ops)))

    assert "1 op, compiled by XLA, ran on the CPU" in plain(page.happened).replace("\xa0", " ")
    assert "JAX" not in f"{plain(page.happened)} {plain(page.next)}"


def test_the_host_events_of_a_gpu_program_are_launches(tmp_path: Path) -> None:
    work = gpu(0)(stream(7)(kernel("k", us(0, 50), "a:MatMul")))
    run, _ = read(tmp_path, host(*loop()), work)

    assert "dot.2" not in set(run.ops["name"])


def test_an_older_jax_records_no_ops_on_a_cpu(tmp_path: Path) -> None:
    _, page = read(tmp_path, host(line("python")(event("PjitFunction(update)", us(0, 900)))))

    assert "JAX" in plain(page.happened)
    assert "a newer JAX" in plain(page.next)
    assert "TensorFlow" not in f"{plain(page.happened)} {plain(page.next)}"
