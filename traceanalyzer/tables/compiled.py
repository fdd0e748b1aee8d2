"""The loops over events that no array operation expresses, compiled by numba."""

from __future__ import annotations

import numpy as np

from traceanalyzer.trace._jit import jit

__all__ = ["align", "begun_by_call", "flatten", "innermost", "sum_by"]


@jit
def innermost(order, line_begin, start, end, is_container, out):
    """Fill `out` with the innermost container around each event; see `nesting.innermost`."""
    stack = np.empty(64, np.int64)
    for line in range(len(line_begin) - 1):
        depth = 0
        for k in range(line_begin[line], line_begin[line + 1]):
            e = order[k]
            # One without duration belongs to the event it ends with, should that be so.
            while depth > 0 and end[stack[depth - 1]] <= start[e]:
                if end[e] == start[e] and end[stack[depth - 1]] == start[e]:
                    break
                depth -= 1
            out[e] = stack[depth - 1] if depth > 0 else -1
            if is_container[e]:
                if depth == len(stack):
                    grown = np.empty(2 * depth, np.int64)
                    grown[:depth] = stack
                    stack = grown
                stack[depth] = e
                depth += 1


@jit
def sum_by(codes, values, out):
    """Add each value to `out` at its code; see `nesting.sum_by`."""
    for k in range(len(codes)):
        if codes[k] >= 0:
            out[codes[k]] += values[k]


@jit
def align(
    event_op,
    event_begin,
    event_end,
    record_op,
    record_signature,
    record_begin,
    record_end,
    is_open,
    most_pairs,
    out,
):
    """Fill `out` with the record of each event, stretch by stretch; see `eager_alignment`."""
    for s in range(len(event_begin)):
        e, r = event_begin[s], record_begin[s]
        n, m = event_end[s] - e, record_end[s] - r
        shorter = min(n, m)
        same = 0
        while same < shorter and event_op[e + same] == record_op[r + same]:
            same += 1
        if same == shorter and (n == m or is_open[s]):
            for k in range(same):
                out[e + k] = r + k
        elif n > 0 and m > 0 and n * m <= most_pairs:
            align_uncertain(
                event_op[e : e + n],
                record_op[r : r + m],
                record_signature[r : r + m],
                r,
                out[e : e + n],
            )


@jit
def align_uncertain(event_op, record_op, signature, first_record, out):
    """Pair the events that every longest common subsequence pairs, with one signature alone."""
    n, m = len(event_op), len(record_op)
    before = common(event_op, record_op)
    after = common(event_op[::-1], record_op[::-1])
    longest = before[n, m]
    for i in range(n):
        found = -1
        for j in range(m + 1):
            if before[i, j] + after[n - i - 1, m - j] == longest:
                found = -1  # one of them does without the event
                break
            if j == m or event_op[i] != record_op[j]:
                continue
            if before[i, j] + 1 + after[n - i - 1, m - j - 1] == longest:
                if found >= 0 and signature[found] != signature[j]:
                    found = -1
                    break
                found = j
        if found >= 0:
            out[i] = first_record + found


@jit
def common(a, b):
    """Return the length of the longest common subsequence of each head of `a` and each of `b`."""
    length = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                length[i + 1, j + 1] = length[i, j] + 1
            else:
                length[i + 1, j + 1] = max(length[i, j + 1], length[i + 1, j])
    return length


@jit
def flatten(order, line_begin, start, end, label):
    """Lay each line's nested events out as segments that do not overlap; see `lanes`.

    Only events with a label (0 or more) count. Returns the first segment of each line, and of each
    segment its start, its end and the innermost event.
    """
    n_lines = len(line_begin) - 1
    most = 0
    for k in range(len(label)):
        if label[k] >= 0:
            most += 2
    begin = np.zeros(n_lines + 1, np.int64)
    seg_start = np.empty(most, np.int64)
    seg_end = np.empty(most, np.int64)
    seg_event = np.empty(most, np.int64)
    stack = np.empty(64, np.int64)
    n = 0
    for line in range(n_lines):
        depth = 0
        cursor = np.int64(-(2**62))
        for k in range(line_begin[line], line_begin[line + 1] + 1):
            last = k == line_begin[line + 1]
            e = np.int64(-1) if last else order[k]
            if not last and label[e] < 0:
                continue
            while depth > 0 and (last or end[stack[depth - 1]] <= start[e]):
                top = stack[depth - 1]
                if end[top] > cursor:
                    seg_start[n], seg_end[n], seg_event[n] = cursor, end[top], top
                    n += 1
                    cursor = end[top]
                depth -= 1
            if last:
                break
            if depth > 0 and start[e] > cursor:
                seg_start[n], seg_end[n], seg_event[n] = cursor, start[e], stack[depth - 1]
                n += 1
            cursor = max(cursor, start[e])
            if depth == len(stack):
                grown = np.empty(2 * depth, np.int64)
                grown[:depth] = stack
                stack = grown
            stack[depth] = e
            depth += 1
        begin[line + 1] = n
    return begin, seg_start[:n], seg_end[:n], seg_event[:n]


@jit
def begun_by_call(
    turn_lane,
    turn_start,
    turn_end,
    turn_call,
    link_lane,
    link_at,
    call_id,
    call_ps,
):
    """Return what began each executor's turn: the last that ended before it in its call.

    Turns and links go by lane, then by time; calls by id, then by time. -1 where a link tells it
    already, where the turn is within another, and where nothing of the call ended before.
    """
    out = np.full(len(turn_lane), -1, np.int64)
    link = 0
    lane = -1
    busy_until = np.int64(0)
    for k in range(len(turn_lane)):
        if turn_lane[k] != lane:
            lane = turn_lane[k]
            busy_until = np.int64(-(2**62))
        begins = turn_start[k]
        is_inner = begins < busy_until
        while link < len(link_lane) and (
            link_lane[link] < lane or (link_lane[link] == lane and link_at[link] <= begins)
        ):
            link += 1
        told = link > 0 and link_lane[link - 1] == lane and link_at[link - 1] >= busy_until
        busy_until = max(busy_until, turn_end[k])
        if is_inner or told or turn_call[k] == 0:
            continue
        low, high = 0, len(call_id)
        while low < high:
            middle = (low + high) // 2
            if call_id[middle] < turn_call[k] or (
                call_id[middle] == turn_call[k] and call_ps[middle] <= begins
            ):
                low = middle + 1
            else:
                high = middle
        if low > 0 and call_id[low - 1] == turn_call[k]:
            out[k] = low - 1
    return out
