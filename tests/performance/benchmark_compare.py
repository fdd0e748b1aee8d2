"""How often two captures of one program are told apart.

Run as `python -m tests.performance.benchmark_compare [PAIRS]`. Prints what `compare` sees between
twenty pairs of captures of each of two programs, one after the other on an emulated GPU, and how
long their steps took. At most one pair of a program may be told apart (95 %).
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import traceanalyzer as ta
from tests.compare.test_compare import PROGRAM
from tests.emulator.oracle import the_oracle
from traceanalyzer.compare.differences import compare
from traceanalyzer.compare.step_times import step_time_change, step_times
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble

_PAIRS: Final = 20
_FIT: Final = """
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = rng.normal(size=(6400, 64)).astype("float32"), rng.integers(10, size=6400)
with tf.device("/GPU:0"):
    layers = [keras.layers.Dense(512, activation="relu") for _ in range(2)]
    model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, y, batch_size=128, epochs=1, verbose=0)
"""


def main() -> None:
    """Capture and compare; print one line for each pair."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else _PAIRS
    for title, program in (("short steps", PROGRAM), ("Keras fit", _FIT)):
        told_apart = uncompared = 0
        with tempfile.TemporaryDirectory() as folder:
            for pair in range(pairs):
                runs = [_captured(program, Path(folder, f"{pair}-{side}")) for side in "ab"]
                found = compare(*runs)
                change = found.step_time
                others = {each.kind for each in found.differences}
                told_apart += bool(others) or (change is not None and change.is_seen)
                uncompared += change is None
                print(f"{title}: {_times(*runs)}: {change or 'not compared'} {sorted(others)}")
        print(f"{title}: {pairs - told_apart} of {pairs} without a difference")
        print(f"{title}: step times of {uncompared} pairs were not compared")


def _captured(program: str, folder: Path) -> Report:
    folder.mkdir()
    script, logs = folder / "train.py", folder / "logs"
    script.write_text(program, encoding="utf-8")
    task = "tests.labelled.captured_in_fork:capture"
    outcome = the_oracle().run(task, str(script), str(logs), 3)
    assert outcome.exit_code == 0, outcome.error or outcome.stderr
    return assemble(ta.diagnose(ta.load(logs)))


def _times(base: Report, new: Report) -> str:
    """Return the median steps of both runs, whether or not they can be compared."""
    change = step_time_change(step_times(base), step_times(new))
    assert change is not None
    share = change.new_us / change.base_us - 1
    return f"{change.base_us / 1e3:.2f} and {change.new_us / 1e3:.2f} ms ({share:+.0%})"


if __name__ == "__main__":
    main()
