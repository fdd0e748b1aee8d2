"""Islands: ops on the CPU that values come to from a GPU and leave for it again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.transfers.cheapest_move import cheapest_move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.cheapest_move import Move, Value
    from traceanalyzer.transfers.crossings import Crossing, IslandOp

__all__ = ["Basis", "Island"]

# What a move saves: bytes, or picoseconds of copying.
Basis: TypeAlias = Literal["bytes", "time"]

_LARGEST: Final = 2000  # ops about an island beyond which no cut is looked for


@dataclass(frozen=True, eq=False, kw_only=True)
class Island:
    """Ops on the CPU between a copy from a GPU and one to it.

    Attributes:
        host: The host.
        function: The function they ran in, as tables name it; None where not known.
        certainty: How sure it is that values go this way.
        ops: The ops, in the order in which values pass where that is known.
        between: Other ops of the function on the CPU, which may lie between them.
        arriving: The copies that come to it.
        leaving: The copies that leave it.
        values: What goes from op to op in and about it, with the bytes that were copied of each.
        times: The same with the time that took.
        on_cpu: Keys of the ops on the CPU among these.
        held: Keys of those that stay where they are, whatever else moves: what lies beyond, or
            whose kernels take longer than the copies.
        known: All these ops, by key.
    """

    host: str
    function: str | None
    certainty: Certainty
    ops: tuple[IslandOp, ...]
    between: tuple[IslandOp, ...]
    arriving: Crossing
    leaving: Crossing
    values: tuple[Value, ...]
    times: tuple[Value, ...]
    on_cpu: frozenset[str]
    held: frozenset[str]
    known: Mapping[str, IslandOp] = field(repr=False)

    @property
    def basis(self) -> Basis:
        """What its copies are weighed by: bytes, unless only their time is known."""
        has_bytes = any(v.cost is not None for v in self.values)
        return "time" if not has_bytes and any(v.cost is not None for v in self.times) else "bytes"

    @property
    def is_weighed(self) -> bool:
        """Whether it is small enough for the cheapest move to be looked for."""
        return len(self.known) <= _LARGEST

    def cheapest_move(self, cannot_move: Callable[[IslandOp], bool]) -> Move | None:
        """Return the ops to move so that least is copied; None where no move saves anything.

        None of one that is not weighed, too.

        Args:
            cannot_move: Tells of an op whether it must stay where it is: on the CPU, because it has
                no GPU kernel.
        """
        if not self.is_weighed:
            return None
        stay = self.held | {key for key, op in self.known.items() if cannot_move(op)}
        weighed = self.times if self.basis == "time" else self.values
        return cheapest_move(weighed, self.on_cpu, stay)
