"""What keeps an op off a device: one record, for nodes of graphs and for eager ops."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from traceanalyzer.capture_file.document import NO_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import Frame, Json, Resource, Signature
    from traceanalyzer.placement.registry import Kernel

# How a blocker is tied to the op: it is the op's own; it shares a resource, or a reference, with
# it; a `_class` attribute puts both into one group; the op follows it.
Link: TypeAlias = Literal["own", "resource", "class", "follows"]


class BlockerKind(Enum):
    """How something keeps an op off a device."""

    #: The op has no kernel for the device.
    NO_KERNEL = "no_kernel"
    #: No kernel for the device accepts the attributes, such as a dtype.
    ATTRIBUTES = "attributes"
    #: An input is a list of strings or resources, which is always in host memory.
    HOST_LIST = "host_list"
    #: The node is an argument of its function, and its value is on another device.
    ASSIGNED = "assigned"
    #: The op makes a resource, and another device is requested for it.
    RESOURCE = "resource"
    #: Another device is requested for the op.
    REQUEST = "request"
    #: The function was called on another device, which is the default of its nodes.
    DEFAULT_DEVICE = "default_device"
    #: The kernel for another device has a higher priority.
    PRIORITY = "priority"
    #: An eager op has few integers as inputs, and the environment keeps such ops on the host.
    SMALL_INPUTS = "small_inputs"
    #: Nothing: the op is on the device, but its kernel has all data in host memory, so that the
    #: host computes it.
    HOST_MEMORY = "host_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that keeps an op off a device.

    The search for blockers fills in the first fields; what a capture file knows of each is added
    after it.
    """

    kind: BlockerKind
    #: The blocked node of the graph: the op itself, a member of its colocation group, or a node
    #: that it follows. -1 outside of the search, and for an eager op.
    node: int = -1
    #: The index of an eager op's input that is a resource on another device. None outside of the
    #: search.
    input: int | None = None
    #: Names of the attributes that no kernel accepts.
    refused: tuple[str, ...] = ()
    #: The device that is requested, assigned, or the default.
    requested_device: str = ""

    link: Link = "own"
    #: Op type, name, and function of the blocked node; an eager op has only the first.
    type: str = ""
    name: str = ""
    function: str = ""
    #: The attributes that no GPU kernel accepts. Of a kernel in host memory, the op's types.
    attributes: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    #: All attributes of the blocked node, as far as they were recorded.
    given: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    #: The user's line that made the node.
    frame: Frame | None = None
    #: The library's line that made it, where the user's line called a library.
    library: Frame | None = None
    #: The `tf.device` scope that requests the device: around the op, around the making of its
    #: resource, or around the call of its function. None if not recorded.
    scope: str | None = None
    #: The line that entered the scope.
    scope_frame: Frame | None = None
    #: The node whose request was copied, by `_class`, where no scope requests the device.
    copied_from: str = ""
    #: The resource that lives elsewhere, and the lines that made it.
    resource: Resource | None = None
    made_at: Frame | None = None
    made_in: Frame | None = None
    #: Of a variable, the types with which all ops that use it could be on a GPU, the best first.
    types: tuple[str, ...] | None = None
    #: The call that the default device comes from.
    call: Signature | None = None
    #: The called function, if the scope is that of a call within another function.
    called_in: str = ""
    #: Whether a dataset calls the function of the node to compute for a step.
    for_step: bool = False
    #: The GPU kernel that has all data in host memory.
    kernel: Kernel | None = None
