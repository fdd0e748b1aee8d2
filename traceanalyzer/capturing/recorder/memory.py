"""How much memory a session of the profiler has taken, and how much there is."""

from __future__ import annotations

import contextlib
import ctypes
import time

# Of the file-backed pages of CUDA's libraries and the mapped blocks of large arrays, neither is the
# profiler's: it keeps its events in small blocks of the C heap.
_EXACT_FROM = 64 << 20
_PATIENCE = 100
_UORDBLKS = 7  # bytes in use, of the sizes that glibc states

# A container may have less memory than its machine: current use and limit, of cgroups v2 and v1.
_CGROUPS = (
    ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_CACHE = "/sys/fs/cgroup/memory.stat"  # what the use counts of files, which gives way


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 (mallinfo(3))."""

    _fields_ = (("sizes", ctypes.c_size_t * 10),)


class HeapGrowth:
    """Growth of the C heap since this was made.

    glibc knows what is in use of it, but walks all that is free to say so, and delays threads that
    allocate meanwhile (50 ms after some epochs of Keras). So the kernel is asked first, which
    knows only pages (0.2 ms), and glibc no more than a hundredth of the time.
    """

    def __init__(self) -> None:
        self._pages = _anonymous_bytes()
        self._heap = _heap_bytes()
        self._known = 0  # growth when glibc was last asked, and the pages then
        self._pages_known = 0
        self._next_s = 0.0

    def bytes(self) -> int:
        """Return the growth; never too little by more than what was free in the heap before.

        Nor, between two walks of the heap, by more than what else was freed since the first.
        """
        now = _anonymous_bytes()
        self._pages = min(self._pages, now)  # what was given back will be taken again
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
    """Have glibc give to the system what is free in the C heap.

    It keeps the small blocks that a session was held and written in: 1.8 GB of one of 120,000
    rounds of a loop in a graph (TensorFlow 2.21). To give these back takes a quarter of a second of
    a core; on a busy machine nobody who allocated meanwhile waited for more than 40 ms.
    """
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def free_share() -> float:
    """Return the share of the memory that is available to this process; 1 where unknown."""
    machine = _fields_of("/proc/meminfo")
    total, share = machine.get("MemTotal", 0), 1.0
    if total and "MemAvailable" in machine:
        share = machine["MemAvailable"] / total
    for used, limit in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):
            most = _number_in(limit)
            if 0 < most < (total or most):
                used_bytes = _number_in(used) - _fields_of(_CACHE, " ").get("file", 0)
                share = min(share, 1 - used_bytes / most)
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


def _fields_of(path: str, separator: str = ":") -> dict[str, int]:
    """Return the sizes in a file of lines as `MemTotal:  1024 kB` or `file 1024`, in bytes."""
    found = {}
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(separator)
            size, *unit = value.split() or [""]
            if size.isdigit() and (unit == ["kB"] or separator == " "):
                found[name] = int(size) << (10 if unit else 0)
    return found


def _number_in(path: str) -> int:
    with open(path, encoding="ascii") as file:
        return int(file.read())
