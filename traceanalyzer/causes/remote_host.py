"""Ops placed on another task of the cluster."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.causes._cause import finding
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, series
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import Role

# The job of a program outside a cluster is `localhost`.
_TASK: Final = re.compile(r"/job:(?!localhost/)([^/]+)(?:/replica:\d+)?/task:(\d+)")


def check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        ops = host.tables.ops
        tasks = ops["device"].map(_task)
        own, recorded_in = _own_task(host, tasks)
        if not own:
            continue
        is_cpu_op = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
        is_away = is_cpu_op & (tasks != "") & (tasks != own)
        for task, found in ops[is_away].groupby(tasks[is_away]):
            types = series(sorted(set(found["type"].astype(str))))
            text = f"{counted(len(found), 'op')} ran on a device of {task}; {host.name} is {own}"
            yield finding(
                "remote_host",
                values={"types": types, "task": str(task)},
                scope=f"{host.name} {task}",
                certainty="certain" if recorded_in else "likely",
                op_ids=tuple(found["op_id"]),
                evidence=(observed("device", text, recorded_in),),
            )


def _own_task(host: Host, tasks: Iterable[str]) -> tuple[str, str]:
    """Return a host's task, and where the capture file records it; "" if unknown."""
    seen = Counter(task for task in tasks if task)
    if host.capture_file is not None:
        configured = _configured_task(host.capture_file)
        if configured:
            # A program can take another task than the variable names: then no op has a device of
            # that task.
            return configured, "environment: TF_CONFIG" if configured in seen else ""
        instances = [each for f in host.capture_file.functions for each in f.instances]
        devices = {device for each in instances for device in each.assigned}
        with_gpu = {_task(device) for device in devices if "/device:GPU:" in device} - {""}
        if len(with_gpu) == 1:
            return with_gpu.pop(), ""
    return (seen.most_common(1)[0][0] if seen else ""), ""


def _configured_task(capture_file: CaptureFile) -> str:
    variables = (capture_file.environment or {}).get("variables")
    text = variables.get("TF_CONFIG") if isinstance(variables, dict) else None
    try:
        task = json.loads(text)["task"] if isinstance(text, str) else {}
        return f"/job:{task['type']}/task:{int(task['index'])}"
    except (ValueError, KeyError, TypeError):
        return ""  # TensorFlow would not accept this configuration


def _task(device: object) -> str:
    match = _TASK.match(device) if isinstance(device, str) else None
    return "" if match is None else f"/job:{match[1]}/task:{match[2]}"
