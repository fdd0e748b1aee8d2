"""The round trips that transfers alone prove: what an op takes off a GPU and what it sends back.

Where one op takes and another of the same function gives, values probably pass from one to the
other: the function is one computation. Which ops lie between, transfers do not show.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.transfers.round_trips import Net, RoundTrip, RoundTripOp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.round_trips import HostTransfers

    _ByOp = Mapping[int, list[int]]


def measured_round_trips(
    transfers: HostTransfers, found: Collection[str | None], *, guess: bool
) -> Iterator[RoundTrip]:
    """Find round trips.

    Args:
        transfers: The transfers of a host.
        found: Ids of ops that are in a round trip already.
        guess: Whether ops of one function may be taken for connected.
    """
    takes, gives = (
        {
            row: own
            for row, own in transfers.by_op(rows, end).items()
            if transfers.is_member[row] and transfers.op(row).op_id not in found
        }
        for rows, end in ((transfers.arriving, "consumer"), (transfers.leaving, "producer"))
    )
    both = takes.keys() & gives.keys()
    for row in sorted(both):
        known: Certainty = transfers.ops["placement_certainty"].iloc[row]
        certainty: Certainty = known if known in {"certain", "likely"} else "possible"
        yield _round_trip(transfers, [row], takes, gives, certainty)
    if not guess:
        return
    ends: dict[str, tuple[list[int], list[int]]] = {}
    for k, side in enumerate((takes, gives)):
        for row in side.keys() - both:
            if (function := transfers.function(row)) is not None:
                ends.setdefault(function, ([], []))[k].append(row)
    for _, (first, last) in sorted(ends.items()):
        if first and last and _in_order(transfers, takes, first, gives, last):
            yield _round_trip(transfers, [*sorted(first), *sorted(last)], takes, gives, "likely")


def _in_order(
    transfers: HostTransfers, takes: _ByOp, first: Iterable[int], gives: _ByOp, last: Iterable[int]
) -> bool:
    """Return whether something left after something had come."""
    start = transfers.transfers["start_ps"].to_numpy(np.int64)
    came = min(int(start[takes[row]].min()) for row in first)
    return any(int(start[gives[row]].max()) > came for row in last)


def _round_trip(
    transfers: HostTransfers, rows: Sequence[int], takes: _ByOp, gives: _ByOp, certainty: Certainty
) -> RoundTrip:
    """Return the round trip of one op, or of several ops of a function."""
    ops = tuple(map(transfers.op, rows))
    on_cpu = {op.key: op for op in ops}
    arriving, leaving = (
        sorted(t for row in rows for t in of.get(row, ())) for of in (takes, gives)
    )
    basis, values = transfers.weighed(nets := list(_nets(transfers, on_cpu, arriving, leaving)))
    op_of_key = {op.key: op for net in nets for op in (net.producer, *net.consumers)} | on_cpu
    is_several = len(rows) > 1
    function = transfers.function(rows[0])
    return RoundTrip(
        host=str(transfers.transfers["host"].iloc[arriving[0]]),
        function=function,
        certainty=certainty,
        ops=ops,
        between=_between(transfers, function, rows) if is_several else (),
        arriving=transfers.totals(arriving),
        leaving=transfers.totals(leaving),
        basis=basis,
        values=values,
        on_cpu=frozenset(on_cpu),
        cannot_move=frozenset(op_of_key) - on_cpu.keys(),
        op_of_key=op_of_key,
    )


def _nets(
    transfers: HostTransfers,
    on_cpu: Mapping[str, RoundTripOp],
    arriving: Sequence[int],
    leaving: Sequence[int],
) -> Iterator[Net]:
    """Walk what goes from op to op."""
    ends = transfers.ends
    for own in (arriving, leaving):
        by_producer: dict[str, list[int]] = defaultdict(list)
        for transfer in own:
            by_producer[ends.nodes[ends.source[transfer]]].append(transfer)
        for producer, part in by_producer.items():
            consumers = dict.fromkeys(ends.nodes[ends.target[t]] for t in part)
            taken_by = tuple(_op(transfers, consumer) for consumer in consumers)
            yield Net(_op(transfers, producer), taken_by, part)
    if len(on_cpu) > 1:
        # What goes from those that take to those that give stays on one side: its size is unknown,
        # and whether it goes directly too.
        first, *_ = on_cpu.values()
        yield Net(first, tuple(on_cpu[key] for key in sorted(on_cpu)), ())


def _op(transfers: HostTransfers, node: str) -> RoundTripOp:
    row = transfers.row_of.get(node)
    if row is not None:
        return transfers.op(row)
    return RoundTripOp(node, None, node.removeprefix("name:"), "")


def _between(
    transfers: HostTransfers, function: str | None, rows: Sequence[int]
) -> tuple[RoundTripOp, ...]:
    """Return the other ops of the function on the CPU."""
    is_between = transfers.is_member & (transfers.ops["function"] == function).to_numpy()
    is_between[list(rows)] = False
    return tuple(map(transfers.op, np.flatnonzero(is_between).tolist()))
