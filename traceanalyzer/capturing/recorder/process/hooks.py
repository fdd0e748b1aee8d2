"""Replaces functions of the program's TensorFlow such that the program does not see it.

Errors of the program that pass through our code keep the traceback they have without us. What is
caught and raised again goes on with the traceback that it has by then, and nothing is added to
that. Before Python 3.11 it goes on with the one that it had when it was caught: our frames stay.
"""

from __future__ import annotations

import sys
from typing import Any, List, Optional, Tuple, Type


class Patches:
    """Replaces attributes of modules and classes, and puts them back."""

    def __init__(self) -> None:
        self._undo: List[Tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute, and remember what it was."""
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            setattr(*self._undo.pop())


class Part:
    """A part of the recorder that replaces functions while it is installed."""

    def __init__(self) -> None:
        self._patches = Patches()

    def install(self) -> None:
        """Replace the functions."""
        raise NotImplementedError

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()


def hide_frame(error: BaseException) -> None:
    """Take the frame that has caught an error out of its traceback; a bare `raise` is to follow."""
    caught = error.__traceback__
    error.__traceback__ = caught.tb_next if caught is not None else None


class _Unseen:
    """A context that hides the frame it is in from errors that leave it."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], *_: object
    ) -> None:
        if error is not None:
            hide_frame(error)


unseen = _Unseen()


def loaded(name: str) -> Any:
    """Return a module of TensorFlow that has been imported.

    A program may take TensorFlow out of `sys.modules`. To import it a second time ends the process
    (`PyExceptionRegistry::Init() already called`), so what is needed late is asked for here.

    Raises:
        ImportError: It is not there any more.
    """
    module = sys.modules.get(name)
    if module is None or "tensorflow" not in sys.modules:
        message = f"{name} is no longer imported"
        raise ImportError(message)
    return module
