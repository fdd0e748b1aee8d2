"""Cutting a device's time, and the walk back from a moment to what it had waited for; by numba."""

from __future__ import annotations

import numpy as np

from traceanalyzer.tables.lanes import DEVICE_LANE, Doing
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.trace._jit import jit

__all__ = ["busy_and_idle", "walk_back"]

_CALL = int(Doing.CALL)
_WAIT = int(Doing.WAIT)
_COMPUTE = int(Phase.COMPUTE)
_COPY = int(Phase.COPY)
_LAUNCH = int(Phase.LAUNCH)
_RUNTIME = int(Phase.RUNTIME)
_PROGRAM = int(Phase.PROGRAM)
_QUEUED = int(Phase.QUEUED)
_OTHER_DEVICE = int(Phase.OTHER_DEVICE)
_UNATTRIBUTED = int(Phase.UNATTRIBUTED)
_MOST_JUMPS = 64  # from thread to thread without getting further back
_LONG_AGO = -(2**62)


@jit
def busy_and_idle(busy_start, busy_end, copy_start, copy_end, from_ps, to_ps):
    """Cut a device's time into computing, copying and idle; see `device_parts`.

    Args:
        busy_start: Starts of the times in which some kernel ran, disjoint and rising.
        busy_end: Their ends.
        copy_start: Starts of its copies, rising.
        copy_end: Their ends.
        from_ps: Where to begin.
        to_ps: Where to end.

    Returns:
        Start, end, phase and copy (-1: none) of each part; the parts follow on each other, idle
        ones are not attributed. A moment of several copies is that of the one that began first.
    """
    most = 2 * (2 * len(busy_start) + 2 * len(copy_start)) + 4
    start = np.empty(most, np.int64)
    end = np.empty(most, np.int64)
    phase = np.empty(most, np.uint8)
    copy = np.empty(most, np.int64)
    n = 0
    at = from_ps
    b = 0
    c = 0
    current = -1  # the copy that began first of those that go on
    while at < to_ps:
        while b < len(busy_start) and busy_end[b] <= at:
            b += 1
        if b < len(busy_start) and busy_start[b] <= at:
            until, what, which = busy_end[b], _COMPUTE, -1
        else:
            before = min(to_ps, busy_start[b]) if b < len(busy_start) else to_ps
            if current >= 0 and copy_end[current] <= at:
                current = -1
            while current < 0 and c < len(copy_start) and copy_start[c] <= at:
                if copy_end[c] > at:
                    current = c
                c += 1
            if current >= 0:
                until, what, which = min(before, copy_end[current]), _COPY, current
            else:
                upcoming = copy_start[c] if c < len(copy_start) else before
                until, what, which = min(before, upcoming), _UNATTRIBUTED, -1
        until = min(until, to_ps)
        start[n], end[n], phase[n], copy[n] = at, until, what, which
        n += 1
        at = until
    return start[:n], end[:n], phase[:n], copy[:n]


