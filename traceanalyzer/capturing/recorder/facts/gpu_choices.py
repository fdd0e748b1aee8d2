"""Lines of the program that decide or ask which GPUs TensorFlow sees.

What hides a GPU here hides one on a machine with GPUs too, and a program that asks whether there is
one may do something else there. So a report has to name the line.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterator

from ..ops.frames import is_user_file, place
from ..process.hooks import Part, loaded, unseen

if TYPE_CHECKING:
    from types import FrameType

    from ..journal import Journal

VARIABLE = "CUDA_VISIBLE_DEVICES"
_CALL = "tf.config.set_visible_devices"
_LONGEST = 200
_MOST_FRAMES = 20
# What `tf.config`, `tf.test` and `keras.distribution` put between the program and the functions
# replaced here.
_BETWEEN = tuple(
    os.path.join(*parts)
    for parts in (
        ("tensorflow", "python", "framework", "config.py"),
        ("tensorflow", "python", "framework", "test_util.py"),
        ("tensorflow", "python", "util", "deprecation.py"),
        ("keras", "src", "backend", "tensorflow", "distribution_lib.py"),
        ("keras", "src", "distribution", "distribution_lib.py"),
    )
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
    mapping = type(os.environ)
    original, delete = mapping.__setitem__, mapping.__delitem__

    def set_item(self: Any, key: Any, value: Any) -> None:
        with unseen:
            original(self, key, value)
        if key == VARIABLE and not _has_devices():
            _write(journal, VARIABLE, str(value), sys._getframe(1))

    def delete_item(self: Any, key: Any) -> None:
        with unseen:
            delete(self, key)
        if key == VARIABLE and not _has_devices():
            _write(journal, VARIABLE, None, sys._getframe(1))

    mapping.__setitem__ = set_item  # type: ignore[method-assign]
    mapping.__delitem__ = delete_item  # type: ignore[method-assign]


class VisibilityRecorder(Part):
    """Journals calls of `tf.config.set_visible_devices` that concern GPUs."""

    # Whether TensorFlow looked for devices in this process, if only for a list or a session.
    devices_made: ClassVar[bool] = False

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def install(self) -> None:
        """Replace the method that `tf.config` calls (python/framework/config.py)."""
        from tensorflow.python.eager import context

        self.after(context.Context, "set_visible_devices", self._chosen)

    def _chosen(self, result: Any, _: Any, devices: Any, device_type: Any = None) -> Any:
        if device_type in (None, "GPU"):
            given = devices if isinstance(devices, (list, tuple)) else [devices]
            names = str([getattr(each, "name", "") for each in given])
            _write(self._journal, _CALL, names, sys._getframe(2))
        return result

    @classmethod
    def makes_devices(cls) -> None:
        """Note that TensorFlow looks for devices: CUDA has read its variables then."""
        cls.devices_made = True


def _write(journal: Journal, how: str, value: str | None, frame: FrameType) -> None:
    with contextlib.suppress(Exception):  # ours, not the program's
        frames = [[*found, 1] for found in _lines(frame)]
        kept = None if value is None else value[:_LONGEST]
        journal.write("visibility", how=how, value=kept, frames=frames[:_MOST_FRAMES])


def _lines(frame: FrameType | None) -> Iterator[list[Any]]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            found = place(frame)
            if found is not None:
                file, line, name = found
                yield [file if file.startswith("<") else os.path.abspath(file), line, name]
        frame = frame.f_back


def _has_devices() -> bool:
    """Return whether TensorFlow has listed the GPUs already: the variable then comes too late."""
    if VisibilityRecorder.devices_made:
        return True
    try:
        current = loaded("tensorflow.python.eager.context")._context
    except ImportError:
        return False
    return getattr(current, "_physical_devices", None) is not None


class GpuQuestions(Part):
    """Notes the lines that ask TensorFlow which GPUs there are."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[str, int]] = []  # file and line
        # Whether it is the script's own line, or a cell's: nothing imports it.
        self.of_script: list[bool] = []

    def install(self) -> None:
        """Replace what `tf.config` and `tf.test` ask."""
        context = importlib.import_module("tensorflow.python.eager.context").Context
        local = importlib.import_module("tensorflow.python.client.device_lib")
        for name in _METHODS:
            self.replace(context, name, self._watched(getattr(context, name)))
        listed = local.list_local_devices
        self.replace(local, "list_local_devices", self._watched(listed))

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            VisibilityRecorder.makes_devices()
            with contextlib.suppress(Exception):  # ours, not the program's
                if _CPU not in (*args, *kwargs.values()):
                    self._note(sys._getframe(1))
            with unseen:
                return original(*args, **kwargs)

        return watched

    def _note(self, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
            frame = frame.f_back
        if frame is None or not is_user_file(frame.f_code.co_filename):
            return
        found = place(frame)
        if found is not None and len(self.places) < _MOST and found[:2] not in self.places:
            self.places.append(found[:2])
            self.of_script.append(frame.f_globals.get("__name__") == "__main__")
