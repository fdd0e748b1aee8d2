"""Changes that move ops to the GPU: one for each remedy, with the edit of the user's line."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import scope_text
from traceanalyzer.changes.edits import (
    combined_edit,
    device_edit,
    op_edit,
    strategy_edit,
    variable_edits,
)
from traceanalyzer.changes.remedies import (
    STRATEGY,
    Blocked,
    Group,
    Remedies,
    Remedy,
    detail,
    line_of,
    op_advice,
    title,
    variable_types,
)
from traceanalyzer.changes.variable_users import combinations
from traceanalyzer.findings import CERTAINTIES
from traceanalyzer.model import SourceWhere
from traceanalyzer.model.changes import Change, with_distinct_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.causes import Cause
    from traceanalyzer.changes.saving import Savings
    from traceanalyzer.changes.source import Sources
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Fix
    from traceanalyzer.model.changes import Edit, Effort, Kind, Place

_PIPELINE: Final = "dataset.map("
_NOTHING_TO_EDIT: Final = "A library makes these ops: there is nothing to change in your code."
# Causes whose changes other modules of this package make.
_ELSEWHERE: Final = frozenset({"no_gpu_visible", "host_pipeline"})
# Ops that share data by name: ops on another device cannot see it.
_PAIRED: Final = re.compile(r"(?:(?:Ordered)?Map)?(?:Stage|Unstage)\w*")


class _Edits(NamedTuple):
    """The edits of a change, and lines without an edit that must change too."""

    edits: tuple[Edit, ...] = ()
    also: tuple[Place, ...] = ()
    place: Place | None = None  #: the line to edit if there is no edit


_NO_EDITS: Final = _Edits()


class PlacementChanges:
    """The changes for the ops on the CPU, of the run or as predicted for a GPU machine."""

    def __init__(
        self,
        capture_files: Sequence[CaptureFile],
        sources: Sources,
        savings: Savings,
        *,
        soft: bool,
    ) -> None:
        self._capture_files = capture_files
        self._sources = sources
        self._savings = savings
        self._soft = soft

    def of(
        self,
        cpu_ops: Mapping[str, CpuOp],
        findings: Sequence[Finding],
        causes: Sequence[Cause],
        *,
        is_prediction: bool,
    ) -> list[Change]:
        """Return a change for each remedy of harmful ops."""
        found = {op_id: finding for finding in findings for op_id in finding.op_ids}
        whole = {cause.id for cause in causes if cause.describe is None}
        remedies = Remedies(cpu_ops.values(), causes)
        groups: dict[Remedy, list[Blocked]] = {}
        of_op: dict[str, set[Remedy]] = {}
        for op_id, cpu_op in cpu_ops.items():
            finding = found.get(op_id)
            if finding is None or finding.cause in whole:
                continue
            blocked = remedies.of(cpu_op)
            if not any(each.text.harm == "by_design" for each in blocked):
                for each in blocked:
                    groups.setdefault(each.remedy, []).append(each)
                    of_op.setdefault(op_id, set()).add(each.remedy)
        made: dict[Remedy, Group] = {}
        for remedy, members in groups.items():
            harmful = [
                m
                for m in members
                if found[m.cpu_op.op_id].harm == "harmful"
                and (m.text.harm == "harmful" or m.is_dragged_along or _is_named(m, found))
                and not _stays(m)
            ]
            if harmful:
                made[remedy] = Group(remedy, tuple(members), tuple(harmful), found)
        paired = {op_id for op_id, op in cpu_ops.items() if _PAIRED.fullmatch(op.explanation.type)}
        edits = {remedy: self._edits(group) for remedy, group in made.items()}
        _merge(made, edits, of_op)
        edits |= {remedy: _NO_EDITS for remedy, g in made.items() if _splits(g, paired)}
        own = [
            self._change(group, edits[remedy], found, of_op, is_prediction=is_prediction)
            for remedy, group in made.items()
        ]
        changes = dict(zip(made, with_distinct_ids(own), strict=True))
        for remedy, change in changes.items():
            others = {each for op_id in change.op_ids for each in of_op[op_id]} - {remedy}
            needs = tuple(sorted(changes[each].id for each in others if each in changes))
            changes[remedy] = replace(change, needs=needs)
        return [
            *changes.values(),
            *(
                self._of_finding(finding, is_prediction=is_prediction)
                for finding in findings
                if finding.cause in whole - _ELSEWHERE and finding.harm == "harmful"
            ),
        ]

    def _of_finding(self, finding: Finding, *, is_prediction: bool) -> Change:
        """Return the change for a cause that concerns a whole run, such as lack of memory."""
        fix = finding.fixes[0] if finding.fixes else None
        places = [e.where for e in finding.evidence if isinstance(e.where, SourceWhere)]
        place = next(((w.file, w.line) for w in places if w.line is not None), None)
        advice = "" if fix is None else fix.code or fix.text
        return Change(
            id=finding.id,
            kind="edit",
            title=(fix and fix.title) or finding.title,
            detail=finding.title,
            place=place,
            instead=advice,
            why=finding.why,
            saving=self._savings.of_placement(
                finding.op_ids, finding.op_ids, is_prediction=is_prediction
            ),
            certainty=finding.certainty,
            effort=_effort(finding.fixes, ()),
            is_verified=fix is not None and fix.checked,
            finding_ids=(finding.id,),
            op_ids=finding.op_ids,
            is_prediction=is_prediction,
        )

    def _edits(self, group: Group) -> _Edits:
        """Return the edits of the user's lines; none if they are unknown or cannot be parsed."""
        remedy = group.remedy
        place = remedy.file, remedy.line
        if group.is_short_of_memory:
            return _NO_EDITS
        match remedy.kind:
            case "scope":
                edit = device_edit(self._sources, *place, soft=self._soft)
                return _NO_EDITS if edit is None else _Edits((edit,))
            case "variable":
                types = variable_types(group)
                return self._retyped(place, types[0]) if types else _NO_EDITS
            case "fix":
                advice = op_advice(group)
                edit = None if advice is None else op_edit(self._sources, *place, advice)
                return _NO_EDITS if edit is None else _Edits((edit,))
        if group.lead[0].cause.id == STRATEGY:
            made_at, edit = strategy_edit(self._sources)
            return _Edits(() if edit is None else (edit,), place=made_at)
        return _NO_EDITS

    def _retyped(self, place: Place, dtype: str) -> _Edits:
        """Return the edits of a variable's dtype and of the values combined with it."""
        edits = variable_edits(self._sources, *place, dtype)
        if not edits:
            return _NO_EDITS
        constant = "" if edits[0].line == place[1] else edits[0].old[0].split("=")[0].strip()
        of_line = {(edit.file, edit.line): edit for edit in edits}
        also: list[Place] = []
        for other in combinations(self._capture_files, place):
            if constant and _mentions(self._sources, other.made_at, constant):
                continue
            edit, is_all = combined_edit(self._sources, other, dtype)
            if edit is not None and of_line.setdefault((edit.file, edit.line), edit) == edit:
                continue
            if edit is not None or not is_all:
                also.append(other.place)
        return _Edits(tuple(of_line.values()), tuple(dict.fromkeys(also)))

    def _change(
        self,
        group: Group,
        edited: _Edits,
        found: Mapping[str, Finding],
        of_op: Mapping[str, set[Remedy]],
        *,
        is_prediction: bool,
    ) -> Change:
        remedy, fixes = group.remedy, group.fixes
        edits = edited.edits
        op_ids = [op_id for op_id in group.op_ids if found[op_id].harm == "harmful"]
        alone = [op_id for op_id in op_ids if of_op[op_id] == {remedy}]
        place = (remedy.file, remedy.line) if remedy.file else edited.place
        explained = [each.cpu_op.explanation for each in group.harmful]
        certainties = [e.certainty for e in explained] + [m.match.certainty for m in group.harmful]
        replayed = all(e.is_complete and e.certainty == "certain" for e in explained)
        change = Change(
            id=_id(group),
            kind="edit",
            title=title(group, self._sources),
            detail=detail(group),
            place=(edits[0].file, edits[0].line) if edits else place,
            also=(*((edit.file, edit.line) for edit in edits[1:]), *edited.also),
            edits=edits,
            instead="" if edits else _instead(group),
            why=_why(group),
            saving=self._savings.of_placement(op_ids, alone, is_prediction=is_prediction),
            certainty=max(certainties, key=CERTAINTIES.index),
            effort=_effort(fixes, edits),
            is_verified=bool(fixes) and fixes[0].checked,
            finding_ids=tuple(dict.fromkeys(found[op_id].id for op_id in group.op_ids)),
            op_ids=group.op_ids,
            is_prediction=is_prediction,
        )
        match remedy.kind:
            case "scope":
                return replace(change, effort="one line", is_verified=replayed)
            case "variable":
                return replace(change, is_verified=bool(variable_types(group)))
            case "library":
                around = fixes[0].text if fixes else ""
                kind: Kind = "edit" if edits else "library"
                return replace(change, kind=kind, around=around or _NOTHING_TO_EDIT)
        return change


