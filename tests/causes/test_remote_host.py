"""The task of a program, by its environment and by its ops."""

import pytest

from tests.causes.examples import Example
from tests.placement.graphs import node, written
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.function_records import Function, Instance
from traceanalyzer.causes import remote_host

SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:{}/device:{}:0"
AS_WORKER = CaptureFile(
    tool="",
    host="h",
    complete=True,
    environment={"variables": {"TF_CONFIG": '{"task": {"type": "worker", "index": 1}}'}},
)


@pytest.mark.parametrize(
    ("task", "certainty"), [("worker/replica:0/task:1", "certain"), ("worker/task:0", "likely")]
)
def test_a_task_that_no_op_confirms_makes_nothing_certain(task: str, certainty: str) -> None:
    """`TF_CONFIG` says worker 1; a program may have taken another task all the same."""
    own = {"name": "join", "type": "StringJoin", "device": f"/job:{task}/device:CPU:0"}
    away = {"name": "read", "type": "ReadVariableOp", "device": SERVER}

    found = list(
        remote_host.check(Example(title="", ops=(own, away), capture_file=AS_WORKER).run())
    )

    assert {f.certainty for f in found} == {certainty}


def test_devices_of_no_cluster_are_of_no_other_task() -> None:
    local = "/job:localhost/replica:0/task:0/device:CPU:0"
    ops = ({"name": "join", "type": "StringJoin", "device": local},)

    assert not list(remote_host.check(Example(title="", ops=ops, capture_file=AS_WORKER).run()))


def placed_on(*devices: str) -> CaptureFile:
    """A capture, without `TF_CONFIG`, of a function whose nodes were on some devices."""
    graph = written(*(node(f"mm{at}", "MatMul", T="float") for at in range(len(devices))))
    instance = Instance(input=graph.graph, assigned=devices, partitions=())
    function = Function(name="__inference_step_1", instances=(instance,))
    return CaptureFile(
        tool="",
        host="h",
        complete=True,
        environment={"variables": {}},
        attributes=tuple(graph.attributes),
        functions=(function,),
    )


@pytest.mark.parametrize(
    ("placed", "away"),
    [
        ([WORKER.format(1, "GPU"), SERVER], ["read", "write"]),
        # If that is ambiguous, it is the task with most devices in the trace.
        ([WORKER.format(1, "GPU"), WORKER.format(2, "GPU")], ["join"]),
        ([WORKER.format(1, "CPU"), SERVER], ["join"]),
    ],
)
def test_without_its_configuration_a_program_is_the_task_on_whose_gpus_it_computes(
    placed: list[str], away: list[str]
) -> None:
    rows = {"read": SERVER, "write": SERVER, "join": WORKER.format(1, "CPU")}
    ops = tuple(
        {"op_id": name, "name": name, "type": name, "device": device}
        for name, device in rows.items()
    )
    example = Example(title="", ops=ops, capture_file=placed_on(*placed))

    (found,) = remote_host.check(example.run())

    assert found.certainty == "likely"
    assert list(found.op_ids) == away
