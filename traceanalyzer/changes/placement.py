"""Changes that move ops to the GPU: one for each remedy, with the edit to the user's line."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import PurePath
from typing import Final, TypeAlias

from traceanalyzer.capture_file.document import CaptureFile, library_of
from traceanalyzer.causes import BlockedOps, Cause
from traceanalyzer.causes.knowledge.finding_text import function_text, is_of_call, scope_text
from traceanalyzer.changes.edits import (
    OpAdvice,
    api_of,
    combined_edit,
    device_edit,
    op_edit,
    variable_edits,
)
from traceanalyzer.changes.line_ops import attribute_values
from traceanalyzer.changes.remedies import STRATEGY, Blocked, Remedies, Remedy, RemedyGroup
from traceanalyzer.changes.saving import Savings
from traceanalyzer.changes.source import Sources
from traceanalyzer.changes.variable_users import uses_of
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.findings import CERTAINTIES, Finding
from traceanalyzer.format import counted, series
from traceanalyzer.model import Fix, SourceWhere
from traceanalyzer.model.changes import Change, Edit, Effort, Place, Saving, with_distinct_ids
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.kernel_types import definition_of, is_never_computed, python_name
from traceanalyzer.placement.retyping import keeps_result

#: The edits of a change, and lines without an edit that must change too.
_Edits: TypeAlias = "tuple[tuple[Edit, ...], tuple[Place, ...]]"
_NO_EDITS: Final[_Edits] = ((), ())
_PIPELINE: Final = "dataset.map("
_NOTHING_TO_EDIT: Final = "A library creates these ops: there is nothing to change in your code."
# Causes whose changes other modules of this package make.
_CALLBACK: Final = "python_callback"
_EXACT: Final = "int64"  # the dtype that a variable of int32 can have without any other change
_COPIES: Final = "host_memory_kernel"
_ELSEWHERE: Final = frozenset({"no_gpu_visible", "host_pipeline"})
# Ops that share data by name: ops on another device cannot see it. `StageSize` has no GPU kernel:
# with `Stage` on the GPU, it finds nothing.
_PAIRED: Final = re.compile(r"(?:(?:Ordered)?Map)?(?:Stage|Unstage)\w*")


@dataclass(frozen=True, kw_only=True)
class PlacementChanges:
    """Finds changes for ops on the CPU, in the run or as predicted for a machine with a GPU."""

    capture_files: Sequence[CaptureFile]
    sources: Sources
    savings: Savings
    is_soft: bool  #: whether TensorFlow drops requests for devices that an op cannot use
    #: Ids of the ops that a line runs in loops.
    loops: Mapping[Place, Sequence[str]] = field(default_factory=dict)
    is_prediction: bool = False

    def of(
        self, cpu_ops: Mapping[str, CpuOp], findings: Sequence[Finding], causes: Sequence[Cause]
    ) -> list[Change]:
        """Return a change for each remedy of harmful ops."""
        found = {op_id: finding for finding in findings for op_id in finding.op_ids}
        whole = {cause.id for cause in causes if cause.is_of_runs}
        remedies = Remedies(cpu_ops.values(), causes)
        members: dict[Remedy, list[Blocked]] = {}
        for op_id, cpu_op in cpu_ops.items():
            if op_id in found and found[op_id].cause not in whole:
                blocked = remedies.of(cpu_op)
                if not any(each.text.harm == "by_design" for each in blocked):
                    for each in blocked:
                        members.setdefault(each.remedy, []).append(each)
        every = {r: RemedyGroup(r, tuple(blocked), found) for r, blocked in members.items()}
        groups = {remedy: group for remedy, group in every.items() if group.harmful}
        edits = {remedy: self._edits(group) for remedy, group in groups.items()}
        into = _merge(groups, edits)
        of_op: dict[str, set[Remedy]] = {}
        for remedy, group in every.items():
            for op_id in group.op_ids:
                of_op.setdefault(op_id, set()).add(into.get(remedy, remedy))
        paired = {op_id for op_id, op in cpu_ops.items() if _PAIRED.fullmatch(op.explanation.type)}
        for remedy, group in groups.items():
            if (moved := paired & set(group.op_ids)) and moved != paired:
                edits[remedy] = _NO_EDITS
        own = [self._change(group, edits[remedy], of_op) for remedy, group in groups.items()]
        changes = dict(zip(groups, with_distinct_ids(own), strict=True))
        for remedy, change in changes.items():
            others = {each for op_id in change.op_ids for each in of_op[op_id]} - {remedy}
            needs = tuple(sorted(changes[each].id for each in others if each in changes))
            changes[remedy] = replace(change, needs=needs)
        of_runs = (f for f in findings if f.cause in whole - _ELSEWHERE or _is_of_copies(f))
        harmful = (finding for finding in of_runs if finding.harm == "harmful")
        return [*changes.values(), *map(self._of_finding, harmful)]

    def _of_finding(self, finding: Finding) -> Change:
        """Return the change for a cause that concerns a whole run, such as lack of memory."""
        fix = finding.fixes[0] if finding.fixes else None
        places = [e.where for e in finding.evidence if isinstance(e.where, SourceWhere)]
        # What copies cost on a GPU does not follow from how long these ops take on a CPU.
        op_ids = () if _is_of_copies(finding) else finding.op_ids
        return Change(
            id=finding.id,
            kind="edit",
            title=(fix and fix.title) or finding.title,
            detail=finding.title,
            place=next(((w.file, w.line) for w in places if w.line is not None), None),
            instead="" if fix is None else fix.code or fix.text,
            why=finding.why,
            saving=self._saving(op_ids, op_ids),
            certainty=finding.certainty,
            effort=_effort(finding.fixes, ()),
            is_verified=fix is not None and fix.checked,
            finding_ids=(finding.id,),
            op_ids=finding.op_ids,
            is_prediction=self.is_prediction,
        )

    def _saving(self, op_ids: Sequence[str], alone: Sequence[str]) -> Saving:
        return self.savings.of_placement(op_ids, alone, is_prediction=self.is_prediction)

    def _edits(self, group: RemedyGroup) -> _Edits:
        place, edit = (group.remedy.file, group.remedy.line), None
        if group.is_short_of_memory:
            return _NO_EDITS
        if group.new_dtype:
            return self._retyped(place, group.new_dtype)
        if group.remedy.kind == "scope":
            edit = device_edit(self.sources, *place, soft=self.is_soft)
        elif group.remedy.kind == "fix" and group.fixes:
            edit = self._op_edit(place, group.lead[0].blocker, group.fixes[0].code or "")
        return _NO_EDITS if edit is None else ((edit,), ())

    def _op_edit(self, place: Place, blocker: Blocker, code: str) -> Edit | None:
        """Return the edit of the line that creates an op; None if values may get lost.

        All ops of the line must have the blocking value: the edit is for all of them.
        """
        if len(blocker.attributes) != 1:
            return None
        ((name, value),) = blocker.attributes.items()
        made = attribute_values(self.capture_files, place, blocker.type, name)
        if not keeps_result(blocker.type, value, code) or any(each != value for each in made):
            return None
        advice = OpAdvice(op=blocker.type, code=code, result=_result_dtype(blocker))
        return op_edit(self.sources, *place, advice)

    def _retyped(self, place: Place, dtype: str) -> _Edits:
        """Return the edits for a variable's new dtype; only lines to edit if it may not fit."""
        edits = variable_edits(self.sources, *place, dtype)
        uses = uses_of(self.capture_files, place, dtype)
        of_line = {(edit.file, edit.line): edit for edit in edits}
        also: list[Place] = []
        for other in uses.combined:
            edit, is_all = combined_edit(self.sources, other, dtype)
            if edit is not None and of_line.setdefault((edit.file, edit.line), edit) == edit:
                continue
            if edit is not None or not is_all:
                also.append(other.place)
        if edits and uses.are_known and not also and dtype == _EXACT:
            return tuple(of_line.values()), ()
        lines = [*(at for at in of_line if at != place and edits), *also]
        return (), tuple(dict.fromkeys(lines))

    def _change(
        self, group: RemedyGroup, edited: _Edits, of_op: Mapping[str, set[Remedy]]
    ) -> Change:
        remedy, fixes, (edits, also) = group.remedy, group.fixes, edited
        op_ids = [op_id for op_id in group.op_ids if group.found[op_id].harm == "harmful"]
        alone = [op_id for op_id in op_ids if of_op[op_id] == {remedy}]
        explained = [each.cpu_op.explanation for each in group.harmful]
        certainties = [e.certainty for e in explained] + [m.match.certainty for m in group.harmful]
        is_verified = bool(fixes) and fixes[0].checked
        if remedy.kind == "scope":  # proved if the replay without it is
            is_verified = all(e.is_complete and e.certainty == "certain" for e in explained)
        elif remedy.kind == "variable":
            is_verified = bool(group.new_dtype)
        place = (remedy.file, remedy.line) if remedy.file else None
        if place is None and group.lead[0].cause.id == STRATEGY:
            place = self.sources.of_strategy()
        if place is not None and group.lead[0].cause.id == _CALLBACK:
            place = self.sources.of_python_function(place)
        is_library = remedy.kind == "library"
        # A change of the call that makes the loops saves all of their ops.
        in_loops = [] if edits or place is None else self.loops.get(place, ())
        in_loops = [op_id for op_id in in_loops if op_id not in set(op_ids)]
        others = f", and {counted(len(in_loops), 'other')} in loops" if in_loops else ""
        return Change(
            id=_id(group),
            kind="library" if is_library else "edit",
            title=self._title(group),
            detail=f"{counted(len(group.op_ids), 'op')}: {series(group.types)}{others}",
            place=(edits[0].file, edits[0].line) if edits else place,
            also=(*((edit.file, edit.line) for edit in edits[1:]), *also),
            edits=edits,
            instead="" if edits else _instead(group),
            why=_why(group),
            around=_advice(group, has_edits=bool(edits)),
            saving=self._saving([*op_ids, *in_loops], [*alone, *in_loops]),
            certainty=max(certainties, key=CERTAINTIES.index),
            effort="one line" if remedy.kind == "scope" else _effort(fixes, edits),
            is_verified=is_verified,
            finding_ids=tuple(dict.fromkeys(group.found[op_id].id for op_id in group.op_ids)),
            op_ids=group.op_ids,
            is_prediction=self.is_prediction,
        )

    def _title(self, group: RemedyGroup) -> str:
        remedy, fix = group.remedy, next(iter(group.fixes), None)
        if remedy.kind == "scope" and not group.is_short_of_memory:
            return self._scope_title(group)
        if group.new_dtype and not group.is_short_of_memory:
            name = self._variable_name(group, (remedy.file, remedy.line))
            return f"Create {name} as {group.new_dtype}"
        if fix is not None and fix.title:
            # Other fixes depend on a condition.
            it = "it" if len(group.types) == 1 else "them"
            replaced = f"Replace {group.few_types}, or run {it} outside the step"
            return self._in_users_words(group, fix.title) if fix.condition is None else replaced
        library = group.lead[0].cpu_op.explanation.library
        if library is not None:
            return f"Avoid {group.few_types} in {library_of(library)}"
        if remedy.file:
            return f"Avoid {group.few_types}"
        return f"Move {group.few_types} to the GPU"

    def _in_users_words(self, group: RemedyGroup, text: str) -> str:
        """Return a text with the function that the line calls, instead of the type of its op."""
        remedy, op = group.remedy, group.lead[0].blocker.type
        api = api_of(self.sources, remedy.file, remedy.line, op)
        return re.sub(rf"\b{re.escape(op)}\b", f"`{api}`", text) if api else text

    def _scope_title(self, group: RemedyGroup) -> str:
        calls = {
            function_text(each.cpu_op, each.blocker)
            for each in group.members
            if each.blocker.kind is BlockerKind.DEFAULT_DEVICE or is_of_call(each.blocker)
        }
        if len(calls) == 1:
            return f"Call `{calls.pop()}` on the GPU"
        blockers = [each.blocker for each in group.members]
        made = {(b.made_at.file, b.made_at.line) for b in blockers if b.resource and b.made_at}
        own = {(b.frame.file, b.frame.line) for b in blockers if not b.resource and b.frame}
        if len(made) != 1 or not own <= made:
            return f"Run {group.few_types} on the GPU"
        number = len({b.resource.name for b in blockers if b.resource is not None})
        name = self._variable_name(group, made.pop())
        return f"Create {name if number == 1 else counted(number, 'variable')} on the GPU"

    def _variable_name(self, group: RemedyGroup, made_at: Place) -> str:
        resources = (each.blocker.resource for each in group.members)
        names = (resource.name.partition(":")[0] for resource in resources if resource is not None)
        own = next((name for name in names if name and not name.startswith("Variable")), "")
        source = None if own else self.sources.at(*made_at)
        for node in () if source is None else source.nodes:
            if source is not None and isinstance(node, ast.Assign | ast.AnnAssign):
                own = source.text(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                break
        return f"`{own}`" if own else "the variable"


def _is_of_copies(finding: Finding) -> bool:
    """Return whether a finding is about a function's copies, and has a fix."""
    return finding.cause == _COPIES and finding.sub_reason == "round_trip" and bool(finding.fixes)


def _merge(
    groups: dict[Remedy, RemedyGroup], edits: Mapping[Remedy, _Edits]
) -> Mapping[Remedy, Remedy]:
    """Merge groups with the same edit, for example of a constant that two scopes use.

    Returns:
        For each group's remedy, the remedy of its merged group.
    """
    first: dict[object, Remedy] = {}
    in_order = sorted(groups, key=lambda remedy: (remedy.file, remedy.line, remedy.advice))
    into = {remedy: first.setdefault(edits[remedy][0] or remedy, remedy) for remedy in in_order}
    for remedy, kept in into.items():
        if kept is not remedy:
            members = groups[kept].members + groups.pop(remedy).members
            groups[kept] = replace(groups[kept], members=members)
    return into


def _result_dtype(blocker: Blocker) -> str:
    """Return the dtype of an op's result if the blocking attribute sets it, or ""."""
    if len(blocker.attributes) != 1:
        return ""
    ((name, value),) = blocker.attributes.items()
    definition = definition_of(blocker.type)
    outputs = () if definition is None else definition.outputs
    is_output = any(name in {each.type_attr, each.type_list_attr} for each in outputs)
    return python_name(value) if is_output and isinstance(value, str) else ""


def _advice(group: RemedyGroup, *, has_edits: bool) -> str:
    """Return advice to show with the edits, or the workaround if a library creates the ops."""
    text = group.fixes[0].text if group.fixes else ""
    if group.remedy.kind == "library":
        return text or _NOTHING_TO_EDIT
    if not has_edits or group.remedy.kind == "scope":
        return ""
    return text.removeprefix(f"{group.fixes[0].title}.").strip() if text else ""


def _instead(group: RemedyGroup) -> str:
    """Return the code or text to show if there are no edits; a scope's code requests the GPU.

    A library's text is shown as the workaround.
    """
    fix = group.fixes[0] if group.fixes else None
    if fix is None or (group.remedy.kind == "library" and not fix.code):
        return ""
    if group.remedy.kind == "scope" and fix.code and fix.code.startswith("with tf.device("):
        return f'with tf.device("/GPU:0"):  # {group.remedy.at}'
    return fix.code or fix.text


def _why(group: RemedyGroup) -> str:
    lead, remedy = group.lead, group.remedy
    text = lead[0].cause.described(BlockedOps(tuple((b.cpu_op, b.blocker) for b in lead)))
    if remedy.kind != "scope":
        return f"{text.why}{_staying(group)}"
    return f"The program enters `{scope_text(lead[0].blocker)}` at {remedy.at}. {text.why}"


def _staying(group: RemedyGroup) -> str:
    """Name the ops that compute in host memory even on a GPU, if no replay shows that."""
    if any(each.cpu_op.explanation.basis == "replay" for each in group.lead):
        return ""
    types = [op for op in group.types if is_never_computed(op)]
    if not types:
        return ""
    return (
        f" {series(types)} and most ops on int32 results of {'it' if len(types) == 1 else 'them'} "
        "stay in host memory even then: a GPU computes no sizes."
    )


def _effort(fixes: Sequence[Fix], edits: Sequence[Edit]) -> Effort:
    if edits:
        is_one = len(edits) == 1 and max(len(edits[0].old), len(edits[0].new)) <= 1
        return "one line" if is_one else "few lines"
    code = "" if not fixes else f"{fixes[0].code} {fixes[0].text}"
    if _PIPELINE in code or "input pipeline" in code:
        return "restructure"
    return "one line" if fixes and fixes[0].code and "\n" not in fixes[0].code else "few lines"


def _id(group: RemedyGroup) -> str:
    """Return the id of a group's change, which does not depend on line numbers."""
    remedy, first = group.remedy, group.lead[0]
    parts = (remedy.kind, PurePath(remedy.file).name, remedy.advice, first.match.scope)
    return blake2b("\0".join(parts).encode(errors="replace"), digest_size=5).hexdigest()
