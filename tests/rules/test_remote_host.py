"""Which task a program was: what its environment says, and what its ops bear out."""

from __future__ import annotations

import pytest

from traceanalyzer.rules.remote_host import RULE, _InCluster

SERVER = "/job:ps/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("task", "certainty"), [("worker/replica:0/task:1", "certain"), ("worker/task:0", "likely")]
)
def test_a_task_that_no_op_bears_out_makes_nothing_certain(task: str, certainty: str) -> None:
    """`TF_CONFIG` says worker 1; a program may have taken another task all the same."""
    own = {"name": "join", "type": "StringJoin", "device": f"/job:{task}/device:CPU:0"}
    away = {"name": "read", "type": "ReadVariableOp", "device": SERVER}

    found = list(RULE.check(_InCluster(title="", ops=(own, away)).run()))

    assert {f.certainty for f in found} == {certainty}


def test_devices_of_no_cluster_are_of_no_other_task() -> None:
    local = "/job:localhost/replica:0/task:0/device:CPU:0"
    ops = ({"name": "join", "type": "StringJoin", "device": local},)

    assert not list(RULE.check(_InCluster(title="", ops=ops).run()))
