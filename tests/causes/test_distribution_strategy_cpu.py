"""Ops that a strategy's own code puts on the CPU, with only GPUs and with a CPU too."""

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.findings import Finding

PROGRAM = """\
import sys
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(sys.argv[1:] or None)
with strategy.scope():
    weights = tf.Variable(tf.ones([64, 64]))

def total():
    return tf.matmul(weights, weights)

@tf.function
def step():
    return strategy.reduce("MEAN", strategy.run(total), axis=None)

@tf.function
def step_on_gpu():
    with tf.device("/GPU:0"):
        return strategy.reduce("SUM", strategy.run(total), axis=None)

for _ in range(2):
    step()
    step_on_gpu()
"""


def found_by_line(*devices: str) -> dict[tuple[int, str], Finding]:
    """The findings of the rule in a capture with two emulated GPUs, by line and type of op."""
    run = captured(PROGRAM, *devices, gpus=2).run()
    ops = run.ops.set_index("op_id")
    return {
        (int(ops.loc[op_id, "source_line"]), str(ops.loc[op_id, "type"])): finding
        for finding in ta.diagnose(run).findings
        if finding.cause == "distribution_strategy_cpu"
        for op_id in finding.op_ids
    }


def test_a_reduction_is_on_the_cpu_although_every_device_is_a_gpu() -> None:
    found = found_by_line()

    assert (13, "AddN") in found
    assert {line for line, _ in found} == {13}  # and no op for which a GPU is requested
    (one,) = {f.id: f for f in found.values()}.values()
    assert one.certainty == "certain"
    assert "strategy.reduce" in one.why
    assert "created with" not in one.why
    assert one.fixes[0].code is not None
    assert one.fixes[0].code.startswith('with tf.device("/GPU:0"):')


@pytest.mark.slow
def test_a_replica_on_the_cpu_is_there_by_the_devices_that_were_named() -> None:
    found = found_by_line("/GPU:0", "/CPU:0")

    replica = next(f for (line, _), f in found.items() if line == 9)
    assert replica.certainty == "certain"
    assert "devices it was created with" in replica.why
