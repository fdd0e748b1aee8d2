"""Device-to-host syncs: scalars that are read back each step, by whom, and how long that takes.

The value of a predicate, a loss that is printed: only a few bytes are copied, but what needs the
value waits until the device has computed it, and the device may have nothing to do until then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.timeline.intervals import union
from traceanalyzer.transfers.ends import codes_of, grouped, op_ends, text_or_none
from traceanalyzer.transfers.traffic import rows_of_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model import Certainty
    from traceanalyzer.model.figures import Reader
    from traceanalyzer.timeline.intervals import Intervals
    from traceanalyzer.transfers.traffic import Traffic
    from traceanalyzer.transfers.transfer_steps import TransferSteps

_SCALAR_BYTES: Final = 16  # a complex128
_REPEATED: Final = 3  # transfers, without steps
# control_flow_ops.cc, functional_ops.cc: ops that choose by the value of an input.
_CONTROL_FLOW: Final = frozenset(
    {
        *("Switch", "_SwitchN", "RefSwitch", "LoopCond", "If", "StatelessIf", "While"),
        *("StatelessWhile", "Case", "StatelessCase"),
    }
)
# lower_if_op.cc, lower_case_op.cc, lower_while_op.cc: what replaces control flow is named after its
# op, with a number (`Graph::NewName`), and chooses by a bool, or by a branch's index.
_LOWERED: Final = re.compile(r".+/_\d+")
_BOOL_BYTES: Final = 1
_NEVER: Final = 2**62
_ON_HOST: Final = frozenset({"_HostSend", "_HostRecv"})


@dataclass(frozen=True, kw_only=True)
class DeviceToHostSync:
    """Copies of one scalar to the host."""

    host: str
    device: str | None  #: `/device:GPU:0`
    #: Who takes it: the program itself (`.numpy()`, `print`, `float`); control flow, which takes
    #: its predicate in host memory; an op placed on a GPU that takes this input in host memory; an
    #: op placed on the CPU.
    reader: Reader
    certainty: Certainty  #: of the reader
    source: str  #: node of the transfer graph
    source_name: str | None  #: the op that made it
    consumer_name: str | None  #: the node that takes it
    count: int
    count_per_step: float | None  #: median over the steps; None without steps
    bytes_each: float | None
    time_ps: int | None
    #: From the request to the end of each copy, overlaps counted once: so long waited what needed
    #: the value. None if no request is known.
    wait_ps: int | None
    #: How long the device was idle right after the copies. They need not be the reason.
    idle_ps: int | None


def device_to_host_syncs(
    transfers: pd.DataFrame,
    ops: pd.DataFrame,
    traffic: Traffic,
    steps: TransferSteps,
    node_types: Mapping[str, str],
) -> tuple[DeviceToHostSync, ...]:
    """Find the scalars that are read back in half of the steps or more, the longest waits first.

    Args:
        transfers: The transfer table.
        ops: The op table.
        traffic: What else is known of the transfers.
        steps: The steps of the transfers.
        node_types: Recorded types of nodes that are not in `ops`, by name.
    """
    to_host = (transfers["direction"] == "d2h").to_numpy()
    if not to_host.any():
        return ()
    size = transfers["bytes"]
    is_scalar = (size <= _SCALAR_BYTES).fillna(value=False).to_numpy(np.bool_)
    readers = _Readers(transfers, ops, node_types)
    # Control flow takes nothing but scalars.
    is_scalar |= size.isna().to_numpy() & readers.is_predicate
    ends = op_ends(transfers)
    start, took = (transfers[c].fillna(0).to_numpy(np.int64) for c in ("start_ps", "duration_ps"))
    busy = {
        device: (traffic.kernels[device], union(start[rows], took[rows]))
        for device, rows in rows_of_devices(transfers).items()
    }
    found = []
    keys = [codes_of(transfers[c]) for c in ("host", "device", "via")]
    for group in grouped(np.flatnonzero(to_host & is_scalar), [*keys, ends.source, ends.target]):
        counts = steps.counts(group)
        is_rare = 2 * np.count_nonzero(counts) < len(counts)
        if is_rare if len(counts) else len(group) < _REPEATED:
            continue
        own = transfers.iloc[group]
        first = own.iloc[0]
        device_busy = busy.get((first["host"], first["device"]))
        times = own["duration_ps"].dropna()
        sizes = own["bytes"].dropna()
        reader, certainty = readers.reader(int(group[0]))
        found.append(
            DeviceToHostSync(
                host=str(first["host"]),
                device=text_or_none(first["device"]),
                reader=reader,
                certainty=certainty,
                source=ends.nodes[ends.source[group[0]]],
                source_name=text_or_none(first["producer_name"]),
                consumer_name=text_or_none(first["consumer_name"]),
                count=len(group),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(sizes.median()) if len(sizes) else None,
                time_ps=int(times.sum()) if len(times) else None,
                wait_ps=_wait_ps(own),
                idle_ps=None if device_busy is None else _idle_after_ps(own, device_busy),
            )
        )
    return tuple(sorted(found, key=lambda r: (-(r.wait_ps or 0), -r.count, r.source, r.host)))


class _Readers:
    """Who takes the value of each transfer."""

    def __init__(
        self, transfers: pd.DataFrame, ops: pd.DataFrame, node_types: Mapping[str, str]
    ) -> None:
        self._transfers = transfers
        self._type_by_name = _looked_up(transfers["consumer_name"], node_types)
        consumer = transfers["consumer"]
        types = _looked_up(consumer, dict(zip(ops["op_id"], ops["type"], strict=True)))
        self._placement = _looked_up(
            consumer, dict(zip(ops["op_id"], ops["placement"], strict=True))
        )
        self.is_predicate: NDArray[np.bool_] = (
            types.isin(_CONTROL_FLOW) | self._type_by_name.isin(_CONTROL_FLOW)
        ).to_numpy()

    def reader(self, row: int) -> tuple[Reader, Certainty]:
        """Return who takes the value of a transfer, and how sure that is."""
        transfer = self._transfers.iloc[row]
        name = text_or_none(transfer["consumer_name"])
        is_named_bool = name is not None and transfer["bytes"] == _BOOL_BYTES
        if transfer["via"] == "python":
            return "python", "certain"
        if self.is_predicate[row]:
            return "predicate", "certain"
        is_typed = isinstance(self._type_by_name.iloc[row], str)
        if is_named_bool and not is_typed and _LOWERED.fullmatch(str(name)):
            return "predicate", "likely"
        if self._placement.iloc[row] == "cpu":
            return "cpu_op", "certain"
        if transfer["via"] in _ON_HOST and name is not None:
            return "host_argument", "likely"
        return "unknown", "possible"


def _looked_up(column: pd.Series[Any], values: Mapping[str, str]) -> pd.Series[Any]:
    """Return the value for each text of a categorical column, None for null."""
    of_category = [values.get(text) for text in column.cat.categories]
    return pd.Series(np.array([*of_category, None], dtype=object)[codes_of(column)])


def _wait_ps(transfers: pd.DataFrame) -> int | None:
    """Return the time from the request for transfers to their end; None if unknown."""
    known = transfers[transfers["launch_ps"].notna() & transfers["duration_ps"].notna()]
    requested = known["launch_ps"].to_numpy(np.int64)
    end = known["start_ps"].to_numpy(np.int64) + known["duration_ps"].to_numpy(np.int64)
    sound = end >= requested  # otherwise the clocks of host and device disagree
    return union(requested[sound], (end - requested)[sound]).total_ps if sound.any() else None


def _idle_after_ps(transfers: pd.DataFrame, busy: Sequence[Intervals]) -> int | None:
    """Return how long a device did nothing right after its transfers; None if unknown."""
    timed = transfers[transfers["duration_ps"].notna()]
    end = timed["start_ps"].to_numpy(np.int64) + timed["duration_ps"].to_numpy(np.int64)
    idle = np.min([_next_ps(times, end) for times in busy], axis=0) - end
    is_known = idle < _NEVER - end
    return int(idle[is_known].sum()) if is_known.any() else None


def _next_ps(times: Intervals, at_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when the times go on after each moment: at once, within one of them."""
    place = np.searchsorted(times.end_ps, at_ps, side="right")
    after: NDArray[np.int64] = np.maximum(np.append(times.start_ps, _NEVER)[place], at_ps)
    return after
