"""The loops of Keras 2's LSTM and GRU, which grappler swaps where their call is on a GPU."""

from __future__ import annotations

from typing import Any

from tests.placement.graphs import node
from tests.placement.test_program import Program, arg, call
from traceanalyzer.capture_file.function_records import Definition
from traceanalyzer.placement.devices import machine_of, with_gpus
from traceanalyzer.placement.keras import SwappedFunctions
from traceanalyzer.placement.program import place_program

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
