"""Why TensorFlow saw no GPU, as far as a capture recorded it.

The texts are TensorFlow's own, of 2.12 to 2.21; where they come from stands beside each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.placement.program import SESSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceanalyzer.sidecar.document import Sidecar

__all__ = ["Obstacle", "obstacles", "ran_in_sessions_alone", "saw_no_gpu"]

# What TensorFlow says on stderr, and what it means.
_LOG_LINES: Final = (
    # gpu_device.cc, after looking for cuDNN, cuBLAS and the like
    ("libraries_not_loaded", "Cannot dlopen some GPU libraries"),
    # gpu_device.cc, BaseGPUDeviceFactory::GetValidDeviceIds
    ("filtered_by_tf", "Ignoring visible gpu device"),
    # cudart_stub.cc
    ("driver_not_found", "Could not find cuda drivers on your machine"),
    # cuda_platform.cc, before 2.14 cuda_driver.cc
    ("cuda_init_failed", "failed call to cuInit"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One thing that keeps TensorFlow from seeing a GPU.

    Attributes:
        reason: Stable word for it.
        text: What shows it, in a sentence.
        hides_all: Whether no GPU can be seen with it, whatever else is.
    """

    reason: str
    text: str
    hides_all: bool


def saw_no_gpu(sidecar: Sidecar) -> bool:
    """Return whether it is recorded that TensorFlow had no GPU to place ops on."""
    if ran_in_sessions_alone(sidecar):
        return _sessions_have_no_gpu(sidecar)
    devices = sidecar.devices or {}
    logical = devices.get("logical")
    return (
        bool(devices.get("context_made"))
        and isinstance(logical, list)
        and bool(logical)
        and not any(_type(device) == "GPU" for device in logical)
    )


def ran_in_sessions_alone(sidecar: Sidecar) -> bool:
    """Return whether it is recorded that a program ran nothing outside of sessions.

    TensorFlow makes its eager context when a program first does something without one, or asks for
    devices; a session that is given a configuration needs none.
    """
    made = (sidecar.devices or {}).get("context_made")
    return made is False and bool(sidecar.session_configs)


def _sessions_have_no_gpu(sidecar: Sidecar) -> bool:
    """Return whether every session that was seen was told to have none, and none has used one.

    A session in the process makes devices of its own, at most as many as it is told to
    (`BaseGPUDeviceFactory::CreateDevices`, core/common_runtime/gpu/gpu_device.cc; a server's were
    made with the server).
    """
    told = all(
        config.is_own and config.is_local and config.device_count.get("GPU") == 0
        for config in sidecar.session_configs
    )
    graph = sidecar.function(SESSION)
    instances = () if graph is None else graph.instances
    used = any("/device:GPU:" in device for each in instances for device in each.assigned)
    return bool(sidecar.session_configs) and told and not used


def obstacles(sidecar: Sidecar) -> tuple[Obstacle, ...]:
    """Return what kept TensorFlow from seeing a GPU, the most decisive first."""
    return tuple(_obstacles(sidecar))


def _obstacles(sidecar: Sidecar) -> Iterator[Obstacle]:
    devices, environment = sidecar.devices or {}, sidecar.environment or {}
    tensorflow = _mapping(environment.get("tensorflow"))
    build = _mapping(tensorflow.get("build"))
    if build.get("is_cuda_build") is False and build.get("is_rocm_build") is not True:
        yield Obstacle(
            reason="cpu_only_build",
            text=(
                f"this build of TensorFlow {tensorflow.get('version')} is for CPUs alone "
                "(tf.sysconfig.get_build_info())"
            ),
            hides_all=True,
        )
    physical, visible = devices.get("physical"), devices.get("visible")
    if _has_gpu(physical) and not _has_gpu(visible):
        yield Obstacle(
            reason="hidden_by_config",
            text=(
                "tf.config.list_physical_devices() has a GPU, tf.config.get_visible_devices() has "
                "none: the program hid it"
            ),
            hides_all=True,
        )
    variable = _mapping(environment.get("variables")).get("CUDA_VISIBLE_DEVICES")
    if isinstance(variable, str) and variable.strip() in {"", "-1", "NoDevFiles", "none"}:
        yield Obstacle(
            reason="hidden_by_env",
            text=f"CUDA_VISIBLE_DEVICES was {variable!r}, which hides every GPU from CUDA",
            hides_all=True,
        )
    if _sessions_have_no_gpu(sidecar):
        yield Obstacle(
            reason="hidden_by_session",
            text="the program's sessions were given a ConfigProto with device_count={'GPU': 0}",
            hides_all=ran_in_sessions_alone(sidecar),
        )
    for reason, text in _LOG_LINES:
        line = next((line for line in sidecar.log if text in line), None)
        if line is not None:
            said = line.partition("] ")[2] or line
            yield Obstacle(reason=reason, text=f"TensorFlow said: {said.strip()}", hides_all=False)


def _has_gpu(devices: Any) -> bool:  # noqa: ANN401 - a value of JSON
    return isinstance(devices, list) and any(_type(device) == "GPU" for device in devices)


def _type(device: Any) -> Any:  # noqa: ANN401 - a value of JSON
    return _mapping(device).get("type")


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a value of JSON
    return value if isinstance(value, dict) else {}
