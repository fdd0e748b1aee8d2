"""The flag by which TensorFlow decides whether it dumps graphs.

It reads `TF_DUMP_GRAPH_NAME_FILTER` once, into a `std::optional<std::string>` of a global object
(util/debug_data_dumper.cc), and asks that at every stage of every function that it instantiates.
A dump that has nowhere to go still costs the making of its proto: a tenth of a loop that calls
`model.predict`. So while no dump is wanted, the optional is made to look empty: one byte, written
at once. The object is never freed. Where it does not look exactly as expected, nothing is written.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import Optional

__all__ = ["DumpSwitch", "dump_switch"]

_GLOBAL = "_ZN10tensorflow15DebugDataDumper6GlobalEv"
_LIBRARY = "libtensorflow_framework.so.2"
_SEARCHED = 0x80  # bytes of the object; the filter is at 0x28 in 2.21
_FILTER = b"*\0"
_WORD = 8
_TEXT, _FLAG = 16, 32  # of a short std::string and of the optional around it (libstdc++)


class DumpSwitch:
    """Turns dumps on and off."""

    def __init__(self, flag: int) -> None:
        """Take the address of the flag."""
        self._flag = ctypes.c_ubyte.from_address(flag)

    def turn(self, *, on: bool) -> None:
        """Let TensorFlow dump, or not."""
        self._flag.value = int(on)


def dump_switch() -> Optional[DumpSwitch]:
    """Return the switch of the TensorFlow that is imported; None where it has none that we know."""
    folder = os.path.dirname(getattr(sys.modules.get("tensorflow"), "__file__", None) or "")
    with suppress(OSError, AttributeError, ValueError):
        # RTLD_NOLOAD: the library that TensorFlow itself has loaded, or none.
        library = ctypes.CDLL(os.path.join(folder, _LIBRARY), os.RTLD_NOLOAD | os.RTLD_NOW)
        find = getattr(library, _GLOBAL)
        find.restype = ctypes.c_void_p
        found = find()
        flag = flag_in(found, ctypes.string_at(found, _SEARCHED)) if found else None
        return None if flag is None else DumpSwitch(flag)
    return None


def flag_in(address: int, content: bytes) -> Optional[int]:
    """Return where an object holds whether there is a filter, if it holds the filter `*`.

    Args:
        address: Of the object.
        content: Its first bytes.
    """
    for at in range(0, len(content) - _FLAG, _WORD):
        text = address + at + _TEXT
        begin = text.to_bytes(_WORD, sys.byteorder) + (1).to_bytes(_WORD, sys.byteorder) + _FILTER
        if content.startswith(begin, at) and content[at + _FLAG] == 1:
            return address + at + _FLAG
    return None
