"""Finds why TensorFlow saw no GPU from the records of a capture.

Log texts are those of TensorFlow 2.12 to 2.21, each with its source file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capture_file.gpu_source import (
    COMPUTED,
    CONDITION,
    OUTRIGHT,
    UNLESS_SET,
    VARIABLE,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceanalyzer.capture_file.document import (
        CaptureFile,
        Frame,
        SessionConfig,
        VisibilityChoice,
    )
    from traceanalyzer.model import Certainty

# What messages mean: of TensorFlow's gpu_device.cc, cudart_stub.cc, and cuda_platform.cc (before
# 2.14 cuda_driver.cc), and of the dynamic loader, which the capture asks as cudart_stub.cc does.
_LOG_LINES: Final = (
    ("libraries_not_loaded", "Cannot dlopen some GPU libraries"),  # cuDNN, cuBLAS and the like
    ("filtered_by_tf", "Ignoring visible gpu device"),
    ("driver_not_found", "Could not find cuda drivers on your machine"),
    ("driver_not_found", "libcuda.so.1: "),
    ("cuda_init_failed", "failed call to cuInit"),
)

# CUDA uses the list up to the first entry that is neither a device number nor a UUID.
_NAMES_A_GPU: Final = re.compile(r"\s*(?:\+?\d|GPU-|MIG-)")

_CERTAIN: Final[tuple[Certainty, str]] = ("certain", "")
_LIKELY: Final = frozenset({UNLESS_SET, CONDITION})
# Why a line may not hide the GPU on a machine that has one.
_PROVISOS: Final = {
    UNLESS_SET: f"It sets {VARIABLE} only if that is not set already, for example by a shell.",
    CONDITION: "The line depends on a condition, or another line may undo it.",
    COMPUTED: "The line computes the value, from arguments or from the GPUs there are.",
}
_NO_LINE: Final = "What decides this was not recorded."


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps TensorFlow from seeing a GPU."""

    reason: str  #: a stable key, see `causes/data/gpu_obstacles.toml`
    text: str  #: the evidence for it
    hides_all: bool  #: whether no GPU is visible because of this alone
    frame: Frame | None = None  #: the program's line that does it
    #: Whether the program does the same on a machine with a GPU; None if it is not the program.
    certainty: Certainty | None = None
    proviso: str = ""  #: what that depends on, in a sentence; "" for nothing


def saw_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that TensorFlow had no GPU to place ops on."""
    if ran_in_sessions_alone(capture_file):
        return _sessions_have_no_gpu(capture_file)
    devices = capture_file.devices or {}
    logical = devices.get("logical")
    is_known = bool(devices.get("context_made") and logical) and isinstance(logical, list)
    return is_known and not _has_gpu(logical)


def ran_in_sessions_alone(capture_file: CaptureFile) -> bool:
    """Return whether the capture shows that a program ran ops only in sessions.

    TensorFlow creates its eager context when a program first does something outside a session, or
    lists devices; a session with a configuration needs none.
    """
    made = (capture_file.devices or {}).get("context_made")
    return made is False and bool(capture_file.session_configs)


def _sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether no recorded session had a GPU, and none used one."""
    had_none = all(
        _excludes_gpus(config) or (config.device_types and "GPU" not in config.device_types)
        for config in capture_file.session_configs
    )
    instances = (each for graph in capture_file.session_graphs() for each in graph.instances)
    used = any("/device:GPU:" in device for each in instances for device in each.assigned)
    return bool(capture_file.session_configs) and had_none and not used


def _excludes_gpus(config: SessionConfig) -> bool:
    """Return whether the program configures a session without a GPU.

    A session in the process creates its own devices, at most as many as configured
    (`BaseGPUDeviceFactory::CreateDevices`, core/common_runtime/gpu/gpu_device.cc); a server's
    devices were created with the server.
    """
    return config.is_own and config.is_local and config.device_count.get("GPU") == 0


def only_some_sessions_have_no_gpu(capture_file: CaptureFile) -> bool:
    """Return whether the program configures some sessions without a GPU, but not all of them."""
    excluded = [_excludes_gpus(config) for config in capture_file.session_configs]
    return any(excluded) and not all(excluded)


