"""How much of what ran on the CPU has GPU kernels: what a trace alone tells of a run without GPU.

With a capture the placement is replayed for a machine with a GPU, which tells more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.format import counted, listed, percent_text
from traceanalyzer.placement.registry import nearest
from traceanalyzer.placement.rewrites import original

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.placement.registry import Nearest, Registry


def coverage_text(ops: pd.DataFrame, version: str | None) -> str:
    """Say how many ops are of types that have a GPU kernel.

    Args:
        version: TensorFlow's version, or None. The kernels are those of the nearest that is known:
            a kernel that it has may have been missing in another, so no more than likely is said.
    """
    kernels = nearest(version)
    types = ops["type"].astype(str)
    has = {op: _has_gpu_kernel(kernels.registry, op) for op in dict.fromkeys(types)}
    able = types.map(has)
    count = counted(len(ops), "op")
    if not able.any():
        return f"none of the {count} is of a type that has a GPU kernel {_of(kernels)}"
    took = int(ops["host_self_ps"].sum())
    without = list(dict.fromkeys(types[~able]))
    if without:
        share = int(ops.loc[able, "host_self_ps"].sum()) / took if took else 0.0
        count = f"{int(able.sum()):,} of the {count} ({percent_text(share)} of their time)"
    text = (
        f"{count if without else f'all {count}'} are of types that have a GPU kernel "
        f"{_of(kernels)}: with a GPU they would likely be placed there, as far as the types of "
        "their data and the program's own requests allow"
    )
    return f"{text}; none has {listed(without)}" if without else text


def _has_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether an op has one, or all have that a rewrite made it of."""
    rewritten = original(op)
    ops = rewritten.ops if rewritten is not None and rewritten.ops else (op,)
    return all(bool(registry.gpu_kernels(each)) for each in ops)


def _of(kernels: Nearest) -> str:
    of = f"in TensorFlow {kernels.registry.version}"
    if kernels.exact:
        return of
    if kernels.requested is None:
        return f"{of} (the version of the run is not known)"
    return f"{of}, the nearest to {kernels.requested} of which the kernels are known"
