"""Finds the remedy for each blocker. Ops with the same remedy share a change, whatever the cause.

One `tf.device` scope can keep a variable, its initial value, and all its readers on the CPU.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePath
from typing import Final, Literal

from traceanalyzer.attribution import cause_of
from traceanalyzer.capture_file.document import Frame
from traceanalyzer.causes import Cause, CauseMatch, FindingText
from traceanalyzer.causes.library_cpu_placement import ONLY_REQUESTS
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, series
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import PLACED, Blocker, BlockerKind
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.placement.retyping import TARGETS

_SCOPED: Final = frozenset({BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE})
_INT32: Final = "int32"  # the only numeric dtype that a variable on a GPU cannot have
_LIBRARY: Final = "library_cpu_placement"
STRATEGY: Final = "distribution_strategy_cpu"
_KEEP_THE_DATA: Final = Fix.of(
    "Keep only the data in the scope",
    "It may not fit on the GPU. Gather the values that a step needs, then leave the scope.",
)


@dataclass(frozen=True)
class Remedy:
    """The kind and the place of a change. Equal remedies become one change."""

    #: Change the line that enters a `tf.device` scope, or the dtype in the line that creates a
    #: variable, or follow the cause's advice for a line, or for a line that calls a library.
    kind: Literal["scope", "variable", "fix", "library"]
    file: str = ""  #: "" if unknown
    line: int = 0
    advice: str = ""  #: the advice, or else the cause: one line can need several changes

    @property
    def at(self) -> str:
        """The remedy's line, such as `train.py:7`."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else "an unknown line"


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """A blocker of an op, the cause it belongs to, and its remedy.

    An op that follows another one (`is_dragged_along`) has the remedy and fixes of that op.
    """

    cpu_op: CpuOp
    blocker: Blocker
    cause: Cause
    match: CauseMatch
    text: FindingText
    remedy: Remedy
    fixes: tuple[Fix, ...]
    is_dragged_along: bool


