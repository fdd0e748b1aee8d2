"""Placed on the GPU, computed on the host.

## What it detects

Ops that TensorFlow places on a GPU whose kernel there has all of its data in host memory, so that a
thread of the host computes them: arithmetic and reductions of `int32`, `Shape`, `Fill`; and `Qr`,
whatever its type.
They are not CPU-placed, and not counted as such. A capture without a GPU predicts them.

## Why it happens

By design. Sizes, axes and indices are `int32` in TensorFlow, and the host needs them to allocate
tensors and to start kernels. Kernels of such types are therefore registered for GPUs, or for
`DEFAULT`, which is any device, with all data in host memory: the op stays in the GPU's graph, and
no value has to be copied. `tensor.device` then names the GPU, `tensor.backing_device` the CPU.

## How to fix it

Nothing is wrong while tensors are small. Where large tensors of `int32` are computed on, make them
`int64` or floating point, as far as the op has kernels that compute these on the GPU: the finding
names them. `Shape` and the like have none, for any type. Nor has `Qr`, which is a finding of its
own: what the GPU made is copied to the host for it, and back.

## How sure it is

Certain where a capture recorded the op's device and that its values were in host memory, and where
a replay puts it on the GPU and the kernels of that version of TensorFlow are known; likely where
only some of that is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import at_lines, made_at
from traceanalyzer.placement.kernel_types import (
    definition_of,
    is_copied_to_host,
    is_never_computed,
    python_name,
    types_computed,
)
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.model import Certainty
    from traceanalyzer.run import Run


def _not_applicable(run: Run) -> str | None:
    if run.gpu_used or any(host.capture_file is not None for host in run.hosts):
        return None
    return "TensorFlow used no GPU"


def _makes_handles(op_type: str) -> bool:
    definition = definition_of(op_type)
    return definition is not None and definition.makes_handles


def _check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    makes_handle = ops["type"].map(_makes_handles).astype(bool)
    found = ops[(ops["placement"] == "host_memory") & ~makes_handle]
    if found.empty or not run.gpu_used:
        return
    for scope, rows in found.groupby(found["type"].astype(str).map(_scope)):
        sure = bool((rows["placement_certainty"] == "certain").all())
        certainty: Certainty = "certain" if sure else "likely"
        types = sorted(set(rows["type"].astype(str)))
        words = _words_of(types, len(rows))
        yield Finding(
            cause=CAUSE.id,
            scope=str(scope),
            certainty=certainty,
            harm=words.harm,
            title=words.title,
            why=words.why,
            op_ids=tuple(rows["op_id"]),
            evidence=(
                Evidence(
                    kind="placement",
                    text=f"assigned to a GPU, with values in host memory: {listed(types)}",
                ),
            ),
            fixes=words.fixes,
        )


def _scope(op: str) -> str:
    """Return what tells the findings apart: whether data has to be copied to the host."""
    return "data" if is_copied_to_host(op) else ""


def _match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.HOST_MEMORY:
        return None
    evidence = Evidence(kind="kernel_registry", text=_registration(blocker))
    return CauseMatch(scope=_scope(blocker.type), evidence=(evidence, *made_at(cpu_op)))


def _registration(blocker: Blocker) -> str:
    """Return which kernel is registered, for which types, and what it has in host memory."""
    types = [f"{name}={_types(value)}" for name, value in blocker.attributes.items()]
    text = f"the GPU kernel of {blocker.type}" + (f" with {listed(types)}" if types else "")
    arguments = () if blocker.kernel is None else blocker.kernel.host_memory_args
    return f"{text} is registered with {listed(arguments) or 'all its data'} in host memory"


def _types(value: Json) -> str:
    values = value if isinstance(value, list) else [value]
    return "/".join(dict.fromkeys(python_name(str(each)) for each in values))


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    types = list(dict.fromkeys(blocker.type for _, blocker in members))
    at = at_lines(cpu_op for cpu_op, _ in members) if len(members) == 1 else ""
    return _words_of(types, len(members), at)


def _words_of(types: Sequence[str], count: int, at: str = "") -> FindingText:
    what = f"{types[0]}{at} is" if count == 1 else f"{counted(count, 'op')} are"
    named = "" if count == 1 else f": {listed(types)}"
    if is_copied_to_host(types[0]):
        return FindingText(
            title=f"{what} placed on the GPU and computed on the host, whatever the type{named}",
            why=(
                "TensorFlow's GPU kernel of such an op has all data in host memory: the host "
                "computes it, and what the GPU made is copied there and back. No type changes that."
            ),
            harm="harmful",
        )
    return FindingText(
        title=f"{what} placed on the GPU and computed on the host, by design{named}",
        why=_why(types),
        harm="harmless",
        fixes=tuple(_fixes(types)),
    )


def _why(types: Sequence[str]) -> str:
    never = [op for op in types if is_never_computed(op)]
    why = (
        "TensorFlow registers GPU kernels with all data in host memory for sizes and indices, "
        "mostly of int32, because the host needs these values. tensor.device names the GPU, "
        "tensor.backing_device the CPU. It is cheap while the tensors are small: nothing is copied."
    )
    return f"{why} No type would change that for {listed(never)}." if never else why


def _fixes(types: Sequence[str]) -> Iterator[Fix]:
    """Walk what would move the ops: types with which a GPU computes them."""
    by_types: dict[str, list[str]] = {}
    for op in types:
        computed = types_computed(op)
        named = [name for name, each in _SUGGESTED.items() if each in computed]
        if named:
            by_types.setdefault(" or ".join(named), []).append(op)
    if by_types:
        said = "; ".join(f"{listed(ops)} with {named}" for named, ops in by_types.items())
        yield Fix(
            text=(
                "Nothing to change where the tensors are small. To compute large ones on the GPU, "
                f"create them with another type: the GPU computes {said}."
            ),
            code="x = tf.constant(values, tf.int64)",
        )


_SUGGESTED = {"int64": "int64", "float32": "float"}


CAUSE = Cause(
    id="host_memory_kernel",
    title="Placed on the GPU, computed on the host",
    documentation=__doc__,
    not_applicable=_not_applicable,
    check=_check,
    match=_match,
    describe=_describe,
)
