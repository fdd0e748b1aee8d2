"""Changes against losses not caused by placement: input, values read back, launches, Python."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.changes.input import input_changes
from traceanalyzer.changes.saving import FEWEST_STEPS, LEAST, at_most, spans_of
from traceanalyzer.diagnosis import RAN_ONCE
from traceanalyzer.findings import finding_id
from traceanalyzer.format import counted, listed
from traceanalyzer.model.changes import Change
from traceanalyzer.tables.steps import eager_loop, regular_steps
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import inside_ps
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.changes.saving import Savings
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts

_CALLBACK: Final = "python_callback"
# XLA compiles a function whole, or not at all: no strings, callbacks, or variables on the CPU.
_CLOSED_TO_XLA: Final = frozenset(
    {
        *("custom_op", "dtype_unsupported", "library_cpu_placement", "no_gpu_kernel"),
        *("python_callback", "resource_on_cpu", "xla_not_whole"),
    }
)
_RUNTIME: Final = (Phase.LAUNCH, Phase.RUNTIME)
_KERAS: Final = re.compile("train_function|one_step_on_data|(multi|one)_step_on_iterator")
_PREDICT: Final = re.compile("predict_function|one_step_on_data_distributed")  # of Keras 2 and 3
_DATASET_OF_KERAS: Final = "RangeDataset"  # of the batches of arrays
_FEWEST_CALLS: Final = 4  # `fit` and its validation create two


@dataclass(frozen=True)
class _Step:
    """The parts of the mean step of one device, or of the program without a device."""

    step_ps: float
    runtime_ps: float  #: it waited for the TensorFlow runtime
    program_ps: float  #: it waited for Python


def changes_beside(diagnosis: Diagnosis, savings: Savings) -> list[Change]:
    """Return the worthwhile changes that move no op."""
    run = diagnosis.run
    computes = run.ops["role"] == Role.COMPUTE
    if (
        not computes.any()
        or run.ops.loc[computes, "placement"].astype(str).str.startswith("xla").all()
    ):
        return []
    return [
        *input_changes(diagnosis),
        *_callbacks(diagnosis, savings),
        *_read_back(run),
        *_iterators(run),
        *_overhead(diagnosis),
    ]


# --- Python within a graph -----------------------------------------------------------------------


def _callbacks(diagnosis: Diagnosis, savings: Savings) -> Iterator[Change]:
    """Walk the changes for Python functions in steps, wherever their ops are placed."""
    there = diagnosis.on_a_gpu
    placed = diagnosis.cpu_ops.keys() | (set() if there is None else there.analysis.cpu_ops.keys())
    for finding in diagnosis.findings:
        if finding.cause != _CALLBACK or finding.sub_reason or RAN_ONCE in finding.modifiers:
            continue
        if placed & set(finding.op_ids):
            continue  # a change of the placement is about them
        saving = savings.of_placement(
            finding.op_ids, finding.op_ids, is_prediction=not diagnosis.run.gpu_used
        )
        if saving.kind == "none" or (saving.share or 0.0) < LEAST:
            continue
        ops = diagnosis.run.ops[diagnosis.run.ops["op_id"].isin(finding.op_ids)]
        lines = ops.dropna(subset=["source_file", "source_line"])
        first = lines.sort_values("host_self_ps").iloc[-1] if len(lines) else None
        yield Change(
            id=finding.id,
            kind="edit",
            title="Write the Python function with TensorFlow ops",
            detail=f"{counted(len(ops), 'op')}: {listed(sorted(set(ops['type'].astype(str))))}",
            place=None if first is None else (first["source_file"], int(first["source_line"])),
            why=(
                "Python runs on the host, one call at a time, whatever device the op is placed on. "
                "A GPU that needs the result waits for it."
            ),
            around=(
                "`tf.function` translates Python loops and conditions. If the function needs no "
                "results of the model, call it in `dataset.map` instead."
            ),
            saving=saving,
            certainty=finding.certainty,
            effort="few lines",
            finding_ids=(finding.id,),
            op_ids=finding.op_ids,
        )


# --- values read back ----------------------------------------------------------------------------


def _read_back(run: Run) -> Iterator[Change]:
    syncs = [
        each
        for each in run.transfer_costs.device_to_host_syncs
        if each.reader == "python" and each.count_per_step and each.idle_ps
    ]
    step_ps = _mean_step_ps(run)
    if not syncs or not step_ps:
        return
    idle_ps = sum((each.idle_ps or 0) / each.count * (each.count_per_step or 0.0) for each in syncs)
    if idle_ps < LEAST * step_ps:
        return
    number = round(sum(each.count_per_step or 0.0 for each in syncs))
    sources = {each.source for each in syncs}
    ops = run.ops[run.ops["op_id"].isin(sources)]
    yield Change(
        id=finding_id("sync", "python"),
        kind="sync",
        title="Read values back less often",
        detail=f"{counted(max(1, number), 'value')} per step",
        instead="if step % 100 == 0:\n    print(float(loss))",
        why=(
            "Python reads a value from the GPU in each step. It waits until the GPU has computed "
            "it, and then the GPU waits until Python launches more work."
        ),
        saving=at_most(
            idle_ps,
            min(1.0, idle_ps / step_ps),
            "the GPU is idle this long right after the copies, which need not be the reason",
        ),
        certainty="likely",
        effort="few lines",
        op_ids=tuple(ops["op_id"]),
        is_by_placement=False,
    )


# --- iterators, launches, and Python -------------------------------------------------------------


def _iterators(run: Run) -> Iterator[Change]:
    """Walk the change against datasets that `model.predict` creates at each call."""
    functions = set(run.ops["function"].dropna().astype(str))
    creates = run.ops["is_eager"] & (run.ops["type"] == _DATASET_OF_KERAS)
    calls = run.ops[creates & (run.ops["occurrences"] >= _FEWEST_CALLS)]
    if calls.empty or not any(map(_PREDICT.search, functions)):
        return
    call = calls.sort_values("occurrences").iloc[-1]
    has_line = isinstance(call["source_file"], str) and not pd.isna(call["source_line"])
    for host in run.hosts:
        for parts in _timelines(host):
            took = parts.end_ps - parts.start_ps
            ops = host.tables.ops
            makes = (ops["is_eager"] & (ops["role"] == Role.INPUT_PIPELINE)).to_numpy(bool)
            made = int(
                took[(parts.phase == Phase.INPUT) & np.append(makes, False)[parts.row]].sum()
            )
            total = int(took.sum())
            if not total or made < LEAST * total:
                continue
            yield Change(
                id=finding_id("runtime", "iterators"),
                kind="runtime",
                title="Call the model directly instead of `model.predict` in a loop",
                detail=f"{counted(int(call['occurrences']), 'call')}, each with its own dataset",
                place=(call["source_file"], int(call["source_line"])) if has_line else None,
                instead="outputs = model(inputs, training=False)",
                why="Each call of `model.predict` creates an input pipeline, which takes time.",
                saving=at_most(
                    made, made / total, "time in which iterators are created", per="run"
                ),
                certainty="likely",
                effort="few lines",
                is_by_placement=False,
            )
            return


def _overhead(diagnosis: Diagnosis) -> Iterator[Change]:
    run = diagnosis.run
    found = [step for host in run.hosts for step in _steps(host)]
    if not found:
        return
    step = max(found, key=lambda s: s.runtime_ps + s.program_ps)
    loop, least_ps = eager_loop(run.ops, run.steps), LEAST * step.step_ps
    is_keras = any(map(_KERAS.search, set(run.ops["function"].dropna().astype(str))))
    if loop is not None and step.program_ps + step.runtime_ps >= least_ps:
        at = f" ({loop.place})" if loop.place else ""
        title = "Run the training step under @tf.function"
        detail = f"Python runs {counted(loop.ops, 'op')} of a step one by one{at}"
        code = "@tf.function\ndef step(batch): ..."
        yield _runtime("eager loop", title, detail, code, step.program_ps + step.runtime_ps, step)
        return
    if not run.gpu_used:
        return  # what the runtime costs beside a GPU is not in this trace
    if step.program_ps >= least_ps:
        detail = "between the steps, Python runs your program, callbacks, and Keras"
        code = "@tf.function\ndef steps(batches):\n    for batch in batches: ..."
        code = "model.compile(..., steps_per_execution=10)" if is_keras else code
        yield _runtime("python", "Run several steps per call", detail, code, step.program_ps, step)
    if step.runtime_ps >= least_ps and not _is_closed_to_xla(diagnosis):
        detail = "the TensorFlow runtime launches ops one by one"
        code = (
            "model.compile(..., jit_compile=True)" if is_keras else "@tf.function(jit_compile=True)"
        )
        yield _runtime("launch", "Compile the step with XLA", detail, code, step.runtime_ps, step)


def _is_closed_to_xla(diagnosis: Diagnosis) -> bool:
    """Return whether a graph has ops for which `jit_compile=True` may fail, such as a callback."""
    ops = diagnosis.run.ops
    found = {o for f in diagnosis.findings if f.cause in _CLOSED_TO_XLA for o in f.op_ids}
    in_graph = ops["op_id"].isin(found) & ~ops["is_eager"] & ~ops["in_input_pipeline"]
    return bool(in_graph.any())


def _runtime(  # noqa: PLR0913, PLR0917 - the fields of a change
    scope: str, title: str, detail: str, code: str, lost_ps: float, step: _Step
) -> Change:
    return Change(
        id=finding_id("runtime", scope),
        kind="runtime",
        title=title,
        detail=detail,
        instead=code,
        why="The device waits while Python or the TensorFlow runtime prepares its next work.",
        saving=at_most(
            lost_ps,
            min(1.0, lost_ps / step.step_ps),
            "the step waits this long; how much a change saves depends on the program",
        ),
        certainty="likely",
        effort="one line",
        is_by_placement=False,
    )


def _timelines(host: Host) -> list[Parts]:
    program = host.timeline.program
    return [each.parts for each in host.timeline.devices] if program is None else [program]


def _steps(host: Host) -> Iterator[_Step]:
    steps = regular_steps(host.tables.steps)
    if len(steps) < FEWEST_STEPS:
        return
    within = spans_of(steps)
    for parts in _timelines(host):

        def inside(phases: Sequence[Phase], parts: Parts = parts) -> float:
            chosen: NDArray[np.bool_] = np.isin(parts.phase, phases)
            return int(inside_ps(within, parts.start_ps[chosen], parts.end_ps[chosen]).sum())

        yield _Step(
            step_ps=within.total_ps / len(steps),
            runtime_ps=inside(_RUNTIME) / len(steps),
            program_ps=inside((Phase.PROGRAM,)) / len(steps),
        )


def _mean_step_ps(run: Run) -> float:
    steps = regular_steps(run.steps)
    return float(steps["duration_ps"].mean()) if len(steps) else 0.0
