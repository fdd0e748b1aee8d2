"""Measures the memory that a profiler session uses, and the available memory."""

from __future__ import annotations

import contextlib
import ctypes
import time

# The profiler keeps its events in small blocks of the C heap; the pages of CUDA's libraries and of
# large arrays are not the profiler's.
_EXACT_FROM = 64 << 20
_PATIENCE = 100
_UORDBLKS = 7  # index of the bytes in use

# A container may have less memory than its machine: current use and limit, of cgroups v2 and v1.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_CGROUP_STATISTICS = "/sys/fs/cgroup/memory.stat"


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 (mallinfo(3))."""

    _fields_ = (("sizes", ctypes.c_size_t * 10),)


class HeapGrowth:
    """Growth of the C heap since this object was created.

    glibc can count the bytes in use, but blocks other threads while it counts (50 ms after some
    epochs of Keras). So the kernel's page count is read first (0.2 ms), and counting by glibc is
    limited to 1% of the time.
    """

    def __init__(self) -> None:
        self._pages = _anonymous_bytes()
        self._heap = _heap_bytes()
        self._known = 0  # growth when glibc was last asked, and the pages then
        self._pages_known = 0
        self._next_s = 0.0

    def bytes(self) -> int:
        """Return the growth in bytes: by page count below 64 MiB, otherwise as counted by glibc."""
        now = _anonymous_bytes()
        self._pages = min(self._pages, now)  # pages that were given back will be taken again
        pages = now - self._pages
        if pages < _EXACT_FROM or self._heap is None:
            return pages
        begin_s = time.monotonic()
        if begin_s >= self._next_s:
            self._known = (_heap_bytes() or 0) - self._heap
            self._pages_known = now
            end_s = time.monotonic()
            self._next_s = end_s + _PATIENCE * (end_s - begin_s)
        return self._known + max(0, now - self._pages_known)


def give_back() -> None:
    """Give the free memory of the C heap back to the system.

    Otherwise, glibc keeps the small blocks of a session: 1.8 GB for 120,000 iterations of a loop in
    a graph (TensorFlow 2.21). Returning them takes 0.25 s and delays other threads by up to 40 ms.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def free_share() -> float:
    """Return the share of the memory that is available to this process; 1 if unknown."""
    machine = _fields_of("/proc/meminfo")
    total = machine.get("MemTotal", 0)
    share = machine["MemAvailable"] / total if total and "MemAvailable" in machine else 1.0
    for used, limit in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            most = _number_in(limit)
            if 0 < most < (total or most):
                cached = _fields_of(_CGROUP_STATISTICS).get("file", 0)  # the system can free this
                share = min(share, 1 - (_number_in(used) - cached) / most)
            break
    return share


def _anonymous_bytes() -> int:
    return _fields_of("/proc/self/status").get("RssAnon", 0)


def _heap_bytes() -> int | None:
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # an older glibc, or another C library
        return None
    ask.restype = _MallocInfo
    return int(ask().sizes[_UORDBLKS])


def _fields_of(path: str) -> dict[str, int]:
    found = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for words in map(str.split, file):
            if len(words) > 1 and words[1].isdigit():
                found[words[0].rstrip(":")] = int(words[1]) << (10 if words[2:] == ["kB"] else 0)
    return found


def _number_in(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
