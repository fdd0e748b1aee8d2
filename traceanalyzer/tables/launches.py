"""Which call of the host launched what ran on a device, and how far the device's clock is off.

Both carry a correlation id. It is a counter of 32 bits that each process has for itself, so that in
a long trace, or one of several processes, an id can come again. Work was launched by the last call
with its id that began before it. That is sure unless an earlier one of these calls, or the next,
has no work of its own, for the work may then be that one's: what waited long, or what a clock that
drifts puts before its call.

The profiler sets the clock of each device against the host's, each by itself, and may be off: where
work begins before it was launched, the times of that device are early by so much. One call may
launch many pieces (`cuGraphLaunch`), of which only the first show that. Clocks drift, too, so that
some work is a little earlier yet.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Plane


_TOO_EARLY_SHARE: Final = 0.01  # calls whose work begins before them, until clocks are called off
_DRIFT_PS: Final = 100_000_000  # what is earlier than that is not so because of a clock

SYNCHRONIZES: Final = re.compile(r"(?:cu|cuda|hip)\w*Synchronize(?:_v\d+)?")
"""Calls that wait for a device, and launch nothing."""


class Launched(NamedTuple):
    """What launched each piece of work.

    Attributes:
        call: Place of the call among those given, -1 where none is known; int64.
        is_sure: Whether no other of these calls can have been it.
        early_ps: By how much the clock of each device is early, int64.
    """

    call: NDArray[np.int64]
    is_sure: NDArray[np.bool_]
    early_ps: NDArray[np.int64]


def launch_calls(plane: Plane) -> NDArray[np.int64]:
    """Return the events of a host that can launch work, by correlation id and then by start.

    What merely waits for a device has an id too, and launches nothing.
    """
    column = plane.integers("correlation_id")
    can = column.present & (column.values != 0)
    can[plane.named(*(name for name in plane.names if SYNCHRONIZES.fullmatch(name)))] = False
    events = np.flatnonzero(can)
    by_id: NDArray[np.int64] = events[np.lexsort((plane.start_ps[events], column.values[events]))]
    return by_id


def launched_by(
    call_id: NDArray[np.int64],
    call_ps: NDArray[np.int64],
    work_id: NDArray[np.int64],
    work_ps: NDArray[np.int64],
    device: NDArray[np.int32],
) -> Launched:
    """Find the call that launched each piece of work.

    Args:
        call_id: Correlation ids of calls, rising.
        call_ps: When they began, rising within an id.
        work_id: Correlation ids of work; 0 for none.
        work_ps: When it began, by the clock of its device.
        device: Number of its device, from 0.
    """
    call = np.full(len(work_id), -1, np.int64)
    is_sure = np.zeros(len(work_id), np.bool_)
    first = np.searchsorted(call_id, work_id)
    number = np.searchsorted(call_id, work_id, side="right") - first
    number[work_id == 0] = 0
    only, several = np.flatnonzero(number == 1), np.flatnonzero(number > 1)
    late_ps = work_ps[only] - call_ps[first[only]]
    early_ps = _early_ps(late_ps, first[only], device[only], int(device.max(initial=-1)) + 1)
    is_near = late_ps + early_ps[device[only]] >= -_DRIFT_PS
    # Where other work with the id is the call's, what came long before is of one not recorded.
    followed = np.zeros(len(call_id), np.bool_)
    followed[first[only[is_near]]] = True
    told = only[is_near | ~followed[first[only]]]
    call[told] = first[told]
    is_sure[told] = True
    if len(several):
        again = np.flatnonzero(call_id[1:] == call_id[:-1])
        shared = np.union1d(again, again + 1)
        at_ps = work_ps[several] + early_ps[device[several]]
        found = _last_before(call_id[shared], call_ps[shared], work_id[several], at_ps)
        call[several] = np.append(shared, -1)[found]
        is_sure[several] = _is_sure(call_id[shared], found)
    return Launched(call, is_sure, early_ps)


def _early_ps(
    late_ps: NDArray[np.int64],
    call: NDArray[np.int64],
    device: NDArray[np.int32],
    devices: int,
) -> NDArray[np.int64]:
    """Return by how much the clock of each device is early.

    Of each call the earliest work counts: what follows on it tells nothing of the clock. Single
    calls prove nothing: the id of their work may be that of another.

    Args:
        late_ps: How long after its launch work began.
        call: The call that launched each.
        device: The device of each.
        devices: How many there are.
    """
    early_ps = np.zeros(devices, np.int64)
    none = np.iinfo(np.int64).max
    for number in range(devices):
        on_it = device == number
        first_ps = np.full(int(call.max(initial=-1)) + 1, none)
        np.minimum.at(first_ps, call[on_it], late_ps[on_it])
        own = first_ps[first_ps != none].clip(-none)  # the least number's opposite has no room
        if len(own):
            rank = min(max(1, int(len(own) * _TOO_EARLY_SHARE)), len(own) - 1)
            early_ps[number] = max(0, -int(np.partition(own, rank)[rank]))
    return early_ps


def _last_before(
    call_id: NDArray[np.int64],
    call_ps: NDArray[np.int64],
    work_id: NDArray[np.int64],
    at_ps: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the last call with the id of each piece of work that began by then, -1 for none."""
    ids = np.concatenate([call_id, work_id])
    is_work = np.arange(len(ids)) >= len(call_id)
    order = np.lexsort((is_work, np.concatenate([call_ps, at_ps]), ids))
    last = np.maximum.accumulate(np.where(is_work[order], -1, np.arange(len(ids))))
    fits = (last >= 0) & (ids[order[last]] == ids[order])
    found = np.empty(len(ids), np.int64)
    found[order] = np.where(fits, order[last], -1)
    return found[len(call_id) :]


def _is_sure(call_id: NDArray[np.int64], call: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for which work no earlier call with its id, nor the next, has none of its own."""
    without = np.bincount(call[call >= 0], minlength=len(call_id)) == 0
    before = np.cumsum(without) - without
    is_first_without = before == before[np.searchsorted(call_id, call_id)]
    is_next_without = np.append(without[1:] & (call_id[1:] == call_id[:-1]), np.False_)
    sure: NDArray[np.bool_] = (is_first_without & ~is_next_without)[call] & (call >= 0)
    return sure
