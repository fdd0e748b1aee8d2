"""Groups ops into findings: ops with the same blockers share one."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from traceanalyzer.causes.knowledge.device_arguments import argument_note
from traceanalyzer.causes.knowledge.memory_fit import memory_note
from traceanalyzer.findings import Finding
from traceanalyzer.model import Blocker as ReportedBlocker
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.causes import Cause, CauseMatch, FindingText
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.model import Certainty
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

_log = logging.getLogger("traceanalyzer")

CERTAINTIES: Final[tuple[Certainty, ...]] = ("certain", "likely", "possible")
_MEMORY: Final = "memory_pressure"
_LIBRARY: Final = "library_cpu_placement"
_UNKNOWN_CODE: Final = "other"  # of a library
_BY_DEVICE: Final = frozenset(
    {BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE, BlockerKind.ASSIGNED, BlockerKind.RESOURCE}
)
_STAYS: Final = Fix(
    text=(
        "No change is known that moves these ops: a replay without the requested device still puts "
        "them on the CPU."
    )
)
_EACH_NEEDED: Final = Fix(
    text="These ops have several blockers. Fix all of them: removing one is not enough."
)
_MOST_EVIDENCE: Final = 20  # of one blocker; each op has more of the same


class _Key(NamedTuple):
    """The cause of a blocker, by which findings are grouped."""

    cause: str
    scope: str
    line: tuple[str, int]


_Keys: TypeAlias = tuple[_Key, ...]  # of an op's blockers, in order


@dataclass(frozen=True, kw_only=True)
class _Matched:
    """A blocker of an op, and the cause it belongs to."""

    cause: Cause
    blocker: Blocker
    match: CauseMatch

    @property
    def key(self) -> _Key:
        return _Key(self.cause.id, self.match.scope, self.match.line or ("", 0))


_Members: TypeAlias = "Sequence[tuple[CpuOp, list[_Matched]]]"
_OfBlocker: TypeAlias = "Sequence[tuple[CpuOp, _Matched]]"  # ops that share one blocker


def attribute(
    run: Run, cpu_ops: Sequence[CpuOp], causes: Sequence[Cause]
) -> tuple[list[Finding], dict[str, str]]:
    """Make findings from the blockers of ops.

    Each op is in at most one finding: that of its first blocker's cause. Ops with the same blockers
    share a finding. An op stays unexplained if one of its blockers belongs to no cause, or if the
    replay contradicts what was recorded.

    Returns:
        The findings, and the causes that raised an error, with the reason: they have no findings.
    """
    failed: dict[str, str] = {}
    groups: dict[_Keys, list[tuple[CpuOp, list[_Matched]]]] = {}
    for cpu_op in cpu_ops:
        if cpu_op.explanation.contradiction:
            continue
        known: list[_Matched] = []
        for blocker in cpu_op.explanation.blockers:
            found = _match(cpu_op, blocker, causes, failed)
            if found is None:
                break
            known.append(found)
        else:
            if known:
                known, keys = _led(known)
                groups.setdefault(keys, []).append((cpu_op, known))
    dragged = _dragged_along(cpu_ops)
    scopes = _scopes(groups)
    findings = []
    for keys, members in groups.items():
        try:
            finding = _finding(scopes[keys], members, dragged)
            finding = _with_memory(finding, run, members)
            findings.append(_with_argument(finding, run, members))
        except Exception as error:  # noqa: BLE001 - a failing cause must not affect the others
            failed[keys[0].cause] = _log_failure(keys[0].cause, error)
    return [f for f in findings if f.cause not in failed], failed


def _led(known: list[_Matched]) -> tuple[list[_Matched], _Keys]:
    """Move a match that leads to the front; return all, and the keys to group by.

    Beside a leading match, ops share a finding if their other blockers have the same causes.
    """
    leading = next((each for each in known if each.match.leads), None)
    if leading is None:
        return known, tuple(dict.fromkeys(each.key for each in known))
    others = [each for each in known if each is not leading]
    causes = sorted({each.cause.id for each in others})
    return [leading, *others], (leading.key, *(_Key(cause, "", ("", 0)) for cause in causes))


def cause_of(
    cpu_op: CpuOp, blocker: Blocker, causes: Sequence[Cause]
) -> tuple[Cause, CauseMatch, FindingText] | None:
    """Return the cause of a blocker, with the text for this op alone, if one matches."""
    found = _match(cpu_op, blocker, causes, {})
    if found is None or found.cause.describe is None:
        return None
    try:
        return found.cause, found.match, found.cause.describe([(cpu_op, blocker)])
    except Exception as error:  # noqa: BLE001 - a failing cause must not affect the others
        _log_failure(found.cause.id, error)
        return None


def _match(
    cpu_op: CpuOp, blocker: Blocker, causes: Sequence[Cause], failed: dict[str, str]
) -> _Matched | None:
    for cause in causes:
        if cause.id in failed:
            continue
        try:
            match = cause.match(cpu_op, blocker)
        except Exception as error:  # noqa: BLE001 - a failing cause must not affect the others
            failed[cause.id] = _log_failure(cause.id, error)
            continue
        if match is not None:
            return _Matched(cause=cause, blocker=blocker, match=match)
    return None


def _log_failure(cause: str, error: Exception) -> str:
    _log.exception("cause %s failed", cause)
    return f"{type(error).__name__}: {error}"


def _dragged_along(cpu_ops: Sequence[CpuOp]) -> dict[str, list[str]]:
    """Return the ops that each op drags along, by colocation or as its neighbors."""
    op_of_node = {op.node: op.op_id for op in cpu_ops if op.node[1]}
    found: dict[str, list[str]] = {}
    for cpu_op in cpu_ops:
        for blocker in cpu_op.explanation.blockers:
            blocked = op_of_node.get((blocker.function, blocker.name))
            if blocker.link in {"class", "follows"} and blocked is not None:
                found.setdefault(blocked, []).append(cpu_op.op_id)
    return found


def _scopes(groups: Iterable[_Keys]) -> dict[_Keys, str]:
    """Return the scope of each finding, the same when the program is recorded again.

    An edit moves lines but keeps their order. So findings that differ only by their line are
    numbered from the second on.
    """
    scopes: dict[_Keys, str] = {}
    used: Counter[str] = Counter()
    for keys in sorted(groups, key=lambda keys: [key.line for key in keys]):
        scope = "\0".join(f"{key.cause}\1{key.scope}" for key in keys)
        used[scope] += 1
        scopes[keys] = scope if used[scope] == 1 else f"{scope}\0{used[scope]}"
    return scopes


def _finding(scope: str, members: _Members, dragged: Mapping[str, Sequence[str]]) -> Finding:
    first = members[0][1][0]
    text = _described([(cpu_op, known[0]) for cpu_op, known in members])
    op_ids = tuple(cpu_op.op_id for cpu_op, _ in members)
    by_key: dict[_Key, list[tuple[CpuOp, _Matched]]] = {}
    for cpu_op, known in members:
        for each in known:
            by_key.setdefault(each.key, []).append((cpu_op, each))
    groups = list(by_key.values())
    blockers = tuple(map(_reported, groups))
    dragged_along = dict.fromkeys(d for op_id in op_ids for d in dragged.get(op_id, ()))
    return Finding(
        cause=first.cause.id,
        sub_reason=first.match.sub_reason,
        scope=scope,
        certainty=_least([blocker.certainty for blocker in blockers]),
        harm=text.harm,
        title=text.title,
        why=text.why,
        op_ids=op_ids,
        dragged_along=tuple(op_id for op_id in dragged_along if op_id not in op_ids),
        evidence=(*blockers[0].evidence, *_choices(cpu_op for cpu_op, _ in members)),
        blockers=blockers if len(blockers) > 1 else (),
        modifiers=text.modifiers,
        fixes=_fixes(text, groups),
    )


def _described(group: _OfBlocker) -> FindingText:
    cause = group[0][1].cause
    if cause.describe is None:
        msg = f"{cause.id} matches blockers and does not describe them"
        raise TypeError(msg)
    return cause.describe([(cpu_op, matched.blocker) for cpu_op, matched in group])


def _choices(cpu_ops: Iterable[CpuOp]) -> tuple[Evidence, ...]:
    """Return why ops are only possibly on the CPU: the program may choose another device."""
    possible = (op.explanation for op in cpu_ops if op.explanation.certainty == "possible")
    doubts = dict.fromkeys(explanation.doubt for explanation in possible)
    return tuple(Evidence(kind="choice", text=doubt) for doubt in doubts if doubt)


def _fixes(text: FindingText, groups: Sequence[_OfBlocker]) -> tuple[Fix, ...]:
    """Return the fixes that together move the ops to the GPU."""
    by_device = all(each.blocker.kind in _BY_DEVICE for group in groups for _, each in group)
    is_complete = any(op.explanation.is_complete for group in groups for op, _ in group)
    if by_device and text.harm == "harmful" and not is_complete:
        return (_STAYS,)
    return text.fixes if len(groups) == 1 else _all_fixes(groups)


def _all_fixes(groups: Sequence[_OfBlocker]) -> tuple[Fix, ...]:
    """Return the fixes of several blockers, each of which alone keeps the ops on the CPU.

    If a library's code requests the CPU, only the fixes around that code help. If an op has no GPU
    kernel, or its data is on the host by design, the other blockers do not matter.
    """
    each = [(g[0][1], _described(g)) for g in groups if g[0][1].cause.describe is not None]
    decisive = [text for matched, text in each if matched.cause.id == _LIBRARY] or [
        text
        for matched, text in each
        if matched.blocker.kind is BlockerKind.NO_KERNEL or text.harm == "by_design"
    ]
    fixes = [fix for text in decisive or [text for _, text in each] for fix in text.fixes]
    distinct = list({fix.code or fix.text: fix for fix in reversed(fixes)}.values())[::-1]
    if len(distinct) > 1 and not decisive:
        return (_EACH_NEEDED, *(replace(fix, checked=False) for fix in distinct))
    return tuple(distinct)


def _with_memory(finding: Finding, run: Run, members: _Members) -> Finding:
    """Add whether the data that the program keeps on the CPU would fit the GPU.

    Memory is not a blocker: the scope alone decides, whatever its author's reason.
    """
    note = memory_note(run, [(cpu_op, known[0].blocker) for cpu_op, known in members])
    if note is None:
        return finding
    modifiers = finding.modifiers if note.certainty is None else (*finding.modifiers, _MEMORY)
    return replace(
        finding,
        modifiers=modifiers,
        evidence=(*finding.evidence, *note.evidence),
        ruled_out=(*finding.ruled_out, *note.ruled_out),
        fixes=(*finding.fixes, *note.fixes),
    )


def _with_argument(finding: Finding, run: Run, members: _Members) -> Finding:
    """Add the command-line argument that likely chose the device."""
    if finding.cause == _LIBRARY and finding.sub_reason != _UNKNOWN_CODE:
        return finding
    capture_files = [host.capture_file for host in run.hosts if host.capture_file is not None]
    note = argument_note([known[0].blocker for _, known in members], capture_files)
    if note is None:
        return finding
    evidence, fix = note
    others = finding.fixes if finding.blockers else ()
    return replace(finding, evidence=(*finding.evidence, evidence), fixes=(fix, *others))


def _reported(group: _OfBlocker) -> ReportedBlocker:
    certainties: list[Certainty] = []
    evidence: dict[Evidence, None] = {}
    for cpu_op, matched in group:
        certainties += (cpu_op.explanation.certainty, matched.match.certainty)
        evidence.update(dict.fromkeys(matched.match.evidence))
    return ReportedBlocker(
        cause=group[0][1].cause.id,
        certainty=_least(certainties),
        sufficient=True,  # each alone keeps the op: see `PlacementExplanation.blockers`
        evidence=tuple(evidence)[:_MOST_EVIDENCE],
    )


def _least(certainties: Sequence[Certainty]) -> Certainty:
    return max(certainties, key=CERTAINTIES.index)
