"""General advice needs its part of the step, and is not about what the program does already."""

from collections.abc import Iterator
from typing import Any

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from tests.report.test_consistency import check
from tests.report.test_first_screen import said
from tests.test_costs import run_of
from tests.traces import Event, gpu, host, kernel, launch, line, op, step, stream, us
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Report
from traceanalyzer.report.page import page_of

# All measurements of a sensor fit into one batch.
ONE_BATCH = """
import sys
import keras
import numpy as np

seen = np.linspace(0.0, 1.0, 96, dtype="float32").reshape(-1, 4)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
if sys.argv[1] == "epochs":
    model.compile("sgd", "mae")
    model.fit(seen, seen[:, :1], batch_size=24, epochs=24, verbose=0)
elif sys.argv[1] == "calls":
    model.compile("sgd", "mae")
    for _ in range(24):
        model.fit(seen, seen[:, :1], batch_size=24, verbose=0)
else:
    seen = np.tile(seen, (64, 1))
    model.compile("sgd", "mae", steps_per_execution=4)
    model.fit(seen, seen[:, :1], batch_size=8, verbose=0)
"""


def report(how: str, gpus: int) -> Report:
    return check(ta.diagnose(captured(ONE_BATCH, how, gpus=gpus).run()))


@pytest.mark.parametrize("gpus", [0, 1])
def test_epochs_of_one_step_are_to_be_longer(gpus: int) -> None:
    made = report("epochs", gpus)

    first = made.changes[0]
    assert first.detail == "each step is an epoch of its own"
    assert "repeat()" in first.instead
    assert "steps_per_epoch" in first.instead
    assert not [change for change in made.changes if "steps_per_execution" in change.instead]
    assert made.page is not None
    assert "next: Run the program on a machine" not in said(made.page)
    assert made.input_pipeline is not None
    assert "keeps up" not in made.input_pipeline.text
    assert "create iterators" in made.input_pipeline.text


def test_a_dataset_for_each_call_of_fit_is_to_be_made_once() -> None:
    first = report("calls", 1).changes[0]

    assert "train_on_batch" in first.instead
    assert "a dataset of its own" in first.detail


def test_steps_that_are_joined_already_are_not_to_be_joined() -> None:
    found = report("joined", 1).changes
    assert not [change for change in found if "steps_per_execution" in change.instead]


EAGER = """
import sys
import keras
import numpy as np
import tensorflow as tf

seen = np.linspace(0.0, 1.0, 512, dtype="float32").reshape(-1, 8)
if sys.argv[1] == "keras":
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("sgd", "mae", run_eagerly=True)
    model.fit(seen, seen[:, :1], batch_size=8, epochs=2, verbose=0)
else:
    tf.config.run_functions_eagerly(True)
    kernel = tf.Variable(tf.eye(8))

    @tf.function
    def smooth(x):
        for _ in range(12):
            x = tf.tanh(tf.matmul(x, kernel))
        return x

    for _ in range(16):
        smooth(seen)
"""


@pytest.mark.parametrize(
    ("how", "words"),
    [("keras", "run_eagerly=False"), ("functions", "run_functions_eagerly(False)")],
)
def test_a_step_that_is_decorated_is_not_to_be_decorated(how: str, words: str) -> None:
    found = check(ta.diagnose(captured(EAGER, how, gpus=1).run())).changes

    assert [change for change in found if words in change.instead]
    assert not [change for change in found if "@tf.function" in change.title + change.instead]


def loop(python_us: int, launch_us: int = 5) -> tuple[Change, ...]:
    """Steps of 100 us or more: Python, a launch, and a kernel for the rest."""
    period = max(100, python_us + 50)

    def one(k: int) -> Event:
        at = k * period
        ran = op("a", "MatMul", us(at + python_us, launch_us))
        return step(k, us(at, period))(ran(launch(us(at + python_us + launch_us - 1, 1), k + 1)))

    kernels = (
        kernel(
            "gemm",
            us(k * period + python_us + launch_us, period - python_us - launch_us),
            correlation=k + 1,
        )
        for k in range(8)
    )
    found = host(line("python")(map(one, range(8))))
    return changes_of(diagnose(run_of(found, gpu(0, stream(13, "Compute")(kernels)))))


@pytest.mark.parametrize(
    ("python_us", "title"),
    [
        (5, None),  # a twentieth of the step: too little for advice
        (60, "Run several steps per call"),
        (20_000, "Find out what Python does between the calls"),  # no call takes that long
    ],
)
def test_time_between_calls_is_called_what_it_can_be(python_us: int, title: str | None) -> None:
    titles = [c.title for c in loop(python_us) if c.kind == "runtime" and "XLA" not in c.title]
    assert titles == ([] if title is None else [title])


def kernels_of(name: str) -> Iterator[Any]:
    for k in range(6):
        yield kernel(name, us(100 * k + 5, 92), "dense/MatMul:MatMul", correlation=k + 1)


@pytest.mark.parametrize(
    ("name", "advised"),
    [("ampere_sgemm_128x64_nn", 1), ("ampere_fp16_s16816gemm_fp16_64x64", 0)],
)
def test_half_precision_is_no_advice_for_kernels_in_half_precision(name: str, advised: int) -> None:
    def one(k: int) -> Event:
        ran = op("dense/MatMul", "MatMul", us(100 * k, 5))
        return step(k, us(100 * k, 100))(ran(launch(us(100 * k + 3, 1), k + 1)))

    program = host(line("python")(map(one, range(6))))
    page = page_of(diagnose(run_of(program, gpu(0, stream(13, "Compute")(kernels_of(name))))))

    assert "Make the kernels faster" in said(page)
    assert said(page).count("mixed precision") == advised
