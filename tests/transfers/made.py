"""Runs made of hand-written traces, for the tests of transfers."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from tests.traces import decode, xspace
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.function_records import Function, Graph, Instance, Partition
from traceanalyzer.tables.device_events import device_planes
from traceanalyzer.tables.host_tables import host_tables
from traceanalyzer.tables.schema import KERNELS, OPS, STEPS, TRANSFERS
from traceanalyzer.transfers.costs import TransferCosts, transfer_costs
from traceanalyzer.transfers.traffic import HostFacts, Traffic, measure

__all__ = ["CPU", "GPU", "Made", "made", "recorded"]

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


@dataclass(frozen=True, eq=False, kw_only=True)
class Made:
    """The tables of a run of one host, and the costs of its transfers."""

    ops: pd.DataFrame
    traffic: Traffic
    costs: TransferCosts

    def op_id(self, name: str) -> str:
        """The id of the only op of that name."""
        (found,) = self.ops.loc[self.ops["name"] == name, "op_id"]
        return str(found)


def made(*planes: Any, capture_file: CaptureFile | None = None) -> Made:  # noqa: ANN401 - words nest
    """The run of a host whose trace contains these planes, with its capture file."""
    trace = decode(xspace(*planes))
    tables = host_tables("worker-0", 0, trace, capture_file)
    facts = HostFacts(
        name="worker-0",
        device_properties={p.name: p.own for p in device_planes(trace)},
        capture_file=capture_file,
        joined=tables.joined,
    )
    copies, kernels, steps, ops = (
        schema.frame([getattr(tables, schema.name)]) for schema in (TRANSFERS, KERNELS, STEPS, OPS)
    )
    traffic = measure(copies, kernels, steps, [facts])
    return Made(ops=ops, traffic=traffic, costs=transfer_costs(traffic, ops, [facts]))


def recorded(
    function: str,
    *nodes: tuple[str, str, str, tuple[str, ...]],
    gpus: tuple[dict[str, Any], ...] = (),
) -> CaptureFile:
    """A capture of one function: name, type, device and inputs of its nodes."""
    names, ops, devices, inputs = (tuple(column) for column in zip(*nodes, strict=True))
    blank = ("",) * len(nodes)
    graph = Graph(
        names=names,
        ops=ops,
        inputs=inputs,
        devices=blank,
        attributes=(-1,) * len(nodes),
        origin_functions=blank,
        origin_nodes=blank,
    )
    partitions = tuple(
        Partition(
            device=device,
            names=tuple(n[0] for n in nodes if n[2] == device),
            ops=tuple(n[1] for n in nodes if n[2] == device),
            attributes=tuple(-1 for n in nodes if n[2] == device),
            origin_functions=tuple("" for n in nodes if n[2] == device),
            origin_nodes=tuple("" for n in nodes if n[2] == device),
        )
        for device in dict.fromkeys(devices)
    )
    instance = Instance(input=graph, assigned=devices, partitions=partitions)
    return CaptureFile(
        tool="0",
        host="worker-0",
        complete=True,
        gpus=gpus,
        functions=(Function(name=function, instances=(instance,)),),
    )
