"""Ops that one change moves, and the words for them."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes.knowledge.finding_text import function_text, is_of_call
from traceanalyzer.changes.dtype_edits import OpAdvice
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of, python_name
from traceanalyzer.placement.retyping import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.changes.remedies import Blocked, Remedy
    from traceanalyzer.changes.source import Sources
    from traceanalyzer.findings import Finding
    from traceanalyzer.model.changes import Place
    from traceanalyzer.placement.blocker import Blocker

_NAMED: Final = 2  # op types in a title
_MOST_TYPES: Final = 8  # op types in a detail
_KEEP_THE_DATA: Final = Fix.of(
    "Keep only the data in the scope",
    "It may not fit the GPU. Gather what a step needs, and compute on that outside the scope.",
)


@dataclass(frozen=True)
class Group:
    """The blocked ops of one remedy."""

    remedy: Remedy
    members: tuple[Blocked, ...]
    #: Those whose finding says that they do harm.
    harmful: tuple[Blocked, ...]
    #: The finding of each op, by its id.
    found: Mapping[str, Finding] = field(compare=False, repr=False)

    @cached_property
    def op_ids(self) -> tuple[str, ...]:
        """The ops, each once."""
        return tuple(dict.fromkeys(each.cpu_op.op_id for each in self.members))

    @cached_property
    def lead(self) -> tuple[Blocked, ...]:
        """The members of the cause that most of the harmful ones have."""
        own = [each for each in self.harmful if not each.is_dragged_along] or self.harmful
        cause = Counter(each.cause.id for each in own).most_common(1)[0][0]
        return tuple(each for each in own if each.cause.id == cause)

    @cached_property
    def fixes(self) -> tuple[Fix, ...]:
        """What the leading cause advises; its finding may know better than the cause alone."""
        if self.is_short_of_memory:
            return (_KEEP_THE_DATA,)
        first = self.lead[0]
        finding = self.found[first.cpu_op.op_id]
        is_own = finding.cause == first.cause.id and not finding.blockers
        if first.is_dragged_along or not is_own:
            return first.fixes
        return finding.fixes

    @property
    def is_short_of_memory(self) -> bool:
        """Whether what the ops work on may not fit the GPU."""
        return any("memory_pressure" in self.found[op_id].modifiers for op_id in self.op_ids)

    @property
    def types(self) -> list[str]:
        """Op types: those of harmful ops first."""
        ops = (each.cpu_op for each in (*self.harmful, *self.members))
        return list(dict.fromkeys(op.explanation.type for op in ops))


# --- titles --------------------------------------------------------------------------------------


def title(group: Group, sources: Sources) -> str:
    """Return what to do, in a few words."""
    remedy = group.remedy
    if group.is_short_of_memory:
        return _fix_title(group)
    if remedy.kind == "scope":
        return _scope_title(group, sources)
    types = variable_types(group) if remedy.kind == "variable" else []
    if types:
        name = _variable_name(group, sources, (remedy.file, remedy.line))
        return f"Create {name} as {types[0]}"
    return _fix_title(group)


def op_advice(group: Group) -> OpAdvice | None:
    """Return what a cause advises for the line that makes an op, if it can be applied there."""
    fix = group.fixes[0] if group.fixes and group.remedy.kind == "fix" else None
    if fix is None or not fix.code:
        return None
    blocker = group.lead[0].blocker
    advice = OpAdvice(op=blocker.type, code=fix.code, result=_result_dtype(blocker))
    return advice if advice.is_applicable else None


def _result_dtype(blocker: Blocker) -> str:
    """Return the dtype that an op's result has because of the dtype to change; "" for none."""
    if len(blocker.attributes) != 1:
        return ""
    ((name, value),) = blocker.attributes.items()
    definition = definition_of(blocker.type)
    outputs = () if definition is None else definition.outputs
    is_output = any(name in {each.type_attr, each.type_list_attr} for each in outputs)
    return python_name(value) if is_output and isinstance(value, str) else ""


def variable_types(group: Group) -> list[str]:
    """Return the dtypes that suit all uses of a variable, the best first, as Python spells them."""
    known = [
        set(each.blocker.types or ())
        for each in group.members
        if each.blocker.kind is not BlockerKind.ATTRIBUTES or each.blocker.type == "VarHandleOp"
    ]
    order = [target.dtype for target in TARGETS["int32"]]
    return [python_name(t) for t in order if known and all(t in each for each in known)]


def _scope_title(group: Group, sources: Sources) -> str:
    calls = {
        function_text(each.cpu_op, each.blocker)
        for each in group.members
        if each.blocker.kind is BlockerKind.DEFAULT_DEVICE or is_of_call(each.blocker)
    }
    if len(calls) == 1:
        return f"Call `{calls.pop()}` on the GPU"
    blockers = [each.blocker for each in group.members]
    made = {_place_of(b.made_at) for b in blockers if b.resource is not None} - {None}
    own = {_place_of(b.frame) for b in blockers if b.resource is None} - {None}
    if len(made) == 1 and own <= made:
        names = {b.resource.name for b in blockers if b.resource is not None}
        if len(names) > 1:
            return f"Create {counted(len(names), 'variable')} on the GPU"
        return f"Create {_variable_name(group, sources, next(iter(made)))} on the GPU"
    return f"Run {_few(group.types)} on the GPU"


def _variable_name(group: Group, sources: Sources, made_at: Place | None) -> str:
    """Return the name that the program gives a variable, or "the variable"."""
    resources = (each.blocker.resource for each in group.members)
    names = (resource.name.partition(":")[0] for resource in resources if resource is not None)
    own = next((name for name in names if name and not name.startswith("Variable")), "")
    source = None if own or made_at is None else sources.at(*made_at)
    for node in () if source is None else source.nodes:
        if source is not None and isinstance(node, ast.Assign | ast.AnnAssign):
            own = source.text(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            break
    return f"`{own}`" if own else "the variable"


def _fix_title(group: Group) -> str:
    """Return what to do if an edit is not known: never what helps only under a condition."""
    types, fix = _few(group.types), next(iter(group.fixes), None)
    if fix is None or not fix.title:
        return f"Avoid {types} at {line_of(group.remedy)}"
    return fix.title if fix.condition is None else f"Replace {types}, or move it out of the step"


def detail(group: Group) -> str:
    """Return which ops a change moves."""
    return f"{counted(len(group.op_ids), 'op')}: {listed(group.types[:_MOST_TYPES])}"


def line_of(remedy: Remedy) -> str:
    """Return the line of a remedy in a few characters."""
    return f"{PurePath(remedy.file).name}:{remedy.line}" if remedy.file else "an unknown line"


def _few(types: Sequence[str]) -> str:
    if len(types) <= _NAMED:
        return " and ".join(types)
    return f"{types[0]} and {counted(len(types) - 1, 'other type')} of ops"


def _place_of(frame: Frame | None) -> Place | None:
    return None if frame is None else (frame.file, frame.line)
