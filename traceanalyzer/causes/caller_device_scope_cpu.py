"""Functions called inside a CPU scope."""

from traceanalyzer.capture_file.document import lines_text, same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    OP_OR_CALL,
    function_text,
    is_of_call,
    is_of_strategy,
    observed,
    runs_for_dataset,
    scope_text,
)
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_call = blocker.kind is BlockerKind.REQUEST and is_of_call(blocker)
    is_inside = blocker.for_step or blocker.of_model
    is_default = blocker.kind is BlockerKind.DEFAULT_DEVICE and not is_inside
    if blocker.link != "own" or not (is_call or is_default) or is_of_strategy(blocker):
        return None
    if is_default and runs_for_dataset(cpu_op, blocker):
        return None
    function, scope, frame = function_text(cpu_op, blocker), _scope(blocker), blocker.scope_frame
    if scope is None:
        where = f"function {blocker.function or function}"
        text = f"the call of {function} was placed on the CPU"
        if shown := cpu_op.explanation.inferred_from:
            text, where = f"inferred: {shown}", ""
        return CauseMatch(
            scope=f"{function} called within a function",
            evidence=(observed("default_device", text, where),),
            certainty="likely",
            sub_reason="inferred" if shown else "call_on_the_cpu",
        )
    where = f"call of {function if blocker.call is None else blocker.call.op}"
    text = f"{function} was called inside {scope_text(blocker)}"
    return CauseMatch(
        scope=f"{function} {same_place(frame)} {device_text(scope)}",
        evidence=(observed("default_device", text, where, line=frame),),
        certainty="certain" if asks_for_cpu(scope) else "likely",
    )


def describe(ops: BlockedOps) -> FindingText:
    if ops.ops[0].explanation.inferred_from:
        return ops.described("caller_device_scope_cpu/inferred", modifiers=(OP_OR_CALL,))
    if _scope(ops.blocker) is None:
        return ops.described("caller_device_scope_cpu/call_on_the_cpu")
    lines = lines_text(blocker.scope_frame for blocker in ops.blockers)
    return ops.described(
        "caller_device_scope_cpu",
        at_lines=f" at {lines}" if lines else "",
        place=f"{lines}: " if lines else "",
    )


def _scope(blocker: Blocker) -> str | None:
    """Return the device of the scope around the call; None if no scope was recorded."""
    if blocker.call is not None:
        return blocker.call.scope
    return blocker.scope if blocker.called_in else None
