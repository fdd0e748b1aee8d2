"""Python called from a graph.

## What it detects

`tf.numpy_function` and `tf.py_function`, by the ops they create: `PyFunc`, `PyFuncStateless`, and
`EagerPyFunc`.

## Why it happens

The function is Python: it runs on the host, in the interpreter, one call at a time because of the
interpreter lock, whatever the op's device is. `PyFunc` has no GPU kernel (py_func.cc), so its
inputs are copied to the host and its outputs back. `EagerPyFunc` can be placed on a GPU, unless an
input or output is `int32`, a string, or similar: then the TensorFlow ops that the function calls
run on the GPU, but Python still runs on the host.

## How to fix it

Write the function with TensorFlow ops: `tf.function` translates Python loops and conditions. If
that is not possible, move the call into the input pipeline, ahead of the model, or call it less
often.

## How sure it is

Certain: the op type shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import COPIED, made_at, observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

_WHY: Final = (
    "The op calls Python, which runs on the host under the interpreter lock, whatever device the "
    "op is on."
)
_FIXES: Final = (
    Fix(
        text=(
            "Write the function with TensorFlow ops, so that it can run on the GPU; `tf.function` "
            "translates Python loops and conditions."
        )
    ),
    Fix(
        text="Or call it in the input pipeline, if it does not need results of the model.",
        code="dataset = dataset.map(lambda x: tf.numpy_function(fn, [x], tf.float32))",
    ),
)
_FIXES_IN_PIPELINE: Final = (
    Fix(
        text=(
            "Write the function with TensorFlow ops. It stays on the CPU, like all of tf.data, but "
            "several calls can then run in parallel, without Python's lock."
        ),
        code="dataset = dataset.map(fn_of_tensorflow_ops, num_parallel_calls=tf.data.AUTOTUNE)",
    ),
    Fix(
        text="Or prefetch, so that the function runs while the step computes.",
        code="dataset = dataset.prefetch(tf.data.AUTOTUNE)",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[ops["type"].isin(PYTHON_CALLBACKS) & (ops["placement"] != "remote")]
    by_type = found.groupby(["type", "in_input_pipeline"], observed=True, sort=True)
    for (op_type, in_pipeline), rows in by_type:
        names = sorted(set(rows["name"].astype(str)))
        calls = counted(int(rows["occurrences"].sum()), "call")
        why = "It is part of the input pipeline: harmful only if the model waits for input."
        unused = "" if run.gpu_used else " No GPU was used, so no GPU waits for it."
        yield Finding(
            cause=CAUSE.id,
            sub_reason="in_input_pipeline" if in_pipeline else None,
            scope=f"{op_type}\0{in_pipeline}",
            certainty="certain",
            harm="harmful" if run.gpu_used and not in_pipeline else "harmless",
            title=f"A Python function runs inside the graph ({op_type})",
            why=f"{_WHY} {why if in_pipeline else COPIED}{unused}",
            op_ids=tuple(rows["op_id"]),
            evidence=(observed("op_type", f"{calls} recorded of {listed(names)}"),),
            fixes=_FIXES_IN_PIPELINE if in_pipeline else _FIXES,
        )


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if (
        blocker.link != "own"
        or blocker.kind not in {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES}
        or blocker.type not in PYTHON_CALLBACKS
    ):
        return None
    given = f" for its {', '.join(sorted(blocker.attributes))}" if blocker.attributes else ""
    text = f"{blocker.type} calls a Python function; it has no GPU kernel{given}"
    return CauseMatch(scope=blocker.type, evidence=(observed("op_type", text), *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    return FindingText(
        title=f"A Python function runs inside the graph ({ops.blocker.type}){ops.at_lines}",
        why=f"{_WHY} {COPIED}",
        harm="harmless" if ops.are_input else "harmful",
        fixes=_FIXES_IN_PIPELINE if ops.are_input else _FIXES,
    )


CAUSE = Cause(__name__, __doc__, check=check, match=match, describe=describe)
