"""Replaces functions of the program's TensorFlow so that the program does not see it.

Errors of the program that pass through our code keep the traceback that they have without us. What
is caught and raised again goes on with the traceback that it has by then. Before Python 3.11 it
goes on with the one that it had when it was caught: our frames stay.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class Part:
    """A part of the recorder that replaces functions while it is installed."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        raise NotImplementedError

    def uninstall(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            setattr(*self._undo.pop())

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class, and remember what it was."""
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def before(self, owner: Any, name: str, first: Callable[..., None]) -> None:
        """Have a function preceded by ours, which gets its arguments."""
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            first(*args, **kwargs)
            with unseen:
                return original(*args, **kwargs)

        self.replace(owner, name, call)

    def after(self, owner: Any, name: str, then: Callable[..., Any]) -> None:
        """Have a function followed by ours; see `followed`."""
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


def watch_import(
    name: str, after: Callable[[], None], before: Callable[[], None] = lambda: None
) -> None:
    """Call back around the import of a module; at once, if it is imported already.

    `before` is called before its code runs for the first time, `after` when it has been imported
    without error; only in this process, not in a fork of it.
    """
    if name in sys.modules:
        before()
        after()
        return
    finder = _Finder(name, before, after)
    sys.meta_path.insert(0, finder)
    os.register_at_fork(after_in_child=finder.leave)


class _Finder:
    """Finds one module, by way of the other finders; off the list when it has been imported.

    Not sooner: programs ask for a module's spec, to learn whether it is installed, long before
    they import it. This class and the loader have no base classes: `importlib.abc` would import
    some dozen modules before the program can put its own of these names first.
    """

    def __init__(self, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._name = name
        self.before: Callable[[], None] | None = before
        self.after = after

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self)  # type: ignore[assignment]
                return spec
        return None

    def leave(self) -> None:
        self.before = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader:
    """Runs a module's own loader between the calls back."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        loader, finder = self._loader, self._finder
        module.__loader__ = loader
        if module.__spec__ is not None:
            module.__spec__.loader = loader
        before, finder.before = finder.before, None
        if before is not None:
            before()
        with unseen:
            loader.exec_module(module)
        if finder in sys.meta_path:
            finder.leave()
            finder.after()
