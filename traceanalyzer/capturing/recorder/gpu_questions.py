"""Lines of the program that ask TensorFlow which GPUs there are: it may do otherwise with some."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple

from .frames import is_user_file, place
from .patches import Patches
from .tracebacks import unseen
from .visibility import VisibilityRecorder

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["GpuQuestions"]

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


class GpuQuestions:
    """Notes the lines.

    Attributes:
        places: File and line of each.
        of_script: Of each, whether it is the script's own, or a cell's: nothing imports it.
    """

    def __init__(self) -> None:
        """Prepare; nothing is replaced yet."""
        self.places: List[Tuple[str, int]] = []
        self.of_script: List[bool] = []
        self._patches = Patches()

    def install(self) -> None:
        """Replace what `tf.config` and `tf.test` ask."""
        context = importlib.import_module("tensorflow.python.eager.context").Context
        local = importlib.import_module("tensorflow.python.client.device_lib")
        for name in _METHODS:
            self._patches.replace(context, name, self._asked(getattr(context, name)))
        listed = local.list_local_devices
        self._patches.replace(local, "list_local_devices", self._asked(listed))

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()

    def _asked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            VisibilityRecorder.makes_devices()
            with contextlib.suppress(Exception):  # ours, not the program's
                if _CPU not in (*args, *kwargs.values()):
                    self._note(sys._getframe(1))  # noqa: SLF001
            with unseen:
                return original(*args, **kwargs)

        return asked

    def _note(self, frame: Optional[FrameType]) -> None:
        while frame is not None and frame.f_code.co_filename.endswith(_BETWEEN):
            frame = frame.f_back
        if frame is None or not is_user_file(frame.f_code.co_filename):
            return
        found = place(frame)
        if found is not None and len(self.places) < _MOST and found[:2] not in self.places:
            self.places.append(found[:2])
            self.of_script.append(frame.f_globals.get("__name__") == "__main__")
