"""Adds emulated GPUs to TensorFlow as soon as a program has imported it.

Python imports this before it runs the program, when the folder is on PYTHONPATH. `TWIN_EMULATOR`
names the library, the number of GPUs and a folder for the emulator's records.
"""

import ctypes
import os
import sys
from typing import Any

_BYTES_OF_MEMORY = 8 << 30


class _Finder:
    """Finds TensorFlow by way of the other finders, and has the emulator follow it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ANN401
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Runs a module's own loader, then starts the emulator."""

    def __init__(self, loader: Any) -> None:  # noqa: ANN401
        self._loader = loader

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:  # noqa: ANN401
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:  # noqa: ANN401
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        library, gpus, records = os.environ["TWIN_EMULATOR"].split(os.pathsep)
        memory = ctypes.c_int64(_BYTES_OF_MEMORY)
        ctypes.CDLL(library).start_emulator(int(gpus), memory, records.encode())


if "TWIN_EMULATOR" in os.environ:
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
