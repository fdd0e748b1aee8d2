"""Explains CPU ops from the kernel registry alone, for traces without a capture file.

With a capture file, a replay of the placement explains more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pandas as pd

from traceanalyzer.data_files import toml
from traceanalyzer.format import listed, percent_text
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.kernel_tables import InputTypesError
from traceanalyzer.placement.kernel_types import support_of
from traceanalyzer.placement.registry import DEFAULT, Registry, nearest


def explanation_by_registry(
    op_type: str, input_types: Sequence[str] | None, version: str | None
) -> PlacementExplanation:
    """Explain from the kernel registry alone why an op ran on the CPU."""
    kernels, rewritten = nearest(version), original(op_type)
    registry = kernels.registry
    ops = (op_type,) if rewritten is None else rewritten.ops
    unknown = PlacementExplanation(type=ops[0] if ops else op_type)
    is_partial = rewritten is not None and not rewritten.is_complete
    if is_partial or len(ops) != 1 or op_type in RUNTIMES_OWN:
        return unknown
    op, blocker = unknown.type, None
    on_gpu = any(k.device_type in {GPU, DEFAULT} for k in registry.kernels(op))
    if registry.kernels(op) and not on_gpu:
        blocker = Blocker(kind=BlockerKind.NO_KERNEL, type=op)
    elif on_gpu and (rewritten is not None or input_types is None):
        missing = _without_gpu_kernel(registry, op)
        if rewritten is not None:
            # oneDNN and grappler only rewrite ops whose types their own kernels support
            # (`IsOpSupported` and similar functions of mkl_layout_pass.cc; remapper.cc).
            named = [kernel.constraints.get("T") for kernel in registry.kernels(op_type)]
            is_known = bool(named) and all(named)
            accepted = {dtype for types in named for dtype in types or ()}
            missing = tuple(t for t in missing if t in accepted or not is_known)
        return replace(unknown, types_missing=missing)
    elif on_gpu and input_types is not None:
        blocker = _by_types(registry, op, input_types)
    if blocker is None:
        return unknown
    return replace(unknown, blockers=(blocker,), basis="registry", certainty=kernels.certainty)


def _by_types(registry: Registry, op_type: str, input_types: Sequence[str]) -> Blocker | None:
    """Return a blocker if no GPU kernel accepts the input types, even with other attributes."""
    definition = registry.definition(op_type)
    try:
        known = {} if definition is None else definition.attributes_of_inputs(input_types)
    except InputTypesError:
        return None
    on_gpu = [k for k in registry.kernels(op_type) if k.device_type in {GPU, DEFAULT}]
    refusals = [[name for name in k.mismatches(known) if name in known] for k in on_gpu]
    if not all(refusals):
        return None
    refused = {name: known[name] for name in min(refusals, key=len)}
    return Blocker(kind=BlockerKind.ATTRIBUTES, type=op_type, attributes=refused)


def _without_gpu_kernel(registry: Registry, op_type: str) -> tuple[str, ...]:
    """Return the data types for which an op has a CPU kernel but no GPU kernel."""
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
    """Return a clause that says how many ops have a GPU kernel in the nearest version."""
    kernels = nearest(version)
    of = f"in TensorFlow {kernels.registry.version}"
    if kernels.requested is None:
        of = f"{of} (the version of the run is unknown)"
    elif not kernels.exact:
        of = f"{of}, the nearest version to {kernels.requested} with known kernels"
    types = ops["type"].astype(str)
    able = types.map({op: _has_gpu_kernel(kernels.registry, op) for op in set(types)})
    if not able.any():
        return f"no op here has a GPU kernel {of}"
    took = int(ops["host_self_ps"].sum())
    share = int(ops.loc[able, "host_self_ps"].sum()) / took if took else 0.0
    text = (
        f"ops with a GPU kernel {of}: {int(able.sum()):,} of {len(ops):,} "
        f"({percent_text(share)} of the host time), which likely run on a GPU if their "
        "dtypes and requested devices allow it"
    )
    without = list(dict.fromkeys(types[~able]))
    return f"{text}; without a GPU kernel: {listed(without)}" if without else text


def _has_gpu_kernel(registry: Registry, op: str) -> bool:
    rewritten = original(op)
    ops = rewritten.ops if rewritten is not None and rewritten.ops else (op,)
    return all(map(registry.gpu_kernels, ops))


# --- Ops that no program creates ----------------------------------------------------------------
#
# TensorFlow's rewrites replace the program's ops with them, often only on the CPU: their blockers
# are those of the replaced ops. The rewrites are those of 2.12 to 2.21.


class Rewritten(NamedTuple):
    """The ops that a rewritten op replaces."""

    ops: tuple[str, ...]  #: op types of the program, the one with the most to compute first
    #: Whether these are all. If not, attributes name others, or a pattern of many ops was fused.
    is_complete: bool = True


_OTHERS: Final = "..."
_FACTS: Final[dict[str, Any]] = toml("placement/data/rewrites.toml")
RUNTIMES_OWN: Final = frozenset(_FACTS["runtimes_own"]["ops"])
_STAND_FOR: Final[dict[str, list[str]]] = _FACTS["stands_for"]["ops"]


def original(op: str) -> Rewritten | None:
    """Return the ops that a rewritten op replaces, or None if no rewrite creates this op type."""
    if op not in _STAND_FOR:
        return None
    named = tuple(name for name in _STAND_FOR[op] if name != _OTHERS)
    return Rewritten(ops=named, is_complete=_OTHERS not in _STAND_FOR[op])
