"""Explains ops by the kernel registry alone, if their types are known.

With a capture, the placement is replayed, which shows more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.format import listed, percent_text
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.kernel_types import support_of
from traceanalyzer.placement.op_definitions import InputTypesError
from traceanalyzer.placement.registry import DEFAULT, nearest
from traceanalyzer.placement.rewrites import RUNTIMES_OWN, original

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from traceanalyzer.placement.registry import Kernel, Nearest, Registry


def explanation_by_registry(
    op_type: str, input_types: Sequence[str] | None, version: str | None
) -> PlacementExplanation:
    """Explain an op that ran on the CPU by the kernel registry alone."""
    kernels = nearest(version)
    rewritten = original(op_type)
    types = (op_type,) if rewritten is None else rewritten.ops
    is_partial = rewritten is not None and not rewritten.is_complete
    if is_partial or len(types) != 1 or op_type in RUNTIMES_OWN:
        return PlacementExplanation(type=types[0] if types else op_type)
    if rewritten is None:
        return _by_registry(op_type, input_types, kernels)
    # oneDNN and grappler only rewrite ops whose types their own kernels support (`IsOpSupported`
    # and similar functions of mkl_layout_pass.cc; remapper.cc).
    explanation = _by_registry(types[0], None, kernels)
    named = [kernel.constraints.get("T") for kernel in kernels.registry.kernels(op_type)]
    if not named or not all(named):
        return explanation
    accepted = frozenset[object]().union(*filter(None, named))
    missing = tuple(t for t in explanation.types_missing if t in accepted)
    return replace(explanation, types_missing=missing)


def _by_registry(
    op_type: str, input_types: Sequence[str] | None, kernels: Nearest
) -> PlacementExplanation:
    registry = kernels.registry
    on_gpu = [k for k in registry.kernels(op_type) if k.device_type in {GPU, DEFAULT}]
    blocker: Blocker | None = None
    if registry.kernels(op_type) and not on_gpu:
        blocker = Blocker(kind=BlockerKind.NO_KERNEL, type=op_type)
    elif on_gpu and input_types is not None:
        blocker = _by_types(registry, op_type, input_types, on_gpu)
    elif on_gpu:
        missing = _without_gpu_kernel(registry, op_type)
        return PlacementExplanation(type=op_type, types_missing=missing)
    if blocker is None:
        return PlacementExplanation(type=op_type)
    return PlacementExplanation(
        type=op_type, blockers=(blocker,), basis="registry", certainty=kernels.certainty
    )


def _by_types(
    registry: Registry, op_type: str, input_types: Sequence[str], on_gpu: Sequence[Kernel]
) -> Blocker | None:
    """Return the types that no GPU kernel accepts; other attributes may have any value."""
    definition = registry.definition(op_type)
    try:
        known = {} if definition is None else definition.attributes_of_inputs(input_types)
    except InputTypesError:
        return None
    refusals = [[name for name in k.mismatches(known) if name in known] for k in on_gpu]
    if not all(refusals):
        return None
    refused = {name: known[name] for name in min(refusals, key=len)}
    return Blocker(kind=BlockerKind.ATTRIBUTES, type=op_type, attributes=refused)


def _without_gpu_kernel(registry: Registry, op_type: str) -> tuple[str, ...]:
    """Return the data types for which an op has only CPU kernels.

    If a kernel accepts any type (Cast on a CPU), only types that are named somewhere count: it
    accepts more types than it computes.
    """
    support = support_of(registry, op_type)
    if support is None:
        return ()
    found = {
        dtype
        for name in support.main
        for dtype, extent in support.types[name].items()
        if extent.gpu == "none" and extent.cpu != "none" and dtype in support.named[name]
    }
    return tuple(sorted(found))


def coverage_text(ops: pd.DataFrame, version: str | None) -> str:
    """Return how many ops have types with a GPU kernel in TensorFlow's version.

    For an unknown version, the nearest known one is used. The run's version may lack one of its
    kernels, so the text claims no more than likely.
    """
    kernels = nearest(version)
    of = f"in TensorFlow {kernels.registry.version}"
    if kernels.requested is None:
        of = f"{of} (the version of the run is not known)"
    elif not kernels.exact:
        of = f"{of}, the nearest to {kernels.requested} whose kernels are known"
    types = ops["type"].astype(str)
    able = types.map({op: _has_gpu_kernel(kernels.registry, op) for op in set(types)})
    if not able.any():
        return f"no op here has a GPU kernel {of}"
    took = int(ops["host_self_ps"].sum())
    share = int(ops.loc[able, "host_self_ps"].sum()) / took if took else 0.0
    text = (
        f"ops with a GPU kernel {of}: {int(able.sum()):,} of {len(ops):,} "
        f"({percent_text(share)} of their time); they would likely run on a GPU if their dtypes "
        "and the program's requests allow it"
    )
    without = list(dict.fromkeys(types[~able]))
    return f"{text}; without a GPU kernel: {listed(without)}" if without else text


def _has_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether an op, or each of the ops that it replaces, has a GPU kernel."""
    rewritten = original(op)
    ops = rewritten.ops if rewritten is not None and rewritten.ops else (op,)
    return all(registry.gpu_kernels(each) for each in ops)
