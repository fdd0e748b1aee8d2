"""Python called from within a graph.

## What it detects

`tf.numpy_function` and `tf.py_function`, by the ops they make: `PyFunc`, `PyFuncStateless`,
`EagerPyFunc`.

## Why it happens

The function is Python: it runs on the host, in the interpreter, one call at a time under its lock,
whatever device the op was given. `PyFunc` has no GPU kernel at all (py_func.cc), so its inputs are
copied to the host and its outputs back. `EagerPyFunc` can be placed on a GPU, unless it takes or
gives `int32`, strings or the like: then the TensorFlow ops that the function calls run there, and
Python still on the host.

## How to fix it

Write the function with TensorFlow ops: `tf.function` translates loops and conditions of Python. If
that cannot be, move the call into the input pipeline, where it runs ahead of the model, or call it
less often.

## How sure it is

Certain: the type of the op says it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import at_lines, made_at
from traceanalyzer.causes.knowledge.pipeline_advice import all_in_pipelines
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

_OF_KERNELS: Final = frozenset({BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES})
_FIXES: Final = (
    Fix(
        text=(
            "Write the function with TensorFlow ops, so that it can run on the GPU; `tf.function` "
            "translates loops and conditions of Python."
        )
    ),
    Fix(
        text="Or call it in the input pipeline, ahead of the model.",
        code="dataset = dataset.map(lambda x: tf.numpy_function(fn, [x], tf.float32))",
    ),
)

_IN_PIPELINE: Final = (
    Fix(
        text=(
            "Write the function with TensorFlow ops: it stays on the CPU, as all of tf.data, but "
            "several calls can then run at once, without Python's lock."
        ),
        code="dataset = dataset.map(fn_of_tensorflow_ops, num_parallel_calls=tf.data.AUTOTUNE)",
    ),
    Fix(
        text="Or prefetch, so that the function runs while the step computes.",
        code="dataset = dataset.prefetch(tf.data.AUTOTUNE)",
    ),
)


def _check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[ops["type"].isin(PYTHON_CALLBACKS) & (ops["placement"] != "remote")]
    for (op_type, in_pipeline), group in found.groupby(
        ["type", "in_input_pipeline"], observed=True, sort=True
    ):
        names = sorted(set(group["name"].astype(str)))
        calls = int(group["occurrences"].sum())
        yield Finding(
            cause=CAUSE.id,
            sub_reason="in_input_pipeline" if in_pipeline else None,
            scope=f"{op_type}\0{in_pipeline}",
            certainty="certain",
            harm="harmful" if run.gpu_used and not in_pipeline else "harmless",
            title=f"A Python function runs inside the graph ({op_type})",
            why=(
                "The op calls back into Python. The call runs on the host under the interpreter's "
                "lock, whatever device the op is on"
                + (
                    ", within the pipeline that feeds the model: it does harm if the model waits "
                    "for input."
                    if in_pipeline
                    else "; what it takes from a GPU is copied to the host, and its result back."
                )
                + (
                    ""
                    if run.gpu_used
                    else " Without a GPU in use there is nothing it keeps waiting."
                )
            ),
            op_ids=tuple(group["op_id"]),
            evidence=(
                Evidence(
                    kind="op_type",
                    text=f"{counted(calls, 'call')} recorded of {listed(names)}",
                ),
            ),
            fixes=_IN_PIPELINE if in_pipeline else _FIXES,
        )


def _match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if (
        blocker.link != "own"
        or blocker.kind not in _OF_KERNELS
        or blocker.type not in PYTHON_CALLBACKS
    ):
        return None
    given = ", ".join(sorted(blocker.attributes))
    text = f"{blocker.type} calls a function of Python; it has no GPU kernel"
    return CauseMatch(
        scope=blocker.type,
        evidence=(
            Evidence(kind="op_type", text=f"{text} for its {given}" if given else text),
            *made_at(cpu_op),
        ),
    )


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    return FindingText(
        title=f"A Python function runs inside the graph ({members[0][1].type})"
        + at_lines(s for s, _ in members),
        why=(
            "The op calls back into Python. The call runs on the host under the interpreter's "
            "lock, whatever device is asked for; what it takes from a GPU is copied to the host, "
            "and its result back."
        ),
        harm="harmless" if all_in_pipelines(members) else "harmful",
        fixes=_IN_PIPELINE if all_in_pipelines(members) else _FIXES,
    )


CAUSE = Cause(
    id="python_callback",
    title="Python called from within a graph",
    documentation=__doc__,
    check=_check,
    match=_match,
    describe=_describe,
)
