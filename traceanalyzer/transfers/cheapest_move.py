"""Find the ops to move to the other side so that least is copied: a minimum cut."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

Op = TypeVar("Op")
_Node: TypeAlias = tuple[str, Any]
_GPU: Final[_Node] = ("side", "gpu")
_CPU: Final[_Node] = ("side", "cpu")


@dataclass(frozen=True)
class Value(Generic[Op]):
    """A value with its producer and consumers: copied once if any consumer is on the other side."""

    producer: Op
    consumers: tuple[Op, ...]
    cost: int | None  #: of a copy, bytes or picoseconds; None if unknown


@dataclass(frozen=True, kw_only=True)
class Move(Generic[Op]):
    """The cheapest way to move ops."""

    to_gpu: tuple[Op, ...]
    to_cpu: tuple[Op, ...]
    saved: int  #: cost of copies that are removed, minus cost of copies that are added
    stays: int  #: known cost of the remaining copies
    unknown_before: int  #: values of unknown cost that are copied now
    unknown_after: int  #: the number of these that are still copied


def cheapest_move(
    values: Sequence[Value[Op]], on_cpu: Collection[Op], cannot_move: Collection[Op]
) -> Move[Op] | None:
    """Find the ops to move, in either direction, so that least is copied between CPU and GPU.

    No copy of unknown cost is added; an existing copy of unknown cost counts as zero, but
    removing it is preferred. Of equally cheap moves, the one with fewest ops is returned.

    Args:
        values: The values and their ops; an op without a value is not moved.
        on_cpu: The ops on the CPU; all others are on the GPU.
        cannot_move: Ops that stay. Without any on each side, moving everything would be cheapest.

    Returns:
        None if no move copies less.
    """
    ops = list(dict.fromkeys(op for v in values for op in (v.producer, *v.consumers)))
    before = frozenset(on_cpu) & frozenset(ops)
    network = _network(values, ops, before, frozenset(cannot_move))
    _, (with_gpu, _) = nx.minimum_cut(network, _GPU, _CPU)
    after = frozenset(op for op in ops if ("op", op) not in with_gpu)
    if before == after:
        return None
    copied_before, copied_after = (
        [v for v in values if _is_copied(v, cpu)] for cpu in (before, after)
    )
    stays = sum(v.cost or 0 for v in copied_after)
    return Move(
        to_gpu=tuple(op for op in ops if op in before - after),
        to_cpu=tuple(op for op in ops if op in after - before),
        saved=sum(v.cost or 0 for v in copied_before) - stays,
        stays=stays,
        unknown_before=sum(v.cost is None for v in copied_before),
        unknown_after=sum(v.cost is None for v in copied_after),
    )


def _network(
    values: Sequence[Value[Op]], ops: Sequence[Op], cpu: AbstractSet[Op], stay: AbstractSet[Op]
) -> nx.DiGraph[_Node]:
    """Build the network whose minimum cut is the cheapest move: the source's side is the GPU.

    Costs are scaled by more than the number of ops, so that the number of moved ops decides only
    between moves of equal cost. Copying a value of unknown cost weighs less than a byte, and more
    than moving all ops.
    """
    network: nx.DiGraph[_Node] = nx.DiGraph()
    network.add_nodes_from((_GPU, _CPU))
    of_unknown = len(ops) + 1
    unit = of_unknown * (sum(v.cost is None for v in values) + 1)
    for op in ops:
        own = (("op", op), _CPU) if op in cpu else (_GPU, ("op", op))
        network.add_edge(*own, capacity=math.inf if op in stay else 1)
    for number, value in enumerate(values):
        if value.cost is not None:
            capacity: float = value.cost * unit
        else:
            capacity = of_unknown if _is_copied(value, cpu) else math.inf
        # One node for copies from the GPU and one for copies to it: a value is copied once,
        # regardless of the number of ops that take it.
        producer = ("op", value.producer)
        leaves, comes = ("leaves", number), ("comes", number)
        network.add_edge(producer, leaves, capacity=capacity)
        network.add_edge(comes, producer, capacity=capacity)
        for consumer in value.consumers:
            network.add_edge(leaves, ("op", consumer), capacity=math.inf)
            network.add_edge(("op", consumer), comes, capacity=math.inf)
    return network


def _is_copied(value: Value[Op], cpu: AbstractSet[Op]) -> bool:
    return any((op in cpu) != (value.producer in cpu) for op in value.consumers)