class Remedies:
    """Finds the remedies for each op."""

    def __init__(self, cpu_ops: Iterable[CpuOp], causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._op_of_node = {op.node: op for op in cpu_ops if op.node[1]}

    def of(self, cpu_op: CpuOp) -> list[Blocked]:
        """Return the remedies for an op; none if a blocker belongs to no cause.

        If a library's code runs on the host, only avoiding that code helps. If an op has no GPU
        kernel, or is on the host by design, its other blockers do not matter.
        """
        blockers = cpu_op.explanation.blockers
        if any(blocker.kind in PLACED for blocker in blockers):
            # The initial value is assigned in a scope for the variable's device.
            blockers = tuple(b for b in blockers if not _is_of_assignment(b))
        found = [each for b in blockers if (each := self._blocked(cpu_op, b)) is not None]
        if cpu_op.explanation.contradiction or len(found) < len(blockers):
            return []
        by_library = [b for b in found if b.cause.id == _LIBRARY and b.text.harm != "harmless"]
        decisive = [b for b in by_library if b.match.sub_reason not in ONLY_REQUESTS]
        no_kernel = BlockerKind.NO_KERNEL
        fixed = [b for b in found if b.blocker.kind is no_kernel or b.text.harm == "by_design"]
        return decisive or fixed or by_library or found

    def _blocked(self, cpu_op: CpuOp, blocker: Blocker) -> Blocked | None:
        found = cause_of(cpu_op, blocker, self._causes)
        if found is None:
            return None
        cause, match, text = found
        leader = self._leader(cpu_op, blocker)
        return Blocked(
            cpu_op=cpu_op,
            blocker=blocker,
            cause=cause,
            match=match,
            text=text,
            remedy=_remedy(cpu_op, blocker, found) if leader is None else leader.remedy,
            fixes=text.fixes if leader is None else leader.fixes,
            is_dragged_along=leader is not None,
        )

    def _leader(self, cpu_op: CpuOp, blocker: Blocker) -> Blocked | None:
        """Return the blocker of the op that `cpu_op` follows or is colocated with."""
        leader = self._op_of_node.get((blocker.function, blocker.name))
        if blocker.link not in {"class", "follows"} or leader is None or leader is cpu_op:
            return None
        same = (blocker.kind, "own", blocker.scope_frame)
        blockers = leader.explanation.blockers
        own = next((b for b in blockers if (b.kind, b.link, b.scope_frame) == same), None)
        return None if own is None else self._blocked(leader, own)


def _is_of_assignment(blocker: Blocker) -> bool:
    frame = blocker.scope_frame
    is_request = blocker.link == "resource" and blocker.kind is BlockerKind.REQUEST
    return is_request and frame is not None and not frame.is_user


def _remedy(
    cpu_op: CpuOp, blocker: Blocker, found: tuple[Cause, CauseMatch, FindingText]
) -> Remedy:
    cause, match, text = found
    advice = next((fix.code or fix.text for fix in text.fixes), cause.id)
    is_scoped = blocker.kind in _SCOPED or (blocker.kind in PLACED and blocker.scope is not None)
    scope = blocker.scope_frame if is_scoped else None
    if scope is not None and scope.is_user:
        return Remedy("scope", scope.file, scope.line)
    if cause.id == STRATEGY:
        return Remedy("library", advice=advice)
    made = None if scope is not None else _made(cpu_op, blocker)
    if made is not None:
        return Remedy("variable", made.file, made.line)
    line = (cpu_op.file or "", cpu_op.line or 0)
    if scope is not None or blocker.made_in is not None or cpu_op.explanation.library is not None:
        return Remedy("library", *line, advice)
    frame = blocker.frame or blocker.made_at
    file, number = line if frame is None else (frame.file, frame.line)
    # Without a line, advice with the names of ops differs for the ops of one finding.
    return Remedy("fix", file, number, advice if file else f"{cause.id}\0{match.scope}")


def _made(cpu_op: CpuOp, blocker: Blocker) -> Frame | None:
    """Return the user's line that creates the variable whose dtype is the blocker, if any."""
    if blocker.made_in is not None:
        return None
    if blocker.kind in PLACED:
        is_int32 = blocker.resource is not None and blocker.resource.dtype == _INT32
        return blocker.made_at if is_int32 else None
    if blocker.kind is not BlockerKind.ATTRIBUTES:
        return None
    if blocker.type == "VarHandleOp":
        is_int32 = blocker.attributes.get("dtype") == _INT32
        return (blocker.made_at or blocker.frame) if is_int32 else None
    if blocker.link == "own" and set(blocker.attributes) == {"dtype"}:
        # The op uses a variable of that dtype, which is the one to change.
        placed = [b for b in cpu_op.explanation.blockers if b.kind in PLACED]
        return next((b.made_at for b in placed if b.made_at and b.made_in is None), None)
    return None


@dataclass(frozen=True)
class RemedyGroup:
    """The blocked ops that share a remedy."""

    remedy: Remedy
    members: tuple[Blocked, ...]
    #: The finding of each op, by its id.
    found: Mapping[str, Finding] = field(compare=False, repr=False)

    @cached_property
    def harmful(self) -> tuple[Blocked, ...]:
        """The members that the remedy moves and whose finding is harmful."""
        return tuple(filter(self._is_harmful, self.members))

    def _is_harmful(self, blocked: Blocked) -> bool:
        finding, explanation = self.found[blocked.cpu_op.op_id], blocked.cpu_op.explanation
        # A replay without the scope still puts the op on the CPU.
        stays = explanation.basis == "replay" and not explanation.is_complete
        if finding.harm != "harmful" or (stays and self.remedy.kind == "scope"):
            return False
        # If the finding is about this cause, its harm in this run counts.
        is_own = finding.cause == blocked.cause.id
        return is_own or blocked.is_dragged_along or blocked.text.harm == "harmful"

    @cached_property
    def op_ids(self) -> tuple[str, ...]:
        """The ids of the ops, without duplicates."""
        return tuple(dict.fromkeys(each.cpu_op.op_id for each in self.members))

    @cached_property
    def lead(self) -> tuple[Blocked, ...]:
        """The harmful members with the most frequent cause."""
        own = [each for each in self.harmful if not each.is_dragged_along] or self.harmful
        cause = Counter(each.cause.id for each in own).most_common(1)[0][0]
        return tuple(each for each in own if each.cause.id == cause)

    @cached_property
    def fixes(self) -> tuple[Fix, ...]:
        """The fixes for the leading cause, from the finding if it is about this cause alone."""
        if self.is_short_of_memory:
            return (_KEEP_THE_DATA,)
        first = self.lead[0]
        finding = self.found[first.cpu_op.op_id]
        is_own = finding.cause == first.cause.id and not finding.blockers
        return finding.fixes if is_own and not first.is_dragged_along else first.fixes

    @cached_property
    def is_short_of_memory(self) -> bool:
        """Whether the ops' data may not fit into the GPU's memory."""
        return any("memory_pressure" in self.found[op_id].modifiers for op_id in self.op_ids)

    @cached_property
    def new_dtype(self) -> str:
        """The dtype that best suits all uses of a variable, as Python spells it; "" if none."""
        blockers, by_attributes = [m.blocker for m in self.members], BlockerKind.ATTRIBUTES
        uses = [b for b in blockers if b.kind is not by_attributes or b.type == "VarHandleOp"]
        if self.remedy.kind != "variable" or not uses:
            return ""
        targets = [each.dtype for each in TARGETS[_INT32]]
        suiting = (t for t in targets if all(t in (use.types or ()) for use in uses))
        return next(map(python_name, suiting), "")

    @property
    def types(self) -> list[str]:
        """The op types; the types of harmful ops come first."""
        ops = (each.cpu_op for each in (*self.harmful, *self.members))
        return list(dict.fromkeys(op.explanation.type for op in ops))

    @property
    def few_types(self) -> str:
        """The op types, as text for a title."""
        first, *others = types = self.types
        if len(types) > 2:  # noqa: PLR2004 - more than two are too long for a title
            return f"{first} and {counted(len(others), 'other op type')}"
        return series(types)
