"""Whether a program's steps are a Python loop that runs its ops one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.main_steps import regular_steps
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    import pandas as pd


_REPEATED: Final = re.compile(r"(\d+) ops")  # how `step_inference` names such steps
_FEWEST_STEPS: Final = 3
_FEWEST_OPS: Final = 10  # a step in a function has some eager ops around it
_OF_EACH_STEP: Final = 0.9  # of the steps: what runs less often is not part of a step
_MOST_OF_THEM: Final = 0.75


@dataclass(frozen=True, kw_only=True)
class EagerLoop:
    """Steps whose ops Python runs one by one.

    Attributes:
        ops: How many eager ops a step runs.
        step_ps: How long a regular step takes, the median.
        place: The file, and the lines in it, that most of them come from; "" where not recorded.
    """

    ops: int
    step_ps: int
    place: str


def eager_loop(ops: pd.DataFrame, steps: pd.DataFrame) -> EagerLoop | None:
    """Return the eager loop that a program's steps are; None where graphs do most of their work.

    Args:
        ops: The op table.
        steps: The step table, of the same hosts.
    """
    regular = regular_steps(steps)
    if len(regular) < _FEWEST_STEPS:
        return None
    of_steps = ops[
        (ops["occurrences"] >= _OF_EACH_STEP * len(regular))
        & ~ops["in_input_pipeline"]
        & (ops["role"] == Role.COMPUTE)
    ]
    eager = of_steps[of_steps["is_eager"]]
    repeated = _REPEATED.fullmatch(str(regular["name"].iloc[0]))
    number = int(repeated[1]) if repeated else round(eager["occurrences"].sum() / len(regular))
    if number < _FEWEST_OPS or eager["occurrences"].sum() < _MOST_OF_THEM * (
        of_steps["occurrences"].sum()
    ):
        return None
    return EagerLoop(
        ops=number, step_ps=int(np.median(regular["duration_ps"])), place=_place(eager)
    )


def _place(eager: pd.DataFrame) -> str:
    known = eager.dropna(subset=["source_file", "source_line"])
    if known.empty:
        return ""
    by_file = known.groupby(known["source_file"].astype(str))
    file = str(by_file["occurrences"].sum().idxmax())
    lines = by_file.get_group(file)["source_line"].astype(int)
    last = f"-{lines.max()}" if lines.max() > lines.min() else ""
    return f"{PurePath(file).name}:{lines.min()}{last}"
