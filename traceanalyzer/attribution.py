"""Groups ops into findings: ops with the same blockers share a finding."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from traceanalyzer.causes import BlockedOps, Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.gpu_memory import memory_note
from traceanalyzer.causes.library_cpu_placement import ONLY_REQUESTS
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.findings import CERTAINTIES, Finding
from traceanalyzer.model import BlockerRecord as ReportedBlocker
from traceanalyzer.model import Certainty, Evidence, Fix
from traceanalyzer.placement.blocker import BY_SCOPE, Blocker, BlockerKind
from traceanalyzer.run import Run

_log = logging.getLogger("traceanalyzer")

_BY_DEVICE: Final = BY_SCOPE | {BlockerKind.DEFAULT_DEVICE}
_STAYS: Final = Fix(
    text=(
        "No known change moves these ops to the GPU: a replay without the requested device still "
        "puts them on the CPU."
    )
)
_EACH_NEEDED: Final = Fix(
    text="These ops have several blockers. Fix all of them: removing one is not enough."
)
_MOST_EVIDENCE: Final = 20  # per blocker: more would repeat


class _Key(NamedTuple):
    """The grouping key of a blocker. Ops whose blockers have equal keys share a finding."""

    cause: str
    scope: str = ""
    line: tuple[str, int] = ("", 0)


_Keys: TypeAlias = tuple[_Key, ...]  # one per blocker of an op, in order


class _Matched(NamedTuple):
    """A blocker of an op, and the cause it belongs to."""

    op: CpuOp
    blocker: Blocker
    cause: Cause
    match: CauseMatch

    @property
    def key(self) -> _Key:
        return _Key(self.cause.id, self.match.scope, self.match.line or ("", 0))


def attribute(
    run: Run,
    cpu_ops: Sequence[CpuOp],
    causes: Sequence[Cause],
    failed: dict[str, str],
    idle: Iterable[CpuOp] = (),
) -> list[Finding]:
    """Return a finding for each group of ops with equal blockers; the first blocker sets the cause.

    An op stays unexplained if one of its blockers matches no cause, or if the replay contradicts
    the recording. A cause that raises an error is recorded in `failed` and has no findings. `idle`
    ops get no findings: the findings of ops with the same blockers list them in `dragged_along`.
    """
    groups: dict[_Keys, list[list[_Matched]]] = defaultdict(list)
    op_of_node = {op.node: op.op_id for op in cpu_ops if op.node[1]}
    dragged: dict[str, list[str]] = defaultdict(list)  # the ops that each op drags along
    for cpu_op in cpu_ops:
        blockers = cpu_op.explanation.blockers
        for blocker in blockers:
            blocked = op_of_node.get((blocker.function, blocker.name))
            if blocker.link in {"class", "follows"} and blocked is not None:
                dragged[blocked].append(cpu_op.op_id)
        known, keys = _led(_matched(cpu_op, causes, failed))
        if known:
            groups[keys].append(known)
    for cpu_op in idle:
        _, keys = _led(_matched(cpu_op, causes, failed))
        if keys in groups:
            dragged[groups[keys][0][0].op.op_id].append(cpu_op.op_id)
    scopes = _scopes(groups)
    findings = []
    for keys, members in groups.items():
        with contained(keys[0].cause, failed):
            findings.append(_finding(run, scopes[keys], members, dragged))
    return [f for f in findings if f.cause not in failed]


@contextmanager
def contained(part: str, failed: dict[str, str]) -> Iterator[None]:
    """Catch an error that a part, such as a cause, raises and record it; other parts still run."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is
        _log.exception("%s failed", part)
        failed[part] = f"{type(error).__name__}: {error}"


def _matched(cpu_op: CpuOp, causes: Sequence[Cause], failed: dict[str, str]) -> list[_Matched]:
    found = [_match(cpu_op, blocker, causes, failed) for blocker in cpu_op.explanation.blockers]
    known = [each for each in found if each is not None]
    is_explained = len(known) == len(found) and not cpu_op.explanation.contradiction
    return known if is_explained else []


def _led(known: list[_Matched]) -> tuple[list[_Matched], _Keys]:
    """Return an op's matches, with a leading one (`CauseMatch.leads`) first, and its grouping keys.

    Ops with the same leading match share a finding if their other blockers have the same causes.
    """
    leading = next((each for each in known if each.match.leads), None)
    if leading is None:
        return known, tuple(dict.fromkeys(each.key for each in known))
    others = [each for each in known if each is not leading]
    return [leading, *others], (leading.key, *map(_Key, sorted({o.cause.id for o in others})))


def cause_of(
    cpu_op: CpuOp, blocker: Blocker, causes: Sequence[Cause]
) -> tuple[Cause, CauseMatch, FindingText] | None:
    """Return a blocker's cause, match, and finding text; None if no cause matches."""
    found = _match(cpu_op, blocker, causes, {})
    if found is not None:
        with contained(found.cause.id, {}):
            return found.cause, found.match, _described([found])
    return None


