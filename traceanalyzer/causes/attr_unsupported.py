"""Ops without a GPU kernel for an attribute's value."""

from typing import Final

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, fix
from traceanalyzer.causes.knowledge.advice import around
from traceanalyzer.causes.knowledge.finding_text import given_text, made_at, node_where, observed
from traceanalyzer.causes.knowledge.inside_calls import fix_inside
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of, is_type, values_taken
from traceanalyzer.placement.retyping import works_as
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

_LABEL: Final = "_kernel"


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if (
        blocker.kind is not BlockerKind.ATTRIBUTES
        or blocker.link != "own"
        or blocker.type in PYTHON_CALLBACKS
        or definition_of(blocker.type) is None
        or all(is_type(blocker.type, name) for name in blocker.attributes)
    ):
        return None
    given = given_text(blocker.attributes)
    return CauseMatch(
        scope=f"{blocker.type}\0{given}",
        sub_reason="kernel_label" if _LABEL in blocker.attributes else None,
        evidence=(
            observed("kernel_registry", f"no GPU kernel of {blocker.type} accepts {given}"),
            observed("attributes", f"recorded: {given}", node_where(blocker)),
            *made_at(cpu_op),
        ),
    )


def describe(ops: BlockedOps) -> FindingText:
    fixes, given = ops.checked([_fix(ops)]), given_text(ops.blocker.attributes)
    return ops.described("attr_unsupported", fixes, modifiers=ops.fallback, given=given)


def _fix(ops: BlockedOps) -> Fix:
    op_type, attributes = ops.blocker.type, ops.blocker.attributes
    if ops.library is not None:
        return around(op_type, ops.library)
    if ops.caller:
        return fix_inside(op_type, ops.caller)
    if _LABEL in attributes:
        return fix("attr_unsupported/remove_label")
    ((name, value), *more) = attributes.items()
    text = value.get("s") if isinstance(value, dict) else None
    others = values_taken(op_type, name, text) if isinstance(text, str) and not more else ()
    if not others:
        return fix("attr_unsupported/other_value", names=" and ".join(f"`{n}`" for n in attributes))
    chosen = "IGNORE" if "IGNORE" in others else max(others)
    return fix(
        f"attr_unsupported/value{'_ignore' if chosen == 'IGNORE' else ''}",
        checked=all(works_as(b.type, b.given, (name,), {"s": chosen}) for b in ops.blockers),
        argument=f'{name}="{chosen}"',
        type=op_type,
        accepted=", ".join(map(repr, others)),
    )
