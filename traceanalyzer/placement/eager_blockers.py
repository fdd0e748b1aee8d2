"""What keeps an eager op from a type of device, all of it, by trying what would happen without.

As `blockers` does it for the nodes of a graph: each blocker is taken away in the order in which it
bites, and those that need not have been are dropped again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import GPU, DeviceName, parse_device
from traceanalyzer.placement.eager import EagerDecision, EagerSetting, place_eager

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.placement.eager import EagerOp, EagerPlacement

__all__ = ["EagerBlockers", "eager_blockers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerBlockers:
    """All that keeps an eager op from a type of device.

    Attributes:
        found: What does, in the order in which it bites; none where nothing does.
        is_complete: Whether the op moves without it.
    """

    found: tuple[Blocker, ...]
    is_complete: bool


def eager_blockers(op: EagerOp, setting: EagerSetting, device_type: str = GPU) -> EagerBlockers:
    """Find all that keeps an eager op from a type of device."""
    goal = next(iter(setting.machine.matching(DeviceName(type=device_type))), "")
    found: list[Blocker] = []
    current = _without(op, setting, found, goal)
    while goal and not _is_there(current, device_type):
        bite = _bite(op, current, found, device_type)
        if bite is None:
            break
        found.append(bite)
        current = _without(op, setting, found, goal)
    is_complete = _is_there(current, device_type)
    if is_complete:
        for blocker in tuple(found):
            rest = [other for other in found if other is not blocker]
            if _is_there(_without(op, setting, rest, goal), device_type):
                found = rest
    return EagerBlockers(found=tuple(found), is_complete=is_complete)


def _without(
    op: EagerOp, setting: EagerSetting, taken_away: Iterable[Blocker], goal: str
) -> EagerPlacement:
    inputs, scope, has_kernels = list(op.inputs), op.scope, False
    for blocker in taken_away:
        if blocker.kind in {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.PRIORITY}:
            has_kernels = True
        elif blocker.input is not None:
            inputs[blocker.input] = replace(inputs[blocker.input], device=goal)
        elif blocker.kind is BlockerKind.SMALL_INPUTS:
            setting = replace(setting, pins_small=False)
        else:
            scope = ""
    return place_eager(op.op, op.attributes, inputs, scope, setting, has_kernels=has_kernels)


def _is_there(placement: EagerPlacement, device_type: str) -> bool:
    return _is_on(placement.device, device_type)


def _is_on(device: str, device_type: str) -> bool:
    return bool(device) and parse_device(device).type == device_type


def _bite(
    op: EagerOp, current: EagerPlacement, found: Sequence[Blocker], device_type: str
) -> Blocker | None:
    """Return what keeps the op from the device next."""
    for kind, attributes in current.support.missing:
        if kind == device_type:
            why = BlockerKind.ATTRIBUTES if attributes else BlockerKind.NO_KERNEL
            return Blocker(kind=why, attributes=attributes)
    if current.input is not None:
        moved = {blocker.input for blocker in found}
        left = (
            at
            for at, each in enumerate(op.inputs)
            if each.dtype == "resource" and at not in moved and not _is_on(each.device, device_type)
        )
        at = next(left, None)
        if at is None:
            return None
        return Blocker(kind=BlockerKind.RESOURCE, input=at, requested_device=op.inputs[at].device)
    if current.decision is EagerDecision.SMALL_INPUTS:
        return Blocker(kind=BlockerKind.SMALL_INPUTS)
    kinds = {blocker.kind for blocker in found}
    if current.decision is EagerDecision.FIRST:
        return None if BlockerKind.PRIORITY in kinds else Blocker(kind=BlockerKind.PRIORITY)
    return (
        None
        if BlockerKind.REQUEST in kinds
        else Blocker(kind=BlockerKind.REQUEST, requested_device=op.scope)
    )
