"""Tells when the program imports TensorFlow, and otherwise leaves importing as it is."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["watch_import"]


def watch_import(name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call back around the import of a top-level module; at once, if it is imported already.

    Args:
        name: The module.
        before: Called before its code runs.
        after: Called when it has been imported without error.
    """
    if name in sys.modules:
        before()
        after()
        return
    sys.meta_path.insert(0, _Finder(name, before, after))


class _Finder(MetaPathFinder):
    """Finds one module, by way of the other finders, and takes itself off the list."""

    def __init__(self, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._name = name
        self._before = before
        self._after = after

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]] = None,  # noqa: ARG002 - the protocol's
        target: Optional[ModuleType] = None,  # noqa: ARG002
    ) -> Optional[ModuleSpec]:
        if fullname != self._name:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            sys.meta_path.insert(0, self)  # not installed (yet): a later attempt may find it
            return None
        spec.loader = _Loader(spec.loader, self._before, self._after)
        return spec


class _Loader(Loader):
    """Runs a module's own loader between two callbacks."""

    def __init__(
        self, loader: Loader, before: Callable[[], None], after: Callable[[], None]
    ) -> None:
        self._loader = loader
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module's loader has
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._before()
        self._loader.exec_module(module)
        self._after()
