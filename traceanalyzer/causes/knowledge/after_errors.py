"""An error that was recorded: where it was raised, and which ops its handler put on the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes.knowledge.finding_text import line_evidence
from traceanalyzer.causes.knowledge.handlers import handler_lines
from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.model import CaptureFileWhere
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.model import Evidence
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Host, Run

__all__ = [
    "WentOn",
    "handler_evidence",
    "no_errors_known",
    "raised_at",
    "raised_evidence",
    "went_on_on_the_cpu",
]

_LONGEST: Final = 200  # of a message, in evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class WentOn:
    """Ops that nothing but scopes for the CPU within a handler keeps there.

    Attributes:
        members: The ops, at least one, each with the scope that holds it first.
        is_certain: Whether the source of the handler shows the scopes, and a replay that nothing
            else holds the ops. Without the source, scopes further down in the same function count.
        evidence: Where the scopes are entered.
    """

    members: tuple[tuple[CpuOp, Blocker], ...]
    is_certain: bool
    evidence: tuple[Evidence, ...]


def no_errors_known(run: Run) -> str | None:
    """Return why nothing can be said of a program's errors, or None where they were recorded."""
    if all(host.capture_file is None for host in run.hosts):
        return "without a capture the program's errors are not known"
    return None


def raised_at(capture_file: CaptureFile, error: CaughtError) -> Frame | None:
    """Return the user's line that raised an error, or None where it is not known."""
    return capture_file.frame(error.raised[0]) if error.raised else None


def raised_evidence(capture_file: CaptureFile, error: CaughtError, words: str) -> Evidence:
    """Return an error, where it was raised, as evidence.

    Args:
        capture_file: What was captured.
        error: The error.
        words: What of its message tells; cut where that is long.
    """
    text = f"{error.type} raised here: {words}"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    return line_evidence(
        "error", text, raised_at(capture_file, error), CaptureFileWhere(sidecar="errors")
    )


def handler_evidence(handler: Frame) -> Evidence:
    """Return the line of the `except` that caught an error as evidence."""
    return line_evidence("handler", "the error was caught here", handler)


def went_on_on_the_cpu(run: Run, host: Host, handler: Frame) -> WentOn | None:
    """Find the ops that a handler of an error put on the CPU; None where there are none.

    Args:
        run: The run.
        host: Its host whose program had the error.
        handler: The line of the `except`.
    """
    if host.capture_file is None:
        return None
    body = handler_lines(handler.file, handler.line)
    members: list[tuple[CpuOp, Blocker]] = []
    scopes: dict[Frame, str] = {}
    for cpu_op in analyse(run).cpu_ops:
        if cpu_op.host != host.name:
            continue
        found = [_cpu_scope(host.capture_file, blocker) for blocker in cpu_op.explanation.blockers]
        within = [f for f in found if f is not None and _is_within(f[0], handler, body)]
        if found and len(within) == len(found):
            members.append((cpu_op, cpu_op.explanation.blockers[0]))
            scopes.update(dict(within))
    if not members:
        return None
    return WentOn(
        members=tuple(members),
        is_certain=body is not None
        and all(s.explanation.certainty == "certain" for s, _ in members),
        evidence=tuple(
            line_evidence("requested_device", f'tf.device("{device}") is entered here', frame)
            for frame, device in scopes.items()
        ),
    )


def _cpu_scope(capture_file: CaptureFile, blocker: Blocker) -> tuple[Frame, str] | None:
    """Return the scope for the CPU that holds an op, or its call, with its line; or None."""
    if blocker.link != "own":
        return None
    frame, device = blocker.scope_frame, blocker.scope or blocker.requested_device
    if blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.call is not None:
        frame, device = capture_file.frame(blocker.call.scope_frame), blocker.call.scope
    elif blocker.kind is not BlockerKind.REQUEST:
        return None
    if frame is None or not asks_for_cpu(device):
        return None
    return frame, device_text(device)


def _is_within(scope: Frame, handler: Frame, body: tuple[int, int] | None) -> bool:
    if scope.file != handler.file:
        return False
    if body is not None:
        return body[0] <= scope.line <= body[1]
    return scope.code == handler.code and scope.line > handler.line
