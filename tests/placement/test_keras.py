"""Keras' LSTM and GRU: one op of cuDNN where TensorFlow has a GPU, unless an option forbids it."""

from typing import Any

import pytest

from tests.placement.test_program import Program
from traceanalyzer.placement.keras import Keras

_LSTM = {
    "name": "encoder",
    "class": "LSTM",
    "activation": "tanh",
    "recurrent_activation": "sigmoid",
    "use_bias": True,
    "unroll": False,
    "use_cudnn": "auto",
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
}
_LOOP = "StatefulPartitionedCall/sequential_1/encoder_1/while/body/_150/sequential_1/while/add"


def with_layer(version: str = "3.15.1", **options: Any) -> Keras:  # noqa: ANN401 - JSON
    """A program that ran a model with one LSTM."""
    model = {"name": "m", "not_compilable": [], "recurrent": [{**_LSTM, **options}]}
    return of_models(model, version=version)


def of_models(*models: Any, version: str = "3.15.1") -> Keras:  # noqa: ANN401 - JSON
    devices = {"keras_version": version, "keras_models": list(models)}
    capture_file = Program().capture_file(devices=devices)
    return Keras(capture_file)


@pytest.mark.parametrize(
    ("options", "is_replaced"),
    [
        ({}, True),
        ({"use_cudnn": True}, True),
        ({"dropout": 0.2}, True),
        ({"dropout": 0.2, "version": "3.3.0"}, False),
        ({"recurrent_dropout": 0.1}, False),
        ({"activation": "relu"}, False),
        ({"activation": "train.tanh"}, False),
        ({"unroll": True}, False),
        ({"use_bias": False}, False),
        ({"class": "GRU", "reset_after": False}, False),
        ({"use_cudnn": False}, False),
        # Of Keras 2, whose loop has the layer's scope only where it cannot use cuDNN: else it is in
        # a function of its own.
        ({"version": "2.15.0", "could_use_cudnn": True}, False),
        ({"version": "2.15.0", "could_use_cudnn": False}, False),
    ],
)
def test_a_loop_is_replaced_unless_an_option_rules_cudnn_out(
    options: dict[str, Any], *, is_replaced: bool
) -> None:
    found = with_layer(**options)
    assert bool(found.gone(_LOOP)) is is_replaced
    assert not found.doubt("f", _LOOP)


@pytest.mark.parametrize(
    ("node", "is_doubtful"),
    [
        ("model/lstm_2/while/body/_3/add", True),
        ("gradient_tape/model/gru/while/add", True),
        ("model/lstm_2/transpose", False),
        ("model/rnn/while/body/_3/add", False),
    ],
)
def test_a_loop_of_unknown_options_is_doubtful_by_its_name(node: str, *, is_doubtful: bool) -> None:
    assert bool(of_models().doubt("f", node)) is is_doubtful


@pytest.mark.parametrize("recorded", [None, "x", [1, None], [{}], [{"name": 3, "dropout": "a"}]])
def test_a_damaged_record_is_no_error(recorded: Any) -> None:  # noqa: ANN401 - JSON
    model = {"name": "m", "not_compilable": [], "recurrent": recorded}
    of_models(model, version="None").gone(_LOOP)


def test_a_loop_of_keras_2_may_be_one_op_of_cudnn() -> None:
    """It is a function of its own, which Grappler replaces; the gradient's too."""
    for function in (
        "__forward_standard_lstm_2530",
        "__inference___backward_standard_lstm_2221_2531",
        "__forward_standard_gru_7_specialized_for_sequential_at___inference_train_function_2753",
    ):
        assert "cuDNN" in of_models().doubt(function, "while/add")
    assert not of_models().doubt("__inference_standard_things_3", "while/add")
