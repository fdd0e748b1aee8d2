"""Which part of a program is recorded, and what that leaves undisturbed."""

import re
from pathlib import Path

import pytest

from tests.capturing.running import captured
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import read
from traceanalyzer.run import load

PREPARES_FIRST = """
import tensorflow as tf

elements = tf.data.Dataset.range(300_000).map(lambda x: x + 1).batch(1000)
print(len(list(elements)))
weights = tf.Variable(tf.random.normal([300, 300]))

@tf.function
def step(x):
    weights.assign_add(tf.matmul(weights, x) * 1e-6)

x = tf.random.normal([300, 300])
for _ in range(2000):
    step(x)
"""

PREDICTS_IN_A_LOOP = """
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
for _ in range(30):
    model.predict(np.zeros((1, 4), "float32"), verbose=0)
"""


def evidence(folder: Path) -> CaptureFile:
    found = read(max((folder / "traceanalyzer-logs").rglob("*.placement.json.gz")))
    assert found is not None
    return found


@pytest.mark.slow
def test_the_steps_are_recorded_although_data_is_prepared_first(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PREPARES_FIRST)
    done = captured(["script.py"], tmp_path)
    assert done.out == b"300\n"
    steps = load(tmp_path / "traceanalyzer-logs").steps
    assert set(steps["name"].astype(str)) == {"step"}
    assert len(steps) > 50
    page = (tmp_path / "traceanalyzer-report.html").read_text()
    assert re.search(r"of [\d.]+\s\w+ recorded", page)


@pytest.mark.slow
def test_datasets_that_are_made_over_and_over_are_recorded_a_few_times(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(PREDICTS_IN_A_LOOP)
    captured(["--no-report", "script.py"], tmp_path)
    found = evidence(tmp_path)
    made = [d.name for d in found.definitions if "Dataset_map_permutation" in d.name]
    assert 0 < len(made) < 10
    iterators = [s for s in found.signatures if s.op == "MakeIterator"]
    assert 0 < len(iterators) < 20
    assert len(found.resources) < 40
