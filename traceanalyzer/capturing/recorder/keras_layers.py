"""Records the lines at which a program puts layers into a functional Keras model.

The ops of such a layer have the line that runs the model, often a call of `fit`. The line to edit
is the one that called the layer with symbolic tensors. Keras 3 makes a `Node` for each such call
(keras/src/ops/node.py, read in 3.15).
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from .frames import FramePool, user_frame
from .hooks import JournalWriter, RecorderPart

_MODULE = "keras.src.ops.node"
_MOST = 1000  # layers of one program
# Methods of models that put layers together when a model is first used.
_LATE = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


class KerasLayers(RecorderPart):
    """Notes the line of each layer's first symbolic call, by the layer's name."""

    def __init__(self, journal: JournalWriter, frames: FramePool) -> None:
        super().__init__()
        self._journal = journal
        self._frames = frames
        self._lines: dict[str, int] = {}
        self._is_over = False

    def install(self) -> None:
        self.when_imported(_MODULE, self._watch)

    def uninstall(self) -> None:
        self._is_over = True
        super().uninstall()

    def found(self) -> list[dict[str, Any]]:
        """Return the layers, each with the number of its line."""
        self._frames.write()
        return [{"name": name, "frame": frame} for name, frame in self._lines.items()]

    def _watch(self) -> None:
        node = getattr(sys.modules.get(_MODULE), "Node", None)
        if node is not None and not self._is_over:
            self.before(node, "__init__", self._called)

    def _called(self, _: Any, operation: Any = None, *__: Any, **___: Any) -> None:
        with self._journal.guard("the line of a layer"):
            self._note(operation, sys._getframe(2))

    def _note(self, operation: Any, frame: FrameType | None) -> None:
        name = str(
            getattr(operation, "__dict__", {}).get("name", "")
        )  # runs no code of the program
        if not name or name in self._lines or len(self._lines) >= _MOST:
            return
        line = user_frame(frame)
        while frame is not line and frame is not None:
            if frame.f_code.co_name in _LATE:
                return
            frame = frame.f_back
        number = self._frames.add_frame(line)
        if number >= 0:
            self._lines[name] = number