def obstacles(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return what kept TensorFlow from seeing a GPU, the most decisive first."""
    return tuple(_obstacles(capture_file))


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
    yield from _hidden_by_variable(capture_file, devices, environment)
    is_excluded = all(map(_excludes_gpus, capture_file.session_configs))
    if is_excluded and _sessions_have_no_gpu(capture_file):
        yield Obstacle(
            reason="hidden_by_session",
            text="the program's sessions have a ConfigProto with device_count={'GPU': 0}",
            hides_all=ran_in_sessions_alone(capture_file),
            certainty="possible" if devices.get("gpu_questions") else "likely",
            proviso=_NO_LINE,  # it may give its sessions a GPU if there is one
        )
    for reason, text in _LOG_LINES:
        line = next((line for line in capture_file.log if text in line), None)
        if line is not None:
            said = line.partition("] ")[2].strip()
            words = f"TensorFlow said: {said}" if said else f"CUDA's driver does not load: {line}"
            yield Obstacle(reason=reason, text=words, hides_all=False)


def of_the_program(capture_file: CaptureFile) -> tuple[Obstacle, ...]:
    """Return how the program itself hides every GPU, on any machine."""
    return tuple(o for o in obstacles(capture_file) if o.certainty is not None and o.hides_all)


def _hidden_by_config(capture_file: CaptureFile, devices: Mapping[str, Any]) -> Iterator[Obstacle]:
    choice = _choice(capture_file, "tf.config.set_visible_devices")
    has_hidden_one = _has_gpu(devices.get("physical")) and not _has_gpu(devices.get("visible"))
    # A list of GPUs that a program computes is always empty on a machine without one.
    hides = choice is not None and "GPU" not in choice.value and choice.manner != COMPUTED
    if not hides and not has_hidden_one:
        return
    certainty, proviso = _CERTAIN
    text = "tf.config.set_visible_devices() leaves no GPU visible"
    if choice is None:
        text = (
            "tf.config.list_physical_devices() has a GPU, tf.config.get_visible_devices() has "
            "none: the program hid it"
        )
    elif not has_hidden_one:
        certainty, proviso = _certainty(choice, devices)
    yield Obstacle(
        reason="hidden_by_config",
        text=text,
        hides_all=True,
        frame=None if choice is None else capture_file.frame(choice.frame),
        certainty=certainty,
        proviso=proviso,
    )


def _certainty(choice: VisibilityChoice, devices: Mapping[str, Any]) -> tuple[Certainty, str]:
    """Return the certainty of a choice on a machine with a GPU, and what it depends on."""
    if choice.manner == OUTRIGHT:
        return _CERTAIN
    proviso = _PROVISOS.get(choice.manner, _NO_LINE)
    is_asking = choice.manner == CONDITION and devices.get("gpu_questions")
    return "possible" if is_asking or choice.manner not in _LIKELY else "likely", proviso


def _hidden_by_variable(
    capture_file: CaptureFile, devices: Mapping[str, Any], environment: Mapping[str, Any]
) -> Iterator[Obstacle]:
    choice = _choice(capture_file, VARIABLE)
    given = _mapping(environment.get("variables")).get(VARIABLE)
    value = given if choice is None else choice.value
    if not isinstance(value, str) or _NAMES_A_GPU.match(value):
        return
    if choice is None:
        text = f"{VARIABLE} was {value!r}, which hides every GPU from CUDA"
        yield Obstacle(reason="hidden_by_env", text=text, hides_all=True)
        return
    certainty, proviso = _certainty(choice, devices)
    unless = ", unless it is already set" if choice.manner == UNLESS_SET else ""
    yield Obstacle(
        reason="hidden_by_script",
        text=f"the program sets {VARIABLE} to {value!r}{unless}, which hides every GPU",
        hides_all=True,
        frame=capture_file.frame(choice.frame),
        certainty=certainty,
        proviso=proviso,
    )


def _choice(capture_file: CaptureFile, how: str) -> VisibilityChoice | None:
    return next((choice for choice in capture_file.visibility if choice.how == how), None)


def _has_gpu(devices: Any) -> bool:  # noqa: ANN401 - a value of JSON
    return isinstance(devices, list) and any(_type(device) == "GPU" for device in devices)


def _type(device: Any) -> Any:  # noqa: ANN401 - a value of JSON
    return _mapping(device).get("type")


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a value of JSON
    return value if isinstance(value, dict) else {}
