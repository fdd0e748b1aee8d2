"""An op of a library other than TensorFlow.

## What it detects

Ops on the CPU that no version of TensorFlow has: they come from a library that was loaded
(`tf.load_op_library`), as those of TensorFlow Text, Addons or one's own do.

## Why it happens

Such an op has the kernels that its library registers, and only these: if there is none for GPUs, or
none for the types in question, or the library was built without CUDA, the op runs on the CPU.
TensorFlow's kernel tables cannot tell which; a capture asks the process that has loaded the library
(`get_registered_kernels_for_op`). An op that a request or a resource keeps on the CPU is explained
by these, where a capture shows them.

## How to fix it

Ask the library: its documentation, or the process that has loaded it. Take a build of it for GPUs,
write the missing kernel, or use ops of TensorFlow's.

## How sure it is

Certain where a capture recorded the kernels that the library has registered, and none of them can
run the op on a GPU. Where it did not, likely if it shows that nothing else keeps the op on the CPU,
and else possible: which kernels a library registers is in no trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import at_lines, made_at
from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.evidence.kernel_types import definition_of
from traceanalyzer.findings import Finding
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker
    from traceanalyzer.model import Certainty
    from traceanalyzer.run import Run

# As ops must be registered (op_def_builder.cc), but for those with an underscore, TensorFlow's own.
_OP: Final = re.compile(r"[A-Z][A-Za-z0-9_.>]*")
_OF_KERNELS: Final = frozenset(
    {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.PRIORITY}
)


def _is_foreign(op: str) -> bool:
    return _OP.fullmatch(op) is not None and definition_of(op) is None


def _not_applicable(run: Run) -> str | None:
    return None if run.gpu_used else "TensorFlow used no GPU"


def _check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    on_cpu = ops[(ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)]
    types = {str(t) for t in on_cpu["type"].unique() if _is_foreign(str(t)) and not _calls(run, t)}
    if not types:
        return
    # Ops with other blockers belong to other causes.
    unexplained = [
        s
        for s in analyse(run).cpu_ops
        if s.explanation.type in types and not s.explanation.blockers
    ]
    by_type: dict[str, list[CpuOp]] = {}
    for each in unexplained:
        by_type.setdefault(each.explanation.type, []).append(each)
    for op, members in by_type.items():
        words = _words_of(op, members)
        sure = all(s.explanation.contradiction and not s.explanation.doubt for s in members)
        certainty: Certainty = "likely" if sure else "possible"
        yield Finding(
            cause=CAUSE.id,
            scope=op,
            certainty=certainty,
            harm=words.harm,
            title=words.title,
            why=words.why,
            op_ids=tuple(s.op_id for s in members),
            evidence=(_unknown(op), *(e for s in members[:5] for e in made_at(s))),
            fixes=words.fixes,
        )


def _calls(run: Run, op: object) -> bool:
    """Return whether an op is a call of a function that was captured."""
    return any(
        host.capture_file is not None and host.capture_file.definition(str(op)) is not None
        for host in run.hosts
    )


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.link != "own" or blocker.kind not in _OF_KERNELS or not _is_foreign(blocker.type):
        return None
    return CauseMatch(
        scope=blocker.type,
        evidence=(_unknown(blocker.type), _registered(blocker), *made_at(cpu_op)),
    )


def _unknown(op: str) -> Evidence:
    return Evidence(kind="kernel_registry", text=f"no version of TensorFlow has an op {op}")


def _registered(blocker: RecordedBlocker) -> Evidence:
    """Say what is known of the kernels that the library has registered."""
    if blocker.kind is BlockerKind.PRIORITY:
        text = f"the library's kernel of {blocker.type} for the CPU has the higher priority"
    else:
        text = f"the library has registered no kernel of {blocker.type} for GPUs"
    if blocker.attributes:
        text += " with this " + listed(sorted(blocker.attributes))
    return Evidence(
        kind="registered_kernels",
        text=text,
        where=CaptureFileWhere(sidecar=f"kernels: {blocker.type}"),
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    """Say it where the kernels were recorded."""
    blocker = members[0][1]
    lacks = (
        "prefers the CPU's kernel"
        if blocker.kind is BlockerKind.PRIORITY
        else "has no GPU kernel for it"
    )
    here = " as it is used here" if blocker.attributes else ""
    return FindingText(
        title=f"{blocker.type} is not TensorFlow's, and its library {lacks}{here}"
        + at_lines([s for s, _ in members]),
        why=(
            f"{blocker.type} is from a library that the program loads, and runs where that has a "
            "kernel for it. The process was asked which it has registered. What the op takes from "
            "the GPU is copied to the host, and its result back."
        ),
        harm="harmful",
        fixes=(
            Fix(
                text=(
                    "Use a build of the library that has a kernel for GPUs, or write the one that "
                    "is missing."
                )
            ),
        ),
    )


def _words_of(op: str, cpu_ops: Sequence[CpuOp]) -> FindingText:
    """Say it where they are not known."""
    return FindingText(
        title=f"{op} is not TensorFlow's, and its library may have no GPU kernel for it"
        + at_lines(cpu_ops),
        why=(
            f"{op} comes from a library that the program loads. It runs where the library has a "
            "kernel for it: on the CPU, if there is none for GPUs or for these types, or if the "
            "library was built without CUDA. What it takes from the GPU is copied to the host, and "
            "its result back."
        ),
        harm="harmful",
        fixes=(
            Fix(
                text="See which kernels the library has registered, once it is loaded.",
                code=(
                    "from tensorflow.python.framework import kernels\n"
                    f'print(kernels.get_registered_kernels_for_op("{op}"))'
                ),
            ),
            Fix(text="If there is none for GPUs, use a build of the library that has one."),
        ),
    )


CAUSE = Cause(
    id="custom_op",
    title="An op of another library",
    documentation=__doc__,
    not_applicable=_not_applicable,
    check=_check,
    match=_match,
    describe=_describe,
)
