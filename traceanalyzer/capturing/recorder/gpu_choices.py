"""Lines of the program that decide or ask which GPUs TensorFlow sees.

What hides a GPU here hides one on a machine with GPUs too, and a program that asks whether there is
one may do something else there. So a report has to name the line.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from .frames import is_user_file, place_of, user_places
from .hooks import Part, loaded, unseen

if TYPE_CHECKING:
    from types import FrameType

    from .journal import Journal

VARIABLE = "CUDA_VISIBLE_DEVICES"
_CALL = "tf.config.set_visible_devices"
_LONGEST = 200
_MOST_FRAMES = 20
# What `tf.config`, `tf.test` and `keras.distribution` put between the program and the functions
# replaced here.
_BETWEEN = (
    "/tensorflow/python/framework/config.py",
    "/tensorflow/python/framework/test_util.py",
    "/tensorflow/python/util/deprecation.py",
    "/keras/src/backend/tensorflow/distribution_lib.py",
    "/keras/src/distribution/distribution_lib.py",
)
_METHODS = (
    "list_physical_devices",
    "list_logical_devices",
    "get_visible_devices",
    "get_device_details",
    "get_memory_info",  # raises where there is no such GPU
    "num_gpus",
)
_CPU = "CPU"  # the type of device that a question for no GPUs is restricted to
_MOST = 20


def watch_variable(journal: Journal) -> None:
    """Journal each line that sets or unsets `CUDA_VISIBLE_DEVICES`.

    CUDA reads it when it is first used.
    """

    def watched(original: Any) -> Any:
        def change(self: Any, key: Any, *value: Any) -> None:
            with unseen:
                original(self, key, *value)
            if key == VARIABLE and not _has_devices():
                _write(journal, VARIABLE, str(value[0]) if value else None, sys._getframe(1))

        return change

    mapping = type(os.environ)
    for name in ("__setitem__", "__delitem__"):
        setattr(mapping, name, watched(getattr(mapping, name)))


def _write(journal: Journal, how: str, value: str | None, frame: FrameType) -> None:
    with contextlib.suppress(Exception):  # ours, not the program's
        frames = [
            (file if file.startswith("<") else os.path.abspath(file), *rest)
            for file, *rest in user_places(frame)[:_MOST_FRAMES]
        ]
        kept = None if value is None else value[:_LONGEST]
        journal.write("visibility", how=how, value=kept, frames=frames)


def _has_devices() -> bool:
    """Return whether TensorFlow has listed the GPUs already: the variable then comes too late."""
    if GpuChoices.devices_made:
        return True
    try:
        current = loaded("tensorflow.python.eager.context")._context
    except ImportError:
        return False
    return getattr(current, "_physical_devices", None) is not None


class GpuChoices(Part):
    """Journals calls that choose visible GPUs, and notes lines that ask which there are."""

    # Whether TensorFlow looked for devices in this process, if only for a list or a session: CUDA
    # has read its variables then.
    devices_made: ClassVar[bool] = False

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        # File and line; whether it is the script's own line, or a cell's: nothing imports it.
        self.questions: dict[tuple[str, int], bool] = {}

    def install(self) -> None:
        """Replace what `tf.config` and `tf.test` call (python/framework/config.py)."""
        context = importlib.import_module("tensorflow.python.eager.context").Context
        local = importlib.import_module("tensorflow.python.client.device_lib")
        for owner, name in (*((context, m) for m in _METHODS), (local, "list_local_devices")):
            self.before(owner, name, self._note_question)
        self.after(context, "set_visible_devices", self._chosen)

    def _note_question(self, *args: Any, **kwargs: Any) -> None:
        GpuChoices.devices_made = True
        with contextlib.suppress(Exception):  # ours, not the program's
            if _CPU in (*args, *kwargs.values()):
                return
            frame: FrameType | None = sys._getframe(2)
            while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
                frame = frame.f_back
            if frame is None or not is_user_file(frame.f_code.co_filename):
                return
            found = place_of(frame)
            if found is not None and len(self.questions) < _MOST:
                is_script = frame.f_globals.get("__name__") == "__main__"
                self.questions.setdefault(found[:2], is_script)

    def _chosen(self, result: Any, _: Any, devices: Any, device_type: Any = None) -> Any:
        if device_type in (None, "GPU"):
            given = devices if isinstance(devices, (list, tuple)) else [devices]
            names = str([getattr(each, "name", "") for each in given])
            _write(self._journal, _CALL, names, sys._getframe(2))
        return result
