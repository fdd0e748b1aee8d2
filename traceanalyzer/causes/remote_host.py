"""Placed on another task of the cluster.

## What it detects

Ops that were placed on a CPU of another job or task: a parameter server, or another worker.

## Why it happens

In a cluster, a device name contains the job and task: `/job:ps/task:0/device:CPU:0`. The program or
its strategy sent such an op there. That it runs on a CPU says nothing about the GPUs of this host.

## How to fix it

Nothing to change about the placement on this host. To see what the other host does, record its
trace into the same run.

## How sure it is

Certain if the capture recorded the program's own task (`TF_CONFIG`) and ops ran on devices of that
task. Likely if none did, because a program can take another task than the variable names; if the
variable is not set and only one task's GPUs appear in the captured graphs, which is then taken to
be the program's own; and without a capture, where the task with the most devices in the trace is
taken to be its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Fix
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.run import Host, Run

_TASK: Final = re.compile(r"/job:([^/]+)(?:/replica:\d+)?/task:(\d+)")
_NO_CLUSTER: Final = "localhost"  # the job of a program outside a cluster


def check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        ops = host.tables.ops
        devices = [device if isinstance(device, str) else "" for device in ops["device"]]
        own, recorded_in = _own_task(host, devices)
        if not own:
            continue
        by_task: dict[str, list[int]] = {}
        columns = zip(devices, ops["placement"], ops["role"], strict=True)
        for row, (device, placement, role) in enumerate(columns):
            task = _task(device)
            if task and task != own and placement == "cpu" and role == Role.COMPUTE:
                by_task.setdefault(task, []).append(row)
        for task, rows in sorted(by_task.items()):
            found = ops.iloc[rows]
            types = listed(sorted(set(found["type"].astype(str))))
            text = f"the device of {counted(len(found), 'op')} is on {task}; {host.name} is {own}"
            yield Finding(
                cause=CAUSE.id,
                scope=f"{host.name} {task}",
                certainty="certain" if recorded_in else "likely",
                harm="by_design",
                title=f"{types} ran on the CPU of {task}, another task of the cluster",
                why=(
                    f"The program, or its strategy, placed these ops on {task}. They did not fall "
                    "back to the CPU of this host."
                ),
                op_ids=tuple(found["op_id"]),
                evidence=(observed("device", text, recorded_in),),
                fixes=(Fix(text=f"Record a trace of {task} too, to see what it does and why."),),
            )


def _own_task(host: Host, devices: Iterable[str]) -> tuple[str, str]:
    """Return a host's task, and where the capture file records it; "" for unknown."""
    seen = Counter(task for device in devices if (task := _task(device)))
    if host.capture_file is not None:
        configured = _configured_task(host.capture_file)
        if configured:
            # A program can take another task than the variable names: then no op has a device of
            # that task.
            return configured, "environment: TF_CONFIG" if configured in seen else ""
        with_gpu = _tasks_with_gpu(host.capture_file)
        if len(with_gpu) == 1:
            return with_gpu.pop(), ""
    return (seen.most_common(1)[0][0] if seen else ""), ""


def _tasks_with_gpu(capture_file: CaptureFile) -> set[str]:
    """Return the tasks on whose GPUs TensorFlow placed nodes."""
    return {
        task
        for function in capture_file.functions
        for instance in function.instances
        for device in set(instance.assigned)
        if "/device:GPU:" in device and (task := _task(device))
    }


def _configured_task(capture_file: CaptureFile) -> str:
    variables = (capture_file.environment or {}).get("variables")
    text = variables.get("TF_CONFIG") if isinstance(variables, dict) else None
    try:
        task = json.loads(text)["task"] if isinstance(text, str) else {}
        return f"/job:{task['type']}/task:{int(task['index'])}"
    except (ValueError, KeyError, TypeError):
        return ""  # TensorFlow would not accept this configuration


def _task(device: str) -> str:
    """Return job and task of a device; "" if it names none, or is in no cluster."""
    match = _TASK.match(device)
    if match is None or match[1] == _NO_CLUSTER:
        return ""
    return f"/job:{match[1]}/task:{match[2]}"


CAUSE = Cause(__name__, __doc__, check=check)
