"""A registered kernel, and which attributes it accepts.

Kernels match as in TensorFlow's `KernelAttrsMatch` (`core/framework/kernel_def_util.cc`), 2.12 to
2.21.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import Attributes, Json

DEFAULT: Final = "DEFAULT"  # for every device type that has no kernel of its own that matches

# The values that an attribute may have: types as in the capture file, strings as plain text.
Allowed: TypeAlias = "frozenset[str | int | bool]"

# `DataTypeAlwaysOnHost` in core/framework/types.cc
ALWAYS_ON_HOST: Final = frozenset({"string", "string_ref", "resource"})
_LABEL: Final = "_kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel, or several that differ only in the values they allow."""

    op: str
    #: `CPU`, `GPU` or `DEFAULT`.
    device_type: str
    #: The allowed values of each constrained attribute.
    constraints: Mapping[str, Allowed] = field(hash=False)
    #: Names of the arguments that it wants in host memory, sorted. Strings and resources always are
    #: there, named or not.
    host_memory_args: tuple[str, ...] = ()
    #: Of the kernels that match, the one with the highest is taken; the placer prefers it, too.
    priority: int = 0
    #: What a node's `_kernel` attribute must be.
    label: str = ""

    def matches(self, attributes: Attributes) -> bool:
        """Return whether it accepts these attributes, with defaults filled in.

        A constrained attribute that is missing does not match: TensorFlow refuses such a node.
        """
        return not self.mismatches(attributes)

    def mismatches(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the constrained attributes that are missing or have a value it does not accept."""
        return tuple(
            name
            for name, allowed in self.constraints.items()
            if name not in attributes or not _accepts(allowed, attributes[name])
        )


def _accepts(allowed: Allowed, value: Json) -> bool:
    """Return whether a constraint accepts a value: each type of a list of types, no other list."""
    if isinstance(value, str):
        return value in allowed
    if isinstance(value, list):
        return all(isinstance(v, str) and v in allowed for v in value)
    if isinstance(value, dict):
        text = value.get("s")
        return isinstance(text, str) and text in allowed
    # 1 and True are equal in a set, and different to TensorFlow.
    return any(type(value) is type(v) and value == v for v in allowed)


def label_of(attributes: Attributes) -> str:
    """Return the label of the kernel that a node requests."""
    value = attributes.get(_LABEL)
    text = value.get("s") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
