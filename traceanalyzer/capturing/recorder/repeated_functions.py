"""Functions of datasets that a program makes over and over, each time under a new name.

`model.predict` in a loop makes three datasets each time, and TensorFlow traces and places their
functions again. The first few tell everything; recording all takes longer than running them.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from .frames import is_user_file

__all__ = ["OF_DATASETS", "RepeatedFunctions", "line_of"]

OF_DATASETS = "__inference_Dataset_"
_ENOUGH = 3
_NUMBER = re.compile(r"_\d+$")


class RepeatedFunctions:
    """Recognises functions that are like earlier ones.

    Attributes:
        stand_in: By the name of a repeated function, that of the earlier one that stands for it.
    """

    def __init__(self) -> None:
        """Start with no function known."""
        self.stand_in: Dict[str, str] = {}
        self._recorded: Dict[Tuple[Any, ...], List[str]] = {}

    def is_repeated(self, name: str, graph: Any) -> bool:  # noqa: ANN401 - a FuncGraph
        """Return whether enough functions like this one were recorded before it.

        Args:
            name: Name of the function, with TensorFlow's counter.
            graph: Its graph.
        """
        if not name.startswith(OF_DATASETS):
            return False
        recorded = self._recorded.setdefault((_NUMBER.sub("", name), *_contents(graph)), [])
        if len(recorded) >= _ENOUGH:
            self.stand_in[name] = recorded[-1]
            return True
        recorded.append(name)
        return False


def _contents(graph: Any) -> Tuple[Any, ...]:  # noqa: ANN401 - a FuncGraph
    """Return what decides where a function's nodes are placed, and which lines made them."""
    ops = graph.get_operations()
    return (
        tuple([(op.name, op.type, op.device) for op in ops]),
        tuple([tensor.dtype for op in ops for tensor in op.outputs]),
        tuple([_captured(tensor) for tensor in graph.external_captures]),
        tuple([line_of(op.traceback) for op in ops]),
    )


def _captured(tensor: Any) -> Tuple[Any, ...]:  # noqa: ANN401 - of a graph or an EagerTensor
    """Return what decides where a captured tensor is: of a resource, which one it is.

    Without a GPU all are on the CPU, so their devices tell nothing.
    """
    number = tensor._id if tensor.dtype.name == "resource" else None  # noqa: SLF001
    return tensor.dtype, getattr(tensor, "device", None), number


def line_of(traceback: Any) -> Optional[Tuple[str, int]]:  # noqa: ANN401 - a StackTrace or None
    """Return the innermost line that is the user's."""
    frames = () if traceback is None else traceback.get_user_frames()
    lines = [(f.filename, f.lineno) for f in frames if is_user_file(f.filename)]
    return lines[-1] if lines else None
