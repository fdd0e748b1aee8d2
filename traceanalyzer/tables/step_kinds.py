"""Which steps are like the others, and which are left out of a figure for all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.vocabulary import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.program_calls import ProgramCalls
    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane


REGULAR: Final = "regular"
WARM_UP: Final = "warm_up"
OUTLIER: Final = "outlier"
PARTIAL: Final = "partial"

_FEWEST: Final = 3  # steps; of fewer none can be told to be like the rest
# How far from the median a step may lie: so many standard deviations, as the median of deviations
# gives them for a normal distribution; and at least a quarter of the median, for steps may differ
# by next to nothing.
_DEVIATIONS: Final = 5.0
_SIGMA_OF_MAD: Final = 1.4826
_LEAST_SHARE: Final = 0.25

# Of XLA (`CpuCompiler::...Compile`, `backend_compile`) and of the choice of kernels by trial.
_PREPARES: Final = re.compile(r"[Cc]ompile|[Aa]utotun")


def step_kinds(
    start_ps: NDArray[np.int64],
    duration_ps: NDArray[np.int64],
    is_partial: NDArray[np.bool_],
    once_ps: NDArray[np.int64],
) -> NDArray[np.object_]:
    """Tell of what kind each of the steps of one name is.

    `warm_up`: the first ones, as long as they are slower than the rest or something is traced,
    compiled or tuned in them. `outlier`: far from the median of all. `partial`: the recording holds
    only a part. `regular`: the others.

    Args:
        start_ps: Starts, rising, int64.
        duration_ps: Durations, int64.
        is_partial: Which are not whole.
        once_ps: When something was done that is done once: `once_only`.

    Returns:
        The kind of each step.
    """
    kinds = np.full(len(start_ps), REGULAR, object)
    kinds[is_partial] = PARTIAL
    whole = np.flatnonzero(~is_partial)
    took = duration_ps[whole].astype(np.float64)
    far = np.zeros(len(whole), np.int8)
    if len(whole) >= _FEWEST:
        median = np.median(took)
        spread = _SIGMA_OF_MAD * np.median(np.abs(took - median))
        limit = max(_DEVIATIONS * spread, _LEAST_SHARE * median)
        far = np.sign(took - median).astype(np.int8) * (np.abs(took - median) > limit)
    kinds[whole[far != 0]] = OUTLIER
    begin, end = start_ps[whole], start_ps[whole] + duration_ps[whole]
    prepares = np.searchsorted(once_ps, end) > np.searchsorted(once_ps, begin)
    for leads in ((far > 0) | prepares, far > 0):
        first = int(np.argmin(np.append(leads, False)))
        if first * 2 <= len(whole):  # what all of them do is no warming up
            kinds[whole[:first]] = WARM_UP
            break
    return kinds


def once_only(plane: Plane, names: Names, found: ProgramCalls) -> NDArray[np.int64]:
    """Return when a function was traced, a program compiled or kernels tuned; sorted, int64.

    Args:
        plane: The host plane.
        names: Its event names, classified.
        found: What its threads set going.
    """
    prepares = np.fromiter(
        (
            kind == Kind.OTHER and not name.startswith("$") and _PREPARES.search(name) is not None
            for name, kind in zip(plane.names, names.kind.tolist(), strict=True)
        ),
        np.bool_,
        len(plane.names),
    )
    at = [found.start_ps[found.traced]]
    if prepares.any():
        at.append(plane.start_ps[prepares[plane.name_of]])
    return np.sort(np.concatenate(at))
