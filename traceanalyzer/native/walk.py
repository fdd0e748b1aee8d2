"""Divides a device's time into phases and finds the reasons for its idle time; see `walk.c`."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.native.library import NativeFunction


class Walked(NamedTuple):
    """The parts of each span, latest part first."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]
    row: NDArray[np.int32]
    is_proved: NDArray[np.bool_]


_busy_and_idle = NativeFunction(
    "busy_and_idle", "int64 int64 int64 int64 number number int64= int64= uint8= int64="
)
_walk_back = NativeFunction(
    "walk_back",
    "int64 int64 int32 int64 int64 bool"
    " int64 bool int64 int64 uint8 int32 int64"
    " int64 int64 int32 int64 bool"
    " int64 int64 int32 bool bool"
    " int64 int32"
    " int64= int64= uint8= int32= bool= int64=",
)


_Spans: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64]]"  # start and end


def busy_and_idle(
    busy: _Spans, transfers: _Spans, extent: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Divide a device's time into compute, copy, and unattributed idle time.

    `busy` has the disjoint intervals in which a kernel ran. `busy` and `transfers` are sorted by
    start. Return the start, end, phase, and transfer (or -1) of each part.
    """
    room = 2 * (len(busy[0]) + len(transfers[0])) + 1
    start_ps, end_ps, transfer = (np.empty(room, np.int64) for _ in range(3))
    phase = np.empty(room, np.uint8)
    n = _busy_and_idle(*busy, *transfers, *extent, start_ps, end_ps, phase, transfer)
    return start_ps[:n], end_ps[:n], phase[:n], transfer[:n]


def walk_back(columns: Sequence[NDArray[Any]]) -> Walked:
    """Divide each span into parts by the activity that delayed its end, latest part first.

    `columns` are the columns of `struct walk_back` in `walk.c`, up to `device_stream`.
    """
    spans, done = len(columns[0]), np.zeros(2, np.int64)
    types = (np.int64, np.int64, np.uint8, np.int32, np.bool_)
    parts: list[NDArray[Any]] = [np.empty(4 * spans + 1024, dtype) for dtype in types]
    _walk_back(*columns, *parts, done)
    while done[0] < spans:
        parts = [np.concatenate([part, np.empty_like(part)]) for part in parts]
        _walk_back(*columns, *parts, done)
    return Walked(*(part[: done[1]] for part in parts))
