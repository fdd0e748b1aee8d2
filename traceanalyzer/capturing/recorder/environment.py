"""The program's environment: variables, devices, options, and kernels of other libraries.

This module also records the lines that choose or query GPUs, because a program with them may
behave differently on a machine with GPUs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from types import FrameType
from typing import Any, Callable, ClassVar, Iterable

from .attributes import as_json, dtype_name
from .frames import is_user_file, place_of, user_places
from .hooks import JournalWriter, RecorderPart, followed, loaded

# Variables that affect devices, kernels, or rewrites. No wide prefixes: an environment also
# contains secrets (`TF_VAR_...` is Terraform's).
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
_LONGEST_VARIABLE = 1000
_MOST_OPS = 50
_MOST_KERNELS = 200  # of one op
_MOST_VALUES = 50  # of one attribute

_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
_CALL = "tf.config.set_visible_devices"
_LONGEST_CHOICE = 200
_MOST_FRAMES = 20
_MOST_QUESTIONS = 20
# Files between the program and the functions that are replaced here.
_BETWEEN = (
    "/tensorflow/python/framework/config.py",
    "/tensorflow/python/framework/test_util.py",
    "/tensorflow/python/util/deprecation.py",
    "/keras/src/backend/tensorflow/distribution_lib.py",
    "/keras/src/distribution/distribution_lib.py",
)
_QUESTIONS = (  # methods of TensorFlow's context
    *("list_physical_devices", "list_logical_devices", "get_visible_devices"),
    *("get_device_details", "get_memory_info", "num_gpus"),
)
_CPU = "CPU"  # the type of device in a question that is not about GPUs


def variables() -> dict[str, str]:
    """Return the environment variables that can affect devices, kernels, or graph rewrites.

    Call this before TensorFlow is imported: TensorFlow 2.12 sets some of them itself.
    """
    return {
        name: value[:_LONGEST_VARIABLE]
        for name, value in sorted(os.environ.items())
        if name in _VARIABLES or name.startswith(_PREFIXES)
    }


def environment_facts() -> dict[str, Any]:
    tf = loaded("tensorflow")
    build = _plain(dict(tf.sysconfig.get_build_info()))
    return {
        "tensorflow": {"version": tf.__version__, "build": build},
        "script": sys.argv[0] if sys.argv else "",
        "cwd": _value_of(os.getcwd),
    }


def device_facts() -> dict[str, Any]:
    """Return the program's current devices and options, without initializing anything."""
    tf = loaded("tensorflow")
    current = loaded("tensorflow.python.eager.context")._context
    made = current is not None and current._initialized
    facts: dict[str, Any] = {
        "context_made": made,
        "keras_version": getattr(sys.modules.get("keras"), "__version__", None),
    }
    config = tf.config
    if not made:
        if getattr(current, "_physical_devices", None) is not None:  # the program listed devices
            facts["physical"] = _value_of(lambda: _devices(config.list_physical_devices()))
            facts["visible"] = _value_of(lambda: _devices(config.get_visible_devices()))
        return facts
    determinism = loaded("tensorflow.python.framework.config").is_op_determinism_enabled
    questions: dict[str, Callable[[], Any]] = {
        "physical": lambda: _devices(config.list_physical_devices()),
        "visible": lambda: _devices(config.get_visible_devices()),
        "logical": lambda: _devices(config.list_logical_devices()),
        "details": lambda: {
            gpu.name: _plain(config.experimental.get_device_details(gpu))
            for gpu in config.list_physical_devices("GPU")
        },
        "memory": lambda: {
            gpu.name: _plain(config.experimental.get_memory_info(gpu.name))
            for gpu in config.list_logical_devices("GPU")
        },
        "memory_limit": lambda: _memory_limits(current),
        "functions_run_eagerly": lambda: bool(config.functions_run_eagerly()),
        "soft_device_placement": lambda: current.soft_device_placement,
        "optimizer_options": lambda: _plain(config.optimizer.get_experimental_options()),
        "deterministic_ops": lambda: bool(determinism()),
    }
    return {**facts, **{name: _value_of(ask) for name, ask in questions.items()}}


def _value_of(ask: Callable[[], Any]) -> Any:
    with contextlib.suppress(Exception):
        return ask()
    return None


def _devices(devices: list[Any]) -> list[dict[str, str]]:
    return [{"name": d.name, "type": d.device_type} for d in devices]


