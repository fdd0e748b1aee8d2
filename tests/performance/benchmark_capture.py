"""Measures what `traceanalyzer capture` costs the script it runs; prints time and ratios.

Run as `python -m tests.performance.benchmark_capture`, from the folder of the repository, where
TensorFlow is installed.

Each script runs in a fresh process in each of several ways, the ways in turn and their order
reversed each time, so that what else the machine does falls on all of them. A ratio is the median
of the rounds' ratios, with an interval for that median.

A script measures its *own work* itself, a steady loop after its first calls; the limits are for
the wall time of that. The *whole process* is what the user waits for: the start of Python, the
import of TensorFlow, the trace written at the end, and in a capture our own process beside it with
the making of the capture file; no page is written. CPU time is that of all threads: where the
machine is busy with other things it is the more reliable figure.

`tf.profiler` runs the same file with `tf.profiler.experimental.start` before and `stop` after it.
It records at level 2, its default and the only level it has in TensorFlow 2.21, and so does
`capture` unless it is told otherwise. Both record the whole of the script. What level 3 costs is
why it is no default: TensorFlow writes down the shapes of every node that runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["main"]

# What each script ends with, between its own beginning and end.
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

_PREDICT_LOOP: Final = """
tf.keras.utils.set_random_seed(7)
model = tf.keras.Sequential(
    [
        tf.keras.Input((4,)),
        tf.keras.layers.Dense(24, activation="relu"),
        tf.keras.layers.Dense(2),
    ]
)
state = np.zeros((1, 4), "float32")


def work(steps):
    for _ in range(steps):
        model.predict(state, verbose=0)


work(3)
measure(work, 150)
"""

_ELEMENTWISE_MAP: Final = """
weights = tf.Variable(tf.random.normal([300, 300]))


@tf.function
def train(x):
    weights.assign_add(tf.matmul(weights, x) * 1e-6)


x = tf.random.normal([300, 300])


