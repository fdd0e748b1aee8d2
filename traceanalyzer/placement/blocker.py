"""What keeps an op off a device: one record, for nodes of graphs and for eager ops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Blocker", "BlockerKind"]


class BlockerKind(Enum):
    """How something keeps an op off a device.

    Attributes:
        NO_KERNEL: The op has no kernel for the device.
        ATTRIBUTES: No kernel for the device accepts the attributes, such as a dtype.
        HOST_LIST: An input is a list of strings or resources, which is always in host memory.
        ASSIGNED: The node is an argument of its function, and its value is on another device.
        RESOURCE: The op makes a resource, and another device is requested for it.
        REQUEST: Another device is requested for the op.
        DEFAULT_DEVICE: The call of the function was placed on another device, which is the default
            of its nodes.
        PRIORITY: The kernel for another device has a higher priority.
        SMALL_INPUTS: An eager op has few integers as inputs, and the environment keeps such ops on
            the host.
        OPTIMIZER: A Grappler optimizer that the program switched on moves the node to the host
            after placement.
        HOST_MEMORY: None: the op is on the device, but its kernel has all data in host memory, so
            the host computes it.
    """

    NO_KERNEL = "no_kernel"
    ATTRIBUTES = "attributes"
    HOST_LIST = "host_list"
    ASSIGNED = "assigned"
    RESOURCE = "resource"
    REQUEST = "request"
    DEFAULT_DEVICE = "default_device"
    PRIORITY = "priority"
    SMALL_INPUTS = "small_inputs"
    OPTIMIZER = "optimizer"
    HOST_MEMORY = "host_memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One thing that keeps an op off a device.

    Attributes:
        kind: How.
        node: The node that is kept off: the one in question, a member of its colocation group, or a
            node that it follows. -1 for an eager op.
        attributes: The attributes that no kernel accepts.
        requested_device: The device that is requested, assigned, or the default.
        input: The index of an eager op's input that is a resource on another device, or None.
        devices: The devices that it excludes; empty if the question was about one device type.
    """

    kind: BlockerKind
    node: int = -1
    attributes: tuple[str, ...] = ()
    requested_device: str = ""
    input: int | None = None
    devices: tuple[str, ...] = ()
