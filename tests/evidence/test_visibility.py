"""What kept TensorFlow from seeing a GPU, as far as it was recorded."""

from __future__ import annotations

from typing import Any

import pytest

from traceanalyzer.evidence.visibility import obstacles, saw_no_gpu
from traceanalyzer.placement.program import SESSION
from traceanalyzer.sidecar.document import Function, Graph, Instance, SessionConfig, Sidecar

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
_GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
_LOGICAL = [{"name": "/device:CPU:0", "type": "CPU"}]


def config(**more: Any) -> SessionConfig:  # noqa: ANN401 - any field
    told = {"is_own": True, "is_local": True, "device_count": {"GPU": 0}, **more}
    return SessionConfig(soft_placement=False, **told)


def sidecar(
    *configs: SessionConfig, devices: dict[str, Any] | None = None, assigned: str = _CPU
) -> Sidecar:
    graph = Graph(
        names=("Mul",),
        ops=("Mul",),
        inputs=((),),
        devices=("",),
        attributes=(-1,),
        origin_functions=("",),
        origin_nodes=("",),
    )
    instance = Instance(input=graph, assigned=(assigned,), partitions=())
    return Sidecar(
        tool="",
        host="h",
        complete=True,
        devices=devices if devices is not None else {"context_made": False},
        session_configs=configs,
        functions=(Function(name=SESSION, instances=(instance,)),),
    )


def test_sessions_that_are_told_to_have_no_gpu_have_none() -> None:
    found = sidecar(config(), config(memory_fraction=0.5))

    assert saw_no_gpu(found)
    (obstacle,) = obstacles(found)
    assert (obstacle.reason, obstacle.hides_all) == ("hidden_by_session", True)
    assert "device_count={'GPU': 0}" in obstacle.text


@pytest.mark.parametrize(
    ("configs", "assigned"),
    [
        ((), _CPU),
        ((config(), config(device_count={})), _CPU),
        ((config(device_count={"GPU": 1}),), _CPU),
        ((config(is_own=False),), _CPU),  # what TensorFlow fills in where there is no GPU at all
        ((config(is_local=False),), _CPU),
        ((config(),), _GPU),  # by a session that was made before any was noted
    ],
)
def test_else_a_session_tells_nothing(configs: tuple[SessionConfig, ...], assigned: str) -> None:
    found = sidecar(*configs, assigned=assigned)

    assert not saw_no_gpu(found)
    assert obstacles(found) == ()


def test_what_is_done_outside_of_sessions_has_the_devices_of_the_program() -> None:
    with_gpu = [*_LOGICAL, {"name": "/device:GPU:0", "type": "GPU"}]
    found = sidecar(config(), devices={"context_made": True, "logical": with_gpu})

    assert not saw_no_gpu(found)
    assert [obstacle.hides_all for obstacle in obstacles(found)] == [False]
    assert saw_no_gpu(sidecar(config(), devices={"context_made": True, "logical": _LOGICAL}))


def test_of_a_program_that_was_killed_nothing_is_sure() -> None:
    assert not saw_no_gpu(sidecar(config(), devices={}))
