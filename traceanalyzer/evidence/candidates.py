"""Which causes the evidence leaves open for an op that nothing explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.registry import nearest

if TYPE_CHECKING:
    from traceanalyzer.evidence.cases import Case

__all__ = ["SETTLED_BY", "candidates"]

# What decides among them, where only a trace was recorded.
SETTLED_BY: Final = (
    "a recording with `traceanalyzer capture script.py`, which also holds each op's types and "
    "requested device"
)


def candidates(case: Case | None, version: str | None) -> tuple[str, ...]:
    """Return the causes that are not excluded, the likeliest first; four at most.

    Args:
        case: What is known of the op, or None.
        version: TensorFlow's version, or None.
    """
    if case is None or case.contradiction:
        return ()
    kernels = nearest(version)
    definition = kernels.registry.definition(case.type)
    if definition is None:
        return ("custom_op",)
    takes_resource = any(a.type == "resource" or a.is_ref for a in definition.inputs)
    found = ["resource_on_cpu"] if takes_resource else []
    if case.types_missing:
        found.append("dtype_unsupported")
    found += ["explicit_cpu_placement", "caller_device_scope_cpu"]
    if not kernels.proof.excludes:
        found.append("no_gpu_kernel")
    if not takes_resource:
        found += ["colocation_group", "library_cpu_placement"]
    return tuple(found[:4])