def _match(
    cpu_op: CpuOp, blocker: Blocker, causes: Sequence[Cause], failed: dict[str, str]
) -> _Matched | None:
    for cause in causes:
        if cause.id not in failed:
            with contained(cause.id, failed):
                match = cause.match(cpu_op, blocker)
                if match is not None:
                    return _Matched(cpu_op, blocker, cause, match)
    return None


def _scopes(groups: Iterable[_Keys]) -> dict[_Keys, str]:
    """Return a unique string for each group; groups that differ only in the line get numbers."""
    # An edit of the program moves lines, but keeps their order.
    scopes: dict[_Keys, str] = {}
    used: Counter[str] = Counter()
    for keys in sorted(groups, key=lambda keys: [key.line for key in keys]):
        scope = "\0".join(f"{key.cause}\1{key.scope}" for key in keys)
        used[scope] += 1
        scopes[keys] = scope if used[scope] == 1 else f"{scope}\0{used[scope]}"
    return scopes


def _finding(
    run: Run,
    scope: str,
    members: Sequence[Sequence[_Matched]],
    dragged: Mapping[str, Sequence[str]],
) -> Finding:
    by_key: dict[_Key, list[_Matched]] = defaultdict(list)
    for each in (each for known in members for each in known):
        by_key[each.key].append(each)
    groups = list(by_key.values())
    first, text = groups[0][0], _described(groups[0])
    ops = [known[0].op for known in members]
    op_ids = tuple(op.op_id for op in ops)
    dragged_along = dict.fromkeys(d for op_id in op_ids for d in dragged.get(op_id, ()))
    blockers = tuple(map(_reported, groups))
    # Why ops are only possibly on the CPU: the program may choose another device.
    possible = [op.explanation for op in ops if op.explanation.certainty == "possible"]
    doubts = dict.fromkeys(explanation.doubt for explanation in possible if explanation.doubt)
    # Memory is not a blocker: the scope alone decides, whatever its author's reason.
    note = memory_note(run, _blocked(groups[0]))
    return Finding(
        cause=first.cause.id,
        sub_reason=first.match.sub_reason,
        scope=scope,
        certainty=_least(blocker.certainty for blocker in blockers),
        harm=text.harm,
        title=text.title,
        why=text.why,
        op_ids=op_ids,
        dragged_along=tuple(op_id for op_id in dragged_along if op_id not in op_ids),
        evidence=(
            *blockers[0].evidence,
            *(Evidence(kind="choice", text=doubt) for doubt in doubts),
            *note.evidence,
        ),
        blockers=blockers if len(blockers) > 1 else (),
        modifiers=(*text.modifiers, *(("memory_pressure",) if note.certainty else ())),
        ruled_out=note.ruled_out,
        fixes=_fixes(text, groups),
    )


def _blocked(matched: Sequence[_Matched]) -> BlockedOps:
    return BlockedOps(tuple((each.op, each.blocker) for each in matched))


def _described(matched: Sequence[_Matched]) -> FindingText:
    return matched[0].cause.described(_blocked(matched))


def _fixes(text: FindingText, groups: Sequence[Sequence[_Matched]]) -> tuple[Fix, ...]:
    """Return the fixes that together move the ops to the GPU.

    If library code runs on the host, only the fixes for that code help. If an op has no GPU
    kernel, or is on the host by design, the fixes for its other blockers do not matter.
    """
    every = [each for group in groups for each in group]
    by_device = all(each.blocker.kind in _BY_DEVICE for each in every)
    is_complete = any(each.op.explanation.is_complete for each in every)
    if by_device and text.harm == "harmful" and not is_complete:
        return (_STAYS,)
    if len(groups) == 1:
        return text.fixes
    texts = [(group[0], _described(group)) for group in groups]
    by_library = [each for each in texts if each[0].cause.id == "library_cpu_placement"]
    on_host = [text for first, text in by_library if first.match.sub_reason not in ONLY_REQUESTS]
    fixed = [
        text
        for first, text in texts
        if first.blocker.kind is BlockerKind.NO_KERNEL or text.harm == "by_design"
    ]
    decisive = on_host or fixed or [text for _, text in by_library]
    fixes = [fix for text in decisive or [text for _, text in texts] for fix in text.fixes]
    distinct = list({fix.code or fix.text: fix for fix in reversed(fixes)}.values())[::-1]
    if len(distinct) > 1 and not decisive:
        return (_EACH_NEEDED, *(replace(fix, checked=False) for fix in distinct))
    return tuple(distinct)


def _reported(group: Sequence[_Matched]) -> ReportedBlocker:
    evidence = dict.fromkeys(found for each in group for found in each.match.evidence)
    allowed = (c for each in group for c in (each.op.explanation.certainty, each.match.certainty))
    return ReportedBlocker(
        cause=group[0].cause.id,
        certainty=_least(allowed),
        sufficient=True,  # each alone keeps the op: see `PlacementExplanation.blockers`
        evidence=tuple(evidence)[:_MOST_EVIDENCE],
    )


def _least(certainties: Iterable[Certainty]) -> Certainty:
    return max(certainties, key=CERTAINTIES.index)
