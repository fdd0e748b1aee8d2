"""Changes that move ops to the GPU: one for each remedy, with the edit of the user's line."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes import BlockedOps
from traceanalyzer.changes.change import Change
from traceanalyzer.changes.dtype_edits import op_edit, variable_edits
from traceanalyzer.changes.edits import device_edit
from traceanalyzer.changes.group import (
    Group,
    detail,
    line_of,
    op_advice,
    title,
    variable_types,
)
from traceanalyzer.changes.remedies import Blocked, Remedies, Remedy
from traceanalyzer.findings import CERTAINTIES
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.causes import Cause
    from traceanalyzer.changes.change import Edit, Effort
    from traceanalyzer.changes.saving import Savings
    from traceanalyzer.changes.source import Sources
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Fix

_PIPELINE: Final = "dataset.map("


class PlacementChanges:
    """The changes for the ops on the CPU, of the run or as predicted for a GPU machine."""

    def __init__(self, sources: Sources, savings: Savings, *, soft: bool) -> None:
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
        """Return a change for each remedy of ops that do harm."""
        found = {op_id: finding for finding in findings for op_id in finding.op_ids}
        remedies = Remedies(cpu_ops.values(), causes)
        groups: dict[Remedy, list[Blocked]] = {}
        of_op: dict[str, set[Remedy]] = {}
        for op_id, cpu_op in cpu_ops.items():
            blocked = remedies.of(cpu_op) if op_id in found else ()
            if not any(each.text.harm == "by_design" for each in blocked):
                for each in blocked:
                    groups.setdefault(each.remedy, []).append(each)
                    of_op.setdefault(op_id, set()).add(each.remedy)
        made: dict[Remedy, Group] = {}
        for remedy, members in groups.items():
            harmful = [m for m in members if found[m.cpu_op.op_id].harm == "harmful"]
            if harmful:
                made[remedy] = Group(remedy, tuple(members), tuple(harmful))
        edits = {remedy: self._edits(group) for remedy, group in made.items()}
        _merge(made, edits, of_op)
        changes = {
            remedy: self._change(group, edits[remedy], found, of_op, is_prediction=is_prediction)
            for remedy, group in made.items()
        }
        return [
            replace(change, needs=_needs(change, remedy, of_op, changes))
            for remedy, change in changes.items()
        ]

    def _edits(self, group: Group) -> tuple[Edit, ...]:
        """Return the edits of the user's lines; none if they are unknown or not understood."""
        remedy = group.remedy
        place = remedy.file, remedy.line
        match remedy.kind:
            case "scope":
                edit = device_edit(self._sources, *place, soft=self._soft)
                return () if edit is None else (edit,)
            case "variable":
                types = variable_types(group)
                return variable_edits(self._sources, *place, types[0]) if types else ()
            case "fix":
                advice = op_advice(group)
                edit = None if advice is None else op_edit(self._sources, *place, advice)
                return () if edit is None else (edit,)
        return ()

    def _change(
        self,
        group: Group,
        edits: tuple[Edit, ...],
        found: Mapping[str, Finding],
        of_op: Mapping[str, set[Remedy]],
        *,
        is_prediction: bool,
    ) -> Change:
        remedy, fixes = group.remedy, group.fixes
        op_ids = [op_id for op_id in group.op_ids if found[op_id].harm == "harmful"]
        alone = [op_id for op_id in op_ids if of_op[op_id] == {remedy}]
        advice = "" if not fixes else fixes[0].code or fixes[0].text
        place = (remedy.file, remedy.line) if remedy.file else None
        change = Change(
            id=_id(group),
            kind="edit",
            title=title(group, self._sources),
            detail=detail(group),
            place=(edits[0].file, edits[0].line) if edits else place,
            also=tuple((edit.file, edit.line) for edit in edits[1:]),
            edits=edits,
            instead="" if edits else advice,
            why=_why(group),
            saving=self._savings.of_placement(op_ids, alone, is_prediction=is_prediction),
            certainty=_certainty(group.harmful),
            effort=_effort(fixes, edits),
            is_verified=bool(fixes) and fixes[0].checked,
            finding_ids=tuple(dict.fromkeys(found[op_id].id for op_id in group.op_ids)),
            op_ids=group.op_ids,
            is_prediction=is_prediction,
        )
        match remedy.kind:
            case "scope":
                return replace(change, effort="one line", is_verified=_moves(group))
            case "variable":
                return replace(change, is_verified=bool(variable_types(group)))
            case "library":
                around = fixes[0].text if fixes else ""
                return replace(change, kind="library", around=around)
        return change


def _merge(
    groups: dict[Remedy, Group],
    edits: Mapping[Remedy, tuple[Edit, ...]],
    of_op: Mapping[str, set[Remedy]],
) -> None:
    """Make one group of those with the same edit, such as of a constant that two scopes use."""
    first: dict[tuple[Edit, ...], Remedy] = {}
    for remedy, of_remedy in edits.items():
        kept = first.setdefault(of_remedy, remedy)
        if not of_remedy or kept is remedy:
            continue
        one, other = groups[kept], groups.pop(remedy)
        groups[kept] = Group(kept, one.members + other.members, one.harmful + other.harmful)
        for remedies in of_op.values():
            if remedy in remedies:
                remedies.remove(remedy)
                remedies.add(kept)


def _why(group: Group) -> str:
    """Return why the leading cause keeps its ops on the CPU, and where a scope is entered."""
    lead, remedy = group.lead, group.remedy
    describe = lead[0].cause.describe
    ops = BlockedOps(tuple((b.cpu_op, b.blocker) for b in lead))
    text = lead[0].text if describe is None else describe(ops)
    if remedy.kind != "scope":
        return text.why
    blocker = lead[0].blocker
    call = None if blocker.call is None else blocker.call.scope
    device = device_text(blocker.scope or call or blocker.requested_device)
    return f'`tf.device("{device}")` is entered at {line_of(remedy)}. {text.why}'


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
    """Return a key that does not hold line numbers."""
    remedy, first = group.remedy, group.lead[0]
    parts = (remedy.kind, PurePath(remedy.file).name, remedy.advice, first.match.scope)
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=5).hexdigest()


def _certainty(members: Sequence[Blocked]) -> Certainty:
    given = [c for m in members for c in (m.cpu_op.explanation.certainty, m.match.certainty)]
    return max(given, key=CERTAINTIES.index)


def _moves(group: Group) -> bool:
    """Return whether a replay shows that each op moves, as far as this change keeps it."""
    return all(
        each.cpu_op.explanation.is_complete and each.cpu_op.explanation.certainty == "certain"
        for each in group.harmful
    )


def _needs(
    change: Change,
    remedy: Remedy,
    of_op: Mapping[str, set[Remedy]],
    changes: Mapping[Remedy, Change],
) -> tuple[str, ...]:
    others = {each for op_id in change.op_ids for each in of_op[op_id]} - {remedy}
    return tuple(sorted(changes[each].id for each in others if each in changes))
