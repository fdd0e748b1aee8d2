"""The loops over events that no array operation expresses, compiled by numba."""

from __future__ import annotations

import numpy as np

from traceanalyzer.trace._jit import jit

__all__ = ["innermost", "sum_by"]


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
