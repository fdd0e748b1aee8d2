"""Finds the remedy for each blocker that keeps ops on the CPU; many ops can share one.

Ops whose blockers have the same remedy share a change, whatever the causes: one `tf.device` scope
puts a variable, its initial value, and all ops that read it on the CPU.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import function_text, is_of_call
from traceanalyzer.changes.edits import OpAdvice
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of, python_name
from traceanalyzer.placement.retyping import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.causes import Cause, CauseMatch, FindingText
    from traceanalyzer.changes.source import Sources
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model.changes import Place
    from traceanalyzer.placement.blocker import Blocker

RemedyKind: TypeAlias = Literal[
    "scope",  # the line that enters a `tf.device` scope
    "variable",  # the dtype in the line that creates a variable
    "fix",  # the cause's advice for a line
    "library",  # the cause's advice for a line that calls a library
]
_SCOPED: Final = frozenset({BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE})
_PLACED: Final = frozenset({BlockerKind.ASSIGNED, BlockerKind.RESOURCE})
_INT32: Final = "int32"  # the only numeric dtype that a variable on a GPU cannot have
_LIBRARY: Final = "library_cpu_placement"
STRATEGY: Final = "distribution_strategy_cpu"


@dataclass(frozen=True)
class Remedy:
    """What to change, and where. Equal remedies make one change."""

    kind: RemedyKind
    #: The line to edit, or the line that calls the library.
    file: str = ""
    line: int = 0
    #: The advice, or else the cause: it distinguishes different changes of one line.
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """A blocker of an op, the cause it belongs to, and its remedy."""

    cpu_op: CpuOp
    blocker: Blocker
    cause: Cause
    match: CauseMatch
    text: FindingText
    remedy: Remedy
    #: The advice; for an op that follows another one, the advice for that op.
    fixes: tuple[Fix, ...]
    #: Whether the op follows another one, whose remedy this is.
    is_dragged_along: bool


class Remedies:
    """Finds the remedies for each op."""

    def __init__(self, cpu_ops: Iterable[CpuOp], causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._op_of_node = {op.node: op for op in cpu_ops if op.node[1]}

    def of(self, cpu_op: CpuOp) -> tuple[Blocked, ...]:
        """Return the remedies for an op; none if a blocker belongs to no cause.

        If a library's code requests the CPU, only avoiding that code helps. If an op has no GPU
        kernel, or works on the host by design, its other blockers do not matter.
        """
        if cpu_op.explanation.contradiction:
            return ()
        found = []
        for blocker in _distinct(cpu_op.explanation.blockers):
            blocked = self._blocked(cpu_op, blocker)
            if blocked is None:
                return ()
            found.append(blocked)
        by_library = [b for b in found if b.cause.id == _LIBRARY and b.text.harm != "harmless"]
        decisive = by_library or [
            b
            for b in found
            if b.blocker.kind is BlockerKind.NO_KERNEL or b.text.harm == "by_design"
        ]
        return tuple(decisive or found)

    def _blocked(self, cpu_op: CpuOp, blocker: Blocker) -> Blocked | None:
        for cause in self._causes:
            match = cause.match(cpu_op, blocker)
            if match is not None and cause.describe is not None:
                text = cause.describe(BlockedOps(((cpu_op, blocker),)))
                leader = self._leader(cpu_op, blocker)
                return Blocked(
                    cpu_op=cpu_op,
                    blocker=blocker,
                    cause=cause,
                    match=match,
                    text=text,
                    remedy=_remedy(cpu_op, blocker, cause.id, text)
                    if leader is None
                    else leader.remedy,
                    fixes=text.fixes if leader is None else leader.fixes,
                    is_dragged_along=leader is not None,
                )
        return None

    def _leader(self, cpu_op: CpuOp, blocker: Blocker) -> Blocked | None:
        """Return the blocker of the op that this one follows, or is colocated with."""
        if blocker.link not in {"class", "follows"}:
            return None
        leader = self._op_of_node.get((blocker.function, blocker.name))
        if leader is None or leader is cpu_op:
            return None
        same = (blocker.kind, "own", blocker.scope_frame)
        blockers = leader.explanation.blockers
        own = next((b for b in blockers if (b.kind, b.link, b.scope_frame) == same), None)
        return None if own is None else self._blocked(leader, own)


def _distinct(blockers: Sequence[Blocker]) -> list[Blocker]:
    """Leave out blockers from assigning an initial value in a scope for the variable's device."""
    is_placed = any(b.kind in _PLACED for b in blockers)
    return [
        b
        for b in blockers
        if not (
            is_placed
            and b.link == "resource"
            and b.kind is BlockerKind.REQUEST
            and b.scope_frame is not None
            and not b.scope_frame.is_user
        )
    ]


