"""Round trips: values leave a GPU for ops on the CPU and come back.

With a capture, the graph that ran says which ops are on the way. Without one, only what the
transfers themselves prove counts: an op that takes a value off a GPU and sends one back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.transfers.cheapest_move import cheapest_move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.cheapest_move import Move, Value
    from traceanalyzer.transfers.host_transfers import RoundTripOp, TransferTotals

_MAX_OPS: Final = 2000  # beyond that, no cheapest move is looked for


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundTrip:
    """Ops on the CPU between a transfer from a GPU and one to it."""

    host: str
    function: str | None  #: as tables name it
    certainty: Certainty  #: that values go this way
    ops: tuple[RoundTripOp, ...]  #: in the order in which values pass, if that is known
    between: tuple[RoundTripOp, ...] = ()  #: other ops of the function that may lie between
    arriving: TransferTotals
    leaving: TransferTotals
    values: tuple[Value, ...]  #: from op to op in it and next to it, with the bytes transferred
    times: tuple[Value, ...]  #: the same with the time
    on_cpu: frozenset[str]  #: keys of the ops on the CPU among these
    #: Keys of ops that stay: those beyond, and those whose kernels take longer than the transfers.
    cannot_move: frozenset[str]
    op_of_key: Mapping[str, RoundTripOp]  #: all these ops

    @property
    def basis(self) -> Literal["bytes", "time"]:
        """What its transfers are weighed by: bytes, unless only their time is known."""
        has_bytes = any(v.cost is not None for v in self.values)
        return "time" if not has_bytes and any(v.cost is not None for v in self.times) else "bytes"

    @property
    def is_weighed(self) -> bool:
        """Whether it is small enough for the cheapest move to be looked for."""
        return len(self.op_of_key) <= _MAX_OPS

    def cheapest_move(self, cannot_move: Callable[[RoundTripOp], bool]) -> Move | None:
        """Return the ops to move so that least is copied; None if it is not weighed or saves none.

        Args:
            cannot_move: Whether an op must stay, such as one on the CPU without a GPU kernel.
        """
        if not self.is_weighed:
            return None
        stay = self.cannot_move | {key for key, op in self.op_of_key.items() if cannot_move(op)}
        return cheapest_move(self.times if self.basis == "time" else self.values, self.on_cpu, stay)

    @property
    def order(self) -> tuple[int, int, str, list[str]]:
        """Sort key: those that copy most first."""
        return (
            -((self.arriving.bytes or 0) + (self.leaving.bytes or 0)),
            -((self.arriving.count or 0) + (self.leaving.count or 0)),
            self.function or "",
            [op.key for op in self.ops],
        )