def _mentions(sources: Sources, place: Place | None, name: str) -> bool:
    source = None if place is None else sources.at(*place)
    nodes = () if source is None else source.nodes
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def _merge(
    groups: dict[Remedy, Group],
    edits: Mapping[Remedy, _Edits],
    of_op: Mapping[str, set[Remedy]],
) -> None:
    """Merge groups with the same edit, such as that of a constant that two scopes use."""
    first: dict[tuple[Edit, ...], Remedy] = {}
    for remedy in sorted(edits, key=lambda each: (each.file, each.line, each.advice)):
        of_remedy = edits[remedy].edits
        kept = first.setdefault(of_remedy, remedy)
        if not of_remedy or kept is remedy:
            continue
        one, other = groups[kept], groups.pop(remedy)
        groups[kept] = replace(
            one, members=one.members + other.members, harmful=one.harmful + other.harmful
        )
        for remedies in of_op.values():
            if remedy in remedies:
                remedies.remove(remedy)
                remedies.add(kept)


def _is_named(blocked: Blocked, found: Mapping[str, Finding]) -> bool:
    """Return whether the op's finding names this cause, and so knows its harm best."""
    return found[blocked.cpu_op.op_id].cause == blocked.cause.id


def _stays(blocked: Blocked) -> bool:
    """Return whether a replay without the scope still puts the op on the CPU."""
    explanation = blocked.cpu_op.explanation
    is_replayed = explanation.basis == "replay"
    return blocked.remedy.kind == "scope" and is_replayed and not explanation.is_complete


