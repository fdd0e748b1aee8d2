"""The round trips that transfers alone prove: what an op takes off a GPU and what it sends back.

Where one op takes and another of the same function gives, values probably pass from one to the
other: the function is one computation. Which ops lie between, transfers do not show.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.transfers.cheapest_move import Value
from traceanalyzer.transfers.host_transfers import RoundTripOp
from traceanalyzer.transfers.round_trips import RoundTrip

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.host_transfers import HostTransfers

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
        certainty = str(transfers.ops["placement_certainty"].iloc[row])
        yield _round_trip(transfers, [row], takes, gives, _certainty(certainty))
    if not guess:
        return
    ends: dict[str, tuple[list[int], list[int]]] = {}
    for k, side in enumerate((takes, gives)):
        for row in side.keys() - both:
            if (function := transfers.function(row)) is not None:
                ends.setdefault(function, ([], []))[k].append(row)
    for function, (first, last) in sorted(ends.items()):
        if first and last and _in_order(transfers, takes, first, gives, last):
            rows = [*sorted(first), *sorted(last)]
            is_between = transfers.is_member & (transfers.ops["function"] == function).to_numpy()
            is_between[rows] = False
            between = np.flatnonzero(is_between).tolist()
            yield _round_trip(transfers, rows, takes, gives, "likely", between)


def _certainty(text: str) -> Certainty:
    return "certain" if text == "certain" else "likely" if text == "likely" else "possible"


def _in_order(
    transfers: HostTransfers, takes: _ByOp, first: Iterable[int], gives: _ByOp, last: Iterable[int]
) -> bool:
    """Return whether something left after something had come."""
    start = transfers.transfers["start_ps"].to_numpy(np.int64)
    came = min(int(start[takes[row]].min()) for row in first)
    return any(int(start[gives[row]].max()) > came for row in last)


def _round_trip(  # noqa: PLR0913, PLR0917 - the parts of one
    transfers: HostTransfers,
    rows: Sequence[int],
    takes: _ByOp,
    gives: _ByOp,
    certainty: Certainty,
    between: Sequence[int] = (),
) -> RoundTrip:
    ops = tuple(map(transfers.op, rows))
    on_cpu = frozenset(op.key for op in ops)
    arriving, leaving = (
        sorted(t for row in rows for t in of.get(row, ())) for of in (takes, gives)
    )
    ends = transfers.ends
    shared: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for is_leaving, own in ((False, arriving), (True, leaving)):
        for transfer in own:
            shared[ends.nodes[ends.source[transfer]], is_leaving].append(transfer)
    nets = []
    for (producer, _), own in shared.items():
        taken_by = dict.fromkeys(ends.nodes[ends.target[t]] for t in own)
        nets.append((producer, tuple(taken_by), own))
    op_of_key = {op.key: op for op in ops}
    for node in {n for producer, consumers, _ in nets for n in (producer, *consumers)}:
        op_of_key.setdefault(node, _beyond(transfers, node))
    # What goes from those that take to those that give stays on one side: its size is unknown, and
    # whether it goes directly too.
    inner = [Value(producer=ops[0].key, consumers=tuple(sorted(on_cpu)), cost=None)]
    if len(rows) == 1:
        inner = []
    return RoundTrip(
        host=str(transfers.transfers["host"].iloc[arriving[0]]),
        function=transfers.function(rows[0]),
        certainty=certainty,
        ops=ops,
        between=tuple(map(transfers.op, between)),
        arriving=transfers.totals(arriving),
        leaving=transfers.totals(leaving),
        values=(*transfers.values(nets, "bytes"), *inner),
        times=(*transfers.values(nets, "duration_ps"), *inner),
        on_cpu=on_cpu,
        cannot_move=frozenset(op_of_key) - on_cpu,
        op_of_key=op_of_key,
    )


def _beyond(transfers: HostTransfers, node: str) -> RoundTripOp:
    row = transfers.row_of.get(node)
    if row is not None:
        return transfers.op(row)
    return RoundTripOp(node, None, node.removeprefix("name:"), "")
