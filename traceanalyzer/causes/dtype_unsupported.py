"""A type that no GPU kernel takes.

## What it detects

Ops that have GPU kernels, but none for the types they were given: `MatMul` of `int32`, `Mean` of
`int64`, a variable of `int32`. The type can be that of the data (`T`, `dtype`) as well as one of
indices or results (`Tidx`, `index_type`, `output_type`). Also ops on lists of strings.

## Why it happens

A kernel is registered for certain types; one whose types differ does not count. Most gaps are of
integers narrower than 64 bits, which few kernels are made for on GPUs; of `int32`, which TensorFlow
takes for sizes and indices and mostly computes on the host; and of strings, resources and variants,
which are never in GPU memory (`DataTypeAlwaysOnHost`, types.cc). `float64` is slow on many GPUs,
and hardly ever missing. A list's handle does not tell what it holds: the placer keeps what works on
lists of strings off GPUs (`AddHostOnlyDataTypesConstraints`, colocation_graph.cc).

The op is then placed on the CPU, under `tf.device("/GPU:0")` too, without a word.

## How to fix it

Cast to a type that has a kernel, and back where the other type is needed. A cast costs a pass over
the data on the GPU, less than a copy to the host and back. See to it that the type can hold the
values: `float32` holds integers exactly up to 2**24.

## How sure it is

Certain where the op's attributes were captured and TensorFlow's version has a kernel table. Without
a capture the types of the inputs are needed, which a trace has at host tracer level 3 alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    at_lines,
    checked_if_sufficient,
    library_made,
    made_at,
)
from traceanalyzer.causes.knowledge.library_switches import around, fixes_of_variables
from traceanalyzer.evidence.kernel_types import (
    casts_on_gpu,
    definition_of,
    inputs_of,
    is_type,
    python_name,
    types_taken,
)
from traceanalyzer.evidence.retyping import TARGETS, XLA_REFUSES, Target, works_as
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker

_ONLY_ON_HOST: Final = frozenset({"resource", "string", "string_ref", "variant"})
_OF_DATA: Final = frozenset({"T", "dtype", "DT", "Tparams", "element_dtype"})
# Arguments of TensorFlow's functions that choose a type, where the op takes it from a tensor that
# the function makes.
_ARGUMENTS: Final = {
    ("Bincount", "T"): "dtype",
    ("DenseBincount", "T"): "dtype",
    ("RaggedBincount", "T"): "dtype",
    ("SparseBincount", "T"): "dtype",
}
# value_rowids_to_row_lengths: ops that make ragged tensors count in the type of their row splits.
_ONLY_BINCOUNT: Final = (
    " This holds for a line that calls `tf.math.bincount`. Where a ragged tensor is made, as by "
    "`tf.strings.split`, TensorFlow counts its rows itself, and there is no such argument."
)
_VARIABLES: Final = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_ARRAYS: Final = re.compile(r"(TensorArray|TensorList|EmptyTensorList|Stack)(Push|Pop)?(?![a-z]).*")


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.link != "own":
        return None
    if blocker.kind is BlockerKind.HOST_LIST:
        text = (
            f"{blocker.type} takes a list of strings, or of others that are always in host memory"
        )
        replay = Evidence(kind="placer_replay", text=text, where=_where(blocker))
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
    given = ", ".join(f"{name}={_shown(value)}" for name, value in blocker.attributes.items())
    recorded = cpu_op.explanation.basis == "replay"
    return CauseMatch(
        scope=f"{blocker.type}\0{given}",
        evidence=(
            Evidence(kind="kernel_registry", text=f"no GPU kernel of {blocker.type} takes {given}"),
            Evidence(
                kind="attributes",
                text=f"{'recorded' if recorded else 'the types of its inputs give'}: {given}",
                where=_where(blocker) if recorded else None,
            ),
            *made_at(cpu_op),
        ),
    )


def _where(blocker: RecordedBlocker) -> CaptureFileWhere:
    if not blocker.name:
        return CaptureFileWhere(sidecar=f"signatures/{blocker.type}")
    return CaptureFileWhere(sidecar=f"functions/{blocker.function}/{blocker.name}")


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    first = members[0][1]
    lines = at_lines(s for s, _ in members)
    requested = any("GPU" in (s.requested_device or "").upper() for s, _ in members)
    modifiers = ("soft_placement_fallback",) if requested else ()
    if first.kind is BlockerKind.HOST_LIST:
        held_in = "resources" if first.given.get("element_dtype") == "resource" else "strings"
        return FindingText(
            title=f"{first.type} works on a list of {held_in}, which stays in host memory{lines}",
            why=(
                "Strings and resources are never in GPU memory. TensorFlow's placer therefore "
                "keeps every op on a list of them on the CPU, though the list's handle could be "
                "anywhere and the op has GPU kernels."
            ),
            harm="by_design",
            fixes=(
                Fix(text="Turn strings into numbers in the input pipeline, and loop over these."),
            ),
            modifiers=modifiers,
        )
    dtypes = {t for value in first.attributes.values() for t in _types(value)}
    on_host = bool(dtypes & _ONLY_ON_HOST)
    return FindingText(
        title=f"{first.type} has no GPU kernel for {_given(first)}{lines}",
        why=(
            f"TensorFlow has GPU kernels for {first.type}, but none that takes {_given(first)}"
            f"{_others(first)}. It runs on the CPU, whatever device is asked for. "
            + (
                "That is by design: TensorFlow keeps strings and handles in host memory."
                if on_host
                else "What it takes from the GPU is copied to the host, and its result back."
            )
            + (XLA_REFUSES if first.type == "VarHandleOp" and "int32" in dtypes else "")
        ),
        harm="by_design" if on_host else "harmful",
        fixes=checked_if_sufficient(_fixes(members), members),
        modifiers=modifiers,
    )


def _others(blocker: RecordedBlocker) -> str:
    """Return the types that have kernels, for the end of a clause."""
    if len(blocker.attributes) != 1:
        return ""
    ((name, value),) = blocker.attributes.items()
    taken = types_taken(blocker.type, name, value) if isinstance(value, str) else ()
    shown = sorted(python_name(t) for t in taken if t not in _ONLY_ON_HOST)
    return f" (they take {', '.join(shown)})" if shown else ""


def _fixes(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> Iterator[Fix]:
    blocker = members[0][1]
    types = {t for v in blocker.attributes.values() for t in _types(v)}
    line = library_made(members)
    if line is not None:
        yield around(blocker.type, line)
    elif _is_of_variable(blocker) and not types & _ONLY_ON_HOST:
        yield from fixes_of_variables(str(*blocker.attributes.values()), (h for _, h in members))
    elif not types & _ONLY_ON_HOST:
        yield from _casts(members) or (_other_types(blocker),)
    elif "string" in types:
        yield Fix(
            text=(
                "Strings are always in host memory: turn them into numbers in the input pipeline, "
                "ahead of the model."
            ),
            code="dataset = dataset.map(lambda text, y: (lookup(text), y))",
        )
    else:
        yield Fix(
            text=(
                "Variants and resources (a list of lists, for example) are handles in host memory; "
                "the tensors behind them can be on the GPU. Nothing to change here."
            )
        )


def _other_types(blocker: RecordedBlocker) -> Fix:
    return Fix(
        text=(
            f"Give {blocker.type} other types, if the values allow it; `traceanalyzer kernels "
            f"{blocker.type}` lists those that have GPU kernels."
        )
    )


def _casts(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> list[Fix]:
    """Return the casts with which every op would compute on a GPU; the first if it loses nothing.

    The other types of each op count: a kernel that takes one type may not take it beside another.
    """
    blocker = members[0][1]
    ((name, value), *more) = blocker.attributes.items()
    if more or not isinstance(value, str):
        return []
    taken = types_taken(blocker.type, name, value)
    fixes = [
        (target, fix)
        for target in TARGETS.get(value, ())
        if target.dtype in taken
        and all(works_as(h.type, h.given, (name,), target.dtype) for _, h in members if h.given)
        and (fix := _checked(blocker.type, name, value, target)) is not None
    ]
    costs_nothing = bool(fixes) and not fixes[0][0].loss
    return [fix for _, fix in fixes[: 1 if costs_nothing else 2]]


def _checked(op: str, attribute: str, dtype: str, target: Target) -> Fix | None:
    """Return how to have a type that has a kernel; None where a GPU does not cast to it."""
    new, old = python_name(target.dtype), python_name(dtype)
    inputs = inputs_of(op, attribute)
    if attribute in _OF_DATA and _ARRAYS.fullmatch(op):
        return Fix(
            text=(
                f"Make the list or array of type {new}{target.in_brackets}, and what is put into "
                "it."
            ),
            code=f"tf.TensorArray(tf.{new}, size)",
        )
    argument = _ARGUMENTS.get((op, attribute), "" if inputs else attribute)
    if argument:
        return Fix(
            text=(
                f"Ask for {new} rather than {old}{target.in_brackets} by `{argument}`"
                + (f"; if the call passes `{inputs[0]}`, cast that too." if inputs else ".")
                + (_ONLY_BINCOUNT if inputs else "")
            ),
            code=f"{argument}=tf.{new}",
            checked=not inputs,
        )
    back = _gives(op, attribute)
    if not casts_on_gpu(dtype, target.dtype) or (back and not casts_on_gpu(target.dtype, dtype)):
        return None
    names = " and ".join(f"`{name}`" for name in inputs)
    return Fix(
        text=(
            f"Cast the op's {names} to {new}{target.in_brackets}"
            + (f", and the result back where {old} is needed" if back else "")
            + ". Better still, have the values in that type from the start: a cast is a pass over "
            "the data."
        ),
        code="\n".join(f"{name} = tf.cast({name}, tf.{new})" for name in inputs),
        checked=True,
    )


def _is_of_variable(blocker: RecordedBlocker) -> bool:
    """Return whether one type is in the way, and it is that of a variable."""
    ((name, _), *more) = blocker.attributes.items()
    is_array = _ARRAYS.fullmatch(blocker.type) is not None
    return not more and name in _OF_DATA and not is_array and _has_variable(blocker.type)


def _has_variable(op: str) -> bool:
    """Return whether an op makes a variable, or works on one."""
    definition = definition_of(op)
    inputs = () if definition is None else definition.inputs
    return op in _VARIABLES or any(a.type == "resource" or a.is_ref for a in inputs)


def _gives(op: str, attribute: str) -> bool:
    """Return whether an output has the type too."""
    definition = definition_of(op)
    outputs = () if definition is None else definition.outputs
    return any(attribute in {a.type_attr, a.type_list_attr} for a in outputs)


def _given(blocker: RecordedBlocker) -> str:
    """Return the types in the words of a title: by the attribute where it is not that of data."""
    return " and ".join(
        _shown(value) if name in _OF_DATA else f"{name}={_shown(value)}"
        for name, value in blocker.attributes.items()
    )


def _shown(value: Json) -> str:
    types = [python_name(t) for t in _types(value)]
    if not types:
        return "a type that was not recorded"
    return types[0] if isinstance(value, str) else f"[{', '.join(dict.fromkeys(types))}]"


def _types(value: Json) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, str)]


CAUSE = Cause(
    id="dtype_unsupported",
    title="No GPU kernel for the type",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
