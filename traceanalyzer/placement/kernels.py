"""A registered kernel: which attributes it takes, and what of it lies in host memory.

How kernels match is TensorFlow's `KernelAttrsMatch` (`core/framework/kernel_def_util.cc`), what is
in host memory its `MemoryTypesForNode` (`core/framework/memory_types.cc`), of 2.12 to 2.21.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, Json
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition

__all__ = [
    "ALWAYS_ON_HOST",
    "CPU",
    "DEFAULT",
    "GPU",
    "Allowed",
    "Kernel",
    "Memory",
    "memory_of",
]

CPU: Final = "CPU"
GPU: Final = "GPU"
DEFAULT: Final = "DEFAULT"  # for every device type that has no kernel of its own that matches

# The values that an attribute may have: types as in the capture file, strings as plain text.
Allowed: TypeAlias = "frozenset[str | int | bool]"

# `DataTypeAlwaysOnHost` in core/framework/types.cc
ALWAYS_ON_HOST: Final = frozenset({"string", "string_ref", "resource"})
_INPUT_ON_HOST: Final = "_input_hostmem"  # attributes with indices, which grappler sets
_OUTPUT_ON_HOST: Final = "_output_hostmem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel, or several that differ only in the values they allow.

    Attributes:
        op: Op type.
        device_type: `CPU`, `GPU` or `DEFAULT`.
        constraints: For each constrained attribute the values allowed: types as the capture file
            names them ("float", "int32"), strings as plain text, integers and booleans as such.
        host_memory_args: Names of the arguments that it wants in host memory, sorted. Strings and
            resources always are, named or not.
        priority: Of those that match, the highest is taken; and the placer prefers it.
        label: What a node's `_kernel` attribute must say.
    """

    op: str
    device_type: str
    constraints: Mapping[str, Allowed] = field(hash=False)
    host_memory_args: tuple[str, ...] = ()
    priority: int = 0
    label: str = ""

    def matches(self, attributes: Attributes) -> bool:
        """Return whether the constraints admit these attributes.

        Args:
            attributes: In the capture file's encoding, defaults filled in. One that is constrained
                and missing does not match: TensorFlow refuses such a node.
        """
        return all(
            name in attributes and admits(allowed, attributes[name])
            for name, allowed in self.constraints.items()
        )

    def mismatches(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the constrained attributes whose values are not admitted, or missing."""
        return tuple(
            name
            for name, allowed in self.constraints.items()
            if name not in attributes or not admits(allowed, attributes[name])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Which of a node's tensors a kernel has in host memory, each input and output by position.

    Attributes:
        inputs: True where the input is in host memory.
        outputs: True where the output is.
    """

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]

    @property
    def all_host(self) -> bool:
        """Whether there are tensors and all are in host memory: a GPU kernel computes nothing."""
        tensors = self.inputs + self.outputs
        return bool(tensors) and all(tensors)


def admits(allowed: Allowed, value: Json) -> bool:
    """Return whether a constraint admits an attribute's value.

    A list of types is admitted when each of its types is; other lists never are.
    """
    if isinstance(value, str):
        return value in allowed
    if isinstance(value, list):
        return all(isinstance(v, str) and v in allowed for v in value)
    if isinstance(value, dict):
        text = value.get("s")
        return isinstance(text, str) and text in allowed
    # 1 and True are equal in a set, and different to TensorFlow.
    return any(type(value) is type(v) and value == v for v in allowed)


def memory_of(kernel: Kernel, definition: OpDefinition, attributes: Attributes) -> Memory:
    """Return where a kernel on a GPU has the tensors of a node.

    Args:
        kernel: The kernel that the node gets.
        definition: Definition of its op.
        attributes: The node's, in the capture file's encoding.

    Raises:
        AttributesError: The attributes do not tell how many tensors of which types there are.
    """
    return Memory(
        inputs=_on_host(
            kernel,
            definition.inputs,
            [definition.types_of(a, attributes) for a in definition.inputs],
            attributes.get(_INPUT_ON_HOST),
        ),
        outputs=_on_host(
            kernel,
            definition.outputs,
            [definition.types_of(a, attributes) for a in definition.outputs],
            attributes.get(_OUTPUT_ON_HOST),
        ),
    )


def _on_host(
    kernel: Kernel,
    arguments: Iterable[Argument],
    types: Iterable[Sequence[str]],
    forced: Json,
) -> tuple[bool, ...]:
    on_host = [
        argument.name in kernel.host_memory_args or dtype in ALWAYS_ON_HOST
        for argument, dtypes in zip(arguments, types, strict=True)
        for dtype in dtypes
    ]
    for index in forced if isinstance(forced, list) else ():
        if isinstance(index, int) and 0 <= index < len(on_host):
            on_host[index] = True
    return tuple(on_host)
