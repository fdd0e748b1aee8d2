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


SERVERS = """\
import socket
import tensorflow as tf

free = [socket.create_server(("localhost", 0)) for _ in range(2)]
worker, keeper = [f"localhost:{each.getsockname()[1]}" for each in free]
for each in free:
    each.close()
cluster = tf.train.ClusterSpec({"worker": [worker], "ps": [keeper]})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0) for job in ("worker", "ps")]
found = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(found)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    heights = tf.Variable(tf.ones([16, 16]))

@tf.function
def smooth():
    return strategy.run(lambda: tf.reduce_sum(tf.matmul(heights, tf.ones([16, 16]))))

for _ in range(4):
    last = coordinator.schedule(smooth)
coordinator.join()
last.fetch()
"""


@pytest.mark.slow
def test_workers_of_parameter_servers_use_the_gpus_of_their_machine() -> None:
    diagnosis = ta.diagnose(captured(SERVERS, gpus=0).run())
    there = diagnosis.on_a_gpu
    assert there is not None
    on_cpu = {each.type for each in there.analysis.cpu_ops.values()}
    assert "ReadVariableOp" in on_cpu
    assert not on_cpu & {"MatMul", "_MklMatMul", "Sum"}
    found = [each for each in there.findings if each.cause == "distribution_strategy_cpu"]
    assert {each.harm for each in found} <= {"by_design", "harmless"}
    assert not [fix for each in found for fix in each.fixes]
