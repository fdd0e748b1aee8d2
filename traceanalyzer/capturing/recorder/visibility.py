"""Lines of the program that decide which GPUs TensorFlow sees.

Both act on a machine with GPUs as they do on one without, so a report has to name the line.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Iterator, List, Optional

from .frames import is_user_file, place
from .loaded import loaded
from .patches import Patches
from .tracebacks import unseen

if TYPE_CHECKING:
    from types import FrameType

    from .journal import Journal

__all__ = ["VARIABLE", "VisibilityRecorder", "watch_variable"]

VARIABLE = "CUDA_VISIBLE_DEVICES"
_CALL = "tf.config.set_visible_devices"
_LONGEST = 200
_MOST_FRAMES = 20


def watch_variable(journal: Journal) -> None:
    """Journal each line that sets or unsets `CUDA_VISIBLE_DEVICES`.

    CUDA reads it when it is first used.
    """
    mapping = type(os.environ)
    original, delete = mapping.__setitem__, mapping.__delitem__

    def set_item(self: Any, key: Any, value: Any) -> None:  # noqa: ANN401 - whatever is given
        with unseen:
            original(self, key, value)
        if key == VARIABLE and not _has_devices():
            _write(journal, VARIABLE, str(value))

    def delete_item(self: Any, key: Any) -> None:  # noqa: ANN401 - whatever is given
        with unseen:
            delete(self, key)
        if key == VARIABLE and not _has_devices():
            _write(journal, VARIABLE, None)

    mapping.__setitem__ = set_item  # type: ignore[method-assign]
    mapping.__delitem__ = delete_item  # type: ignore[method-assign]


class VisibilityRecorder:
    """Journals calls of `tf.config.set_visible_devices` that concern GPUs.

    Attributes:
        devices_made: Whether TensorFlow looked for devices, if only for a list or a session.
    """

    devices_made: ClassVar[bool] = False  # of the process

    def __init__(self, journal: Journal) -> None:
        """Prepare; nothing is replaced yet."""
        self._journal = journal
        self._patches = Patches()

    def install(self) -> None:
        """Replace the method that `tf.config` calls (python/framework/config.py)."""
        from tensorflow.python.eager import context  # noqa: PLC0415

        original = context.Context.set_visible_devices
        journal = self._journal

        def set_visible_devices(self: Any, devices: Any, device_type: Any = None) -> Any:  # noqa: ANN401
            with unseen:
                result = original(self, devices, device_type)
            if device_type in (None, "GPU"):
                given = devices if isinstance(devices, (list, tuple)) else [devices]
                _write(journal, _CALL, str([getattr(each, "name", "") for each in given]))
            return result

        self._patches.replace(context.Context, "set_visible_devices", set_visible_devices)

    @classmethod
    def makes_devices(cls) -> None:
        """Note that TensorFlow looks for devices: CUDA has read its variables then."""
        cls.devices_made = True

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()


def _write(journal: Journal, how: str, value: Optional[str]) -> None:
    with contextlib.suppress(Exception):  # ours, not the program's
        frames = [[*found, 1] for found in _lines(sys._getframe(2))]  # noqa: SLF001
        kept = None if value is None else value[:_LONGEST]
        journal.write("visibility", how=how, value=kept, frames=frames[:_MOST_FRAMES])


def _lines(frame: FrameType | None) -> Iterator[List[Any]]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            found = place(frame)
            if found is not None:
                file, line, name = found
                yield [file if file.startswith("<") else os.path.abspath(file), line, name]
        frame = frame.f_back


def _has_devices() -> bool:
    """Tell whether TensorFlow has listed the GPUs already: the variable then comes too late."""
    if VisibilityRecorder.devices_made:
        return True
    try:
        current = loaded("tensorflow.python.eager.context")._context  # noqa: SLF001
    except ImportError:
        return False
    return getattr(current, "_physical_devices", None) is not None
