"""A distribution strategy asks for the CPU.

## What it detects

Ops and variables that a strategy of `tf.distribute` puts on the CPU: code of the strategy opens the
device scope they are made in.

## Why it happens

Some strategies use the host by design. `CentralStorageStrategy` keeps variables on the CPU where
it has more than one GPU, and where its `parameter_device` says so. `ParameterServerStrategy` keeps
them on the CPUs of its parameter servers. A strategy runs its replicas on the devices it was made
for: where no GPU was visible and none were named, that is the CPU. Its datasets are made on the
host.

What comes of the replicas is reduced where it is wanted: gradients on the device of their variable,
or, where the devices of a `MirroredStrategy` are not all GPUs, on one device and without NCCL. The
result of `strategy.reduce` goes to the current device, and without one to the CPU, whatever GPUs
the strategy has (`_reduce`, python/distribute/distribute_lib.py, of 2.12, 2.18 and 2.21). Keys of
collectives are integers on the host.

## How to fix it

Give the strategy the GPUs, or take one that keeps variables on them: `MirroredStrategy` for several
GPUs of a machine, none at all for a single one. A large result of `strategy.reduce` comes to a GPU
where that is called within `tf.device("/GPU:0")`; for a loss it does not matter.

## How sure it is

Certain: the capture recorded the line that opened the scope, and it is the strategy's. Which class
of strategy it is, is said where that line is in code of one class alone. For a
resource that a function was given, the scope it was made in must have been recorded; else the
cause is shown as `resource_on_cpu`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import is_of_strategy, line_evidence, ops_text
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker

# Files of tensorflow/python/distribute, by what a program calls the strategy. Several strategies
# call their replicas by `mirrored_run.py`, which so tells of none.
_STRATEGIES = {
    "central_storage_strategy.py": "CentralStorageStrategy",
    # Both are one class: parameters are central where there are no servers for them.
    "parameter_server_strategy.py": "CentralStorageStrategy or ParameterServerStrategy",
    "parameter_server_strategy_v2.py": "ParameterServerStrategy",
    "ps_values.py": "ParameterServerStrategy",
    "mirrored_strategy.py": "MirroredStrategy",
    "one_device_strategy.py": "OneDeviceStrategy",
    "collective_all_reduce_strategy.py": "MultiWorkerMirroredStrategy",
}
_INPUT = {"input_lib.py", "input_ops.py"}
_OF_INPUT = "the input of a strategy"
_REDUCING = {"cross_device_ops.py", "cross_device_utils.py"}
_OF_REDUCTION = "the reduction of a strategy"


def _match(_: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.link not in {"own", "resource"} or not is_of_strategy(blocker):
        return None
    what, device = _what(blocker), device_text(blocker.requested_device)
    text = f"{what} asks for {device} here"
    return CauseMatch(
        scope=f"{what} {same_place(blocker.scope_frame)} {blocker.kind.value}",
        evidence=(line_evidence("requested_device", text, blocker.scope_frame),),
        sub_reason="variable" if blocker.kind is not BlockerKind.REQUEST else None,
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    blocker = members[0][1]
    what, device = _what(blocker), device_text(blocker.requested_device)
    is_variable = blocker.kind is not BlockerKind.REQUEST
    if is_variable:
        title = f"{what} keeps a variable on {device}, and with it {ops_text(members)}"
    elif what == _OF_REDUCTION:
        title = f"What replicas gave is put together on {device}, by {ops_text(members)}"
    else:
        title = f"{what} puts {ops_text(members)} on {device}"
    return FindingText(
        title=_capital(title),
        why=f"Code of {what} asks for {device}, and TensorFlow obeys. {_why(what)}",
        harm="by_design" if what == _OF_INPUT else "harmful",
        fixes=_fixes(what),
    )


def _why(what: str) -> str:
    if what == _OF_INPUT:
        return "Datasets, and what a strategy does to them, are on the host by design."
    if what == _OF_REDUCTION:
        return (
            "It reduces to where the result is wanted: gradients to the device of their variable; "
            "by `strategy.reduce` to the current device, and to the CPU where there is none, "
            "whatever GPUs the strategy has."
        )
    return (
        "It asks for the devices that it was made for; made without naming any, it takes the GPUs "
        "there are, and the CPU where none is visible."
    )


def _fixes(what: str) -> tuple[Fix, ...]:
    if what == _OF_INPUT:
        return ()
    if what == _OF_REDUCTION:
        return (
            Fix(
                text="Where the result is large, ask for it on a GPU; a loss may stay.",
                code=(
                    'with tf.device("/GPU:0"):\n'
                    '    result = strategy.reduce("SUM", per_replica, axis=None)'
                ),
            ),
            Fix(text="Name no CPU among the devices of the strategy."),
        )
    return (
        Fix(
            text=(
                "Name the GPUs of the machine, so that variables live on them; for a single GPU "
                "use no strategy."
            ),
            code='strategy = tf.distribute.MirroredStrategy(["/GPU:0", "/GPU:1"])',
        ),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _what(blocker: RecordedBlocker) -> str:
    name = "" if blocker.scope_frame is None else PurePosixPath(blocker.scope_frame.file).name
    if name in _REDUCING:
        return _OF_REDUCTION
    if name in _INPUT:
        return _OF_INPUT
    return _STRATEGIES.get(name, "a strategy of tf.distribute")


CAUSE = Cause(
    id="distribution_strategy_cpu",
    title="A distribution strategy asks for the CPU",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
