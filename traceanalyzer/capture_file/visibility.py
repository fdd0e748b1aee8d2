"""Explains why TensorFlow saw no GPU, from the records of a capture.

The records include obstacles on the machine, which the doctor found during the capture.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from traceanalyzer.capture_file.document import (
    CaptureFile,
    Frame,
    SessionConfig,
    VisibilityChoice,
)
from traceanalyzer.doctor.tensorflow_log import reasons
from traceanalyzer.model import Certainty, Fix

_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
# CUDA uses the list up to the first entry that is neither a device number nor a UUID.
_NAMES_A_GPU: Final = re.compile(r"\s*(?:\+?\d|GPU-|MIG-)")

_MAY_DEPEND: Final = "The program may configure its sessions differently on another machine."
_MAY_BE_UNDONE: Final = "The program queries the GPUs and may make them visible if there are any."
_MAY_DIFFER: Final = "The line may run conditionally, compute the value, or only set a default."


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps TensorFlow from seeing a GPU."""

    reason: str  #: a stable key, see `causes/data/gpu_obstacles.toml`
    text: str  #: the evidence for it
    hides_all: bool  #: whether no GPU is visible because of this alone
    frame: Frame | None = None  #: the program's line that does it
    #: How certain it is that the program hides a GPU on any machine; None if it is not the program.
    certainty: Certainty | None = None
    proviso: str = ""  #: a sentence on what that depends on; "" for nothing
    #: Of the machine: what the doctor said. Others are described in `gpu_obstacles.toml`.
    title: str = ""
    fix: Fix | None = None


def saw_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that TensorFlow had no GPU to place ops on."""
    if ran_in_sessions_alone(capture_file):
        return _sessions_have_no_gpu(capture_file)
    devices = capture_file.devices or {}
    # A program that only lists devices creates none.
    listed = _types(devices.get("logical" if devices.get("context_made") else "visible"))
    return bool(listed) and "GPU" not in listed


def ran_in_sessions_alone(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that a program ran ops only in sessions.

    TensorFlow creates its eager context when a program first lists devices or runs something
    outside a session. A session with a configuration does not need the context.
    """
    made = (capture_file.devices or {}).get("context_made")
    return made is False and bool(capture_file.session_configs)


def _sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    had_none = all(
        _excludes_gpus(config) or (config.device_types and "GPU" not in config.device_types)
        for config in capture_file.session_configs
    )
    instances = (each for graph in capture_file.session_graphs() for each in graph.instances)
    used = any("/device:GPU:" in device for each in instances for device in each.assigned)
    return bool(capture_file.session_configs) and had_none and not used


def _excludes_gpus(config: SessionConfig) -> bool:
    """Return whether the program configures a session without a GPU.

    A local session creates its own devices, at most as many as configured
    (`BaseGPUDeviceFactory::CreateDevices`, core/common_runtime/gpu/gpu_device.cc). A remote
    session uses the devices of its server.
    """
    return config.is_own and config.is_local and config.device_count.get("GPU") == 0


def only_some_sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the program configures some sessions without a GPU, but not all of them."""
    return len({_excludes_gpus(config) for config in capture_file.session_configs}) > 1


def obstacles(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return the obstacles that kept TensorFlow from seeing a GPU, the most decisive first."""
    first: dict[str, Obstacle] = {}
    for obstacle in _obstacles(capture_file):
        first.setdefault(obstacle.reason, obstacle)
    return tuple(first.values())


