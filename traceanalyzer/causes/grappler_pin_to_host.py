"""Moved to the host by a graph optimizer.

## What it detects

Ops that TensorFlow's placer put on a GPU and that ran on the CPU anyway, in a program that switched
on `pin_to_host_optimization`.

## Why it happens

The optimizer (pin_to_host_optimizer.cc) rewrites a graph after placement. It moves ops with small
inputs and outputs to the host if their inputs are there. Small means a string tensor, or at most 64
elements of int32, int64, or float, known before the graph runs. The option is off unless a program
sets it, in `tf.config.optimizer` or in the configuration of a TensorFlow 1 session.

## How to fix it

Leave the option off, and measure. It moves only small ops; what counts is whether the GPU waits.

## How sure it is

Certain if the capture recorded the option, the device that the placer chose, and the partition that
ran the op. A trace alone does not show whether the option was on: there it is one of several
possible causes, for ops whose inputs may all be small in a graph that is also on a GPU. A capture
without a GPU cannot show which ops the optimizer would move on a machine that has one; if the
option was on, no op that it may move is said to run on the GPU for certain.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Fix
from traceanalyzer.placement.devices import asks_for_cpu, device_text
from traceanalyzer.placement.rewrites import OPTION, pinned_by
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.run import Host, Run


class _Switch(NamedTuple):
    """Where the option was set: the finding's scope, the evidence, and code that undoes it."""

    scope: str
    text: str
    where: str
    code: str


_SWITCHES: Final = {
    "program": _Switch(
        scope="",
        text=f"the program set {OPTION}",
        where="devices: optimizer_options",
        code=f'tf.config.optimizer.set_experimental_options({{"{OPTION}": False}})',
    ),
    "session": _Switch(
        scope="session",
        text=f"the session's ConfigProto sets {OPTION}",
        where="session_configs: rewrites",
        code=f"config.graph_options.rewrite_options.{OPTION} = "
        "rewriter_config_pb2.RewriterConfig.OFF",
    ),
}


class _Moved(NamedTuple):
    """An op on the CPU that was placed elsewhere."""

    row: int
    function: str
    node: str
    device: str


def not_applicable(run: Run) -> str | None:
    if all(host.capture_file is None for host in run.hosts):
        return "the optimizer's options are not recorded without a capture"
    return None


def check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        if host.capture_file is None:
            continue
        by_switch: dict[str, list[_Moved]] = defaultdict(list)
        for moved in _moved(host, host.capture_file):
            is_of_session = is_session(moved.function)
            switched_by = pinned_by(host.capture_file, is_of_session=is_of_session)
            if switched_by is not None:
                by_switch[switched_by].append(moved)
        for name, ops in by_switch.items():
            yield _finding(host, ops, _SWITCHES[name])


def _moved(host: Host, capture_file: CaptureFile) -> Iterator[_Moved]:
    """Walk the rows on the CPU that were placed elsewhere."""
    ops, joined = host.tables.ops, host.tables.joined
    if joined is None:
        return
    columns = zip(ops["placement"], ops["role"], joined.records, strict=True)
    for row, (placement, role, record) in enumerate(columns):
        if placement != "cpu" or role != Role.COMPUTE or record is None or not record.node:
            continue
        if record.device is None or not asks_for_cpu(record.device):
            continue
        assigned = _assigned(capture_file, record.function, record.node)
        if assigned and not any(asks_for_cpu(device) or not device for device in assigned):
            yield _Moved(row, record.function, record.node, min(assigned))


def _assigned(capture_file: CaptureFile, name: str, node: str) -> set[str]:
    """Return the devices that the placer chose for a node, in all instances of its function."""
    function = capture_file.function(name)
    found = set()
    for instance in () if function is None else function.instances:
        at = instance.input.index(node)
        if at >= 0:
            found.add(instance.assigned[at] if at < len(instance.assigned) else "")
    return found


def _finding(host: Host, moved: list[_Moved], switch: _Switch) -> Finding:
    rows = host.tables.ops.iloc[[each.row for each in moved]]
    types = listed(sorted(set(rows["type"].astype(str))))
    is_certain = bool((rows["placement_certainty"] == "certain").all())
    placed = (
        observed(
            "assigned_device",
            f"the placer put {each.node} on {device_text(each.device)}; the CPU ran it",
            f"node {each.node}",
        )
        for each in moved[:5]
    )
    where = switch.where
    return Finding(
        cause=CAUSE.id,
        scope=switch.scope,
        certainty="certain" if is_certain else "likely",
        harm="harmless",
        title=f"{OPTION} moved {counted(len(moved), 'op')} to the CPU: {types}",
        why=(
            "The placer put these ops on a GPU. The program switched on an optimizer that then "
            "moves small ops to the host if their inputs are there."
        ),
        op_ids=tuple(rows["op_id"]),
        evidence=(observed("optimizer_options", switch.text, where), *placed),
        fixes=(Fix(text="Leave the option off, which is its default.", code=switch.code),),
    )


CAUSE = Cause(
    __name__,
    "Moved to the host by a graph optimizer",
    __doc__,
    check=check,
    not_applicable=not_applicable,
)
