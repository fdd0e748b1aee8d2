"""Which steps are alike, and which of them figures per step are computed from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.arrays import mask
from traceanalyzer.tables.vocabulary import Kind, Role

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.program_calls import ProgramCalls
    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane

REGULAR: Final = "regular"
WARM_UP: Final = "warm_up"
OUTLIER: Final = "outlier"
PARTIAL: Final = "partial"

_FEWEST: Final = 3  # steps: of fewer none can be said to be like the rest
# How far from the median a step may lie: so many standard deviations, as the median of deviations
# gives them for a normal distribution; and at least a quarter of the median, since steps may differ
# by next to nothing.
_DEVIATIONS: Final = 5.0
_SIGMA_OF_MAD: Final = 1.4826
_LEAST_SHARE: Final = 0.25
# Of XLA (`CpuCompiler::...Compile`, `backend_compile`) and of the choice of kernels by trial.
_PREPARES: Final = re.compile(r"[Cc]ompile|[Aa]utotun")

_REPEATED: Final = re.compile(r"(\d+) ops")  # how `step_inference` names such steps
_FEWEST_OPS: Final = 10  # a step in a function has some eager ops around it
_OF_EACH_STEP: Final = 0.9  # of the steps: what runs less often is not part of a step
_MOST_OF_THEM: Final = 0.75


def step_kinds(
    start_ps: Ints, duration_ps: Ints, is_partial: Flags, prepared: Ints
) -> NDArray[np.object_]:
    """Return the kind of each of the steps of one name, given by rising start.

    `warm_up`: the first ones, as long as they are slower than the rest or something is traced,
    compiled or tuned in them. `outlier`: far from the median of all. `partial`: the recording holds
    only a part. `regular`: the others.
    """
    kinds = np.full(len(start_ps), REGULAR, object)
    kinds[is_partial] = PARTIAL
    whole = np.flatnonzero(~is_partial)
    duration = duration_ps[whole].astype(np.float64)
    far = np.zeros(len(whole), np.int8)
    if len(whole) >= _FEWEST:
        median = np.median(duration)
        spread = _SIGMA_OF_MAD * np.median(np.abs(duration - median))
        limit = max(_DEVIATIONS * spread, _LEAST_SHARE * median)
        far = np.sign(duration - median).astype(np.int8) * (np.abs(duration - median) > limit)
    kinds[whole[far != 0]] = OUTLIER
    begin, end = start_ps[whole], start_ps[whole] + duration_ps[whole]
    prepares = np.searchsorted(prepared, end) > np.searchsorted(prepared, begin)
    for leads in ((far > 0) | prepares, far > 0):
        first = int(np.argmin(np.append(leads, False)))
        if first * 2 <= len(whole):  # what all of them do is no warming up
            kinds[whole[:first]] = WARM_UP
            break
    return kinds


def prepared_ps(plane: Plane, names: Names, calls: ProgramCalls) -> Ints:
    """Return when a function was traced, a program compiled or kernels tuned; sorted, int64."""
    prepares = mask(
        kind == Kind.OTHER and not name.startswith("$") and _PREPARES.search(name) is not None
        for name, kind in zip(plane.names, names.kind.tolist(), strict=True)
    )
    at = [calls.start_ps[calls.traced]]
    if prepares.any():
        at.append(plane.start_ps[prepares[plane.name_of]])
    return np.sort(np.concatenate(at))


def main_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps of the name that took most time: training, where it also evaluates."""
    if steps.empty:
        return steps
    total = steps.groupby(steps["name"].astype(str))["duration_ps"].sum()
    return steps[steps["name"].astype(str) == str(total.idxmax())]


def regular_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the main steps that are no warm-up, outlier or cut; all of them if none is regular."""
    main = main_steps(steps)
    regular = main[main["kind"].astype(str) == REGULAR]
    return regular if len(regular) else main


@dataclass(frozen=True, kw_only=True)
class EagerLoop:
    """Steps whose ops Python runs one by one."""

    ops: int  #: How many eager ops a step runs
    step_ps: int  #: The median duration of a regular step
    place: str  #: The file, and the lines in it, that most of them come from; "" where not recorded


def eager_loop(ops: pd.DataFrame, steps: pd.DataFrame) -> EagerLoop | None:
    """Return the eager loop that a program's steps are; None where graphs do most of their work."""
    regular = regular_steps(steps)
    if len(regular) < _FEWEST:
        return None
    of_steps = ops[
        (ops["occurrences"] >= _OF_EACH_STEP * len(regular))
        & ~ops["in_input_pipeline"]
        & (ops["role"] == Role.COMPUTE)
    ]
    eager = of_steps[of_steps["is_eager"]]
    runs = eager["occurrences"].sum()
    repeated = _REPEATED.fullmatch(str(regular["name"].iloc[0]))
    number = int(repeated[1]) if repeated else round(runs / len(regular))
    if number < _FEWEST_OPS or runs < _MOST_OF_THEM * of_steps["occurrences"].sum():
        return None
    duration_ps = int(np.median(regular["duration_ps"]))
    return EagerLoop(ops=number, step_ps=duration_ps, place=_place(eager))


def _place(eager: pd.DataFrame) -> str:
    known = eager.dropna(subset=["source_file", "source_line"])
    if known.empty:
        return ""
    by_file = known.groupby(known["source_file"].astype(str))
    file = str(by_file["occurrences"].sum().idxmax())
    lines = by_file.get_group(file)["source_line"].astype(int)
    last = f"-{lines.max()}" if lines.max() > lines.min() else ""
    return f"{PurePath(file).name}:{lines.min()}{last}"
