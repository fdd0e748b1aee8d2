"""What helps ops that run inside an input pipeline: they stay on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes.knowledge.finding_text import runs_for_dataset
from traceanalyzer.model import Fix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker

__all__ = ["FASTER", "all_in_pipelines"]

FASTER: Final = Fix(
    text=(
        "If the model waits for input, make the pipeline faster rather than move it: parallel "
        "calls and a prefetch at its end."
    ),
    code=(
        "dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)"
    ),
)


def all_in_pipelines(members: Iterable[tuple[CpuOp, RecordedBlocker]]) -> bool:
    """Return whether all of these ops run in functions that input pipelines call."""
    return all(runs_for_dataset(cpu_op, blocker) for cpu_op, blocker in members)
