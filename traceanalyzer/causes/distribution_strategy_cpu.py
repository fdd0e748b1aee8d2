"""A distribution strategy requests the CPU.

## What it detects
Ops and variables that a `tf.distribute` strategy puts on the CPU: the strategy's code opens the
device scope in which they are created.

## Why it happens
Some strategies use the host by design. `CentralStorageStrategy` keeps variables on the CPU if it
has more than one GPU, or if its `parameter_device` says so; `ParameterServerStrategy` keeps them on
its parameter servers. Datasets are created on the host. A strategy runs its replicas on the devices
it was created with: if no GPU was visible and none was named, that is the CPU.

Gradients are reduced on the device of their variable or, if not all devices of a `MirroredStrategy`
are GPUs, on one device and without NCCL. `strategy.reduce` puts its result on the current device,
and on the CPU if there is none (`_reduce`, python/distribute/distribute_lib.py, in 2.12 to 2.21).

## How to fix it
Give the strategy the GPUs, or use one that keeps variables on them: `MirroredStrategy` for several
GPUs of one machine, and no strategy for a single GPU. To get a large result of `strategy.reduce` on
a GPU, call it inside `tf.device("/GPU:0")`.

## How sure it is
Certain: the capture recorded the line that opened the scope, and it is the strategy's.
"""

from __future__ import annotations

from typing import Final

from traceanalyzer.capture_file.document import file_name, same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import capitalized, is_of_strategy, observed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

_INPUT: Final = "the input of a strategy"
_REDUCTION: Final = "the reduction of a strategy"
# The owners of files in tensorflow/python/distribute. Several strategies call their replicas from
# `mirrored_run.py`, which therefore does not show the strategy.
_FILES: Final = {
    "central_storage_strategy.py": "CentralStorageStrategy",
    # Both are one class: parameters are central if there are no servers for them.
    "parameter_server_strategy.py": "CentralStorageStrategy or ParameterServerStrategy",
    "parameter_server_strategy_v2.py": "ParameterServerStrategy",
    "ps_values.py": "ParameterServerStrategy",
    "mirrored_strategy.py": "MirroredStrategy",
    "one_device_strategy.py": "OneDeviceStrategy",
    "collective_all_reduce_strategy.py": "MultiWorkerMirroredStrategy",
    "input_lib.py": _INPUT,
    "input_ops.py": _INPUT,
    "cross_device_ops.py": _REDUCTION,
    "cross_device_utils.py": _REDUCTION,
}
_CASES: Final = {_INPUT: "/input", _REDUCTION: "/reduction"}


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link not in {"own", "resource"} or not is_of_strategy(blocker):
        return None
    owner, frame = _owner(blocker), blocker.scope_frame
    text = f"{owner} requests {device_text(blocker.requested_device)} here"
    return CauseMatch(
        scope=f"{owner} {same_place(frame)} {blocker.kind.value}",
        evidence=(observed("requested_device", text, line=frame),),
        sub_reason="variable" if blocker.kind is not BlockerKind.REQUEST else None,
    )


def describe(ops: BlockedOps) -> FindingText:
    owner = _owner(ops.blocker)
    case = _CASES.get(owner, "")
    if ops.blocker.kind is not BlockerKind.REQUEST and owner not in _CASES:
        case = "/variable"
    return ops.described(f"distribution_strategy_cpu{case}", Owner=capitalized(owner))


def _owner(blocker: Blocker) -> str:
    name = "" if blocker.scope_frame is None else file_name(blocker.scope_frame)
    return _FILES.get(name, "a strategy of tf.distribute")


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