def of_the_program(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return the obstacles in the program itself that hide all GPUs on any machine."""
    return tuple(o for o in obstacles(capture_file) if o.certainty is not None and o.hides_all)


def _obstacles(capture_file: CaptureFile) -> Iterator[Obstacle]:
    devices, environment = capture_file.devices or {}, capture_file.environment or {}
    tensorflow = _mapping(environment.get("tensorflow"))
    build = _mapping(tensorflow.get("build"))
    if build.get("is_cuda_build") is False and build.get("is_rocm_build") is not True:
        text = (
            f"this build of TensorFlow {tensorflow.get('version')} supports only CPUs "
            "(tf.sysconfig.get_build_info())"
        )
        yield Obstacle(reason="cpu_only_build", text=text, hides_all=True)
    yield from _hidden_by_config(capture_file, devices)
    yield from _hidden_by_variable(capture_file, _mapping(environment.get("variables")))
    is_excluded = all(map(_excludes_gpus, capture_file.session_configs))
    if is_excluded and _sessions_have_no_gpu(capture_file):
        yield Obstacle(
            reason="hidden_by_session",
            text="the ConfigProto of the program's sessions sets device_count={'GPU': 0}",
            hides_all=ran_in_sessions_alone(capture_file),
            certainty="possible" if devices.get("gpu_questions") else "likely",
            proviso=_MAY_DEPEND,  # with a GPU, it may configure its sessions to use it
        )
    for found in capture_file.machine_obstacles:
        yield Obstacle(
            reason=found.id,
            text=f"{found.text} ({found.how})",
            hides_all=False,
            title=found.text,
            fix=Fix.of(found.fix, code=found.command),
        )
    if not capture_file.machine_obstacles:
        for reason, text in reasons(capture_file.log):
            yield Obstacle(reason=reason, text=text, hides_all=False)


def _hidden_by_config(capture_file: CaptureFile, devices: Mapping[str, Any]) -> Iterator[Obstacle]:
    choice = _choice(capture_file, "tf.config.set_visible_devices")
    has_hidden_one = "GPU" in _types(devices.get("physical")) - _types(devices.get("visible"))
    if choice is None and has_hidden_one:
        text = (
            "tf.config.list_physical_devices() lists a GPU, but tf.config.get_visible_devices() "
            "does not: the program hid it"
        )
        yield Obstacle(reason="hidden_by_config", text=text, hides_all=True, certainty="certain")
    if choice is None:
        return
    # An empty list may be that of the GPUs that this machine has.
    is_list_of_all = bool(devices.get("gpu_questions")) and not choice.is_constant
    if has_hidden_one or ("GPU" not in choice.value and not is_list_of_all):
        text = "tf.config.set_visible_devices() leaves no GPU visible"
        yield _by_line(capture_file, choice, "hidden_by_config", text, is_certain=has_hidden_one)


def _hidden_by_variable(
    capture_file: CaptureFile, variables: Mapping[str, Any]
) -> Iterator[Obstacle]:
    choice = _choice(capture_file, _VARIABLE)
    value = variables.get(_VARIABLE) if choice is None else choice.value
    if not isinstance(value, str) or _NAMES_A_GPU.match(value):
        return
    if choice is None:
        text = f"{_VARIABLE} was {value!r}, which hides every GPU from CUDA"
        yield Obstacle(reason="hidden_by_env", text=text, hides_all=True)
        return
    text = f"the program sets {_VARIABLE} to {value!r}, which hides every GPU"
    yield _by_line(capture_file, choice, "hidden_by_script", text)


def _by_line(
    capture_file: CaptureFile,
    choice: VisibilityChoice,
    reason: str,
    text: str,
    *,
    is_certain: bool = False,
) -> Obstacle:
    certainty: Certainty = "possible"
    proviso = _MAY_DIFFER
    if is_certain or choice.is_constant:
        asks = not is_certain and bool((capture_file.devices or {}).get("gpu_questions"))
        certainty, proviso = ("likely", _MAY_BE_UNDONE) if asks else ("certain", "")
    return Obstacle(
        reason=reason,
        text=text,
        hides_all=True,
        frame=capture_file.frame(choice.frame),
        certainty=certainty,
        proviso=proviso,
    )


def _choice(capture_file: CaptureFile, how: str) -> VisibilityChoice | None:
    return next((choice for choice in capture_file.visibility if choice.how == how), None)


def _types(devices: Any) -> set[Any]:  # noqa: ANN401 - a value of JSON
    listed = devices if isinstance(devices, list) else []
    return {str(_mapping(device).get("type")) for device in listed}


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a value of JSON
    return value if isinstance(value, dict) else {}
