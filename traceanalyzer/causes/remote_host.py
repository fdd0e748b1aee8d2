"""The op belongs to another task of the cluster.

## What it detects

Ops that were placed on a CPU of another job or task: a parameter server, or another worker.

## Why it happens

In a cluster a device name says of which job and task it is: `/job:ps/task:0/device:CPU:0`. Such an
op was sent there by the program, or by its strategy; that it runs on a CPU says nothing of the GPUs
of this host.

## How to fix it

Nothing about the placement on this host. What the other host does is told by its own trace: record
that as well, into the same run.

## How sure it is

Certain where the capture recorded which task of the cluster the program was (`TF_CONFIG`), and ops
ran on devices of that task. Likely where none did, as a program can take another task than that
variable names; where the variable is not set, and the one task on whose GPUs the captured graphs
were placed is taken to be its own; and without a capture, where that is the task that most devices
in the trace are of.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.model import Certainty
    from traceanalyzer.run import Host, Run

_ADDRESS: Final = re.compile(r"/job:([^/]+)(?:/replica:\d+)?/task:(\d+)")
_IN_NO_CLUSTER: Final = "localhost"  # the job of a program that is not in a cluster


def _check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        ops = host.tables.ops
        devices = [d if isinstance(d, str) else "" for d in ops["device"]]
        own, proof = _own_address(host, devices)
        if not own:
            continue
        away: dict[str, list[int]] = {}
        columns = zip(devices, ops["placement"], ops["role"], strict=True)
        for at, (device, placement, role) in enumerate(columns):
            address = _address(device)
            if address and address != own and placement == "cpu" and role == Role.COMPUTE:
                away.setdefault(address, []).append(at)
        for address, rows in sorted(away.items()):
            found = ops.iloc[rows]
            yield _finding(host.name, own, proof, address, tuple(found["op_id"]), found["type"])


def _finding(  # noqa: PLR0913, PLR0917 - what is known of one task
    host: str, own: str, proof: str, address: str, op_ids: tuple[str, ...], types: Iterable[object]
) -> Finding:
    certainty: Certainty = "certain" if proof else "likely"
    shown = listed(sorted({str(t) for t in types}))
    return Finding(
        cause=CAUSE.id,
        scope=f"{host} {address}",
        certainty=certainty,
        harm="by_design",
        title=f"{shown} ran on the CPU of {address}, another task of the cluster",
        why=(
            f"The devices of these ops are of {address}: the program, or its strategy, sent them "
            "there. They are no fallback to the CPU of this host."
        ),
        op_ids=op_ids,
        evidence=(
            Evidence(
                kind="device",
                text=f"the device of {counted(len(op_ids), 'op')} is of {address}; {host} is {own}",
                where=CaptureFileWhere(sidecar=proof) if proof else None,
            ),
        ),
        fixes=(Fix(text=f"Record a trace of {address} too, to see what it does and why."),),
    )


def _own_address(host: Host, devices: Iterable[str]) -> tuple[str, str]:
    """Return which task a host is, and where the capture file says so; "" for what is not known."""
    seen = Counter(address for device in devices if (address := _address(device)))
    if host.capture_file is not None:
        told = _of_cluster(host.capture_file)
        if told:
            # A program can take another task than the variable names: then none of its own ops
            # has a device of that.
            return told, "environment: TF_CONFIG" if told in seen else ""
        with_gpu = _with_gpu(host.capture_file)
        if len(with_gpu) == 1:
            return with_gpu.pop(), ""
    return (seen.most_common(1)[0][0] if seen else ""), ""


def _with_gpu(capture_file: CaptureFile) -> set[str]:
    """Return the tasks on whose GPUs TensorFlow placed something: who computes, asks others."""
    return {
        address
        for function in capture_file.functions
        for instance in function.instances
        for device in set(instance.assigned)
        if "/device:GPU:" in device and (address := _address(device))
    }


def _of_cluster(capture_file: CaptureFile) -> str:
    variables = (capture_file.environment or {}).get("variables")
    text = variables.get("TF_CONFIG") if isinstance(variables, dict) else None
    if not isinstance(text, str):
        return ""
    try:
        task = json.loads(text)["task"]
        return f"/job:{task['type']}/task:{int(task['index'])}"
    except (ValueError, KeyError, TypeError):
        return ""  # no configuration that TensorFlow would take


def _address(device: str) -> str:
    """Return job and task of a device; "" where it names none, or is in no cluster."""
    match = _ADDRESS.match(device)
    if match is None or match[1] == _IN_NO_CLUSTER:
        return ""
    return f"/job:{match[1]}/task:{match[2]}"


CAUSE = Cause(
    id="remote_host",
    title="It belongs to another task of the cluster",
    documentation=__doc__,
    check=_check,
)
