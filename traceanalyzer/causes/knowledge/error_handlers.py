"""Recorded errors: where each was raised, and which ops its handler put on the CPU."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.syntax import syntax_of
from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.cpu_ops import analyse
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
    from traceanalyzer.model import Evidence
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Host, Run

_LONGEST: Final = 200  # characters of a message in evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class HandledOps:
    """Ops that only CPU scopes inside a handler keep on the CPU, each with its first blocker."""

    ops: BlockedOps
    #: Whether the handler's source shows the scopes, and a replay that nothing else keeps the ops
    #: on the CPU. Without the source, scopes further down in the same function count.
    is_certain: bool
    #: Where the scopes are entered.
    evidence: tuple[Evidence, ...]


def raised_at(capture_file: CaptureFile, error: CaughtError) -> Frame | None:
    """Return the user's line that raised an error, if known."""
    return capture_file.frame(error.raised[0]) if error.raised else None


def raised_evidence(capture_file: CaptureFile, error: CaughtError, message: str) -> Evidence:
    """Return an error with the important part of its message, where it was raised."""
    text = f"{error.type} raised here: {message}"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return observed("error", text, "errors", line=raised_at(capture_file, error))


def handler_evidence(handler: Frame) -> Evidence:
    """Return the line of the `except` that caught an error."""
    return observed("handler", "the error was caught here", line=handler)


def handled_ops(
    run: Run, host: Host, capture_file: CaptureFile, handler: Frame
) -> HandledOps | None:
    """Find the ops that a handler, given by the line of its `except`, put on the CPU."""
    body = _handler_lines(handler.file, handler.line)
    members = []
    scopes: dict[Frame, str] = {}
    for cpu_op in analyse(run).cpu_ops.values():
        blockers = cpu_op.explanation.blockers
        if cpu_op.host != host.name or not blockers:
            continue
        found = [_cpu_scope(capture_file, blocker) for blocker in blockers]
        inside = [f for f in found if f is not None and _is_inside(f[0], handler, body)]
        if len(inside) == len(found):
            members.append((cpu_op, blockers[0]))
            scopes.update(inside)
    if not members:
        return None
    is_replayed = all(op.explanation.certainty == "certain" for op, _ in members)
    return HandledOps(
        ops=BlockedOps(tuple(members)),
        is_certain=body is not None and is_replayed,
        evidence=tuple(
            observed("requested_device", f'tf.device("{device}") is entered here', line=frame)
            for frame, device in scopes.items()
        ),
    )


def _handler_lines(file: str, line: int) -> tuple[int, int] | None:
    """Return the first and last line of a handler's body, from the source; None if not found."""
    tree = syntax_of(file) if PurePath(file).is_absolute() else None
    for node in () if tree is None else ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.lineno == line:
            last = node.body[-1]
            return node.body[0].lineno, last.end_lineno or last.lineno
    return None


def _cpu_scope(capture_file: CaptureFile, blocker: Blocker) -> tuple[Frame, str] | None:
    """Return the CPU scope around an op or its call: line and device."""
    if blocker.link != "own":
        return None
    frame, device = blocker.scope_frame, blocker.scope or blocker.requested_device
    if blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.call is not None:
        frame, device = capture_file.frame(blocker.call.scope_frame), blocker.call.scope
    elif blocker.kind is not BlockerKind.REQUEST:
        return None
    return (frame, device_text(device)) if frame is not None and asks_for_cpu(device) else None


def _is_inside(scope: Frame, handler: Frame, body: tuple[int, int] | None) -> bool:
    if scope.file != handler.file:
        return False
    if body is not None:
        return body[0] <= scope.line <= body[1]
    return scope.code == handler.code and scope.line > handler.line
