"""What has to change for an op to leave the CPU: one remedy for each of its blockers.

Ops whose blockers have the same remedy share a change, whatever the causes: one `tf.device` scope
puts a variable, its initial value, and all ops that read it on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.causes import BlockedOps
from traceanalyzer.placement.blocker import BlockerKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.causes import Cause, CauseMatch, FindingText
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.model import Fix
    from traceanalyzer.placement.blocker import Blocker

RemedyKind: TypeAlias = Literal[
    "scope",  # the line that enters a `tf.device` scope
    "variable",  # the line that makes a variable: its dtype
    "fix",  # what the cause advises, at a line
    "library",  # what the cause advises against what a library does, for a line that calls it
]
_SCOPED: Final = frozenset(
    {
        *(BlockerKind.REQUEST, BlockerKind.DEFAULT_DEVICE),
        *(BlockerKind.ASSIGNED, BlockerKind.RESOURCE),
    }
)
_PLACED: Final = frozenset({BlockerKind.ASSIGNED, BlockerKind.RESOURCE})
_INT32: Final = "int32"  # the only dtype of numbers that no variable on a GPU has
_LIBRARY: Final = "library_cpu_placement"
STRATEGY: Final = "distribution_strategy_cpu"


@dataclass(frozen=True)
class Remedy:
    """What has to change, and where. Equal ones are one change."""

    kind: RemedyKind
    #: The line to edit, or the line that calls the library.
    file: str = ""
    line: int = 0
    #: What is advised, or else the cause: it tells different changes of one line apart.
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
    #: What is advised: for an op that follows another one, what is for that.
    fixes: tuple[Fix, ...]
    #: Whether the op follows another one, whose remedy this is.
    is_dragged_along: bool


class Remedies:
    """Finds what has to change for each of some ops."""

    def __init__(self, cpu_ops: Iterable[CpuOp], causes: Sequence[Cause]) -> None:
        self._causes = causes
        self._op_of_node = {op.node: op for op in cpu_ops if op.node[1]}

    def of(self, cpu_op: CpuOp) -> tuple[Blocked, ...]:
        """Return what has to change for an op; nothing if a blocker belongs to no cause.

        If a library's code requests the CPU, only what avoids that code helps. If an op has no GPU
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
        own = next((b for b in leader.explanation.blockers if _is_same(b, blocker)), None)
        return None if own is None else self._blocked(leader, own)


def _is_same(own: Blocker, dragging: Blocker) -> bool:
    return (own.kind, own.link, own.scope_frame) == (dragging.kind, "own", dragging.scope_frame)


def _distinct(blockers: Sequence[Blocker]) -> list[Blocker]:
    """Leave out what assigns a variable's initial value, in a scope for the variable's device."""
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
    advice = _advice(text) or cause
    scope = blocker.scope_frame if blocker.kind in _SCOPED and _is_scoped(blocker) else None
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


def _is_scoped(blocker: Blocker) -> bool:
    """Return whether the blocker's scope is what requests the device."""
    return blocker.kind not in _PLACED or blocker.scope is not None


def _made(cpu_op: CpuOp, blocker: Blocker) -> Frame | None:
    """Return the user's line that makes the variable whose dtype is the blocker, if it is one."""
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
        return next(_variables(cpu_op), None)
    return None


def _variables(cpu_op: CpuOp) -> Iterator[Frame]:
    for each in cpu_op.explanation.blockers:
        if each.kind in _PLACED and each.made_at is not None and each.made_in is None:
            yield each.made_at


def _advice(text: FindingText) -> str:
    return next((fix.code or fix.text for fix in text.fixes), "")
