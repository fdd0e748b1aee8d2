"""Priorities, attributes and ops of other libraries: what is said of them is in the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.placement.kernels import CPU, GPU
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.rules import attr_unsupported, custom_op, kernel_priority

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Json


def test_the_priorities_that_it_names_are_those_of_each_version() -> None:
    for version in supported():
        registry = load(version)
        preferred = [op for op in registry.ops if prefers_cpu(version, op)]
        assert len(preferred) > 10
        for op in preferred:
            mark = kernel_priority.RULE.recognises(subject(op), held("priority", op))
            assert mark is not None
            assert mark.evidence[0].text == (
                f"the CPU kernel of {op} has priority 2, the GPU kernel 1"
            )


def test_it_names_what_has_a_higher_priority_by_design() -> None:
    assert all(prefers_cpu(supported()[-1], op) for op in ("IteratorGetNext", "OptionalFromValue"))
    assert callable(tf.data.experimental.prefetch_to_device)


def test_the_policy_that_it_offers_has_a_gpu_kernel_and_is_an_argument() -> None:
    given: dict[str, Json] = {"bad_indices_policy": {"s": "ERROR"}}
    every: dict[str, Json] = {"Tparams": "float", "Tindices": "int32", **given}
    member = (subject("GatherNd"), held("attributes", "GatherNd", attributes=given, given=every))
    assert attr_unsupported.RULE.words is not None

    (fix,) = attr_unsupported.RULE.words([member]).fixes

    assert (fix.code, fix.checked) == ('bad_indices_policy="IGNORE"', True)
    types: dict[str, Json] = {"Tparams": "float", "Tindices": "int32"}
    newest = load(supported()[-1])
    assert newest.find("GatherNd", GPU, {**types, **given}) is None
    offered: dict[str, Json] = {"bad_indices_policy": {"s": "IGNORE"}}
    assert newest.find("GatherNd", GPU, {**types, **offered}) is not None
    gathered = tf.gather_nd(tf.constant([1.0, 2.0]), [[5]], bad_indices_policy="IGNORE")
    assert gathered.numpy().tolist() == [0.0]


def test_the_kernels_of_a_library_can_be_asked_for_as_it_says() -> None:
    example = next(e for e in custom_op.RULE.examples if e.fires_on)
    (finding,) = custom_op.RULE.check(example.run())
    ask, _ = finding.fixes

    assert ask.code is not None
    assert "kernels.get_registered_kernels_for_op" in ask.code
    assert kernels.get_registered_kernels_for_op("MatMul").kernel


@pytest.mark.parametrize(
    ("hold", "attributes", "words"),
    [
        ("no_kernel", {}, "no kernel of FastGelu for GPUs"),
        ("attributes", {"T": "double"}, "no kernel of FastGelu for GPUs with this T"),
        ("priority", {}, "for the CPU has the higher priority"),
    ],
)
def test_what_a_library_has_registered_is_certain(
    hold: str, attributes: dict[str, Json], words: str
) -> None:
    """Without a record of its kernels nothing says that they hold an op of it."""
    what = held(hold, "FastGelu", attributes=attributes)
    mark = custom_op.RULE.recognises(subject("FastGelu"), what)

    assert mark is not None
    assert mark.certainty == "certain"
    assert mark.evidence[1].text.endswith(words)


@pytest.mark.parametrize("op", ["_MklMatMul", "__inference_f_3", "MatMul", "_FusedConv2D", "f"])
def test_what_is_no_op_of_a_library(op: str) -> None:
    assert custom_op.RULE.recognises(subject(op), held("no_kernel", op)) is None


def prefers_cpu(version: str, op: str) -> bool:
    priorities = {k.device_type: k.priority for k in load(version).kernels(op)}
    return CPU in priorities and GPU in priorities and priorities[CPU] > priorities[GPU]
