"""Merge short events, so that the timeline looks the same with fewer of them.

Two events are merged if both are shorter than a threshold, the second begins less than that after
the first ended, and both are on the same lane and in the same interval of at most four thresholds.
So no event is left out, none moves further than that, and long ones stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Thresholds in picoseconds: 2, 3, 4, 6, 8, 12 ... times the half of the first.
_FINEST: Final = 1024
_COUNT: Final = 103
_THRESHOLDS: Final = np.array(
    [(2 + k % 2) * (_FINEST // 2) << (k // 2) for k in range(_COUNT)], np.int64
)
_STRETCH: Final = 2  # four times the power of two in the threshold
_STRETCHES: Final = np.array(
    [min(1 << t.bit_length() - 1 + _STRETCH, 2**63 - 1) for t in _THRESHOLDS.tolist()], np.int64
)
_LOW: Final = 0xFFFF  # of a key that holds a duration and what is of that duration
_LONGEST: Final = 1 << 46  # 70 seconds: all that is longer counts as that long


class Events(NamedTuple):
    """Events by lane, and within a lane by start."""

    begin: NDArray[np.int64]  # first event of each lane, and the number of events
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # each an index into `Kinds`
    number: NDArray[np.int64]  # how many events each stands for
    stays: NDArray[np.bool_]  # which are never merged


class Kinds(NamedTuple):
    """What events can be."""

    kind: NDArray[np.int64]  # below 256
    finding: NDArray[np.int64]  # -1 for none


def joined_from(events: Events) -> NDArray[np.uint8]:
    """Return the number of the least threshold that puts each event with the one before it.

    The first event is left out. What no threshold puts with the one before has a number beyond all.
    """
    start, end = events.start_ps, events.end_ps
    took = end - start
    longest = np.maximum(np.maximum(took[1:], took[:-1]), start[1:] - end[:-1])
    number: NDArray[np.uint8] = np.maximum(
        np.searchsorted(_THRESHOLDS, longest, side="right"),
        np.searchsorted(_STRETCHES, start[1:] ^ start[:-1], side="right"),
    ).astype(np.uint8)
    number[events.stays[1:] | events.stays[:-1]] = len(_THRESHOLDS)
    number[_first_of_lanes(events) - 1] = len(_THRESHOLDS)
    return number


def threshold(joined: NDArray[np.uint8], most: int) -> int:
    """Return the least threshold that leaves at most so many events, or the largest there is.

    Returns:
        Picoseconds, a power of two or three halves of one.
    """
    left = len(joined) + 1 - np.cumsum(np.bincount(joined, minlength=len(_THRESHOLDS)))
    few = np.flatnonzero(left[: len(_THRESHOLDS)] <= most)
    return int(_THRESHOLDS[few[0] if len(few) else -1])


def together(events: Events, below_ps: int, kinds: Kinds) -> tuple[Events, Kinds]:
    """Put short events together.

    Returns:
        The fewer events, and what they are: events of one and the same remain what they were.
        Others are added to `kinds`: of the kind of the longest of them, and with the finding of the
        longest that has any.
    """
    first = np.flatnonzero(np.concatenate([[True], ~_joined(events, below_ps)]))
    what, added = _what(events, first, kinds)
    return (
        Events(
            begin=np.searchsorted(first, events.begin),
            start_ps=events.start_ps[first],
            end_ps=np.maximum.reduceat(events.end_ps, first),
            what=what,
            number=np.add.reduceat(events.number, first),
            stays=events.stays[first],
        ),
        added,
    )


def _joined(events: Events, below_ps: int) -> NDArray[np.bool_]:
    """Return for each event but the first whether it is merged with the previous one."""
    start, end = events.start_ps, events.end_ps
    is_short = (end - start < below_ps) & ~events.stays
    stretch = start >> (below_ps.bit_length() - 1 + _STRETCH)
    joined: NDArray[np.bool_] = is_short[1:] & is_short[:-1]
    joined &= stretch[1:] == stretch[:-1]
    joined &= start[1:] - end[:-1] < below_ps
    joined[_first_of_lanes(events) - 1] = False
    return joined


def _first_of_lanes(events: Events) -> NDArray[np.int64]:
    """Return the first event of each lane but the first."""
    return events.begin[(events.begin > 0) & (events.begin < len(events.start_ps))]


def _what(
    events: Events, first: NDArray[np.int64], kinds: Kinds
) -> tuple[NDArray[np.int64], Kinds]:
    what = events.what
    found = what[first]
    is_mixed = np.minimum.reduceat(what, first) != np.maximum.reduceat(what, first)
    if not is_mixed.any():
        return found, kinds
    took = (events.end_ps - events.start_ps).clip(0, _LONGEST) << 16
    longest = np.maximum.reduceat(took | kinds.kind[what], first)
    marked = np.where(kinds.finding[what] >= 0, took | (kinds.finding[what] + 1).clip(0, _LOW), 0)
    finding = (np.maximum.reduceat(marked, first) & _LOW) - 1
    width = int(finding.max()) + 2
    key = (longest & _LOW)[is_mixed] * width + finding[is_mixed] + 1
    is_used = np.bincount(key) > 0
    keys, code = np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[key]
    found = found.copy()
    found[is_mixed] = len(kinds.kind) + code
    return found, Kinds(
        kind=np.concatenate([kinds.kind, keys // width]),
        finding=np.concatenate([kinds.finding, keys % width - 1]),
    )
