"""Keras' LSTM and GRU: one op of cuDNN where TensorFlow has a GPU, unless an option forbids it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import Program, arg, call
from traceanalyzer.capture_file.function_records import Definition
from traceanalyzer.placement.devices import machine_of, with_gpus
from traceanalyzer.placement.keras import KerasOnAGpu
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


def with_layer(version: str = "3.15.1", **options: Any) -> KerasOnAGpu:  # noqa: ANN401 - JSON
    """A program that ran a model with one LSTM."""
    model = {"name": "m", "not_compilable": [], "recurrent": [{**_LSTM, **options}]}
    return of_models(model, version=version)


def of_models(*models: Any, version: str = "3.15.1") -> KerasOnAGpu:  # noqa: ANN401 - JSON
    devices = {"keras_version": version, "keras_models": list(models)}
    capture_file = Program().capture_file(devices=devices)
    return KerasOnAGpu(capture_file, place_program(capture_file))


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
    assert bool(found.gone("f", _LOOP)) is is_replaced
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
    of_models(model, version="None").gone("f", _LOOP)


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
) -> KerasOnAGpu:
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
    return KerasOnAGpu(
        capture_file, place_program(capture_file, with_gpus(machine_of(capture_file)))
    )


def test_the_loop_and_its_gradient_are_not_there_where_their_calls_are_on_a_gpu() -> None:
    found = swapped()
    for function in (_FORWARD, _AS_RUN, _BACKWARD, f"{_BACKWARD}_specialized_for_f_at_g"):
        assert "one op of cuDNN" in found.gone(function, "")
        assert not found.doubt(function, "")
    (said,) = found.sentences()
    assert "sequential/lstm (LSTM)" in said
    assert not found.gone(_STEP, "")


def test_a_call_on_the_cpu_keeps_its_loop() -> None:
    found = swapped("/cpu:0")
    assert not found.gone(_AS_RUN, "")
    assert not found.doubt(_AS_RUN, "")
    assert not list(found.sentences())


def test_a_mask_may_need_the_loop_on_a_gpu_too() -> None:
    for nodes in (("inputs", "mask"), None):  # None: not recorded
        found = swapped(nodes=nodes)
        assert not found.gone(_AS_RUN, "")
        assert "may" in found.doubt(_AS_RUN, "")
        assert not found.gone(_BACKWARD, "")
        assert found.doubt(_BACKWARD, "")
        (said,) = found.sentences()
        assert "padded on the right" in said


def test_a_call_that_was_not_recorded_leaves_a_doubt() -> None:
    found = swapped()
    assert not found.gone("__inference_standard_lstm_77", "")
    assert "may" in found.doubt("__inference_standard_lstm_77", "")


def test_a_function_of_that_name_without_a_partner_for_gpus_is_the_users_own() -> None:
    for partner in ("__inference_other_3", "__inference_gpu_gru_with_fallback_3"):
        found = swapped(partner=partner)
        assert not found.gone(_AS_RUN, "")
        assert not found.doubt(_AS_RUN, "")


def test_nothing_is_swapped_where_the_optimizer_is_off() -> None:
    for option in ({"implementation_selector": False}, {"disable_meta_optimizer": True}):
        assert not swapped(optimizer_options=option).gone(_AS_RUN, "")
