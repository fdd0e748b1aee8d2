"""Which ops to move to the other side so that least is copied: a minimum cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

__all__ = ["Move", "Value", "cheapest_move"]

_GPU: Final = ("side", "gpu")
_CPU: Final = ("side", "cpu")


@dataclass(frozen=True, kw_only=True)
class Value:
    """What one op makes and others take: it is copied once if any of them is on the other side.

    Attributes:
        producer: The op that makes it.
        consumers: Those that take it.
        cost: What it costs to copy it, bytes or picoseconds; None where that is not known.
    """

    producer: str
    consumers: tuple[str, ...]
    cost: int | None


@dataclass(frozen=True, kw_only=True)
class Move:
    """The cheapest way to move ops.

    Attributes:
        to_gpu: Those to move from the CPU to the GPU, by name.
        to_cpu: Those to move from the GPU to the CPU.
        saved: How much less is copied: what is copied now and would not be any more, less what
            would be copied in its place.
        stays: How much is still copied, as far as it is known.
        unknown_before: How many values of unknown cost are copied now.
        unknown_after: How many of them still would be.
    """

    to_gpu: tuple[str, ...]
    to_cpu: tuple[str, ...]
    saved: int
    stays: int
    unknown_before: int
    unknown_after: int


def cheapest_move(
    values: Iterable[Value],
    on_cpu: Collection[str],
    cannot_move: Callable[[str], bool] | Collection[str] = (),
) -> Move | None:
    """Find the ops to move, either way, with which least is copied between CPU and GPU.

    Moving all to one side is always possible on paper, so something must hold either side: those
    that cannot move stay where they are. A value whose cost is not known is never copied anew; one
    that is copied already counts for nothing, but that it is better gone. Of ways that copy as
    little the one that moves fewest ops is taken.

    Args:
        values: What goes from which op to which; an op that is in none is not moved.
        on_cpu: The ops that are on the CPU; all others are on the GPU.
        cannot_move: The ops that stay where they are: one without a kernel for the other side, or
            one whose work is worth more than the copies.

    Returns:
        The ops to move, or None where no way copies less.
    """
    known = tuple(values)
    ops = list(dict.fromkeys(op for v in known for op in (v.producer, *v.consumers)))
    stays = cannot_move if callable(cannot_move) else frozenset(cannot_move).__contains__
    cpu = frozenset(on_cpu)
    graph = _network(known, ops, cpu, stays)
    _, (with_gpu, _) = nx.minimum_cut(graph, _GPU, _CPU)
    after = frozenset(op for op in ops if ("op", op) not in with_gpu)
    before = cpu & frozenset(ops)
    copied = _copied(known, before), _copied(known, after)
    move = Move(
        to_gpu=tuple(op for op in ops if op in before and op not in after),
        to_cpu=tuple(op for op in ops if op not in before and op in after),
        saved=_cost(copied[0]) - _cost(copied[1]),
        stays=_cost(copied[1]),
        unknown_before=sum(v.cost is None for v in copied[0]),
        unknown_after=sum(v.cost is None for v in copied[1]),
    )
    return move if move.to_gpu or move.to_cpu else None


def _network(
    values: Sequence[Value], ops: Sequence[str], cpu: frozenset[str], stays: Callable[[str], bool]
) -> nx.DiGraph[tuple[object, ...]]:
    """Build the network whose minimum cut is the cheapest way.

    What is left with the source is on the GPU. Costs count by more than there are ops, so that the
    number of moved ops decides only between ways that cost the same; a value of unknown cost that
    is copied counts as less than a single byte, and more than all moves.
    """
    graph: nx.DiGraph[tuple[object, ...]] = nx.DiGraph()
    graph.add_nodes_from((_GPU, _CPU))
    of_unknown = len(ops) + 1
    unit = of_unknown * (sum(v.cost is None for v in values) + 1)
    for op in ops:
        own = (("op", op), _CPU) if op in cpu else (_GPU, ("op", op))
        if stays(op):
            graph.add_edge(*own)  # without a capacity: it is never cut
        else:
            graph.add_edge(*own, capacity=1)
    for number, value in enumerate(values):
        capacity: int | None = None
        if value.cost is not None:
            capacity = value.cost * unit
        elif _is_copied(value, cpu):
            capacity = of_unknown
        # One node for what leaves the GPU and one for what comes to it: the value is copied once,
        # however many take it.
        producer = ("op", value.producer)
        leaves, comes = ("leaves", number), ("comes", number)
        _add(graph, producer, leaves, capacity)
        _add(graph, comes, producer, capacity)
        for consumer in value.consumers:
            graph.add_edge(leaves, ("op", consumer))
            graph.add_edge(("op", consumer), comes)
    return graph


def _add(
    graph: nx.DiGraph[tuple[object, ...]],
    source: tuple[object, ...],
    target: tuple[object, ...],
    capacity: int | None,
) -> None:
    if capacity is None:
        graph.add_edge(source, target)
    else:
        graph.add_edge(source, target, capacity=capacity)


def _is_copied(value: Value, cpu: frozenset[str]) -> bool:
    return any((op in cpu) != (value.producer in cpu) for op in value.consumers)


def _copied(values: Sequence[Value], cpu: frozenset[str]) -> list[Value]:
    return [value for value in values if _is_copied(value, cpu)]


def _cost(values: Sequence[Value]) -> int:
    return sum(value.cost or 0 for value in values)