def work(elements):
    prepared = tf.data.Dataset.range(elements).map(lambda x: x + 1).batch(1000)
    print(len(list(prepared)), file=sys.stderr)
    for _ in range(elements // 100):
        train(x)


measure(work, 300_000)
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

_PLAIN: Final = "no profiler"
_PROFILER: Final = "tf.profiler"
_CAPTURE: Final = "capture"
_LEVEL_3: Final = "capture, level 3"
_OUTSIDE: Final = "capture, outside"
_BY_DEFAULT: Final = "capture, default"  # of the parts that it chooses itself

_WHOLE: Final = ("--after", "0s", "--for", "10h")
_CALLS_NEVER_REACHED: Final = ("--steps", "1000000000:1000000001")
_TIME_NEVER_REACHED: Final = ("--after", "10h")

_SURE: Final = 0.95
_IN_WORDS: Final = {
    "own_wall_s": "own work, wall",
    "own_cpu_s": "own work, CPU",
    "wall_s": "whole process, wall",
    "cpu_s": "whole process, CPU",
}


class BenchmarkError(Exception):
    """A run did not do what was to be measured."""


class Taken(NamedTuple):
    """What a run took: the script's own work, and all of it."""

    own_wall_s: float
    own_cpu_s: float
    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return " ".join(f"{seconds:9.2f}" for seconds in self)


class Comparison(NamedTuple):
    """Two ways to run a script, and what the first may cost in terms of the second."""

    way: str
    base: str
    limit: float | None = None


@dataclass(frozen=True)
class Script:
    """A script to measure.

    Attributes:
        code: Its work.
        outside: Options of a capture whose window it never reaches.
        comparisons: What to compare.
    """

    code: str
    outside: tuple[str, ...]
    comparisons: tuple[Comparison, ...]


_AT_LEVEL_3: Final = Comparison(_LEVEL_3, _CAPTURE)

SCRIPTS: Final = {
    "keras_cnn_fit": Script(
        _KERAS_CNN_FIT,
        _CALLS_NEVER_REACHED,
        (
            Comparison(_CAPTURE, _PROFILER, 1.05),
            _AT_LEVEL_3,
            Comparison(_BY_DEFAULT, _PLAIN, 1.15),
        ),
    ),
    "function_loop": Script(
        _FUNCTION_LOOP,
        _CALLS_NEVER_REACHED,
        (
            Comparison(_OUTSIDE, _PLAIN, 1.02),
            Comparison(_CAPTURE, _PROFILER, 1.05),
            _AT_LEVEL_3,
            Comparison(_PROFILER, _PLAIN),
            Comparison(_BY_DEFAULT, _PLAIN, 1.15),
        ),
    ),
    "eager_loop": Script(
        _EAGER_LOOP,
        _TIME_NEVER_REACHED,
        (
            Comparison(_OUTSIDE, _PLAIN, 1.02),
            Comparison(_CAPTURE, _PROFILER, 1.5),
            _AT_LEVEL_3,
            Comparison(_PROFILER, _PLAIN),
            Comparison(_BY_DEFAULT, _PLAIN, 1.15),
        ),
    ),
    "predict_loop": Script(
        _PREDICT_LOOP,
        _TIME_NEVER_REACHED,
        (Comparison(_OUTSIDE, _PLAIN, 1.03), Comparison(_BY_DEFAULT, _PLAIN, 1.15)),
    ),
    "elementwise_map": Script(
        _ELEMENTWISE_MAP,
        _TIME_NEVER_REACHED,
        (Comparison(_OUTSIDE, _PLAIN, 1.03), Comparison(_BY_DEFAULT, _PLAIN, 1.15)),
    ),
}


class Interval(NamedTuple):
    """A median, and between which values that of all such runs lies, and how surely."""

    median: float
    low: float
    high: float
    coverage: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


def median_interval(values: Iterable[float]) -> Interval:
    """Return the narrowest interval between two of the values that holds their median at 95 %.

    Each value is as likely to lie below the true median as above it, so how many do is binomial.
    Of fewer than six, the least and the greatest are given, and hold it at less than that.
    """
    ordered = sorted(values)
    n = len(ordered)
    found = Interval(median(ordered), ordered[0], ordered[-1], 1 - 2 * 0.5**n)
    below = 0.5**n  # the chance that at most `left_out` values lie below
    for left_out in range(1, n // 2):
        below += math.comb(n, left_out) * 0.5**n
        if 1 - 2 * below < _SURE:
            break
        found = Interval(found.median, ordered[left_out], ordered[-1 - left_out], 1 - 2 * below)
    return found


def ways_to_run(comparisons: Iterable[Comparison]) -> list[str]:
    """Return in which ways a script is to be run."""
    return list(dict.fromkeys(w for c in comparisons for w in (c.base, c.way)))


def ratios(ways: Sequence[Taken], bases: Sequence[Taken]) -> dict[str, Interval]:
    """Return each figure's ratio, round by round."""
    return {
        field: median_interval(
            getattr(a, field) / getattr(b, field) for a, b in zip(ways, bases, strict=True)
        )
        for field in Taken._fields
    }


def verdict(found: Interval, limit: float | None) -> str:
    """Say whether a limit is kept."""
    if limit is None:
        return ""
    return f"   limit {limit:.2f}: {'kept' if found.median <= limit else 'EXCEEDED'}"


class Runner:
    """Runs a script in any of the ways."""

    def __init__(self, folder: Path, name: str, script: Script, length: float) -> None:
        """Write the script, and the program that profiles it."""
        self._folder = folder
        self._script = script
        self._length = length
        self._file = folder / f"{name}.py"
        self._file.write_text(_MEASURING + script.code, encoding="utf-8")
        self._profiled = folder / "profiled.py"
        self._profiled.write_text(_PROFILED, encoding="utf-8")

    def __call__(self, way: str) -> Taken:
        """Run it once.

        Raises:
            BenchmarkError: It failed, or recorded something else than it was to record.
        """
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            logdir, said = Path(name, "logs"), Path(name, "said.txt")
            begin = time.perf_counter()
            with said.open("w", encoding="utf-8") as stderr:
                process = subprocess.Popen(
                    self.command(way, logdir), stdout=subprocess.PIPE, stderr=stderr, text=True
                )
            assert process.stdout is not None
            with process.stdout as pipe:
                answer = pipe.read()
            _, status, used = os.wait4(process.pid, 0)
            wall = time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            problem = self._problem(way, process.returncode, logdir, said.read_text("utf-8"))
            if problem:
                message = f"{self._file.stem}, {way}: {problem}"
                raise BenchmarkError(message)
        own_wall, own_cpu = json.loads(answer)
        return Taken(own_wall, own_cpu, wall, used.ru_utime + used.ru_stime)

    def command(self, way: str, logdir: Path) -> list[str]:
        """Return what runs it in a way."""
        script = [str(self._file), str(self._length)]
        if way == _PLAIN:
            return [sys.executable, *script]
        if way == _PROFILER:
            return [sys.executable, str(self._profiled), str(logdir), *script]
        options = {
            _CAPTURE: _WHOLE,
            _LEVEL_3: (*_WHOLE, "--host-tracer-level", "3"),
            _BY_DEFAULT: (),
            _OUTSIDE: self._script.outside,
        }[way]
        capture = [sys.executable, "-m", "traceanalyzer", "capture", "--no-report"]
        return [*capture, "--logdir", str(logdir), *options, *script]

    @staticmethod
    def _problem(way: str, code: int, logdir: Path, said: str) -> str | None:
        if code:
            return f"ended with {code}:\n{said}"
        traces = len(list(logdir.rglob("*.xplane.pb")))
        if bool(traces) != (way not in {_PLAIN, _OUTSIDE}):
            return f"left {traces} traces:\n{said}"
        if way in {_CAPTURE, _LEVEL_3} and "until the program ended" not in said:
            return f"did not record all of it:\n{said}"
        return None


def measure(
    ways: Sequence[str], rounds: int, run: Callable[[str], Taken]
) -> dict[str, list[Taken]]:
    """Run a script in all ways in turn, so many times, and print what each run took."""
    found: dict[str, list[Taken]] = {way: [] for way in ways}
    print(f"{'':22}{'own work':>19} {'whole process':>19}")
    print(f"{'':22}" + " ".join(f"{unit:>9}" for unit in ("wall s", "CPU s") * 2))
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            taken = run(way)
            found[way].append(taken)
            print(f"{number + 1:2}  {way:18}{taken}", flush=True)
    for way, all_of_it in found.items():
        medians = Taken(*(median(column) for column in zip(*all_of_it, strict=True)))
        print(f"med {way:18}{medians}")
    return found


def compare(comparisons: Iterable[Comparison], found: Mapping[str, Sequence[Taken]]) -> None:
    """Print ratios, and whether limits are kept."""
    for way, base, limit in comparisons:
        intervals = ratios(found[way], found[base])
        coverage = next(iter(intervals.values())).coverage
        print(f"{way} / {base}: median and {coverage:.0%} interval")
        for field, interval in intervals.items():
            judged = verdict(interval, limit) if field == "own_wall_s" else ""
            print(f"    {_IN_WORDS[field]:20}{interval}{judged}")


def main(arguments: list[str] | None = None) -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=10, help="how often each way is measured")
    parser.add_argument("--only", choices=SCRIPTS, help="measure this script alone")
    parser.add_argument(
        "--length", type=float, default=1.0, help="of a script's work; 1 is 5 to 15 s"
    )
    parser.add_argument(
        "--limits-only", action="store_true", help="leave out what has no limit to keep"
    )
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for name, script in SCRIPTS.items():
            if asked.only in {None, name}:
                print(f"{name}, {asked.pairs} pairs")
                Runner(Path(folder), name, script, 0.01)(_CAPTURE)  # fills the page cache
                run = Runner(Path(folder), name, script, asked.length)
                compared = [
                    c for c in script.comparisons if c.limit is not None or not asked.limits_only
                ]
                compare(compared, measure(ways_to_run(compared), asked.pairs, run))
                print()


if __name__ == "__main__":
    main()
