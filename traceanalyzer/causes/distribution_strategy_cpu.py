"""A distribution strategy requests the CPU."""

from typing import Final

from traceanalyzer.capture_file.document import file_name, is_below, same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import capitalized, is_of_strategy, observed
from traceanalyzer.data_files import toml
from traceanalyzer.placement.blocker import PLACED, BlockerKind
from traceanalyzer.placement.devices import device_text, parse_device
from traceanalyzer.placement.explanations import BY_STRATEGY

_INPUT: Final = "the input of a strategy"
_REDUCTION: Final = "the reduction of a strategy"
_OWNERS: Final = toml("causes/data/strategies.toml")["owners"]["files"]
_SERVERS: Final = "ps"  # the job of parameter servers
_COORDINATOR: Final = "tensorflow/python/distribute/coordinator/"
_CASES: Final = {_INPUT: "/input", _REDUCTION: "/reduction"}


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if _has_full_name(cpu_op, blocker):
        text = f"{blocker.requested_device} is requested for {blocker.name}"
        return CauseMatch(
            scope=f"{cpu_op.function} {device_text(blocker.requested_device)}",
            evidence=(observed("requested_device", text, f"node {blocker.name}"),),
            certainty="likely",
            sub_reason="full_name",
        )
    if blocker.link not in {"own", "resource"} or not is_of_strategy(blocker):
        return None
    owner, frame = _owner(blocker), blocker.scope_frame
    text = f"{owner} requests {device_text(blocker.requested_device)} here"
    return CauseMatch(
        scope=f"{owner} {same_place(frame)} {blocker.kind.value}{_part(blocker)}",
        evidence=(observed("requested_device", text, line=frame),),
        sub_reason="variable" if blocker.kind in PLACED else None,
    )


def _part(blocker: Blocker) -> str:
    """Return the part of a strategy with parameter servers that requests the CPU, or ""."""
    if parse_device(blocker.requested_device).job == _SERVERS:
        return "/server"
    frame = blocker.scope_frame
    return "/coordinator" if frame is not None and is_below(frame, _COORDINATOR) else ""


def describe(ops: BlockedOps) -> FindingText:
    if ops.blocker.scope_frame is None:
        return ops.described("distribution_strategy_cpu/full_name", Owner="A strategy")
    owner = _owner(ops.blocker)
    case = _CASES.get(owner, "")
    if part := _part(ops.blocker):
        return ops.described(f"distribution_strategy_cpu{part}")
    if ops.blocker.kind in PLACED and owner not in _CASES:
        case = "/variable"
    return ops.described(f"distribution_strategy_cpu{case}", Owner=capitalized(owner))


def _has_full_name(cpu_op: CpuOp, blocker: Blocker) -> bool:
    """Return whether a request looks like a strategy's: a full device name and no known line."""
    is_own_request = blocker.kind is BlockerKind.REQUEST and blocker.link == "own"
    is_full = blocker.requested_device.startswith("/job:") and blocker.scope_frame is None
    return is_own_request and is_full and cpu_op.explanation.doubt == BY_STRATEGY


def _owner(blocker: Blocker) -> str:
    name = "" if blocker.scope_frame is None else file_name(blocker.scope_frame)
    return str(_OWNERS.get(name, "a strategy of tf.distribute"))
