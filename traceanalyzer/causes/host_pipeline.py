"""Ops that are part of the input pipeline."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from traceanalyzer.causes._cause import (
    BlockedOps,
    Blocker,
    CauseMatch,
    CpuOp,
    FindingText,
    finding,
    fix,
)
from traceanalyzer.causes.knowledge.finding_text import FASTER_PIPELINE, observed, runs_for_dataset
from traceanalyzer.cpu_ops import analyse_on_a_gpu
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.input_pipeline.verdict import HostInput
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role

_FEWEST_FILLS: Final = 2  # of a shuffle buffer: one fill is no repetition
_NOTICEABLE: Final = 0.05  # of the steps' time: a fill that takes less is not mentioned


def check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    is_input = (ops["role"] == Role.INPUT_PIPELINE) & (ops["placement"] == "cpu")
    found = ops[is_input & ~ops["type"].isin(PYTHON_CALLBACKS)]
    on_a_gpu = analyse_on_a_gpu(run)
    if on_a_gpu is not None:  # these request a GPU, or read a variable that would be on one
        found = found[~found["op_id"].isin(on_a_gpu.off_the_cpu)]
    is_inside = (found["placement_source"] == "input_pipeline") & (
        found["placement_certainty"] == "certain"
    )
    if is_inside.any():
        worst = None if run.input_pipeline is None else run.input_pipeline.worst
        yield _inside(found[is_inside], worst)
    at_the_end = found[~is_inside]
    if len(at_the_end):
        types = listed(sorted(set(at_the_end["type"].astype(str))))
        yield finding(
            "host_pipeline/at_its_end",
            sub_reason="hands_over_elements",
            scope="at its end",
            certainty="likely",
            op_ids=tuple(at_the_end["op_id"]),
            evidence=(observed("op_type", f"types of these stages and ops: {types}"),),
        )


def _inside(found: pd.DataFrame, host: HostInput | None) -> Finding:
    """Return the finding about pipeline ops; `host` is the one that waits longest for input."""
    stages = int(found["type"].astype(str).str.startswith("Iterator::").sum())
    others = counted(len(found) - stages, "op")
    seen = f"{counted(stages, 'dataset stage')} and {others} on tf.data threads or in tf.data calls"
    case, evidence, fixes = "keeps_up", [observed("threads", seen)], [FASTER_PIPELINE]
    if host is not None and host.verdict != "unknown":
        fixes = list(_refill(host))
        if host.waits is not None:
            took = duration_text(host.waits.mean_ps)
            text = f"the requests for elements take {took} per step"
            if host.slow is not None:
                busy = duration_text(host.slow.busy_ps)
                text += f"; `{host.slow.stage}` is the bottleneck, busy for {busy} per step"
            evidence.append(observed("input_wait", text))
        if host.verdict == "too_slow":
            case = "too_slow"
            fixes = [Fix(text=f.text, code=f.code) for f in host.fixes] + fixes or [FASTER_PIPELINE]
    return finding(
        f"host_pipeline/{case}",
        fixes,
        scope="within",
        certainty="certain",
        op_ids=tuple(found["op_id"]),
        evidence=tuple(evidence),
    )


def _refill(host: HostInput) -> Iterator[Fix]:
    """Yield a fix that avoids refilling a shuffle buffer in each epoch, if that is slow."""
    waits = host.waits
    if host.fill_ps is None or host.fills < _FEWEST_FILLS or waits is None:
        return
    steps_ps = waits.steps * (waits.mean_ps + waits.other_ps)
    if host.fill_ps * host.fills < _NOTICEABLE * steps_ps:
        return
    size = "" if host.fill_size is None else f" of {host.fill_size:,} elements"
    iterators, took = counted(host.fills, "iterator"), duration_text(host.fill_ps)
    yield fix("host_pipeline/refill", size=size, iterators=iterators, took=took)


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.DEFAULT_DEVICE or blocker.link != "own":
        return None
    if not runs_for_dataset(cpu_op, blocker):
        return None
    text = "a dataset calls the op's function with the CPU as the default device"
    where = f"function {blocker.function or cpu_op.function}"
    return CauseMatch(
        scope="functions of datasets",
        evidence=(observed("default_device", text, where),),
        sub_reason="function_of_a_dataset",
    )


def describe(ops: BlockedOps) -> FindingText:
    return ops.described("host_pipeline", (FASTER_PIPELINE,))
