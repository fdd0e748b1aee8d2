"""What keeps an op off the GPU: one record, for nodes of graphs and for eager ops."""

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
    """How something keeps an op off the GPU."""

    NO_KERNEL = "no_kernel"  #: the op has no GPU kernel
    ATTRIBUTES = "attributes"  #: no GPU kernel accepts its attributes, such as a dtype
    #: An input is a list of strings or resources, which is always in host memory.
    HOST_LIST = "host_list"
    #: The node is an argument of its function, and its value is on another device.
    ASSIGNED = "assigned"
    #: The op makes or takes a resource, and another device is requested for that.
    RESOURCE = "resource"
    REQUEST = "request"  #: another device is requested for the op
    #: The function was called on another device, which is the default of its nodes.
    DEFAULT_DEVICE = "default_device"
    PRIORITY = "priority"  #: the kernel for another device has a higher priority
    #: An eager op has few integers as inputs, and the environment keeps such ops on the host.
    SMALL_INPUTS = "small_inputs"
    #: Nothing: the op is on the device, but its kernel has all data in host memory, so that the
    #: host computes it.
    HOST_MEMORY = "host_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that keeps an op off the GPU.

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
    refused: tuple[str, ...] = ()  #: names of the attributes that no kernel accepts
    requested_device: str = ""  #: the device that is requested, assigned, or the default

    link: Link = "own"
    type: str = ""  #: op type of the blocked node
    name: str = ""  #: "" for an eager op, as is the function
    function: str = ""
    #: The attributes that no GPU kernel accepts. Of a kernel in host memory, the op's types.
    attributes: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    #: All attributes of the blocked node, as far as they were recorded.
    given: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    frame: Frame | None = None  #: the user's line that made the node
    library: Frame | None = None  #: the library's, where the user's line called a library
    #: The `tf.device` scope that requests the device: around the op, around the making of its
    #: resource, or around the call of its function. None if not recorded.
    scope: str | None = None
    scope_frame: Frame | None = None  #: the line that entered the scope
    #: The node whose request was copied, by `_class`, where no scope requests the device.
    copied_from: str = ""
    resource: Resource | None = None  #: the resource that lives elsewhere
    made_at: Frame | None = None  #: the user's line that made it
    made_in: Frame | None = None  #: the library's
    #: Of a variable, the types with which all ops that use it could be on a GPU, the best first.
    types: tuple[str, ...] | None = None
    call: Signature | None = None  #: the call that the default device comes from
    called_in: str = ""  #: the called function, if the scope is that of a call within another
    #: Whether a dataset calls the function of the node to compute for a step.
    for_step: bool = False
    kernel: Kernel | None = None  #: the GPU kernel that has all data in host memory
