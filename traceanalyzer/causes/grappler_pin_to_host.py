"""An optimizer of the graph moved it to the host.

## What it detects

Ops that TensorFlow's placer put on a GPU and that ran on the CPU all the same, in a program that
switched `pin_to_host_optimization` on.

## Why it happens

That optimizer (pin_to_host_optimizer.cc) rewrites a graph after it was placed: ops with small
inputs and outputs whose inputs are on the host go there too. Small is a tensor of strings, or one
of at most 64 int32, int64 or float, which must be known before the graph runs. It is off unless a
program asks for it: by `tf.config.optimizer`, or in what it configures a session of TensorFlow 1
with.

## How to fix it

Leave the option away, and measure. What it moves is small; what counts is whether the GPU waits.

## How sure it is

Certain where the capture recorded the option, the device that the placer gave the op, and the
partition that ran it. A trace alone does not show whether the option was on: there it is one of
several causes that an op may have, if all that it takes may be small, and the graph it is in is on
a GPU too. From a capture without a GPU it cannot be known which ops the optimizer would move on a
machine that has one; where the option was on, no op that it may move is said to be on the GPU for
certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.document import (
    CaptureFile,
    is_session,
)
from traceanalyzer.causes._cause import Cause
from traceanalyzer.placement.devices import asks_for_cpu, device_text
from traceanalyzer.findings import Finding
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.pinning import OPTION, pinned_by
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.run import Host, Run


def _not_applicable(run: Run) -> str | None:
    if all(host.capture_file is None for host in run.hosts):
        return "without a capture the options of the optimizer are not known"
    return None


def _check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        capture_file = host.capture_file
        if capture_file is None:
            continue
        switches = {of: _switch_of(capture_file, is_of_session=of) for of in (False, True)}
        if not any(switches.values()):
            continue
        by_switch: dict[_Switch, list[_Moved]] = {}
        for each in _moved(host, capture_file):
            switch = switches[is_session(each.function)]
            if switch is not None:
                by_switch.setdefault(switch, []).append(each)
        for switch, moved in by_switch.items():
            yield _finding(host, moved, switch)


def _switch_of(capture_file: CaptureFile, *, is_of_session: bool) -> _Switch | None:
    """Return what switched it on for ops of a session's graph, or of others; None if nothing."""
    found = pinned_by(capture_file, is_of_session=is_of_session)
    return None if found is None else _SWITCHES[found]


class _Moved(NamedTuple):
    """An op on the CPU that was placed elsewhere: its row, its node, and where that was."""

    row: int
    function: str
    node: str
    device: str


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
    """Return the devices that the placer gave a node, in all instantiations of its function."""
    function = capture_file.function(name)
    found = set()
    for instance in () if function is None else function.instances:
        at = instance.input.index(node)
        if at >= 0:
            found.add(instance.assigned[at] if at < len(instance.assigned) else "")
    return found


@dataclass(frozen=True, kw_only=True)
class _Switch:
    """Where the option was set.

    Attributes:
        scope: What tells findings apart.
        text: What shows it.
        where: Where in the capture file.
        code: What takes it back.
    """

    scope: str
    text: str
    where: str
    code: str


_IN_PROGRAM: Final = _Switch(
    scope="",
    text=f"the program set {OPTION}",
    where="devices: optimizer_options",
    code=f'tf.config.optimizer.set_experimental_options({{"{OPTION}": False}})',
)
_IN_SESSION: Final = _Switch(
    scope="session",
    text=f"the session was given a ConfigProto that sets {OPTION}",
    where="session_configs: rewrites",
    code=f"config.graph_options.rewrite_options.{OPTION} = rewriter_config_pb2.RewriterConfig.OFF",
)
_SWITCHES: Final = {"program": _IN_PROGRAM, "session": _IN_SESSION}


def _finding(host: Host, moved: list[_Moved], switch: _Switch) -> Finding:
    found = host.tables.ops.iloc[[each.row for each in moved]]
    types = listed(sorted(set(found["type"].astype(str))))
    is_certain = bool((found["placement_certainty"] == "certain").all())
    option = Evidence(
        kind="optimizer_options",
        text=switch.text,
        where=CaptureFileWhere(sidecar=switch.where),
    )
    placed = [
        Evidence(
            kind="assigned_device",
            text=f"the placer put {each.node} on {device_text(each.device)}; the CPU ran it",
            where=CaptureFileWhere(sidecar=f"node {each.node}"),
        )
        for each in moved[:5]
    ]
    return Finding(
        cause=CAUSE.id,
        scope=switch.scope,
        certainty="certain" if is_certain else "likely",
        harm="harmless",
        title=f"{OPTION} moved {counted(len(moved), 'op')} to the CPU: {types}",
        why=(
            "The placer put these ops on a GPU. The program switched on an optimizer that "
            "afterwards moves small ops to the host, where their inputs are there already."
        ),
        op_ids=tuple(found["op_id"]),
        evidence=(option, *placed),
        fixes=(
            Fix(
                text="Leave the option away; it is off by default.",
                code=switch.code,
            ),
        ),
    )


CAUSE = Cause(
    id="grappler_pin_to_host",
    title="An optimizer of the graph moved it to the host",
    documentation=__doc__,
    check=_check,
    not_applicable=_not_applicable,
)