def _splits(group: Group, paired: AbstractSet[str]) -> bool:
    """Return whether a change would move some of the ops that share a staging area, not all.

    `StageSize` has no GPU kernel: with `Stage` on the GPU it finds nothing.
    """
    moved = paired & set(group.op_ids)
    return bool(moved) and moved != paired


def _instead(group: Group) -> str:
    """Return code or text for a change without edits: never the line as it is now."""
    fix = group.fixes[0] if group.fixes else None
    if fix is None:
        return ""
    if group.remedy.kind == "scope" and fix.code and fix.code.startswith("with tf.device("):
        return f'with tf.device("/GPU:0"):  # {line_of(group.remedy)}'
    return fix.code or fix.text


def _why(group: Group) -> str:
    """Return why the leading cause keeps its ops on the CPU, and where a scope is entered."""
    lead, remedy = group.lead, group.remedy
    describe = lead[0].cause.describe
    ops = BlockedOps(tuple((b.cpu_op, b.blocker) for b in lead))
    text = lead[0].text if describe is None else describe(ops)
    if remedy.kind != "scope":
        return text.why
    return f"`{scope_text(lead[0].blocker)}` is entered at {line_of(remedy)}. {text.why}"


def _effort(fixes: Sequence[Fix], edits: Sequence[Edit]) -> Effort:
    if edits:
        is_one = len(edits) == 1 and max(len(edits[0].old), len(edits[0].new)) <= 1
        return "one line" if is_one else "few lines"
    code = "" if not fixes else f"{fixes[0].code} {fixes[0].text}"
    if _PIPELINE in code or "input pipeline" in code:
        return "restructure"
    return "one line" if fixes and fixes[0].code and "\n" not in fixes[0].code else "few lines"


# --- facts ---------------------------------------------------------------------------------------


def _id(group: Group) -> str:
    """Return a key without line numbers."""
    remedy, first = group.remedy, group.lead[0]
    parts = (remedy.kind, PurePath(remedy.file).name, remedy.advice, first.match.scope)
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=5).hexdigest()
