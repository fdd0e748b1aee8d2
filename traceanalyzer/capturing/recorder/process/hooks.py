"""Replaces functions of the program's TensorFlow such that the program does not see it.

Errors of the program that pass through our code keep the traceback they have without us. What is
caught and raised again goes on with the traceback that it has by then, and nothing is added to
that. Before Python 3.11 it goes on with the one that it had when it was caught: our frames stay.
"""

from __future__ import annotations

import sys
from typing import Any, Callable


class Part:
    """A part of the recorder that replaces functions while it is installed."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Replace the functions."""
        raise NotImplementedError

    def uninstall(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            setattr(*self._undo.pop())

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class, and remember what it was."""
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def after(self, owner: Any, name: str, then: Callable[..., Any]) -> None:
        """Have a function followed by ours."""
        self.replace(owner, name, followed(getattr(owner, name), then))


def followed(original: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ours after the original, with its result and its arguments.

    The program gets what ours returns.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        try:  # rather than `with unseen`, which takes longer
            result = original(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        return then(result, *args, **kwargs)

    return call


def hide_frame(error: BaseException) -> None:
    """Take the frame that has caught an error out of its traceback; a bare `raise` is to follow."""
    caught = error.__traceback__
    error.__traceback__ = caught.tb_next if caught is not None else None


class _Unseen:
    """A context that hides the frame it is in from errors that leave it."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            hide_frame(error)


unseen = _Unseen()


def loaded(name: str) -> Any:
    """Return a module of TensorFlow that has been imported, or raise ImportError.

    A program may take TensorFlow out of `sys.modules`. To import it a second time ends the process
    (`PyExceptionRegistry::Init() already called`), so what is needed late is asked for here.
    """
    module = sys.modules.get(name)
    if module is None or "tensorflow" not in sys.modules:
        message = f"{name} is no longer imported"
        raise ImportError(message)
    return module
