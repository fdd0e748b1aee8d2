"""Which part of a program is recorded, and what that leaves undisturbed."""

import re
from pathlib import Path

import pytest

from tests.capturing.running import captured
from tests.emulator.captures import captured as captured_in_fork
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

PREDICTIONS = Path(__file__).parents[1] / "twin" / "programs" / "predictions_in_a_loop.py"


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
def test_datasets_that_are_made_over_and_over_are_recorded_a_few_times() -> None:
    found = captured_in_fork(PREDICTIONS, gpus=0, environment=None).capture_file()
    made = [d.name for d in found.definitions if "Dataset_map_permutation" in d.name]
    assert 0 < len(made) < 10
    iterators = [s for s in found.signatures if s.op == "MakeIterator"]
    assert 0 < len(iterators) < 20
    assert len(found.resources) < 40
