"""Functions of TensorFlow that are replaced while the recorder is in place."""

from __future__ import annotations

from typing import Any, List, Tuple

__all__ = ["Patches"]


class Patches:
    """Replaces attributes of modules and classes, and puts them back."""

    def __init__(self) -> None:
        """Start with nothing replaced."""
        self._undo: List[Tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:  # noqa: ANN401 - anything
        """Set an attribute, and remember what it was."""
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            setattr(*self._undo.pop())
