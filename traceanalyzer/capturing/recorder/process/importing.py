"""Calls back when the program imports TensorFlow, and otherwise leaves importing as it is.

The finder and the loader have the methods of the protocol and no base classes: `importlib.abc`
would import some dozen modules before the program can put its own of these names first.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def watch_import(name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call back around the import of a top-level module; at once, if it is imported already.

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
    they import it.
    """

    def __init__(self, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._name = name
        self._before: Callable[[], None] | None = before
        self._after = after

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

    def begin(self) -> None:
        """The module's code is about to run."""
        before, self._before = self._before, None
        if before is not None:
            before()

    def end(self) -> None:
        """The module's code has run."""
        if self in sys.meta_path:
            self.leave()
            self._after()

    def leave(self) -> None:
        """Call back no more."""
        self._before = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _Loader:
    """Runs a module's own loader, and notifies the finder."""

    def __init__(self, loader: Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._finder.begin()
        self._loader.exec_module(module)
        self._finder.end()