def _memory_limits(context: Any) -> dict[str, int]:
    """Return how much memory TensorFlow's allocator may use on each GPU, in bytes."""
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
    return {str(key): _plain_value(value) for key, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return value if isinstance(value, str) else as_json(value)


def foreign_kernels(types: Iterable[str]) -> list[dict[str, Any]]:
    """Return the kernels of the ops that other libraries define.

    They are registered even without a GPU (python/framework/kernels.py,
    `get_registered_kernels_for_op`, of 2.12 and 2.21).
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
        {
            "op": kernel.op,
            "device_type": kernel.device_type,
            "constraints": {c.name: _values(c.allowed_values.list) for c in kernel.constraint},
            "host_memory_args": list(kernel.host_memory_arg),
            "priority": kernel.priority,
            "label": kernel.label,
        }
        for op in foreign[:_MOST_OPS]
        for kernel in kernels.get_registered_kernels_for_op(op).kernel[:_MOST_KERNELS]
    ]


def _values(allowed: Any) -> list[Any]:
    types = [dtype_name(number) for number in allowed.type]
    texts = [text.decode("utf-8", "backslashreplace") for text in allowed.s]
    return [*types, *texts, *map(int, allowed.i), *map(bool, allowed.b)][:_MOST_VALUES]


# --- Lines that choose or ask for GPUs ------------------------------------------------------------


def watch_gpu_variable(journal: JournalWriter) -> None:
    """Journal each line that sets or unsets `CUDA_VISIBLE_DEVICES`, until CUDA reads it."""

    def changed(_: None, __: Any, key: Any, *value: Any) -> None:
        if key == _GPU_VARIABLE and not _has_devices():
            given = str(value[0]) if value else None
            _write_choice(journal, _GPU_VARIABLE, given, sys._getframe(2))

    mapping = type(os.environ)
    for name in ("__setitem__", "__delitem__"):
        setattr(mapping, name, followed(getattr(mapping, name), changed))


def _write_choice(journal: JournalWriter, how: str, value: str | None, frame: FrameType) -> None:
    with contextlib.suppress(Exception):
        frames = [
            (file if file.startswith("<") else os.path.abspath(file), *rest)
            for file, *rest in user_places(frame)[:_MOST_FRAMES]
        ]
        kept = None if value is None else value[:_LONGEST_CHOICE]
        journal.write("visibility", how=how, value=kept, frames=frames)


def _has_devices() -> bool:
    """Return whether TensorFlow has listed the GPUs. After that, the variable has no effect."""
    if GpuChoices.devices_made:
        return True
    try:
        current = loaded("tensorflow.python.eager.context")._context
    except ImportError:
        return False
    return getattr(current, "_physical_devices", None) is not None


class GpuChoices(RecorderPart):
    """Journals calls that choose the visible GPUs, and collects lines that query GPUs."""

    # Whether TensorFlow listed devices in this process: then CUDA has read its variables.
    devices_made: ClassVar[bool] = False

    def __init__(self, journal: JournalWriter) -> None:
        super().__init__()
        self._journal = journal
        self.questions: dict[tuple[str, int], None] = {}  # by file and line

    def install(self) -> None:
        """Replace the functions behind `tf.config` and `tf.test` (python/framework/config.py)."""
        context = importlib.import_module("tensorflow.python.eager.context").Context
        local = importlib.import_module("tensorflow.python.client.device_lib")
        for owner, name in (*((context, q) for q in _QUESTIONS), (local, "list_local_devices")):
            self.before(owner, name, self._note_question)
        self.after(context, "set_visible_devices", self._chosen)

    def _note_question(self, *args: Any, **kwargs: Any) -> None:
        GpuChoices.devices_made = True
        with contextlib.suppress(Exception):
            frame: FrameType | None = sys._getframe(2)
            while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
                frame = frame.f_back
            is_about_gpus = _CPU not in (*args, *kwargs.values())
            if is_about_gpus and frame is not None and is_user_file(frame.f_code.co_filename):
                found = place_of(frame)
                if found is not None and len(self.questions) < _MOST_QUESTIONS:
                    self.questions[found[:2]] = None

    def _chosen(self, result: Any, _: Any, devices: Any, device_type: Any = None) -> Any:
        if device_type in (None, "GPU"):
            given = devices if isinstance(devices, (list, tuple)) else [devices]
            names = str([getattr(each, "name", "") for each in given])
            _write_choice(self._journal, _CALL, names, sys._getframe(2))
        return result
