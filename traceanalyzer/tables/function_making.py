"""When functions were traced and made ready: what the first call of each costs.

`tf.function-graph_building` is around tracing (polymorphic_function/tracing_compilation.py). What a
function's call does before its kernel runs is instantiation, grappler's optimization above all
(core/common_runtime/eager/execute.cc); of a later call that is next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Plane


_TRACING: Final = "tf.function-graph_building"
_CALL: Final = "EagerLocalExecute: __inference_"
_RUNS: Final = "EagerKernelExecute"


class FunctionMaking(NamedTuple):
    """When functions were made, in no order; spans may overlap.

    Attributes:
        start_ps: Starts, int64.
        end_ps: Ends, int64.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


NOTHING_MADE: Final = FunctionMaking(np.empty(0, np.int64), np.empty(0, np.int64))


def function_making(plane: Plane) -> FunctionMaking:
    """Return when functions were traced and made ready on the threads of a host."""
    traced = plane.named(_TRACING)
    calls = plane.named(*(name for name in plane.names if name.startswith(_CALL)))
    runs = plane.named(_RUNS)
    runs = runs[np.lexsort((plane.start_ps[runs], plane.line_of[runs]))]
    keys = _keys(plane.line_of[runs], plane.start_ps[runs])
    following = np.searchsorted(keys, _keys(plane.line_of[calls], plane.start_ps[calls]))
    ends = plane.end_ps[calls].copy()
    found = following < len(runs)
    run = runs[following[found]]
    is_own = (plane.line_of[run] == plane.line_of[calls[found]]) & (
        plane.start_ps[run] < ends[found]
    )
    ends[found] = np.where(is_own, plane.start_ps[run], plane.start_ps[calls[found]])
    ends[~found] = plane.start_ps[calls[~found]]
    return FunctionMaking(
        np.concatenate([plane.start_ps[traced], plane.start_ps[calls]]),
        np.concatenate([plane.end_ps[traced], ends]),
    )


def _keys(line: NDArray[np.int32], at_ps: NDArray[np.int64]) -> NDArray[np.void]:
    """Return pairs that sort by line, then by time."""
    pairs = np.empty(len(line), dtype=[("line", np.int64), ("at", np.int64)])
    pairs["line"], pairs["at"] = line, at_ps
    return pairs
