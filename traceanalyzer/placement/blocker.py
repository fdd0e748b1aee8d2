"""Defines blockers, the things that keep an op off the GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, TypeAlias

from traceanalyzer.capture_file.document import NO_ATTRIBUTES, Frame, Json, Resource, Signature

# How the blocked node relates to the op: it is the op itself; both share a resource or a reference;
# a `_class` attribute puts both into one group; or the op follows it.
Link: TypeAlias = Literal["own", "resource", "class", "follows"]


class BlockerKind(Enum):
    """The ways in which a blocker keeps an op off the GPU."""

    NO_KERNEL = "no_kernel"  #: the op has no GPU kernel
    ATTRIBUTES = "attributes"  #: no GPU kernel accepts its attributes, such as a dtype
    #: An input is a list of strings or resources, which is always in host memory.
    HOST_LIST = "host_list"
    #: The node is an argument of its function, and its value is on another device.
    ASSIGNED = "assigned"
    #: The op creates or uses a resource for which another device is requested.
    RESOURCE = "resource"
    REQUEST = "request"  #: another device is requested for the op
    #: The function was called on another device, which is the default device of its nodes.
    DEFAULT_DEVICE = "default_device"
    PRIORITY = "priority"  #: the kernel for another device has a higher priority
    #: The inputs of an eager op are a few integers, and the environment keeps such ops on the host.
    SMALL_INPUTS = "small_inputs"
    #: The op is on the GPU, but its kernel has all data in host memory, so the host computes it.
    HOST_MEMORY = "host_memory"


BY_REQUEST: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE})
PLACED: Final = frozenset({BlockerKind.ASSIGNED, BlockerKind.RESOURCE})
BY_SCOPE: Final = BY_REQUEST | PLACED  # a scope around an op or a resource can be the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that keeps an op off the GPU."""

    kind: BlockerKind
    # For the search, which sets the fields up to `requested_device`. Records set the others.
    node: int = -1  #: the blocked node of the graph
    input: int | None = None  #: index of an eager op's input that is on another device
    refused: tuple[str, ...] = ()  #: names of the attributes that no kernel accepts
    requested_device: str = ""  #: the requested, assigned, or default device

    link: Link = "own"
    type: str = ""  #: op type of the blocked node
    name: str = ""  #: "" for an eager op, as is `function`
    function: str = ""
    #: The attributes that no GPU kernel accepts. For a kernel in host memory, the op's types.
    attributes: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    #: All recorded attributes of the blocked node.
    given: Mapping[str, Json] = field(default_factory=lambda: NO_ATTRIBUTES, hash=False)
    frame: Frame | None = None  #: the user's line that created the node
    #: The scope, around the op, the creation of its resource, or the call of its function, that
    #: requests the device; None if not recorded.
    scope: str | None = None
    scope_frame: Frame | None = None  #: the line that entered the scope
    #: The node whose request `_class` copied, if no scope requests the device.
    copied_from: str = ""
    resource: Resource | None = None  #: the resource on another device
    made_at: Frame | None = None  #: the user's line that created the resource
    made_in: Frame | None = None  #: the library's line that created it
    #: The types that a variable can have so that all ops that use it can be on a GPU. The most
    #: exact is first.
    types: tuple[str, ...] | None = None
    call: Signature | None = None  #: the call that sets the default device
    called_in: str = ""  #: the called function, if the scope is around a call in another function
    for_step: bool = False  #: whether the node belongs to a dataset that a step computes
    #: Of a kernel in host memory: whether its values come from GPU memory and go back in each call.
    is_copied: bool = False
    of_model: bool = False  #: whether an input pipeline computes the node with a variable