@jit
def walk_back(spans, lanes, links, calls, devices):
    """Cut each span into what its end was waiting for; see `walk.walk_back`.

    Args:
        spans: Start and end of each; the lane on which what ended it was launched (-1: unknown);
            when its launch began, when it returned, and whether that is proved.
        lanes: First segment of each lane; whether it is the program's; start, end, doing, row and
            call of each segment.
        links: First link of each lane; of each link when the lane began, who set it going, when,
            and whether that is proved.
        calls: Of what ended in calls, the call, when, the lane, whether it is its beginning, and
            whether nothing of the call went on after it.
        devices: Of what ran on devices, by its end: start, end, phase, row, lane of its launch,
            when that began and returned, whether that is proved, the event of the same device that
            ended last before it began (-1: none), and its stream. Where the walk is not to go
            through devices, all but ends and streams are empty.

    Returns:
        Start, end, phase, row and span of each part, the device event it is (-1: none), and whether
        it is proved. The parts of a span are in falling order of time.
    """
    span_start, span_end, span_lane, span_launch_start, span_launch_end, span_is_proved = spans
    lane_begin, is_program, segment_start, segment_end, doing, segment_row, segment_call = lanes
    link_begin, link_at, link_from_lane, link_from, link_is_proved = links
    call_id, call_ps, call_lane, call_begins, call_ends = calls
    device_start, device_end, device_phase, device_row = devices[:4]
    device_launch_lane, device_launch_start, device_launch_end, device_is_proved = devices[4:8]
    device_before, device_stream = devices[8:]
    room = 4 * len(span_start) + 1024
    start = np.empty(room, np.int64)
    end = np.empty(room, np.int64)
    phase = np.empty(room, np.uint8)
    row = np.empty(room, np.int32)
    span = np.empty(room, np.int64)
    event = np.empty(room, np.int64)
    proved = np.empty(room, np.bool_)
    n = 0
    for g in range(len(span_start)):
        floor = span_start[g]
        t = span_end[g]
        lane = span_lane[g]
        launched, returned = span_launch_start[g], span_launch_end[g]
        at_launch = True  # t is where something began that `lane` launched
        on_device = np.int64(-1)  # the device event to go on with; -1: what ended last
        is_proved = span_is_proved[g]
        call = np.int64(0)  # the last that the walk came through
        jumps = 0
        while t > floor:
            # A round accounts for [since, t), `what` of `whose`; the next goes on at `next_lane`.
            # A link that is taken for granted leaves unproved what it bridges, and all before that.
            since, what, whose, which = floor, _UNATTRIBUTED, np.int32(-1), np.int64(-1)
            next_lane, next_proved, next_at_launch, next_on_device = (
                lane,
                is_proved,
                False,
                np.int64(-1),
            )
            if at_launch:
                if lane != DEVICE_LANE:
                    if returned < t:
                        since, what, next_at_launch = returned, _QUEUED, True
                    elif launched < t:
                        since, what = launched, _LAUNCH
                    else:
                        since = t
            elif lane == DEVICE_LANE:
                d = on_device
                if d < 0:
                    d = np.searchsorted(device_end, t, side="right") - 1
                if d < 0:
                    if not len(device_end):
                        what = _OTHER_DEVICE  # the trace holds nothing of it
                elif not len(device_start) and device_end[d] <= floor:
                    what = _RUNTIME  # that which stands idle since: until the host heard of it
                elif not len(device_start) and device_end[d] == t:
                    what = _OTHER_DEVICE
                elif device_end[d] < t:
                    what = _QUEUED if on_device >= 0 else _RUNTIME  # until the host heard of it
                    since, next_on_device = device_end[d], d
                else:
                    since, what, whose, which = device_start[d], device_phase[d], device_row[d], d
                    before = device_before[d]
                    ended = device_end[before] if before >= 0 else _LONG_AGO
                    if device_launch_lane[d] >= 0 and device_launch_start[d] > ended:
                        next_lane, next_at_launch = device_launch_lane[d], True
                        next_proved = is_proved and device_is_proved[d]
                        launched, returned = device_launch_start[d], device_launch_end[d]
                    elif before >= 0:
                        next_on_device = before
                        next_proved = is_proved and device_stream[before] == device_stream[d]
                    else:
                        next_at_launch = True  # of unknown launch: the rest is not attributed
            else:
                low, high = lane_begin[lane], lane_begin[lane + 1]
                k = low + np.searchsorted(segment_start[low:high], t) - 1
                low_link, high_link = link_begin[lane], link_begin[lane + 1]
                w = low_link + np.searchsorted(link_at[low_link:high_link], t, side="right") - 1
                ended = segment_end[k] if k >= low else _LONG_AGO
                if ended >= t:
                    since, what, whose = segment_start[k], doing[k], segment_row[k]
                    if segment_call[k] != 0:
                        call = segment_call[k]
                    if doing[k] == _CALL:
                        what, whose = _RUNTIME, np.int32(-1)
                        c = _last_of_call(call_id, call_ps, segment_call[k], t)
                        if segment_call[k] == 0:
                            is_proved = next_proved = False  # which thread's doing is not told
                        elif c >= 0 and call_ps[c] > since and call_lane[c] != lane:
                            # A caller waits for all of its call, so for what ended last of it.
                            since, next_lane = call_ps[c], call_lane[c]
                            is_proved = next_proved = is_proved and call_ends[c]
                    elif doing[k] == _WAIT:
                        what, whose = _RUNTIME, np.int32(-1)
                        d = np.searchsorted(device_end, t, side="right") - 1
                        if d >= 0 and device_end[d] > since:
                            is_told = _is_of_one_stream(device_end, device_stream, since, d)
                            if len(device_start) and device_launch_lane[d] == lane:
                                is_told |= (
                                    device_launch_start[d] >= since
                                )  # a copy waits for itself
                            is_proved = next_proved = is_proved and is_told
                            since, next_lane = device_end[d], DEVICE_LANE
                elif w >= low_link and link_at[w] >= ended:
                    what = _RUNTIME
                    is_proved = next_proved = is_proved and link_is_proved[w]
                    if link_from[w] >= ended:
                        since, next_lane = link_from[w], link_from_lane[w]
                    else:
                        since = ended  # handed over earlier: the thread was not free
                elif is_program[lane]:
                    since, what = ended, _PROGRAM
                else:
                    # What set the thread going is not told: not before what ended last in the call,
                    # or before the call itself.
                    c = _last_of_call(call_id, call_ps, call, t)
                    if c >= 0:
                        since, next_lane = call_ps[c], call_lane[c]
                        is_proved = next_proved = is_proved and call_begins[c]
            since = min(max(since, floor), t)  # never forward, whatever the times: it must end
            if since < t:
                jumps = 0
            else:
                jumps += 1
                if jumps > _MOST_JUMPS:
                    since, what, whose, which = floor, _UNATTRIBUTED, np.int32(-1), np.int64(-1)
            if (
                n > 0
                and span[n - 1] == g
                and phase[n - 1] == what
                and row[n - 1] == whose
                and event[n - 1] == which
                and proved[n - 1] == is_proved
            ):
                start[n - 1] = since
            elif since < t:
                if n == room:
                    room *= 2
                    start, end = _longer(start, room), _longer(end, room)
                    phase, row = _longer(phase, room), _longer(row, room)
                    span, event = _longer(span, room), _longer(event, room)
                    proved = _longer(proved, room)
                start[n], end[n], phase[n], row[n] = since, t, what, whose
                span[n], event[n], proved[n] = g, which, is_proved
                n += 1
            t, lane, is_proved = since, next_lane, next_proved
            at_launch, on_device = next_at_launch, next_on_device
    return start[:n], end[:n], phase[:n], row[:n], span[:n], event[:n], proved[:n]


@jit
def _last_of_call(call_id, call_ps, call, at_ps):
    """Return what ended last in a call by some moment, -1 for none."""
    low, high = 0, len(call_id)
    while low < high:
        middle = (low + high) // 2
        if call_id[middle] < call or (call_id[middle] == call and call_ps[middle] <= at_ps):
            low = middle + 1
        else:
            high = middle
    return low - 1 if call != 0 and low > 0 and call_id[low - 1] == call else -1


@jit
def _is_of_one_stream(device_end, device_stream, since, last):
    """Return whether all that ended on devices after some moment, up to `last`, is of one stream.

    A stream does one thing after the other: whatever was waited for, it had ended by then.
    """
    k = last - 1
    while k >= 0 and device_end[k] > since:
        if device_stream[k] != device_stream[last]:
            return False
        k -= 1
    return True


@jit
def _longer(array, room):
    grown = np.empty(room, array.dtype)
    grown[: len(array)] = array
    return grown
