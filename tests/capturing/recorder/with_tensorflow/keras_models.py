"""What is noted of Keras models while they run: the layers that decide on XLA and on cuDNN."""

import json
from typing import Any

import keras
import tensorflow as tf
from keras import layers

from traceanalyzer.capturing.recorder.keras_models import KerasModels


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


class _Layer:
    """A layer as Keras 2 makes it: it knows whether it can use cuDNN."""

    name, supports_jit, _could_use_gpu_kernel = "decoder", True, False
    activation, recurrent_dropout = staticmethod(tf.tanh), 0.1


class _Model:
    """A model of Keras 2, while `fit` runs it."""

    name = "m"

    def _flatten_layers(self) -> list[Any]:
        lstm = type("LSTM", (_Layer,), {"__module__": "tf_keras.src.layers.rnn.lstm"})
        return [self, lstm()]

    def make_train_function(self) -> None:
        """As models of Keras have it."""

    def fit(self, models: KerasModels) -> None:
        models.defined("__inference_train_function_1707")


def test_recurrent_layers_of_keras_2_are_noted_too() -> None:
    models = KerasModels()
    _Model().fit(models)
    (found,) = models.found
    assert found["recurrent"] == [
        {
            "name": "decoder",
            "class": "LSTM",
            "could_use_cudnn": False,
            "activation": "tanh",
            "recurrent_dropout": 0.1,
        }
    ]
    json.dumps(found)
