"""A distribution strategy requests the CPU."""

from __future__ import annotations

from typing import Final

from traceanalyzer.capture_file.document import file_name, same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import capitalized, is_of_strategy, observed
from traceanalyzer.data_files import toml
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

_INPUT: Final = "the input of a strategy"
_REDUCTION: Final = "the reduction of a strategy"
_OWNERS: Final = toml("causes/data/strategies.toml")["owners"]["files"]
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
    return str(_OWNERS.get(name, "a strategy of tf.distribute"))


CAUSE = Cause(__name__, match=match, describe=describe)
