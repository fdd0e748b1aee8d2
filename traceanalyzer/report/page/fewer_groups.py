"""Groups of ops that copy, no more of them than a picture can hold: the small ones are one.

Our own documents hold no more; what another tool wrote may.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from traceanalyzer.model.transfers import CopyGroup, CopyGroups, GroupCopies
from traceanalyzer.report import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_Number = TypeVar("_Number", int, float)

_MOST: Final = (24, 12, 6, 2)  # of a side: the first with which there are few enough bands
_MOST_BANDS: Final = 1200
_BETWEEN_SHOWN: Final = 24  # pairs of memories; the rest are one


def fewer_groups(groups: CopyGroups) -> CopyGroups:
    """Merge groups until each side fits a picture; no copy is left out."""
    for most in _MOST:
        sources, source_of = _side(groups.sources, _counted(groups.flows, "source"), most)
        targets, target_of = _side(groups.targets, _counted(groups.flows, "target"), most)
        flows = groups.flows
        if len(sources) < len(groups.sources) or len(targets) < len(groups.targets):
            flows = _joined(
                replace(f, source=source_of[f.source], target=target_of[f.target]) for f in flows
            )
        fewer = CopyGroups(sources=sources, targets=targets, flows=flows)
        if _bands(flows) <= _MOST_BANDS:
            break
    return fewer


def between(flows: Sequence[GroupCopies]) -> Mapping[tuple[str, str], str]:
    """Name each pair of memories; those with few copies share a name."""
    size: dict[tuple[str, str], tuple[int, int]] = {}
    for flow in flows:
        pair = (flow.source_memory, flow.target_memory)
        size_bytes, count = size.get(pair, (0, 0))
        size[pair] = (size_bytes + (flow.bytes or 0), count + flow.count)
    heavy = sorted(size, key=lambda pair: (-size[pair][0], -size[pair][1], *pair))
    shown = _BETWEEN_SHOWN if len(heavy) <= _BETWEEN_SHOWN else _BETWEEN_SHOWN - 1
    rest = f"{len(heavy) - shown} other pairs"
    return {
        pair: f"{text.cut(pair[0], 24)} → {text.cut(pair[1], 24)}" if k < shown else rest
        for k, pair in enumerate(heavy)
    }


def _counted(flows: Iterable[GroupCopies], end: str) -> dict[int, tuple[int, int]]:
    """Return the bytes and the number of copies of each group at one end."""
    sums: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for flow in flows:
        group = getattr(flow, end)
        size, count = sums[group]
        sums[group] = (size + (flow.bytes or 0), count + flow.count)
    return sums


def _side(
    groups: Sequence[CopyGroup], sums: Mapping[int, tuple[int, int]], most: int
) -> tuple[tuple[CopyGroup, ...], list[int]]:
    """Return the groups of a side, the smallest as one, and where each of them is among these."""
    if len(groups) <= most:
        return tuple(groups), list(range(len(groups)))
    heavy = sorted(
        range(len(groups)),
        key=lambda k: (groups[k].kind == "others", *(-n for n in sums.get(k, (0, 0))), k),
    )
    kept, rest = sorted(heavy[: most - 1]), heavy[most - 1 :]
    others = CopyGroup(
        kind="others",
        label="",
        ops=sum(groups[k].ops for k in rest),
        node=groups[rest[0]].node,
        name=groups[rest[0]].name,
        islands=tuple(sorted({number for k in rest for number in groups[k].islands})),
    )
    place = {k: at for at, k in enumerate(kept)}
    return (
        (*(groups[k] for k in kept), others),
        [place.get(k, len(kept)) for k in range(len(groups))],
    )


def _joined(flows: Iterable[GroupCopies]) -> tuple[GroupCopies, ...]:
    """Return flows in which those with the same ends, memories and direction are one."""
    joined: dict[tuple[object, ...], GroupCopies] = {}
    for flow in flows:
        key = (
            flow.source, flow.target, flow.source_memory, flow.target_memory, flow.direction,
        )  # fmt: skip
        joined[key] = _sum(joined[key], flow) if key in joined else flow
    return tuple(joined.values())


def _sum(one: GroupCopies, other: GroupCopies) -> GroupCopies:
    return replace(
        one,
        bytes=_known_sum(one.bytes, other.bytes),
        unknown_bytes=one.unknown_bytes + other.unknown_bytes,
        count=one.count + other.count,
        total_us=_known_sum(one.total_us, other.total_us),
        exposed_us=_known_sum(one.exposed_us, other.exposed_us),
    )


def _known_sum(one: _Number | None, other: _Number | None) -> _Number | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _bands(flows: Sequence[GroupCopies]) -> int:
    pairs = between(flows)
    bands = set()
    for flow in flows:
        pair = pairs[flow.source_memory, flow.target_memory]
        bands |= {("from", flow.source, pair, flow.direction)}
        bands |= {("to", flow.target, pair, flow.direction)}
    return len(bands)
