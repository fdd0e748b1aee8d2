"""What is noted of Keras models while they run: the layers that decide on XLA and on cuDNN."""

from __future__ import annotations

import json
from typing import Any

import keras
from keras import layers

from traceanalyzer.recorder.keras_models import KerasModels


def _own(x: Any) -> Any:  # noqa: ANN401 - a tensor of Keras
    return x


class _Running(keras.Sequential):
    """A model as `fit` has it on the stack when its step is defined."""

    def define(self, models: KerasModels, function: str) -> None:
        models.defined(function)


def test_the_options_that_decide_on_cudnn_are_noted_of_each_recurrent_layer() -> None:
    model = _Running(
        [
            keras.Input((5, 3)),
            layers.LSTM(4, return_sequences=True, name="encoder", recurrent_dropout=0.25),
            layers.GRU(2, return_sequences=True, name="own", activation=_own),
            layers.Bidirectional(layers.GRU(2, name="gru")),
            layers.Dense(1),
        ]
    )
    models = KerasModels()

    model.define(models, "__inference_train_3")
    assert not models.found  # no step of Keras
    model.define(models, "__inference_one_step_on_data_7")

    (found,) = models.found
    told = {layer["name"]: layer for layer in found["recurrent"]}
    assert told.keys() == {"encoder", "own", "forward_gru", "backward_gru"}
    encoder, forward = told["encoder"], told["forward_gru"]
    assert (encoder["class"], encoder["recurrent_dropout"]) == ("LSTM", 0.25)
    assert (encoder["activation"], encoder["recurrent_activation"]) == ("tanh", "sigmoid")
    assert (forward["class"], forward["reset_after"], forward["unroll"]) == ("GRU", True, False)
    assert told["own"]["activation"].endswith("._own")  # no function of Keras
    json.dumps(found)  # it goes into the capture file
