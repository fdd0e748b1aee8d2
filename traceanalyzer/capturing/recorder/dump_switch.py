"""Switches TensorFlow's dumps of graphs on and off while a program runs."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Any

_GLOBAL = "_ZN10tensorflow15DebugDataDumper6GlobalEv"
_READ_VARIABLES = "_ZN10tensorflow15DebugDataDumper11LoadEnvvarsEv"
# The versions of abseil with which TensorFlow logs; it exports their functions.
_ABSEIL = ("20250814",)
_INFO, _WARNING = 0, 1
_LIBRARY = "libtensorflow_framework.so.2"
_SEARCHED = 0x80  # bytes of the object; the filter is at 0x28 in 2.21
_FILTER = b"*\0"
_WORD = 8
_TEXT, _FLAG = 16, 32  # of a short std::string and of the optional around it (libstdc++)


def dump_switch() -> ctypes.c_ubyte | None:
    """Return the flag that switches TensorFlow's dumps on and off; None if it is not found.

    TensorFlow reads `TF_DUMP_GRAPH_NAME_FILTER` once, into a `std::optional<std::string>` of a
    global object that is never freed (util/debug_data_dumper.cc), and checks it at every stage of a
    function's instantiation. A dump that fails for lack of a folder still creates its proto, which
    takes a tenth of the time of a `model.predict` loop. So the recorder changes the byte that says
    whether the optional has a value, but only if the object looks exactly as expected.
    """
    with suppress(OSError, AttributeError, ValueError):
        found = _dumper(_library())
        flag = flag_in(found, ctypes.string_at(found, _SEARCHED)) if found else None
        return None if flag is None else ctypes.c_ubyte.from_address(flag)
    return None


def flag_in(address: int, content: bytes) -> int | None:
    """Find the filter `*` in the bytes of an object; return the address of its flag, or None."""
    for at in range(0, len(content) - _FLAG, _WORD):
        text = address + at + _TEXT
        begin = text.to_bytes(_WORD, sys.byteorder) + (1).to_bytes(_WORD, sys.byteorder) + _FILTER
        if content.startswith(begin, at) and content[at + _FLAG] == 1:
            return address + at + _FLAG
    return None


def read_variables_again() -> None:
    """Let TensorFlow read its variables about dumps, if it has read them before."""
    with suppress(OSError, AttributeError):
        library = _library()
        read = getattr(library, _READ_VARIABLES)
        read.argtypes, read.restype = [ctypes.c_void_p], None
        if dumper := _dumper(library):
            read(dumper)


class LogLevel:
    """TensorFlow's log level, while the program has not set another one.

    TensorFlow reads `TF_CPP_MIN_LOG_LEVEL` once, and logs every dump at level INFO. Since 2.21, it
    logs with abseil, which has a function to change the level.
    """

    def __init__(self) -> None:
        self._set: Any = None
        self._get: Any = None
        self._before = _INFO

    def lower(self) -> bool:
        """Log no lines of level INFO until `restore`; return whether that is so."""
        with suppress(OSError, AttributeError):
            library = _library()
            for version in _ABSEIL:
                namespace = f"_ZN4absl{len(version) + 4}lts_{version}"
                change = getattr(
                    library, f"{namespace}14SetMinLogLevelENS0_18LogSeverityAtLeastE", None
                )
                current = getattr(library, f"{namespace}11MinLogLevelEv", None)
                if change is None or current is None:
                    continue
                change.argtypes, change.restype = [ctypes.c_int], None
                current.argtypes, current.restype = [], ctypes.c_int
                self._before = current()
                if self._before < _WARNING:
                    change(_WARNING)
                    self._set, self._get = change, current
                return True
        return False

    def restore(self) -> None:
        if self._set is not None and self._get() == _WARNING:
            self._set(self._before)
        self._set = None


def _library() -> ctypes.CDLL:
    folder = os.path.dirname(getattr(sys.modules.get("tensorflow"), "__file__", None) or "")
    # RTLD_NOLOAD: only if TensorFlow has loaded this library.
    return ctypes.CDLL(os.path.join(folder, _LIBRARY), os.RTLD_NOLOAD | os.RTLD_NOW)


def _dumper(library: ctypes.CDLL) -> int | None:
    """Return the address of the object that dumps."""
    find = getattr(library, _GLOBAL)
    find.restype = ctypes.c_void_p
    found: int | None = find()
    return found
