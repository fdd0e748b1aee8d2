"""All that is found about the copies of a run, host by host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceanalyzer.timeline.device_parts import HostTimeline
from traceanalyzer.timeline.intervals import Intervals
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.transfers.dataflow import Recorded, node_types
from traceanalyzer.transfers.islands import islands
from traceanalyzer.transfers.links import told_links
from traceanalyzer.transfers.occasions import occasions
from traceanalyzer.transfers.read_backs import read_backs
from traceanalyzer.transfers.storms import storms
from traceanalyzer.transfers.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.joined import Joined
    from traceanalyzer.timeline.walk import Parts
    from traceanalyzer.transfers.island import Island
    from traceanalyzer.transfers.read_backs import ReadBack
    from traceanalyzer.transfers.storms import Storm
    from traceanalyzer.transfers.traffic import Traffic

__all__ = ["CopyCosts", "HostFacts", "copy_costs", "run_traffic"]


@dataclass(frozen=True, eq=False, kw_only=True)
class HostFacts:
    """What is known of a host beside its tables.

    Attributes:
        name: Its name.
        device_properties: The properties that each accelerator's plane states.
        capture_file: What a capture recorded, or None.
        joined: What that tells of its op table, or None.
        timeline: What its devices did at each moment.
    """

    name: str
    device_properties: Mapping[str, Mapping[str, str]]
    capture_file: CaptureFile | None
    joined: Joined | None
    timeline: HostTimeline = field(default_factory=HostTimeline)


@dataclass(frozen=True, eq=False, kw_only=True)
class CopyCosts:
    """What there is to say about copies, beside the graph.

    Attributes:
        storms: Many small copies, those that take longest first.
        read_backs: Scalars that are read back each step, the longest waits first.
        islands: Ops on the CPU that values come to from a GPU and leave for it again, those that
            copy most first.
    """

    storms: tuple[Storm, ...]
    read_backs: tuple[ReadBack, ...]
    islands: tuple[Island, ...]


def run_traffic(copies: pd.DataFrame, kernels: pd.DataFrame, hosts: Sequence[HostFacts]) -> Traffic:
    """Measure the copies of a run against what is known of its hosts' links."""
    told = {
        (host.name, device, direction): link
        for host in hosts
        for (device, direction), link in told_links(
            host.device_properties, host.capture_file.gpus if host.capture_file else ()
        ).items()
    }
    ran = {
        (host.name, device.device): _kernel_times(
            device.parts, host.timeline.shifts_ps[device.device]
        )
        for host in hosts
        for device in host.timeline.devices
    }
    return traffic(copies, kernels, told, ran)


def _kernel_times(parts: Parts, shift_ps: int) -> Intervals:
    """Return when some kernel of a device ran, by the device's clock as in the tables."""
    ran = parts.phase == Phase.COMPUTE
    return Intervals(parts.start_ps[ran] - shift_ps, parts.end_ps[ran] - shift_ps)


def copy_costs(
    copies: pd.DataFrame,
    ops: pd.DataFrame,
    steps: pd.DataFrame,
    measured: Traffic,
    hosts: Sequence[HostFacts],
) -> CopyCosts:
    """Find what there is to say about the copies of a run.

    Args:
        copies: Its copy table.
        ops: Its op table.
        steps: Its step table.
        measured: What `run_traffic` tells of the copies.
        hosts: Its hosts.
    """
    when = occasions(copies, steps)
    takers = [str(name) for name in copies["consumer_name"].cat.categories]
    types: dict[str, str] = {}
    for host in hosts:
        if host.capture_file is not None and takers:
            types |= node_types(host.capture_file, takers)
    return CopyCosts(
        storms=storms(copies, measured, when),
        read_backs=read_backs(copies, ops, measured, when, types),
        islands=tuple(island for host in hosts for island in _islands(copies, ops, host)),
    )


def _islands(copies: pd.DataFrame, ops: pd.DataFrame, host: HostFacts) -> Iterator[Island]:
    own = copies[copies["host"] == host.name]
    if own.empty:
        return
    rows = ops[ops["host"] == host.name]
    recorded = None
    if host.capture_file is not None and host.joined is not None:
        functions = rows["function"].astype(object)
        labels = functions.where(functions.notna(), None).tolist()
        recorded = Recorded(host.capture_file, host.joined.records, labels)
    yield from islands(own, rows, recorded)
