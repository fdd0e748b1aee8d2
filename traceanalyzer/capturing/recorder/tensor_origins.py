"""Whose device an eager tensor has.

A tensor is where the op that made it ran. Which op that was is noted on the tensor itself, so that
it lasts as long as the tensor. Of tensors that no op makes, constants are where the scope around
them asks for, and `.cpu()` copies are on the CPU.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from .patches import Patches
from .tracebacks import hide_frame

if TYPE_CHECKING:
    from .scopes import Scopes

__all__ = ["MACHINE", "OP", "UNKNOWN", "TensorOrigins", "note", "origin_of", "origin_of_outputs"]

# Origins that are no resource's number; see `Scope` in capture_file/document.
UNKNOWN = -1
MACHINE = -2
OP = -3  # less the number of a signature
_HOST_DTYPES = (3, 7)  # int32 and string, in types.proto: mostly in host memory, on a GPU too


def origin_of_outputs(number: int, scopes: List[Any]) -> Optional[int]:
    """Return whose device the tensors have that an op makes.

    Args:
        number: Of the op's signature.
        scopes: The scopes around it, as `Scopes.opened` has them. If the innermost asks for the
            device of something else, that is it: a loop that asks for the device of its own
            results would have another origin each time.
    """
    around = scopes[0][2] if scopes else None
    return OP - number if around is None else around


def note(result: Any, origin: Optional[int], tensor_type: type) -> None:  # noqa: ANN401 - of any op
    """Note whose device the tensors have that an op or a call returned."""
    for each in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(each, tensor_type):
            each._traceanalyzer_origin = origin  # type: ignore[attr-defined]  # noqa: SLF001


def origin_of(tensor: Any, *, backing: bool) -> Optional[int]:  # noqa: ANN401 - an EagerTensor
    """Return whose device a tensor has, or, with `backing`, is in the memory of."""
    found: Optional[int] = getattr(tensor, "_traceanalyzer_origin", UNKNOWN)
    if not backing or found is None or tensor._datatype_enum() not in _HOST_DTYPES:  # noqa: SLF001
        return found
    return None if found == MACHINE else UNKNOWN


class TensorOrigins:
    """Notes whose device tensors have that no op makes."""

    def __init__(self, scopes: Scopes) -> None:
        """Prepare; nothing is replaced yet."""
        self._scopes = scopes
        self._patches = Patches()

    def install(self) -> None:
        """Replace what makes such tensors."""
        constants = importlib.import_module("tensorflow.python.framework.constant_op")
        tensor = importlib.import_module("tensorflow.python.framework.ops").EagerTensor
        self._patches.replace(
            constants,
            "convert_to_eager_tensor",
            self._noted(constants.convert_to_eager_tensor, self._of_scope),
        )
        self._patches.replace(tensor, "cpu", self._noted(tensor.cpu, lambda: None))

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()

    def _noted(
        self, original: Callable[..., Any], origin: Callable[[], Optional[int]]
    ) -> Callable[..., Any]:
        def make(value: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            try:
                result = original(value, *args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            if result is not value:
                result._traceanalyzer_origin = origin()  # noqa: SLF001
            return result

        return make

    def _of_scope(self) -> Optional[int]:
        for asked, _, origin in self._scopes.opened():
            if origin is not None or "cpu" in asked.lower():
                return origin
        return MACHINE
