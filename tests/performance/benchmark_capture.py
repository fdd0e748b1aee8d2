"""Measures what `traceanalyzer capture` costs a script, compared to TensorFlow's own profiler.

Run as `python -m tests.performance.benchmark_capture`, where TensorFlow is installed.

Each script runs in fresh processes: without a profiler, under `tf.profiler.experimental`, captured
as a whole, captured by default, and captured with a window that it never reaches. The ways take
turns, so that other load falls on all of them. Printed are the ratios of a script's own work (a
steady loop, after its first calls) and of the whole process: the median of the rounds, with the
least and the greatest. On a busy machine, CPU time is the more reliable figure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

# Every script begins with this, and ends with a call of `measure`.
_MEASURING: Final = """
import json
import sys
import time

import numpy as np
import tensorflow as tf

LENGTH = float(sys.argv[1])


def measure(work, count):
    wall, cpu = time.perf_counter(), time.process_time()
    work(max(int(count * LENGTH), 1))
    taken = [time.perf_counter() - wall, time.process_time() - cpu]
    print(json.dumps(taken))
"""

_KERAS_CNN_FIT: Final = """
tf.keras.utils.set_random_seed(7)
images = np.random.normal(size=(2048, 28, 28, 1)).astype("float32")
labels = np.random.randint(0, 10, 2048)
model = tf.keras.Sequential(
    [
        tf.keras.Input((28, 28, 1)),
        tf.keras.layers.Conv2D(16, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10),
    ]
)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])
model.fit(images[:256], labels[:256], verbose=0)
measure(lambda epochs: model.fit(images, labels, epochs=epochs, verbose=0), 20)
"""

_FUNCTION_LOOP: Final = """
rng = np.random.default_rng(7)
sizes = [64, 256, 256, 10]
shapes = list(zip(sizes, sizes[1:]))
kernels = [tf.Variable(rng.normal(0, 0.1, shape).astype("float32")) for shape in shapes]
biases = [tf.Variable(tf.zeros(size)) for size in sizes[1:]]
weights = kernels + biases
moments = [tf.Variable(tf.zeros_like(weight)) for weight in weights]


@tf.function
def train(x, y):
    with tf.GradientTape() as tape:
        for kernel, bias in zip(kernels, biases):
            logits = tf.matmul(x, kernel) + bias
            x = tf.nn.relu(logits)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        loss = tf.reduce_mean(loss)
    for weight, moment, gradient in zip(weights, moments, tape.gradient(loss, weights)):
        moment.assign(0.9 * moment + gradient)
        weight.assign_sub(0.01 * moment)
    return loss


batches = [
    (rng.normal(size=(128, 64)).astype("float32"), rng.integers(0, 10, 128)) for _ in range(16)
]


def work(steps):
    for step in range(steps):
        loss = train(*map(tf.constant, batches[step % 16]))
    float(loss)


work(20)
measure(work, 10000)
"""

_EAGER_LOOP: Final = """
rng = np.random.default_rng(7)
x = tf.constant(rng.normal(size=(64, 32)).astype("float32"))
y = tf.constant(rng.normal(size=(64, 1)).astype("float32"))
kernel = tf.Variable(tf.zeros((32, 1)))


def work(steps):
    for _ in range(steps):
        error = tf.matmul(x, kernel) - y
        loss = tf.reduce_mean(tf.square(error))
        gradient = tf.matmul(x, error, transpose_a=True) / 64.0
        kernel.assign_sub(0.1 * tf.clip_by_value(gradient, -1.0, 1.0))
    float(loss)


work(20)
measure(work, 25000)
"""

_PROFILED: Final = """
import runpy
import sys

import tensorflow as tf

logdir, sys.argv = sys.argv[1], sys.argv[2:]
tf.profiler.experimental.start(logdir)
runpy.run_path(sys.argv[0], run_name="__main__")
tf.profiler.experimental.stop()
"""

_SCRIPTS: Final = {
    "keras_cnn_fit": _KERAS_CNN_FIT,
    "function_loop": _FUNCTION_LOOP,
    "eager_loop": _EAGER_LOOP,
}
_OPTIONS: Final = {
    "capture": ("--after", "0s", "--for", "10h"),
    "capture, by default": (),
    "capture, outside of its window": ("--after", "10h"),
}
# Two ways to run a script, and the most that the first may cost in terms of the second.
_COMPARISONS: Final = (
    ("capture", "tf.profiler", {"eager_loop": 1.5}, 1.05),
    ("capture, by default", "no profiler", {}, 1.15),
    ("capture, outside of its window", "no profiler", {}, 1.03),
)


class Taken(NamedTuple):
    """The seconds that a run took."""

    own_wall: float
    own_cpu: float
    process_wall: float
    process_cpu: float


def run(way: str, folder: Path, script: Path, length: float) -> Taken:
    """Run a script once.

    Raises:
        RuntimeError: It failed, or left no trace where one was to be recorded.
    """
    with tempfile.TemporaryDirectory(dir=folder) as logdir:
        command = {
            "no profiler": [],
            "tf.profiler": [str(folder / "profiled.py"), logdir],
        }.get(way)
        if command is None:
            command = ["-m", "traceanalyzer", "capture", "--no-report", "--logdir", logdir]
            command += _OPTIONS[way]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command, str(script), str(length)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout as pipe:
            printed = pipe.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        is_traced = any(Path(logdir).rglob("*.xplane.pb"))
        wants_trace = way not in {"no profiler", "capture, outside of its window"}
        if process.returncode or is_traced != wants_trace:
            message = f"{script.stem}, {way}: exit code {process.returncode}, trace: {is_traced}"
            raise RuntimeError(message)
    return Taken(*json.loads(printed.splitlines()[-1]), wall, used.ru_utime + used.ru_stime)


def compare(name: str, taken: dict[str, list[Taken]]) -> None:
    """Print the ratios of a script."""
    for way, base, limits, limit in _COMPARISONS:
        if way not in taken or base not in taken:
            continue
        for field in Taken._fields:
            found = [
                getattr(a, field) / getattr(b, field)
                for a, b in zip(taken[way], taken[base], strict=True)
            ]
            allowed = limits.get(name, limit)
            kept = "kept" if median(found) <= allowed else "EXCEEDED"
            verdict = f"  limit {allowed:.2f}: {kept}" if field == "own_wall" else ""
            ratio = f"{median(found):.3f} [{min(found):.3f}, {max(found):.3f}]"
            print(f"{name:14} {way} / {base}, {field}: {ratio}{verdict}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often each way is measured")
    parser.add_argument("--only", choices=_SCRIPTS, help="measure this script alone")
    parser.add_argument("--length", type=float, default=1.0, help="of the work; 1 is 5 to 15 s")
    ways = ["no profiler", "tf.profiler", *_OPTIONS]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, help="by default all")
    options = parser.parse_args(arguments)
    ways = options.ways
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "profiled.py").write_text(_PROFILED, encoding="utf-8")
        for script, code in _SCRIPTS.items():
            if options.only not in {None, script}:
                continue
            file = folder / f"{script}.py"
            file.write_text(_MEASURING + code, encoding="utf-8")
            run("capture", folder, file, 0.01)  # fills the page cache
            taken: dict[str, list[Taken]] = {way: [] for way in ways}
            for number in range(options.rounds):
                for way in ways if number % 2 else reversed(ways):
                    taken[way].append(run(way, folder, file, options.length))
            compare(script, taken)


if __name__ == "__main__":
    main()
