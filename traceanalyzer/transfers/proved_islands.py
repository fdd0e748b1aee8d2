"""The islands that copies alone prove: what an op takes off a GPU and what it gives back.

Where one op takes and another of the same function gives, values probably pass from one to the
other: the function is one computation. Which ops lie between, copies do not tell.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.transfers.cheapest_move import Value
from traceanalyzer.transfers.crossings import IslandOp
from traceanalyzer.transfers.island import Island

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.crossings import Crossings

__all__ = ["proved_islands"]


def proved_islands(crossing: Crossings, seen: set[str | None], *, guess: bool) -> Iterator[Island]:
    """Find islands.

    Args:
        crossing: The copies of a host.
        seen: Op ids of those that are in an island already.
        guess: Whether ops of one function may be taken for connected.
    """
    takes = _members(crossing, crossing.rows(crossing.arriving, "consumer"), seen)
    gives = _members(crossing, crossing.rows(crossing.leaving, "producer"), seen)
    for row in sorted(takes.keys() & gives.keys()):
        certainty = str(crossing.ops["placement_certainty"].iloc[row])
        yield _island(crossing, [row], takes, gives, _certainty(certainty))
    if not guess:
        return
    ends: dict[str, tuple[list[int], list[int]]] = {}
    for k, side in enumerate((takes, gives)):
        for row in side.keys() - (takes.keys() & gives.keys()):
            function = crossing.function(row)
            if function is not None:
                ends.setdefault(function, ([], []))[k].append(row)
    for function in sorted(ends):
        first, last = ends[function]
        if first and last and _in_order(crossing, takes, first, gives, last):
            rows = [*sorted(first), *sorted(last)]
            island = _island(crossing, rows, takes, gives, "likely")
            is_other = crossing.is_member & (crossing.ops["function"] == function).to_numpy()
            others = (crossing.op(row) for row in np.flatnonzero(is_other).tolist())
            between = tuple(op for op in others if op not in island.ops)
            yield replace(island, between=between)


def _members(
    crossing: Crossings, copies_of: Mapping[int, list[int]], seen: set[str | None]
) -> dict[int, list[int]]:
    return {
        row: copies
        for row, copies in copies_of.items()
        if crossing.is_member[row] and crossing.op(row).op_id not in seen
    }


def _certainty(text: str) -> Certainty:
    return "certain" if text == "certain" else "likely" if text == "likely" else "possible"


def _in_order(
    crossing: Crossings,
    takes: Mapping[int, list[int]],
    first: Iterable[int],
    gives: Mapping[int, list[int]],
    last: Iterable[int],
) -> bool:
    """Tell whether something left after something had come."""
    start = crossing.copies["start_ps"].to_numpy(np.int64)
    came = min(int(start[takes[row]].min()) for row in first)
    return any(int(start[gives[row]].max()) > came for row in last)


def _island(
    crossing: Crossings,
    rows: Sequence[int],
    takes: Mapping[int, list[int]],
    gives: Mapping[int, list[int]],
    certainty: Certainty,
) -> Island:
    arriving = sorted(c for row in rows for c in takes.get(row, ()))
    leaving = sorted(c for row in rows for c in gives.get(row, ()))
    known = {crossing.op(row).key: crossing.op(row) for row in rows}
    on_cpu = frozenset(known)
    ends = crossing.ends
    shared: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for is_leaving, copies in ((False, arriving), (True, leaving)):
        for copy in copies:
            shared[ends.nodes[ends.source[copy]], is_leaving].append(copy)
    nets = []
    for (producer, _), copies in shared.items():
        taken_by = dict.fromkeys(ends.nodes[ends.target[c]] for c in copies)
        nets.append((producer, tuple(taken_by), copies))
    for node in {n for producer, consumers, _ in nets for n in (producer, *consumers)}:
        known.setdefault(node, _beyond(crossing, node))
    held = frozenset(known) - on_cpu
    # What goes from those that take to those that give stays on one side: how much it is, and
    # whether it goes directly, nobody knows.
    inner = (
        [Value(producer=crossing.op(rows[0]).key, consumers=tuple(sorted(on_cpu)), cost=None)]
        if len(rows) > 1
        else []
    )
    return Island(
        host=str(crossing.copies["host"].iloc[arriving[0]]),
        function=crossing.function(rows[0]),
        certainty=certainty,
        ops=tuple(crossing.op(row) for row in rows),
        between=(),
        arriving=crossing.crossing(arriving),
        leaving=crossing.crossing(leaving),
        values=(*crossing.values(nets, "bytes"), *inner),
        times=(*crossing.values(nets, "duration_ps"), *inner),
        on_cpu=on_cpu,
        held=held,
        known=known,
    )


def _beyond(crossing: Crossings, node: str) -> IslandOp:
    row = crossing.row_of.get(node)
    if row is not None:
        return crossing.op(row)
    return IslandOp(key=node, op_id=None, name=node.removeprefix("name:"), type="")
