"""Changes for layers of Keras models."""

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.changes import changes_of

_GUESTS = """
import tensorflow as tf
from tensorflow import keras

names = tf.constant([["ada"], ["bob"], ["eve"], ["bob"]] * 16)
guests = keras.layers.StringLookup(output_mode="multi_hot")
guests.adapt(names)
asked = keras.Input((1,), dtype="string")
known = guests(asked)
model = keras.Model(asked, keras.layers.Dense(1)(known))
model.compile("sgd", "mse")
model.fit(names, tf.ones((64, 1)), epochs=4, batch_size=8, verbose=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1])
def test_a_change_of_a_layer_is_at_its_call_and_not_where_the_model_runs(gpus: int) -> None:
    """Its preparation by `adapt` runs once: there is nothing to change."""
    run = captured(_GUESTS.removeprefix("\n"), gpus=gpus).run()

    found = changes_of(ta.diagnose(run))

    lines = [c.place[1] for c in found if c.place and (c.is_by_placement or "strings" in c.title)]
    assert 8 in lines
    assert not {6, 11} & set(lines)
    (layer,) = {change.line_text.strip() for change in found if change.place == ("train.py", 8)}
    assert layer == "known = guests(asked)"
