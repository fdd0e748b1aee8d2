"""Keras' LSTM and GRU: one op of cuDNN where TensorFlow has a GPU, unless an option forbids it."""

from __future__ import annotations

from typing import Any

import pytest

from traceanalyzer.placement.keras import doubt_in_a_loop, recurrent_layers, replaced_loop

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


def layers(version: str = "3.15.1", **options: Any) -> Any:  # noqa: ANN401 - JSON
    return recurrent_layers({"recurrent": [{**_LSTM, **options}]}, version)


@pytest.mark.parametrize(
    ("options", "obstacle"),
    [
        ({}, ""),
        ({"use_cudnn": True}, ""),
        ({"dropout": 0.2}, ""),
        ({"recurrent_dropout": 0.1}, "recurrent_dropout=0.1"),
        ({"activation": "relu"}, "activation='relu'"),
        ({"activation": "train.tanh"}, "activation='train.tanh'"),
        ({"unroll": True}, "unroll=True"),
        ({"use_bias": False}, "use_bias=False"),
        ({"class": "GRU", "reset_after": False}, "reset_after=False"),
        ({"use_cudnn": False}, "use_cudnn=False"),
    ],
)
def test_each_option_that_rules_cudnn_out_is_named(options: dict[str, Any], obstacle: str) -> None:
    (layer,) = layers(**options)
    assert layer.obstacle == obstacle
    assert bool(replaced_loop([layer], _LOOP)) is not bool(obstacle)
    assert not doubt_in_a_loop([layer], _LOOP)


@pytest.mark.parametrize(
    ("could", "options", "obstacle"),
    [
        (True, {"dropout": 0.2}, ""),
        (False, {"dropout": 0.2, "recurrent_dropout": 0.1}, "recurrent_dropout=0.1"),
        (False, {"use_bias": False}, "use_bias=False"),
        (False, {}, "one of its options"),
    ],
)
def test_a_layer_of_keras_2_tells_itself_whether_it_can_use_cudnn(
    could: bool,  # noqa: FBT001
    options: dict[str, Any],
    obstacle: str,
) -> None:
    """Its loop has the layer's scope only where it cannot: else it is in a function of its own."""
    found = layers("2.15.0", could_use_cudnn=could, **options)
    assert found[0].obstacle == obstacle
    assert not replaced_loop(found, _LOOP)
    assert not doubt_in_a_loop(found, "sequential/encoder/lstm/while/add")


def test_a_loop_of_unknown_options_is_doubtful_by_its_name() -> None:
    assert doubt_in_a_loop((), "model/lstm_2/while/body/_3/add")
    assert doubt_in_a_loop((), "gradient_tape/model/gru/while/add")
    assert not doubt_in_a_loop((), "model/lstm_2/transpose")
    assert not doubt_in_a_loop((), "model/rnn/while/body/_3/add")


@pytest.mark.parametrize("recorded", [None, "x", [1, None], [{}], [{"name": 3, "dropout": "a"}]])
def test_a_damaged_record_is_no_error(recorded: Any) -> None:  # noqa: ANN401 - JSON
    for layer in recurrent_layers({"recurrent": recorded}, "None"):
        replaced_loop([layer], _LOOP)
