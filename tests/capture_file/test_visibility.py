"""What kept TensorFlow from seeing a GPU, as far as it was recorded."""

from dataclasses import replace
from typing import Any

import pytest

from traceanalyzer.capture_file.document import (
    SESSION,
    CaptureFile,
    Frame,
    SessionConfig,
    VisibilityChoice,
)
from traceanalyzer.capture_file.function_records import Function, Graph, Instance
from traceanalyzer.capture_file.visibility import obstacles, of_the_program, saw_no_gpu

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
_GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CALL = "tf.config.set_visible_devices"
_LOGICAL = [{"name": "/device:CPU:0", "type": "CPU"}]


def config(**more: Any) -> SessionConfig:  # noqa: ANN401 - any field
    fields = {"is_own": True, "is_local": True, "device_count": {"GPU": 0}, **more}
    return SessionConfig(soft_placement=False, **fields)


def capture_file(
    *configs: SessionConfig, devices: dict[str, Any] | None = None, assigned: str = _CPU
) -> CaptureFile:
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
    return CaptureFile(
        tool="",
        host="h",
        complete=True,
        devices=devices if devices is not None else {"context_made": False},
        session_configs=configs,
        functions=(Function(name=SESSION, instances=(instance,)),),
    )


def test_sessions_configured_without_a_gpu_have_none() -> None:
    found = capture_file(config(), config(rewrites={"remapping": "OFF"}))

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
    found = capture_file(*configs, assigned=assigned)

    assert not saw_no_gpu(found)
    assert obstacles(found) == ()


def test_what_is_done_outside_of_sessions_has_the_devices_of_the_program() -> None:
    with_gpu = [*_LOGICAL, {"name": "/device:GPU:0", "type": "GPU"}]
    found = capture_file(config(), devices={"context_made": True, "logical": with_gpu})

    assert not saw_no_gpu(found)
    assert [obstacle.hides_all for obstacle in obstacles(found)] == [False]
    assert saw_no_gpu(capture_file(config(), devices={"context_made": True, "logical": _LOGICAL}))


_VARIABLE = "CUDA_VISIBLE_DEVICES"
_ASKS = {"context_made": True, "gpu_questions": [["train.py", 3]]}


@pytest.mark.parametrize(
    ("how", "value", "is_constant", "devices", "found"),
    [
        (CALL, "[]", True, {}, [("hidden_by_config", "certain")]),
        (CALL, "[]", True, _ASKS, [("hidden_by_config", "likely")]),
        (CALL, "[]", False, {}, [("hidden_by_config", "possible")]),
        # It may be the list of the GPUs that there are.
        (CALL, "[]", False, _ASKS, []),
        (CALL, "['/physical_device:GPU:0']", True, {}, []),
        (_VARIABLE, "-1", True, {}, [("hidden_by_script", "certain")]),
        (_VARIABLE, "", False, {}, [("hidden_by_script", "possible")]),
        (_VARIABLE, "1", True, {}, []),
        (_VARIABLE, "GPU-8932f937", True, {}, []),
    ],
)
def test_a_program_that_hides_the_gpu_of_any_machine_is_known_with_its_line(
    *,
    how: str,
    value: str,
    is_constant: bool,
    devices: dict[str, Any],
    found: list[tuple[str, str]],
) -> None:
    line = Frame(file="train.py", line=3, code="<module>", is_user=True)
    choice = VisibilityChoice(how=how, value=value, is_constant=is_constant, frame=0)
    known = replace(capture_file(devices=devices), visibility=(choice,), frames=(line,))

    assert [(o.reason, o.certainty) for o in of_the_program(known)] == found
    assert all(obstacle.frame == line for obstacle in of_the_program(known))
    assert all(bool(o.proviso) is (o.certainty != "certain") for o in of_the_program(known))


def test_a_variable_of_the_users_shell_is_none_of_the_programs_doing() -> None:
    hidden = replace(capture_file(), environment={"variables": {"CUDA_VISIBLE_DEVICES": "-1"}})

    assert [o.reason for o in obstacles(hidden)] == ["hidden_by_env"]
    assert of_the_program(hidden) == ()
