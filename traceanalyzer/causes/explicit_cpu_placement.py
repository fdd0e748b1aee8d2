"""The program requests the CPU."""

from traceanalyzer.capture_file.document import same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    OP_OR_CALL,
    is_of_call,
    is_of_strategy,
    observed,
    scope_text,
)
from traceanalyzer.format import series
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.scopes import habit_of


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.REQUEST or blocker.link != "own" or blocker.copied_from:
        return None
    frame = blocker.scope_frame
    if is_of_call(blocker) or is_of_strategy(blocker) or (frame is not None and not frame.is_user):
        return None
    device, name = device_text(blocker.scope or blocker.requested_device), blocker.name
    where = f"requested device of {name or blocker.type}"
    if frame is None:
        if blocker.requested_device.startswith("/job:") or habit_of(blocker.name, None):
            return None  # a strategy, another variable's device, or a library's scope
        text = f"{device} is requested for {name or blocker.type} by a line that was not recorded"
        if shown := cpu_op.explanation.inferred_from:
            text, where = f"inferred for {name or blocker.type}: {shown}", ""
        return CauseMatch(
            scope=f"{cpu_op.function} {device}",
            evidence=(observed("requested_device", text, where),),
            certainty="likely",
            sub_reason="inferred" if shown else "request_without_a_line",
        )
    text = f"{scope_text(blocker)} is entered here"
    return CauseMatch(
        scope=f"{same_place(frame)} {device}",
        evidence=(observed("requested_device", text, where, line=frame),),
        line=(frame.file, frame.line),
    )


def describe(ops: BlockedOps) -> FindingText:
    case = ""
    modifiers: tuple[str, ...] = ()
    if all(cpu_op.explanation.inferred_from for cpu_op in ops.ops):
        is_eager = all(cpu_op.is_eager for cpu_op in ops.ops)
        case, modifiers = ("/inferred_eager", ()) if is_eager else ("/inferred", (OP_OR_CALL,))
        if is_eager and any(cpu_op.explanation.certainty == "possible" for cpu_op in ops.ops):
            case = "/inferred_eager_or_library"
    elif all(blocker.scope_frame is None for blocker in ops.blockers):
        case = "/without_a_line"
    elif all(map(_is_computed, ops.blockers)):
        case = "/computed"
    types = list(dict.fromkeys(cpu_op.explanation.type for cpu_op in ops.ops))
    types_text = series(types, 5)
    return ops.described(f"explicit_cpu_placement{case}", types=types_text, modifiers=modifiers)


def _is_computed(blocker: Blocker) -> bool:
    """Return whether the line that opens the scope computes the name of the device."""
    text = None if blocker.scope_frame is None else blocker.scope_frame.text
    return text is not None and "cpu" not in text.lower() and text.rstrip().endswith(":")
