"""Scalars that are read back from a GPU each step: by whom, and how long that takes.

The value of a predicate, a loss that is printed: the copy is of a few bytes, but whoever needs the
value waits until the device has computed it, and the device may have nothing to do until then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from traceanalyzer.timeline.intervals import union
from traceanalyzer.transfers.graph import op_ends
from traceanalyzer.transfers.grouping import codes_of, grouped
from traceanalyzer.transfers.traffic import rows_of_devices

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.model import Certainty
    from traceanalyzer.timeline.intervals import Intervals
    from traceanalyzer.transfers.occasions import Occasions
    from traceanalyzer.transfers.traffic import Traffic

__all__ = ["CONTROL_FLOW", "ReadBack", "Reader", "read_backs"]

# Who takes the value: the program itself (`.numpy()`, `print`, `float`); control flow, which takes
# its predicate in host memory; an op placed on a GPU that takes this input in host memory; an op
# placed on the CPU; one that is not known.
Reader: TypeAlias = Literal["python", "predicate", "host_argument", "cpu_op", "unknown"]

SCALAR_BYTES: Final = 16  # a complex128
_SOME: Final = 3  # copies that make a habit, where no steps are known
# control_flow_ops.cc, functional_ops.cc: those that choose by the value of an input.
CONTROL_FLOW: Final = frozenset(
    {
        *("Switch", "_SwitchN", "RefSwitch", "LoopCond", "If", "StatelessIf", "While"),
        *("StatelessWhile", "Case", "StatelessCase"),
    }
)
# lower_if_op.cc, lower_case_op.cc, lower_while_op.cc: what stands in for control flow is named
# after its op, with a number (`Graph::NewName`), and chooses by a bool, or by a branch's index.
_STAND_IN: Final = re.compile(r".+/_\d+")
_BOOL_BYTES: Final = 1
_NEVER: Final = 2**62
_ON_HOST: Final = frozenset({"_HostSend", "_HostRecv"})


@dataclass(frozen=True, kw_only=True)
class ReadBack:
    """Copies of one scalar to the host.

    Attributes:
        host: The host.
        device: The device it is read from, `/device:GPU:0`; None where not known.
        reader: Who takes it.
        certainty: How sure that is.
        source: The node of the copy graph it comes from: an op's id, `name:X`, or the memory.
        source_name: Name of the op that made it; None where not known.
        consumer_name: Name of the node that takes it; likewise.
        count: How often it was copied.
        count_per_step: How often in a step, as the median over the steps; None without steps.
        bytes_each: Its size; None where not known.
        time_ps: Time of the copies; None where not known.
        wait_ps: From when the host asked for a copy until it was there, overlaps counted once: so
            long waited whatever needed the value. None where no asking is known.
        idle_ps: How long the device stood idle right after the copies, before anything else ran on
            it. The copy need not be why. None where the device is not known.
    """

    host: str
    device: str | None
    reader: Reader
    certainty: Certainty
    source: str
    source_name: str | None
    consumer_name: str | None
    count: int
    count_per_step: float | None
    bytes_each: float | None
    time_ps: int | None
    wait_ps: int | None
    idle_ps: int | None


def read_backs(
    copies: pd.DataFrame,
    ops: pd.DataFrame,
    traffic: Traffic,
    when: Occasions,
    node_types: Mapping[str, str] | None = None,
) -> tuple[ReadBack, ...]:
    """Find the scalars that are read back in half of the steps or more, the longest waits first.

    Args:
        copies: The copy table.
        ops: The op table.
        traffic: What else is known of the copies.
        when: The steps of the copies.
        node_types: Types of nodes that left no row in `ops`, by name, as a capture tells them.
    """
    to_host = (copies["direction"] == "d2h").to_numpy()
    if not to_host.any():
        return ()
    size = copies["bytes"]
    is_scalar = (size <= SCALAR_BYTES).fillna(value=False).to_numpy(np.bool_)
    consumers = _Consumers(copies, ops, node_types or {})
    # Control flow takes nothing but scalars.
    rows = np.flatnonzero(to_host & (is_scalar | (size.isna().to_numpy() & consumers.choose)))
    ends = op_ends(copies)
    found = []
    keys = [codes_of(copies[c]) for c in ("host", "device", "via")]
    for group in grouped(rows, [*keys, ends.source, ends.target]):
        counts = when.counts(group)
        if 2 * np.count_nonzero(counts) < len(counts) if len(counts) else len(group) < _SOME:
            continue
        first = int(group[0])
        reader, certainty = consumers.reader(first)
        asked = group[copies["launch_ps"].notna().to_numpy()[group]]
        took = copies["duration_ps"].iloc[group].dropna()
        sizes = size.iloc[group].dropna()
        row = copies.iloc[first]
        found.append(
            ReadBack(
                host=str(row["host"]),
                device=_text(row["device"]),
                reader=reader,
                certainty=certainty,
                source=ends.nodes[ends.source[first]],
                source_name=_text(row["producer_name"]),
                consumer_name=_text(row["consumer_name"]),
                count=len(group),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(sizes.median()) if len(sizes) else None,
                time_ps=int(took.sum()) if len(took) else None,
                wait_ps=_wait(copies, asked),
                idle_ps=_idle_after(copies, traffic, group),
            )
        )
    return tuple(sorted(found, key=lambda r: (-(r.wait_ps or 0), -r.count, r.source, str(r.host))))


class _Consumers:
    """Who takes the value of each copy."""

    def __init__(
        self, copies: pd.DataFrame, ops: pd.DataFrame, node_types: Mapping[str, str]
    ) -> None:
        types = dict(zip(ops["op_id"], ops["type"].astype(str), strict=True))
        placements = dict(zip(ops["op_id"], ops["placement"].astype(str), strict=True))
        self._copies = copies
        self._names = copies["consumer_name"]
        by_name = [node_types.get(str(name)) for name in self._names.cat.categories]
        by_op = [types.get(str(op)) for op in copies["consumer"].cat.categories]
        named = np.array([*(t in CONTROL_FLOW for t in by_name), False], np.bool_)
        known = np.array([*(t in CONTROL_FLOW for t in by_op), False], np.bool_)
        self._type_by_name = [*by_name, None]
        self._placement = [
            *(placements.get(str(op)) for op in copies["consumer"].cat.categories),
            None,
        ]
        self.choose: NDArray[np.bool_] = (
            known[copies["consumer"].cat.codes.to_numpy()] | named[self._names.cat.codes.to_numpy()]
        )

    def reader(self, row: int) -> tuple[Reader, Certainty]:
        """Return who takes the value of a copy, and how sure that is."""
        copy = self._copies.iloc[row]
        if copy["via"] == "python":
            return "python", "certain"
        if self.choose[row]:
            return "predicate", "certain"
        name = _text(copy["consumer_name"])
        told = self._type_by_name[int(self._names.cat.codes.iloc[row])]
        is_bool = copy["bytes"] == _BOOL_BYTES
        if told is None and name is not None and is_bool and _STAND_IN.fullmatch(name):
            return "predicate", "likely"
        if self._placement[int(self._copies["consumer"].cat.codes.iloc[row])] == "cpu":
            return "cpu_op", "certain"
        if copy["via"] in _ON_HOST and name is not None:
            return "host_argument", "likely"
        return "unknown", "possible"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _wait(copies: pd.DataFrame, rows: NDArray[np.int64]) -> int | None:
    """Return the time from the asking for copies to their end; None where nothing is known."""
    took = copies["duration_ps"].iloc[rows]
    timed = took.notna().to_numpy()
    if not timed.any():
        return None
    asked = copies["launch_ps"].iloc[rows].to_numpy(np.int64)[timed]
    start = copies["start_ps"].to_numpy(np.int64)[rows][timed]
    end = start + took.fillna(0).to_numpy(np.int64)[timed]
    sound = end >= asked  # else the clocks of host and device disagree
    return union(asked[sound], (end - asked)[sound]).total_ps if sound.any() else None


def _idle_after(copies: pd.DataFrame, traffic: Traffic, rows: NDArray[np.int64]) -> int | None:
    """Return how long the device of copies did nothing right after them; None where unknown."""
    host, device = (_text(copies[c].iloc[rows[0]]) for c in ("host", "device"))
    if host is None or device is None:
        return None
    timed = rows[copies["duration_ps"].notna().to_numpy()[rows]]
    own = rows_of_devices(copies)[host, device]
    starts = copies["start_ps"].to_numpy(np.int64)
    ends = starts + copies["duration_ps"].fillna(0).to_numpy(np.int64)
    copying = union(starts[own], (ends - starts)[own])
    end = ends[timed]
    following = [_following(times, end) for times in (traffic.kernels[host, device], copying)]
    idle = np.minimum(*following) - end
    is_known = idle < _NEVER - end
    return int(idle[is_known].sum()) if is_known.any() else None


def _following(times: Intervals, at_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when the times go on after each moment: at once, within one of them."""
    place = np.searchsorted(times.end_ps, at_ps, side="right")
    start = np.append(times.start_ps, _NEVER)[place]
    after: NDArray[np.int64] = np.maximum(start, at_ps)
    return after
