"""Which types of devices have a kernel for a node, and what keeps the others from having one.

See `SupportedDeviceTypesForNode` (core/framework/op_kernel.cc).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement.kernels import CPU, DEFAULT, GPU

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from traceanalyzer.capture_file.document import Attributes
    from traceanalyzer.placement.kernels import Kernel
    from traceanalyzer.placement.registry import Registry

__all__ = ["EVERYWHERE", "Missing", "SupportedTypes", "supported_types"]

_LABEL: Final = "_kernel"  # the attribute that asks for a kernel of a label


class Missing(NamedTuple):
    """A type of device that a node has no kernel for.

    Attributes:
        type: The type.
        attributes: Those whose values no kernel of that type takes; none where the op has no
            kernel of that type at all.
    """

    type: str
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SupportedTypes:
    """The types of devices that have a kernel for a node.

    Attributes:
        types: (type, priority of the kernel), in TensorFlow's order.
        missing: The types without one.
        doubt: Why this may be otherwise, or "".
    """

    types: tuple[tuple[str, int], ...]
    missing: tuple[Missing, ...] = ()
    doubt: str = ""


EVERYWHERE: Final = SupportedTypes(((GPU, 0), (CPU, 0)))


def supported_types(
    op: str,
    attributes: Attributes | None,
    registry: Registry,
    functions: Collection[str] = frozenset(),
) -> SupportedTypes:
    """Return which types of devices have a kernel for a node.

    Args:
        op: Op type, or a function's name: functions run anywhere.
        attributes: Its attributes, in the capture file's encoding; None where they were not
            recorded.
        registry: The kernels of the program's TensorFlow.
        functions: Names of functions.
    """
    if registry.definition(op) is None and not registry.kernels(op):
        doubt = "" if op in functions else f"TensorFlow itself has no op {op}"
        return replace(EVERYWHERE, doubt=doubt)
    types: list[tuple[str, int]] = []
    missing: list[Missing] = []
    doubt = ""
    for kind in (GPU, CPU):
        registered = [k for k in registry.kernels(op) if k.device_type in {kind, DEFAULT}]
        if attributes is None and any(k.constraints or k.label for k in registered):
            doubt = "its attributes were not recorded"
            types.append((kind, max(k.priority for k in registered)))
            continue
        kernel = registry.find(op, kind, attributes or {})
        if kernel is not None:
            types.append((kind, kernel.priority))
        else:
            missing.append(Missing(kind, _refused(registered, attributes or {})))
    types.sort(key=lambda each: -each[1])
    return SupportedTypes(tuple(types), tuple(missing), doubt)


def _refused(kernels: Sequence[Kernel], attributes: Attributes) -> tuple[str, ...]:
    """Return the attributes that keep a node from the kernels that come nearest to it."""
    label = _label(attributes)
    refusals = [
        (*kernel.mismatches(attributes), *(() if kernel.label == label else (_LABEL,)))
        for kernel in kernels
    ]
    fewest = min(map(len, refusals), default=0)
    nearest = (name for refusal in refusals if len(refusal) == fewest for name in refusal)
    return tuple(dict.fromkeys(nearest))


def _label(attributes: Attributes | None) -> str:
    value = (attributes or {}).get(_LABEL)
    text = value.get("s") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
