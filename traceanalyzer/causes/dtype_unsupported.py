"""Ops without a GPU kernel for their dtype."""

import re
from collections.abc import Iterator
from typing import Final

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, fix
from traceanalyzer.causes.knowledge.advice import HOST_WORK, around, fixes_of_variables
from traceanalyzer.causes.knowledge.finding_text import (
    dtypes_in,
    given_text,
    made_at,
    node_where,
    observed,
    value_text,
)
from traceanalyzer.causes.knowledge.inside_calls import fix_inside
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import (
    casts_on_gpu,
    definition_of,
    inputs_of,
    is_type,
    python_name,
    values_taken,
)
from traceanalyzer.placement.retyping import TARGETS, XLA_REFUSES, Target, works_as
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

_ONLY_ON_HOST: Final = frozenset({"resource", "string", "string_ref", "variant"})
_OF_DATA: Final = frozenset({"T", "dtype", "DT", "Tparams", "element_dtype"})
# Ops whose `T` an argument of their Python function chooses, which makes the weights.
_BINCOUNT: Final = "tf.math.bincount"
_COUNTS: Final = frozenset({"Bincount", "DenseBincount", "RaggedBincount"})
_STRINGS: Final = HOST_WORK["strings"].fix
_VARIABLES: Final = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_ARRAYS: Final = re.compile(r"(TensorArray|TensorList|EmptyTensorList|Stack)(Push|Pop)?(?![a-z]).*")


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "own":
        return None
    if blocker.kind is BlockerKind.HOST_LIST:
        text = f"{blocker.type} uses a list whose elements, e.g. strings, are always in host memory"
        replay = observed("placer_replay", text, node_where(blocker))
        return CauseMatch(
            scope=f"{blocker.type}\0list",
            sub_reason="list_in_host_memory",
            evidence=(replay, *made_at(cpu_op)),
        )
    if (
        blocker.kind is not BlockerKind.ATTRIBUTES
        or blocker.type in PYTHON_CALLBACKS
        or definition_of(blocker.type) is None
        or not all(is_type(blocker.type, name) for name in blocker.attributes)
    ):
        return None
    given = given_text(blocker.attributes)
    registry = observed("kernel_registry", f"no GPU kernel of {blocker.type} accepts {given}")
    attributes = observed("attributes", f"inferred from the dtypes of its inputs: {given}")
    if cpu_op.explanation.basis == "replay":
        attributes = observed("attributes", f"recorded: {given}", node_where(blocker))
    return CauseMatch(
        scope=f"{blocker.type}\0{given}", evidence=(registry, attributes, *made_at(cpu_op))
    )


def describe(ops: BlockedOps) -> FindingText:
    blocker = ops.blocker
    if blocker.kind is BlockerKind.HOST_LIST:
        return ops.described("dtype_unsupported/list", [_STRINGS], modifiers=ops.fallback)
    dtypes = {dtype for value in blocker.attributes.values() for dtype in dtypes_in(value)}
    given = " and ".join(  # with the attribute's name if it is not the data's dtype
        value_text(value) if name in _OF_DATA else f"{name}={value_text(value)}"
        for name, value in blocker.attributes.items()
    )
    ((name, value), *more) = blocker.attributes.items()
    types = values_taken(blocker.type, name, value) if isinstance(value, str) and not more else ()
    supported = sorted(python_name(t) for t in types if t not in _ONLY_ON_HOST)
    is_int32_variable = blocker.type == "VarHandleOp" and "int32" in dtypes
    return ops.described(
        "dtype_unsupported/on_host" if dtypes & _ONLY_ON_HOST else "dtype_unsupported",
        ops.checked(_fixes(ops, dtypes)) or None,
        modifiers=ops.fallback,
        given=given,
        supported=f" (supported: {', '.join(supported)})" if supported else "",
        xla=XLA_REFUSES if is_int32_variable else "",
    )


def _fixes(ops: BlockedOps, dtypes: set[str]) -> Iterator[Fix]:
    """Yield the fixes; there are none for resources and variants."""
    op_type = ops.blocker.type
    if ops.library is not None:
        yield around(op_type, ops.library)
    elif "string" in dtypes:
        yield _STRINGS
    elif dtypes & _ONLY_ON_HOST:
        return
    elif _is_of_variable(ops.blocker):
        (dtype,) = ops.blocker.attributes.values()
        yield from fixes_of_variables(str(dtype), ops.blockers)
    elif ops.caller:
        yield fix_inside(op_type, ops.caller)
    else:
        yield from _casts(ops) or (fix("dtype_unsupported/other_dtypes", type=op_type),)


def _casts(ops: BlockedOps) -> list[Fix]:
    """Return fixes that change the dtype for all ops: the best if lossless, otherwise the best two.

    A kernel may accept a dtype only in combination with certain dtypes of other attributes.
    """
    op_type = ops.blocker.type
    ((name, value), *more) = ops.blocker.attributes.items()
    if more or not isinstance(value, str):
        return []
    accepted = values_taken(op_type, name, value)
    fixes = [
        (target, fix)
        for target in TARGETS.get(value, ())
        if target.dtype in accepted
        and all(works_as(b.type, b.given, (name,), target.dtype) for b in ops.blockers if b.given)
        and (fix := _as_dtype(ops, name, value, target)) is not None
    ]
    is_lossless = bool(fixes) and not fixes[0][0].loss
    return [fix for _, fix in fixes[: 1 if is_lossless else 2]]


def _as_dtype(ops: BlockedOps, attribute: str, dtype: str, target: Target) -> Fix | None:
    """Return the fix that uses a supported dtype; None if a GPU cannot cast to it."""
    op, inputs = ops.blocker.type, inputs_of(ops.blocker.type, attribute)
    new, old, loss = python_name(target.dtype), python_name(dtype), target.in_brackets
    if attribute in _OF_DATA and _ARRAYS.fullmatch(op):
        return fix("dtype_unsupported/list_dtype", new=new, loss=loss)
    makes_weights = op in _COUNTS and attribute == "T"
    if makes_weights or not inputs:
        code = f"{'dtype' if makes_weights else attribute}=tf.{new}"
        name = f"`{_BINCOUNT}`" if makes_weights else op
        given = {"code": code, "type": name, "old": old, "loss": loss}
        return fix("dtype_unsupported/argument", checked=True, **given)
    definition = definition_of(op)
    outputs = () if definition is None else definition.outputs
    is_output = any(attribute in {a.type_attr, a.type_list_attr} for a in outputs)
    if not casts_on_gpu(dtype, target.dtype):
        return None
    if is_output and not casts_on_gpu(target.dtype, dtype):
        return None
    return fix(
        "dtype_unsupported/cast",
        checked=True,
        inputs=" and ".join(f"`{name}`" for name in inputs),
        type=op,
        new=new,
        lossy=f"{new}: {target.loss}. " if target.loss else "",
        back=f"Cast the result back where {old} is needed. " if is_output else "",
        casts="\n".join(f"{name} = tf.cast({name}, tf.{new})" for name in inputs),
    )


def _is_of_variable(blocker: Blocker) -> bool:
    """Return whether the only unsupported dtype is that of a variable."""
    ((name, _), *more) = blocker.attributes.items()
    if more or name not in _OF_DATA or _ARRAYS.fullmatch(blocker.type):
        return False
    definition = definition_of(blocker.type)
    inputs = () if definition is None else definition.inputs
    return blocker.type in _VARIABLES or any(a.type == "resource" or a.is_ref for a in inputs)
