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

from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.evidence.pipeline_advice import all_in_pipelines
from traceanalyzer.evidence.places import at_lines, made_at
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules._rule import BlockerExample, Example, Mark, Rule, Words
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.run import Run

_OF_KERNELS: Final = frozenset({Hold.NO_KERNEL, Hold.ATTRIBUTES})
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
            cause=RULE.id,
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


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if held.link != "own" or held.hold not in _OF_KERNELS or held.type not in PYTHON_CALLBACKS:
        return None
    given = ", ".join(sorted(held.attributes))
    text = f"{held.type} calls a function of Python; it has no GPU kernel"
    return Mark(
        scope=held.type,
        evidence=(
            Evidence(kind="op_type", text=f"{text} for its {given}" if given else text),
            *made_at(subject),
        ),
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    return Words(
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


RULE = Rule(
    id="python_callback",
    title="Python called from within a graph",
    documentation=__doc__,
    check=_check,
    recognises=_recognises,
    words=_words,
    examples=(
        Example(
            title="tf.numpy_function in a train step",
            ops=({"name": "PyFunc", "type": "PyFunc"}, {"name": "MatMul", "type": "MatMul"}),
            fires_on=("PyFunc",),
        ),
        Example(
            title="tf.py_function in a mapped function",
            ops=(
                {
                    "name": "EagerPyFunc",
                    "type": "EagerPyFunc",
                    "role": "input_pipeline",
                    "in_input_pipeline": True,
                },
            ),
            fires_on=("EagerPyFunc",),
        ),
        Example(title="no callback", ops=({"name": "MatMul", "type": "MatMul"},)),
    ),
    blocker_examples=(
        BlockerExample(
            title="tf.numpy_function",
            subject=subject("PyFunc"),
            held=held("no_kernel", "PyFunc", name="PyFunc"),
            fires=True,
        ),
        BlockerExample(
            title="tf.py_function of integers",
            subject=subject("EagerPyFunc"),
            held=held("attributes", "EagerPyFunc", attributes={"Tin": ["int32"]}),
            fires=True,
        ),
        BlockerExample(
            title="what shares a group with one",
            subject=subject("Identity"),
            held=held("no_kernel", "PyFunc", link="class"),
            fires=False,
        ),
        BlockerExample(
            title="tf.py_function, for which the CPU is asked",
            subject=subject("EagerPyFunc"),
            held=held("request", "EagerPyFunc", asked="/device:CPU:0"),
            fires=False,
        ),
    ),
)