def _remedy(cpu_op: CpuOp, blocker: Blocker, cause: str, text: FindingText) -> Remedy:
    advice = next((fix.code or fix.text for fix in text.fixes), cause)
    is_scoped = blocker.kind in _SCOPED or (blocker.kind in _PLACED and blocker.scope is not None)
    scope = blocker.scope_frame if is_scoped else None
    if scope is not None and scope.is_user:
        return Remedy("scope", scope.file, scope.line)
    if cause == STRATEGY:
        return Remedy("library", advice=advice)
    made = None if scope is not None else _made(cpu_op, blocker)
    if made is not None:
        return Remedy("variable", made.file, made.line)
    line = (cpu_op.file or "", cpu_op.line or 0)
    if scope is not None or blocker.made_in is not None or cpu_op.explanation.library is not None:
        return Remedy("library", *line, advice)
    frame = blocker.frame or blocker.made_at
    return Remedy("fix", *(line if frame is None else (frame.file, frame.line)), advice)


def _made(cpu_op: CpuOp, blocker: Blocker) -> Frame | None:
    """Return the user's line that creates the variable whose dtype is the blocker, if any."""
    if blocker.made_in is not None:
        return None
    if blocker.kind in _PLACED:
        is_int32 = blocker.resource is not None and blocker.resource.dtype == _INT32
        return blocker.made_at if is_int32 else None
    if blocker.kind is not BlockerKind.ATTRIBUTES:
        return None
    if blocker.type == "VarHandleOp":
        is_int32 = blocker.attributes.get("dtype") == _INT32
        return (blocker.made_at or blocker.frame) if is_int32 else None
    if blocker.link == "own" and set(blocker.attributes) == {"dtype"}:
        # The op uses a variable of that dtype, which is the one to change.
        placed = [b for b in cpu_op.explanation.blockers if b.kind in _PLACED]
        return next((b.made_at for b in placed if b.made_at and b.made_in is None), None)
    return None


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
    #: The ops with a harmful finding.
    harmful: tuple[Blocked, ...]
    #: The finding of each op, by its id.
    found: Mapping[str, Finding] = field(compare=False, repr=False)

    @cached_property
    def op_ids(self) -> tuple[str, ...]:
        """The ops, each once."""
        return tuple(dict.fromkeys(each.cpu_op.op_id for each in self.members))

    @cached_property
    def lead(self) -> tuple[Blocked, ...]:
        """The members with the most frequent cause of the harmful ops."""
        own = [each for each in self.harmful if not each.is_dragged_along] or self.harmful
        cause = Counter(each.cause.id for each in own).most_common(1)[0][0]
        return tuple(each for each in own if each.cause.id == cause)

    @cached_property
    def fixes(self) -> tuple[Fix, ...]:
        """The leading cause's fixes; those of its finding can be more specific."""
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
        """Whether the ops' data may not fit into the GPU's memory."""
        return any("memory_pressure" in self.found[op_id].modifiers for op_id in self.op_ids)

    @property
    def types(self) -> list[str]:
        """Op types: those of harmful ops first."""
        ops = (each.cpu_op for each in (*self.harmful, *self.members))
        return list(dict.fromkeys(op.explanation.type for op in ops))


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
    """Return a cause's advice for the line that creates an op, if it applies to that line."""
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
    made = {(b.made_at.file, b.made_at.line) for b in blockers if b.resource and b.made_at}
    own = {(b.frame.file, b.frame.line) for b in blockers if not b.resource and b.frame}
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
    """Return what to do if no edit is known, without fixes that depend on a condition."""
    types, fix = _few(group.types), next(iter(group.fixes), None)
    if fix is None or not fix.title:
        at = f"Avoid {types} at {line_of(group.remedy)}"
        return at if group.remedy.file else f"Move {types} to the GPU"
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
