"""Finds the lines that put layers into Keras models: there they can be replaced or taken out.

The ops of such a layer have the line that runs the model.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, library_of
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.model.changes import Change, Place
from traceanalyzer.placement.keras import noted

_KERAS: Final = "Keras"
_NUMBER: Final = re.compile(r"_\d+$")  # name scopes of the same name are numbered


class LayerLines:
    """The lines of a program's layers, by their names."""

    def __init__(self, capture_files: Iterable[CaptureFile]) -> None:
        self._places: dict[str, Place] = {}
        for capture_file in capture_files:
            for layer in noted(capture_file, "keras_layers"):
                known = layer if isinstance(layer, dict) else {}
                at = known.get("frame")
                if isinstance(at, int) and 0 <= at < len(capture_file.frames):
                    frame = capture_file.frames[at]
                    if frame.is_user:
                        self._places[str(known.get("name"))] = (frame.file, frame.line)

    def at_layer(self, change: Change, cpu_ops: Mapping[str, CpuOp]) -> Change:
        """Return a change with the line of the layer that makes all of its ops, if it is known."""
        ops = [cpu_ops[op_id] for op_id in change.op_ids if op_id in cpu_ops]
        places = {self._of(op) for op in ops} if self._places else set()
        if change.edits or change.place is None or len(ops) < len(change.op_ids):
            return change
        (place,) = places if len(places) == 1 else (None,)
        return change if place is None else replace(change, place=place)

    def _of(self, op: CpuOp) -> Place | None:
        library = op.explanation.library
        if library is None or library_of(library) != _KERAS:
            return None
        for scope in reversed(op.name.split("/")[:-1]):
            named = {self._places.get(scope), self._places.get(_NUMBER.sub("", scope))} - {None}
            if named:
                return named.pop() if len(named) == 1 else None
        return None
