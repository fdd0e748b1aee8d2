"""The one sentence at the top of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from traceanalyzer.run import Run

__all__ = ["verdict"]


def verdict(run: Run, on_cpu: pd.DataFrame, explained: Mapping[str, float | None]) -> str:
    """Say in one sentence what the run shows.

    Args:
        run: The run.
        on_cpu: Its CPU-placed ops, input pipeline and runtime overhead not counted.
        explained: Shares of their time by certainty.
    """
    placements = run.ops["placement"].astype(str)
    if run.ops.empty:
        return "The trace holds no op, so there is no placement to explain."
    if placements.str.startswith(("xla", "tpu")).any() and on_cpu.empty:
        n = int(placements.str.startswith(("xla", "tpu")).sum())
        return (
            f"The trace holds {counted(n, 'XLA op')}, compiled for the accelerator, and no "
            "TensorFlow op that was placed on a CPU: there is no placement to explain."
        )
    took = _time(int(on_cpu["host_self_ps"].sum()))
    if any(h.tables.facts.pluggable_used for h in run.hosts):
        return (
            f"A pluggable device was used, whose own work is not in the trace; "
            f"{counted(len(on_cpu), 'op')} ran on the CPU beside it ({took})."
        )
    if not run.gpu_used:
        described = any(h.tables.facts.accelerators for h in run.hosts)
        return (
            "As far as the trace shows, TensorFlow used no GPU"
            f"{', although the machine has one' if described else ''}: "
            f"{counted(len(on_cpu), 'op')} ran on the CPU, input pipeline not counted ({took})."
        )
    if on_cpu.empty:
        return (
            "No computation of the model is seen on the CPU: what ran there is the input pipeline "
            "and TensorFlow's own bookkeeping."
        )
    share = (explained.get("certain") or 0.0) + (explained.get("likely") or 0.0)
    return f"{counted(len(on_cpu), 'op')} ran on the CPU beside the GPU ({took}); " + (
        f"{share:.0%} of that time is explained." if share else "why is not told by the trace."
    )


def _time(ps: int) -> str:
    for unit, size in (("s", 1e12), ("ms", 1e9), ("µs", 1e6)):
        if ps >= size:
            return f"{ps / size:,.3g} {unit}"
    return "0 µs" if not ps else f"{ps / 1e6:.3f} µs"
