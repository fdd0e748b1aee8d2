"""What the program ran with: variables, devices, options, kernels of other libraries."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Iterable

from .attributes import as_json, dtype_name
from .hooks import loaded

# Variables that decide on devices, kernels or rewrites. Named one by one or by narrow prefixes: an
# environment holds secrets too (`TF_VAR_...` is Terraform's).
_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_CACHE_PATH", "CUDA_HOME"),
    *("HIP_VISIBLE_DEVICES", "KERAS_BACKEND", "LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
    *("NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE", "NVIDIA_VISIBLE_DEVICES"),
    *("TF_CONFIG", "TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS", "TF_USE_LEGACY_KERAS"),
    "XLA_FLAGS",
)
_PREFIXES = (
    *("TF_CPP_", "TF_CUDNN_", "TF_DISABLE_", "TF_EAGER_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_"),
    *("TF_MIN_", "TF_NUM_", "TF_XLA_"),
)
_LONGEST = 1000
_MOST_OPS = 50
_MOST_KERNELS = 200  # of one op
_MOST_VALUES = 50  # of one attribute


def variables() -> dict[str, str]:
    """Return the environment variables that can decide on devices, kernels or rewrites.

    To be called before TensorFlow is imported: its packages set some themselves (2.12).
    """
    return {
        name: value[:_LONGEST]
        for name, value in sorted(os.environ.items())
        if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def environment_facts() -> dict[str, Any]:
    """Return what is known once TensorFlow is imported."""
    tf = loaded("tensorflow")
    build = _plain(dict(tf.sysconfig.get_build_info()))
    return {
        "tensorflow": {"version": tf.__version__, "build": build},
        "script": sys.argv[0] if sys.argv else "",
        "cwd": _value_of(os.getcwd),
    }


def device_facts() -> dict[str, Any]:
    """Return devices and options as the program left them; nothing is initialised for it."""
    tf = loaded("tensorflow")
    current = loaded("tensorflow.python.eager.context")._context
    made = current is not None and current._initialized
    facts: dict[str, Any] = {
        "context_made": made,
        "keras_version": getattr(sys.modules.get("keras"), "__version__", None),
    }
    if not made:
        return facts
    config, experimental = tf.config, tf.config.experimental
    determinism = loaded("tensorflow.python.framework.config").is_op_determinism_enabled
    questions: dict[str, Callable[[], Any]] = {
        "physical": lambda: _devices(config.list_physical_devices()),
        "visible": lambda: _devices(config.get_visible_devices()),
        "logical": lambda: _devices(config.list_logical_devices()),
        "details": lambda: {
            gpu.name: _plain(experimental.get_device_details(gpu))
            for gpu in config.list_physical_devices("GPU")
        },
        "memory": lambda: {
            gpu.name: _plain(experimental.get_memory_info(gpu.name))
            for gpu in config.list_logical_devices("GPU")
        },
        "memory_limit": lambda: _memory_limits(current),
        "soft_device_placement": lambda: current.soft_device_placement,
        "optimizer_options": lambda: _plain(config.optimizer.get_experimental_options()),
        "deterministic_ops": lambda: bool(determinism()),
    }
    return {**facts, **{name: _value_of(ask) for name, ask in questions.items()}}


def _value_of(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Exception:
        return None


def _devices(devices: list[Any]) -> list[dict[str, str]]:
    return [{"name": d.name, "type": d.device_type} for d in devices]


def _memory_limits(context: Any) -> dict[str, int]:
    """Return how much memory TensorFlow's allocator may take of each GPU, in bytes."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.client import pywrap_tf_session

    devices = pywrap_tfe.TFE_ContextListDevices(context._handle)
    try:
        limits = {}
        for at in range(pywrap_tfe.TF_DeviceListCount(devices)):
            name = pywrap_tfe.TF_DeviceListName(devices, at)
            if "/device:GPU:" in name:
                size = pywrap_tf_session.TF_DeviceListMemoryBytes(devices, at)
                limits[name[name.rfind("/device:") :]] = size
        return limits
    finally:
        pywrap_tfe.TF_DeleteDeviceList(devices)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return a dictionary with values of JSON's types."""
    return {str(key): _plain_value(value) for key, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return value if isinstance(value, str) else as_json(value)


def foreign_kernels(types: Iterable[str]) -> list[dict[str, Any]]:
    """Return the kernels of those ops that are not TensorFlow's own, but of a library.

    The process that has loaded the library can be asked, also where there is no GPU
    (python/framework/kernels.py, `get_registered_kernels_for_op`, of 2.12 and 2.21).
    """
    own = loaded("tensorflow").raw_ops
    registered = loaded("tensorflow.python.framework.op_def_registry").get
    foreign = [
        op
        for op in sorted(set(types))
        if not op.startswith("_") and not hasattr(own, op) and registered(op) is not None
    ]
    if not foreign:
        return []
    from tensorflow.python.framework import kernels

    return [
        _kernel(each)
        for op in foreign[:_MOST_OPS]
        for each in kernels.get_registered_kernels_for_op(op).kernel[:_MOST_KERNELS]
    ]


def _kernel(kernel: Any) -> dict[str, Any]:
    return {
        "op": kernel.op,
        "device_type": kernel.device_type,
        "constraints": {each.name: _values(each.allowed_values.list) for each in kernel.constraint},
        "host_memory_args": list(kernel.host_memory_arg),
        "priority": kernel.priority,
        "label": kernel.label,
    }


def _values(allowed: Any) -> list[Any]:
    """Return the values that a kernel takes: types by name, strings as plain text."""
    types = [dtype_name(number) for number in allowed.type]
    texts = [text.decode("utf-8", "backslashreplace") for text in allowed.s]
    return [*types, *texts, *map(int, allowed.i), *map(bool, allowed.b)][:_MOST_VALUES]
