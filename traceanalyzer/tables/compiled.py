"""The loops over events that no array operation expresses, compiled by numba."""

from __future__ import annotations

import numpy as np

from traceanalyzer.trace._jit import jit

__all__ = ["align", "innermost", "sum_by"]


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
