"""Keras' LSTM and GRU: one op of cuDNN where TensorFlow has a GPU, unless an option forbids it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import Program, arg, call
from traceanalyzer.capture_file.function_records import Definition
from traceanalyzer.placement.devices import machine_of, with_gpus
from traceanalyzer.placement.keras import (
    SwappedFunctions,
    doubt_in_a_loop,
    recurrent_layers,
    replaced_loop,
)
from traceanalyzer.placement.program import place_program

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


_FORWARD = "__forward_standard_lstm_2530"
_BACKWARD = "__inference___backward_standard_lstm_2221_2531"
_FOR_GPUS = "__inference_gpu_lstm_with_fallback_420"
_STEP = "__inference_train_function_2753"
_AS_RUN = f"{_FORWARD}_specialized_for_sequential_lstm_PartitionedCall_at_{_STEP}"


def swapped(
    asked: str = "",
    *,
    partner: str = _FOR_GPUS,
    nodes: tuple[str, ...] | None = ("inputs",),
    **devices: Any,  # noqa: ANN401 - JSON
) -> SwappedFunctions:
    """A step that calls an LSTM and its gradient under a request."""
    program = Program()
    program.eager(_STEP)
    program.function(_AS_RUN, node("while/add", "NoOp"))
    program.function(
        _STEP,
        arg("x", 0),
        call("sequential/lstm/PartitionedCall", _FORWARD, "x", T=["float"], asked=asked),
        call("PartitionedCall", _BACKWARD, "x", T=["float"], asked=asked),
    )
    of = {partner: (), **({} if nodes is None else {_FORWARD: nodes})}
    definitions = tuple(
        Definition(name=name, nodes=known, frames=(-1,) * len(known), scopes=(None,) * len(known))
        for name, known in of.items()
    )
    capture_file = program.capture_file(definitions=definitions, devices=devices)
    return SwappedFunctions(
        capture_file, place_program(capture_file, with_gpus(machine_of(capture_file)))
    )


def test_the_loop_and_its_gradient_are_not_there_where_their_calls_are_on_a_gpu() -> None:
    found = swapped()
    for function in (_FORWARD, _AS_RUN, _BACKWARD, f"{_BACKWARD}_specialized_for_f_at_g"):
        assert "one op of cuDNN" in found.gone(function)
        assert not found.doubt(function)
    (said,) = found.sentences()
    assert "sequential/lstm (LSTM)" in said
    assert not found.gone(_STEP)


def test_a_call_on_the_cpu_keeps_its_loop() -> None:
    found = swapped("/cpu:0")
    assert not found.gone(_AS_RUN)
    assert not found.doubt(_AS_RUN)
    assert not list(found.sentences())


def test_a_mask_may_need_the_loop_on_a_gpu_too() -> None:
    for nodes in (("inputs", "mask"), None):  # None: not recorded
        found = swapped(nodes=nodes)
        assert not found.gone(_AS_RUN)
        assert "may" in found.doubt(_AS_RUN)
        assert not found.gone(_BACKWARD)
        assert found.doubt(_BACKWARD)
        (said,) = found.sentences()
        assert "padded on the right" in said


def test_a_call_that_was_not_recorded_leaves_a_doubt() -> None:
    found = swapped()
    assert not found.gone("__inference_standard_lstm_77")
    assert "may" in found.doubt("__inference_standard_lstm_77")


def test_a_function_of_that_name_without_a_partner_for_gpus_is_the_users_own() -> None:
    for partner in ("__inference_other_3", "__inference_gpu_gru_with_fallback_3"):
        found = swapped(partner=partner)
        assert not found.gone(_AS_RUN)
        assert not found.doubt(_AS_RUN)


def test_nothing_is_swapped_where_the_optimizer_is_off() -> None:
    for option in ({"implementation_selector": False}, {"disable_meta_optimizer": True}):
        assert not swapped(optimizer_options=option).gone(_AS_RUN)
