"""Loads and calls the native code with ctypes, which releases the GIL."""

import ctypes
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import NativeCodeError


def load(path: Path) -> ctypes.CDLL:
    """Load the library and check that it was compiled from the sources beside it."""
    try:
        library = ctypes.CDLL(str(path))
        built = ctypes.c_uint32.in_dll(library, "sources").value
    except (OSError, ValueError) as error:
        msg = f"cannot load the native code ({error}); install traceanalyzer again"
        raise NativeCodeError(msg) from None
    sources = b"".join(file.read_bytes() for file in sorted(path.parent.glob("*.[ch]")))
    if built != zlib.crc32(sources):
        msg = f"the native code does not match its sources in {path.parent}; run pip install -e ."
        raise NativeCodeError(msg)
    return library


_LIBRARY: Final = load(Path(__file__).parent / "libtraceanalyzer.so")


class NativeFunction:
    """A C function that takes one struct with a pointer and a length for each column.

    `parameters` lists the types of the struct's members: `number`, or a column's dtype (`ids` for
    int32 or int64), followed by `=` if C writes to it. The C code checks lengths and indices.
    """

    def __init__(self, name: str, parameters: str) -> None:
        self._name = name
        self._parameters = parameters.split()
        self._run = _LIBRARY[name]
        self._run.argtypes, self._run.restype = [ctypes.c_void_p], ctypes.c_int64

    def __call__(self, *values: NDArray[Any] | int) -> int:
        """Call the function and return its result, usually a count.

        Raises:
            TypeError: A column has the wrong type.
            ValueError: Column lengths do not match, or an index is out of range.
        """
        slots: list[int] = []
        columns = []  # copies must live until C returns
        for k, (kind, value) in enumerate(zip(self._parameters, values, strict=True)):
            if not isinstance(value, np.ndarray):
                slots.append(value)
                continue
            wanted = kind.removesuffix("=")
            if wanted == "ids":
                wanted = "int64" if value.dtype == np.int64 else "int32"
            column = value
            if not kind.endswith("="):
                column = value.astype(wanted, order="C", casting="safe", copy=False)
            elif not (value.dtype == wanted and value.flags.carray):
                msg = f"{self._name}: column {k} must be contiguous, writable, and of type {wanted}"
                raise TypeError(msg)
            columns.append(column)
            slots += column.ctypes.data, column.size
            if kind.startswith("ids"):
                slots.append(column.itemsize)
        result: int = self._run((ctypes.c_int64 * len(slots))(*slots))
        if result < 0:
            msg = f"{self._name}: column lengths do not match, or an index is out of range"
            raise ValueError(msg)
        return result
