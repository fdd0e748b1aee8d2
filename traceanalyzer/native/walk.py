"""Cuts a device's time and walks back from a moment to what it had waited for, see `walk.c`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from traceanalyzer.native.library import Function

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int32] | NDArray[np.int64]


class WalkColumns(NamedTuple):
    """What the walk back goes through; `walk.c` says what each column holds."""

    span_start: NDArray[np.int64]
    span_end: NDArray[np.int64]
    span_lane: NDArray[np.int32]
    span_launch_start: NDArray[np.int64]
    span_launch_end: NDArray[np.int64]
    span_is_proved: NDArray[np.bool_]
    lane_begin: NDArray[np.int64]
    is_program: NDArray[np.bool_]
    segment_start: NDArray[np.int64]
    segment_end: NDArray[np.int64]
    doing: NDArray[np.uint8]
    segment_row: NDArray[np.int32]
    segment_call: NDArray[np.int64]
    link_begin: NDArray[np.int64]
    link_at: NDArray[np.int64]
    link_from_lane: NDArray[np.int32]
    link_from: NDArray[np.int64]
    link_is_proved: NDArray[np.bool_]
    call_id: NDArray[np.int64]
    call_ps: NDArray[np.int64]
    call_lane: NDArray[np.int32]
    call_begins: NDArray[np.bool_]
    call_ends: NDArray[np.bool_]
    device_end: NDArray[np.int64]
    device_stream: NDArray[np.int32]
    device_start: NDArray[np.int64] = np.empty(0, np.int64)
    device_phase: NDArray[np.uint8] = np.empty(0, np.uint8)
    device_row: NDArray[np.int32] = np.empty(0, np.int32)
    device_launch_lane: NDArray[np.int32] = np.empty(0, np.int32)
    device_launch_start: NDArray[np.int64] = np.empty(0, np.int64)
    device_launch_end: NDArray[np.int64] = np.empty(0, np.int64)
    device_is_proved: NDArray[np.bool_] = np.empty(0, np.bool_)
    device_before: NDArray[np.int64] = np.empty(0, np.int64)


class Walked(NamedTuple):
    """Parts of spans; `event` is the device event that a part is, -1 for none."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]
    row: NDArray[np.int32]
    event: NDArray[np.int64]
    is_proved: NDArray[np.bool_]


_busy_and_idle = Function(
    "busy_and_idle", "int64 int64 int64 int64 number number int64= int64= uint8= int64="
)
_walk_back = Function(
    "walk_back",
    "int64 int64 int32 int64 int64 bool"
    " int64 bool int64 int64 uint8 int32 int64"
    " int64 int64 int32 int64 bool"
    " int64 int64 int32 bool bool"
    " int64 int32 int64 uint8 int32 int32 int64 int64 bool int64"
    " int64= int64= uint8= int32= int64= bool= int64=",
)


def busy_and_idle(
    busy: tuple[NDArray[np.int64], NDArray[np.int64]],
    copies: tuple[NDArray[np.int64], NDArray[np.int64]],
    extent: tuple[int, int],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Cut a device's time into computing, copying and idle, which is not attributed.

    Args:
        busy: Start and end of the times in which some kernel ran, disjoint and rising.
        copies: Start and end of copies, by start.
        extent: Where to begin and to end.

    Returns:
        Start, end, phase and copy (-1: none) of each part.
    """
    room = 2 * (len(busy[0]) + len(copies[0])) + 1
    start_ps, end_ps, copy = (np.empty(room, np.int64) for _ in range(3))
    phase = np.empty(room, np.uint8)
    n = _busy_and_idle(*busy, *copies, *extent, start_ps, end_ps, phase, copy)
    return start_ps[:n], end_ps[:n], phase[:n], copy[:n]


def walk_back(columns: WalkColumns) -> Walked:
    """Divide each span into what its end waited for, the latest part first."""
    spans, done = len(columns.span_start), np.zeros(2, np.int64)
    types = (np.int64, np.int64, np.uint8, np.int32, np.int64, np.bool_)
    parts: list[NDArray[Any]] = [np.empty(4 * spans + 1024, dtype) for dtype in types]
    _walk_back(*columns, *parts, done)
    while done[0] < spans:
        parts = [np.concatenate([part, np.empty_like(part)]) for part in parts]
        _walk_back(*columns, *parts, done)
    return Walked(*(part[: done[1]] for part in parts))
