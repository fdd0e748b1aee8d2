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

from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.evidence.kernel_types import definition_of
from traceanalyzer.evidence.places import at_lines, made_at
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence, Fix, SidecarWhere
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules._rule import BlockerExample, Example, Mark, Rule, Words
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.model import Certainty
    from traceanalyzer.run import Run

# As ops must be registered (op_def_builder.cc), but for those with an underscore, TensorFlow's own.
_OP: Final = re.compile(r"[A-Z][A-Za-z0-9_.>]*")
_OF_KERNELS: Final = frozenset({Hold.NO_KERNEL, Hold.ATTRIBUTES, Hold.PRIORITY})


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
    # What holds an op for another reason is for other rules to say.
    unexplained = [s for s in analyse(run).subjects if s.case.type in types and not s.case.held]
    by_type: dict[str, list[Subject]] = {}
    for each in unexplained:
        by_type.setdefault(each.case.type, []).append(each)
    for op, members in by_type.items():
        words = _words_of(op, members)
        sure = all(s.case.contradiction and not s.case.doubt for s in members)
        certainty: Certainty = "likely" if sure else "possible"
        yield Finding(
            cause=RULE.id,
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
        host.sidecar is not None and host.sidecar.definition(str(op)) is not None
        for host in run.hosts
    )


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if held.link != "own" or held.hold not in _OF_KERNELS or not _is_foreign(held.type):
        return None
    return Mark(
        scope=held.type,
        evidence=(_unknown(held.type), _registered(held), *made_at(subject)),
    )


def _unknown(op: str) -> Evidence:
    return Evidence(kind="kernel_registry", text=f"no version of TensorFlow has an op {op}")


def _registered(held: Held) -> Evidence:
    """Say what is known of the kernels that the library has registered."""
    if held.hold is Hold.PRIORITY:
        text = f"the library's kernel of {held.type} for the CPU has the higher priority"
    else:
        text = f"the library has registered no kernel of {held.type} for GPUs"
    if held.attributes:
        text += " with this " + listed(sorted(held.attributes))
    return Evidence(
        kind="registered_kernels", text=text, where=SidecarWhere(sidecar=f"kernels: {held.type}")
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    """Say it where the kernels were recorded."""
    held = members[0][1]
    lacks = "prefers the CPU's kernel" if held.hold is Hold.PRIORITY else "has no GPU kernel for it"
    here = " as it is used here" if held.attributes else ""
    return Words(
        title=f"{held.type} is not TensorFlow's, and its library {lacks}{here}"
        + at_lines([s for s, _ in members]),
        why=(
            f"{held.type} comes from a library that the program loads, and runs where that has a "
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


def _words_of(op: str, subjects: Sequence[Subject]) -> Words:
    """Say it where they are not known."""
    return Words(
        title=f"{op} is not TensorFlow's, and its library may have no GPU kernel for it"
        + at_lines(subjects),
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


RULE = Rule(
    id="custom_op",
    title="An op of another library",
    documentation=__doc__,
    not_applicable=_not_applicable,
    check=_check,
    recognises=_recognises,
    words=_words,
    examples=(
        Example(
            title="an op of a library that was loaded",
            ops=(
                {"name": "gelu/FastGelu", "type": "FastGelu"},
                {"name": "MatMul", "type": "MatMul"},
            ),
            fires_on=("gelu/FastGelu",),
        ),
        Example(
            title="the same on a GPU",
            ops=({"name": "gelu/FastGelu", "type": "FastGelu", "placement": "gpu:0"},),
        ),
        Example(
            title="what oneDNN makes, and a call",
            ops=(
                {"name": "MatMul", "type": "_MklMatMul"},
                {"name": "call", "type": "__inference_f_12"},
            ),
        ),
    ),
    blocker_examples=(
        BlockerExample(
            title="an op of a library that has registered no kernel for GPUs",
            subject=subject("FastGelu"),
            held=held("no_kernel", "FastGelu"),
            fires=True,
        ),
        BlockerExample(
            title="an op of a library whose kernel for GPUs takes another type",
            subject=subject("FastGelu"),
            held=held("attributes", "FastGelu", attributes={"T": "double"}),
            fires=True,
        ),
        BlockerExample(
            title="TensorFlow's own",
            subject=subject("RandomShuffle"),
            held=held("no_kernel", "RandomShuffle"),
            fires=False,
        ),
        BlockerExample(
            title="an op of a library, for which the CPU is asked",
            subject=subject("FastGelu"),
            held=held("request", "FastGelu", asked="/device:CPU:0"),
            fires=False,
        ),
    ),
)
