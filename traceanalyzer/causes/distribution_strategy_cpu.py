"""A distribution strategy requests the CPU."""

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


CAUSE = Cause(__name__, match=match, describe=describe)
