"""Changes of the input pipeline: the stage that keeps steps waiting, and batches copied late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.changes.saving import FEWEST_STEPS, LEAST, at_most, spans_of
from traceanalyzer.findings import finding_id
from traceanalyzer.model.changes import Candidate, Change, Saving
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.timeline.intervals import inside_ps
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.input_pipeline.fixes import InputFix
    from traceanalyzer.input_pipeline.verdict import HostInput
    from traceanalyzer.model.changes import Place
    from traceanalyzer.run import Run

_TITLES: Final = {  # by the kind of the fix
    "prefetch": "Prefetch at the end of the input pipeline",
    "rewrite": "Write the mapped function with TensorFlow ops",
    "parallel": "Run several calls of the mapped function at once",
    "vectorise": "Batch before the mapped function",
    "cache": "Cache the elements of the slow stage",
    "generator": "Read from several generators at once",
    "read_in_parallel": "Read several files at once",
}
_PIPELINE: Final = "host_pipeline"


def input_changes(diagnosis: Diagnosis) -> Iterator[Change]:
    """Walk the changes of the input pipeline that are worth it."""
    yield from _faster(diagnosis)
    yield from _copied_ahead(diagnosis.run)


def _faster(diagnosis: Diagnosis) -> Iterator[Change]:
    run = diagnosis.run
    use = run.input_pipeline
    if use is None or use.worst.verdict != "too_slow" or use.worst.waits is None:
        return
    host, waits = use.worst, use.worst.waits
    step_ps = waits.mean_ps + waits.other_ps
    first = host.fixes[0] if host.fixes else None
    saving = at_most(waits.mean_ps, waits.share, "the steps wait this long for input")
    if first is not None:
        saving = Saving(
            kind="estimated",
            low_us=first.low_ps / PS_PER_US,
            high_us=first.high_ps / PS_PER_US,
            share=min(1.0, first.high_ps / step_ps),
            note=first.basis,
        )
    slow = host.slow
    yield Change(
        id=finding_id("input", "too slow"),
        kind="input",
        title="Make the input pipeline faster" if first is None else _TITLES[first.kind],
        detail="" if slow is None else f"stage `{slow.stage}`",
        place=_stage_line(run, host),
        instead="" if first is None else first.code,
        why=" ".join(["Steps wait for the input pipeline.", *(f.text for f in host.fixes[:1])]),
        finding_ids=tuple(
            f.id for f in diagnosis.findings if f.cause == _PIPELINE and f.harm == "harmful"
        ),
        saving=saving,
        certainty="certain",
        effort="one line" if first is not None and "\n" not in first.code else "few lines",
        candidates=tuple(_alternatives(host.fixes[1:])),
        is_by_placement=False,
    )


def _alternatives(fixes: Sequence[InputFix]) -> Iterator[Candidate]:
    """Walk what would help instead: the gains of these do not add up."""
    for fix in fixes:
        yield Candidate(
            cause=_PIPELINE,
            title=fix.text,
            explains_directly=0,
            explains_following=0,
            check="",
            edit=fix.code,
        )


def _stage_line(run: Run, host: HostInput) -> Place | None:
    """Return the line to edit: that of a stage, or of the call of Python in it."""
    if host.slow is None:
        return None
    if host.fixes and host.fixes[0].kind == "rewrite":
        calls = run.ops[run.ops["type"].isin(PYTHON_CALLBACKS) & run.ops["in_input_pipeline"]]
        calls = calls[(calls["host"] == host.host) & calls["source_line"].notna()]
        if len(calls):
            call = calls.sort_values("host_self_ps").iloc[-1]
            return str(call["source_file"]), int(call["source_line"])
    rows = run.stages[run.stages["host"].astype(str) == host.host].reset_index(drop=True)
    row = rows.iloc[host.slow.row]
    if not isinstance(row["source_file"], str) or pd.isna(row["source_line"]):
        return None
    return row["source_file"], int(row["source_line"])


def _copied_ahead(run: Run) -> Iterator[Change]:
    """Walk the change against steps that wait while their batch is copied to the GPU."""
    for host in run.hosts:
        ops, transfers = host.tables.ops, host.tables.transfers
        steps = regular_steps(host.tables.steps)
        makers = ops.loc[ops["role"] == Role.INPUT_PIPELINE, "op_id"]
        is_batch = (transfers["direction"] == "h2d") & transfers["producer"].isin(makers)
        if not is_batch.any() or len(steps) < FEWEST_STEPS or not host.timeline.devices:
            continue
        within = spans_of(steps)
        chosen = np.append(is_batch.to_numpy(bool), False)
        waited_ps = max(
            int(inside_ps(within, p.start_ps[mine], p.end_ps[mine]).sum())
            for p in (device.parts for device in host.timeline.devices)
            for mine in [(p.phase == Phase.COPY) & chosen[p.transfer]]
        )
        if waited_ps < LEAST * within.total_ps:
            continue
        yield Change(
            id=finding_id("input", "copied batches"),
            kind="input",
            title="Copy batches to the GPU ahead of the step",
            detail="make this the last stage of the dataset, instead of `prefetch`",
            instead='dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))',
            why="Steps wait while their batch is copied. The waiting batches take GPU memory.",
            saving=at_most(
                waited_ps / len(steps),
                waited_ps / within.total_ps,
                "the GPU does nothing but copy batches this long",
            ),
            certainty="likely",
            effort="one line",
            is_by_placement=False,
        )
        return
