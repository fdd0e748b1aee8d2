"""Changes that save time without moving ops, such as a faster input pipeline or fewer launches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.changes.already import (
    fetches_several_batches,
    functions_run_eagerly,
    keras_runs_eagerly,
    uses_xla,
)
from traceanalyzer.changes.retracing import retracing_changes
from traceanalyzer.changes.saving import LEAST, Savings, at_most
from traceanalyzer.changes.source import Sources
from traceanalyzer.data_files import toml
from traceanalyzer.diagnosis import RAN_ONCE, Diagnosis
from traceanalyzer.findings import finding_id
from traceanalyzer.format import counted, series
from traceanalyzer.input_pipeline.verdict import HostInput
from traceanalyzer.input_waits import InputWait, worst_wait
from traceanalyzer.model.changes import Candidate, Change, Place, Saving
from traceanalyzer.run import Host, Run
from traceanalyzer.step_parts import PARTS
from traceanalyzer.tables.steps import eager_loop, regular_steps
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, SESSION_RUN, Role
from traceanalyzer.timeline.intervals import covered, inside_ps
from traceanalyzer.timeline.walk import Parts, Phase
from traceanalyzer.units import PS_PER_US

_FEWEST_STEPS: Final = 3  # fewer may be the first ones, which trace and compile
_CALLBACK: Final = "python_callback"
_PIPELINE: Final = "host_pipeline"
# XLA compiles a function whole, or not at all: no strings, callbacks, or variables on the CPU.
_CLOSED_TO_XLA: Final = frozenset(
    {
        *("custom_op", "dtype_unsupported", "library_cpu_placement", "no_gpu_kernel"),
        *("python_callback", "resource_on_cpu", "xla_not_whole"),
    }
)
_KERAS: Final = re.compile("train_function|one_step_on_data|(multi|one)_step_on_iterator")
_PREDICT: Final = re.compile("predict_function|one_step_on_data_distributed")  # of Keras 2 and 3
_DATASET_OF_KERAS: Final = "RangeDataset"  # of the batches of arrays
_LARGE: Final = 0.1  # of a step: general advice needs such a part
_OFTEN: Final = 0.5  # of the steps
_MOST_OF_A_CALL_PS: Final = 5_000 * PS_PER_US  # Python around a call takes less
_FEWEST_CALLS: Final = 4  # `fit` with validation creates two
_TEXTS: Final[dict[str, dict[str, Any]]] = toml("changes/data/beside.toml")


def changes_beside(diagnosis: Diagnosis, savings: Savings) -> list[Change]:
    """Return the worthwhile changes that do not move ops."""
    ops = diagnosis.run.ops
    placements = ops["placement"][ops["role"] == Role.COMPUTE].astype(str)
    retraced = retracing_changes(diagnosis.run)
    if placements.str.startswith("xla").all():
        return retraced
    steps = [step for host in diagnosis.run.hosts for step in _steps(host)]
    return [
        *retraced,
        *_input(diagnosis, steps),
        *_copied_batches(steps),
        *_callbacks(diagnosis, savings),
        *_read_back(diagnosis.run),
        *(iterators := [*_iterators(diagnosis.run)]),
        *([] if iterators else _short_epochs(diagnosis.run, steps)),
        *_overhead(diagnosis, steps),
    ]


def _change(
    case: str,
    lost_ps: float,
    whole_ps: float,
    per: Literal["step", "run"] = "step",
    **fields: Any,  # noqa: ANN401 - of the change
) -> Change:
    """Return the change for a case in `beside.toml`, which saves at most `lost_ps`."""
    texts = dict(_TEXTS[case])
    known: dict[str, Any] = {
        "id": finding_id(texts["kind"], texts.pop("scope")),
        "saving": at_most(lost_ps, whole_ps, texts.pop("note"), per),
        "certainty": "likely",
        "effort": "few lines",
        "is_by_placement": False,
    }
    return Change(**{**known, **texts, **fields})


@dataclass(frozen=True, eq=False)
class _Steps:
    """A host's regular steps, with the timeline of one device or, without a GPU, of the program."""

    host: Host
    parts: Parts
    steps: pd.DataFrame
    step_ps: float  #: the mean step

    def took_ps(self, *phases: Phase, among: NDArray[np.bool_] | None = None) -> float:
        steps, parts = self.steps, self.parts
        chosen = np.isin(parts.phase, phases) & (True if among is None else among)
        inside = inside_ps(covered(steps), parts.start_ps[chosen], parts.end_ps[chosen])
        return int(inside.sum()) / len(steps)

    @property
    def is_keras(self) -> bool:
        return any(map(_KERAS.search, set(self.host.tables.ops["function"].dropna().astype(str))))

    @property
    def is_session(self) -> bool:
        return bool(self.steps["name"].eq(SESSION_RUN).any())

    @property
    def several_per_call(self) -> str:
        if self.is_keras:
            return "model.compile(..., steps_per_execution=10)"
        if self.is_session:
            return "tf.compat.v1.while_loop(is_not_done, step, [0])  # in one session.run"
        return "@tf.function\ndef steps(batches):\n    for batch in batches: ..."


def _steps(host: Host) -> Iterator[_Steps]:
    steps = regular_steps(host.tables.steps)
    if len(steps) >= _FEWEST_STEPS:
        for parts in _timelines(host):
            yield _Steps(host, parts, steps, covered(steps).total_ps / len(steps))


def _timelines(host: Host) -> list[Parts]:
    program = host.timeline.program
    return [each.parts for each in host.timeline.devices] if program is None else [program]


def _input(diagnosis: Diagnosis, steps: list[_Steps]) -> Iterator[Change]:
    wait = worst_wait(diagnosis.run)
    if wait is not None and wait.verdict == "too_slow":
        yield _faster(diagnosis, wait)
        return
    use = diagnosis.run.input_pipeline
    # A device can wait for input although no stage is slow.
    idle = [(each.took_ps(Phase.INPUT), each) for each in steps if each.host.timeline.devices]
    waited_ps, step = max(idle, key=lambda found: found[0], default=(0.0, None))
    if step is None or waited_ps < LEAST * step.step_ps:
        return
    if use is not None and use.worst.is_handing_over:
        code = step.several_per_call
        yield _change("handed_over", waited_ps, step.step_ps, instead=code)
    else:
        is_prefetched = diagnosis.run.stages["stage"].astype(str).str.contains("Prefetch").any()
        case = "waits_despite_prefetch" if is_prefetched else "waits"
        yield _change(case, waited_ps, step.step_ps)


def _faster(diagnosis: Diagnosis, wait: InputWait) -> Change:
    host, waited_us = wait.host, wait.us + wait.before_us
    found = (f for f in diagnosis.findings if f.cause == _PIPELINE and f.harm == "harmful")
    none: dict[str, Any] = {"explains_directly": 0, "explains_following": 0, "check": ""}
    fields: dict[str, Any] = {
        "detail": "" if host.slow is None else f"stage `{host.slow.stage}`",
        "place": _stage_line(diagnosis.run, host),
        "finding_ids": tuple(finding.id for finding in found),
        "certainty": "certain",
        # Alternatives, whose gains do not add up.
        "candidates": tuple(
            Candidate(cause=_PIPELINE, title=f.text, edit=f.code, **none) for f in host.fixes[1:]
        ),
    }
    if host.fixes:
        first = host.fixes[0]
        fields |= {"title": first.title, "instead": first.code}
        fields["why"] = f"{_TEXTS['too_slow']['why']} {first.text}"
        fields["effort"] = "few lines" if "\n" in first.code else "one line"
        high_us = min(first.high_ps / PS_PER_US, waited_us)
        share = wait.share * high_us / waited_us
        fields["saving"] = Saving(
            kind="upper_bound", high_us=high_us, share=share, note=first.basis
        )
    whole_us = wait.step_us + wait.before_us
    return _change("too_slow", waited_us * PS_PER_US, whole_us * PS_PER_US, **fields)


def _stage_line(run: Run, host: HostInput) -> Place | None:
    """Return the line to edit: the line of the slow stage, or of the Python function it calls."""
    if host.slow is None:
        return None
    rows = run.stages[run.stages["host"].astype(str) == host.host].iloc[[host.slow.row]]
    if host.fixes and host.fixes[0].kind == "rewrite":
        calls = run.ops[run.ops["type"].isin(PYTHON_CALLBACKS) & run.ops["in_input_pipeline"]]
        calls = calls[(calls["host"] == host.host) & calls["source_line"].notna()]
        rows = rows if calls.empty else calls.sort_values("host_self_ps").iloc[[-1]]
    return _place(rows)


def _place(rows: pd.DataFrame) -> Place | None:
    known = rows.dropna(subset=["source_file", "source_line"])
    if known.empty:
        return None
    return str(known["source_file"].iloc[-1]), int(known["source_line"].iloc[-1])


def _copied_batches(steps: list[_Steps]) -> Iterator[Change]:
    waits = []
    for step in steps:
        ops, transfers = step.host.tables.ops, step.host.tables.transfers
        makers = ops.loc[ops["role"] == Role.INPUT_PIPELINE, "op_id"]
        is_batch = (transfers["direction"] == "h2d") & transfers["producer"].isin(makers)
        of_batches = np.append(is_batch.to_numpy(bool), False)[step.parts.transfer]
        waits.append((step.took_ps(Phase.COPY, among=of_batches), step.step_ps))
    waited_ps, step_ps = max(waits, default=(0.0, 0.0))
    if waited_ps and waited_ps >= LEAST * step_ps:
        yield _change("copied_batches", waited_ps, step_ps)


def _callbacks(diagnosis: Diagnosis, savings: Savings) -> Iterator[Change]:
    """Yield a change for each finding about Python callbacks that no placement change covers."""
    there = diagnosis.on_a_gpu
    placed = diagnosis.cpu_ops.keys() | (set() if there is None else there.analysis.cpu_ops.keys())
    for finding in diagnosis.findings:
        if finding.cause != _CALLBACK or finding.sub_reason or RAN_ONCE in finding.modifiers:
            continue
        if placed & set(finding.op_ids):
            continue  # a placement change covers them
        ids, is_prediction = finding.op_ids, not diagnosis.run.gpu_used
        saving = savings.of_placement(ids, ids, is_prediction=is_prediction)
        if saving.kind == "none" or (saving.share or 0.0) < LEAST:
            continue
        ops = diagnosis.run.ops[diagnosis.run.ops["op_id"].isin(finding.op_ids)]
        types = sorted(set(ops["type"].astype(str)))
        yield Change(
            id=finding.id,
            kind="edit",
            detail=f"{counted(len(ops), 'op')}: {series(types)}",
            place=_place(ops.sort_values("host_self_ps")),
            saving=saving,
            certainty=finding.certainty,
            effort="few lines",
            finding_ids=(finding.id,),
            op_ids=finding.op_ids,
            **_TEXTS["callback"],
        )


def _read_back(run: Run) -> Iterator[Change]:
    syncs = [
        each
        for each in run.transfer_costs.device_to_host_syncs
        if each.reader == "python" and each.count_per_step and each.idle_us
    ]
    step_ps = float(regular_steps(run.steps)["duration_ps"].mean())  # NaN without steps
    idle_us = sum((each.idle_us or 0) / each.count * (each.count_per_step or 0.0) for each in syncs)
    idle_ps = idle_us * PS_PER_US
    if not idle_ps or not idle_ps >= LEAST * step_ps:
        return
    number = round(sum(each.count_per_step or 0.0 for each in syncs))
    yield _change(
        "read_back",
        idle_ps,
        step_ps,
        detail=f"{counted(max(1, number), 'value')} per step",
        op_ids=tuple(run.ops["op_id"][run.ops["op_id"].isin({each.source for each in syncs})]),
    )


def _iterators(run: Run) -> Iterator[Change]:
    """Yield the change for the datasets that `model.predict` creates in each call."""
    functions = set(run.ops["function"].dropna().astype(str))
    creates = run.ops["is_eager"] & (run.ops["type"] == _DATASET_OF_KERAS)
    calls = run.ops[creates & (run.ops["occurrences"] >= _FEWEST_CALLS)]
    if calls.empty or not any(map(_PREDICT.search, functions)):
        return
    call = calls.sort_values("occurrences").iloc[[-1]]
    detail = f"{counted(call['occurrences'].iloc[0], 'call')}, each with its own dataset"
    timelines = ((host.tables.ops, parts) for host in run.hosts for parts in _timelines(host))
    for ops, parts in timelines:
        took_ps = parts.duration_ps
        makes = (ops["is_eager"] & (ops["role"] == Role.INPUT_PIPELINE)).to_numpy(bool)
        is_made = (parts.phase == Phase.INPUT) & np.append(makes, False)[parts.row]
        made_ps, whole_ps = int(took_ps[is_made].sum()), int(took_ps.sum())
        if made_ps and made_ps >= LEAST * whole_ps:
            yield _change("iterators", made_ps, whole_ps, "run", detail=detail, place=_place(call))
            return


def _short_epochs(run: Run, steps: list[_Steps]) -> Iterator[Change]:
    """Yield the change for epochs of few steps, each of which creates iterators."""
    wait = worst_wait(run)
    if wait is None or wait.new.us < _LARGE * wait.step_us:
        return
    number = wait.new.steps_per_epoch
    detail = "each step is an epoch of its own"
    case = "short_epochs_of_keras" if any(step.is_keras for step in steps) else "short_epochs"
    if wait.new.with_dataset >= _OFTEN * wait.new.in_steps:
        case, detail = "new_datasets", "each step creates a dataset of its own"
    if number > 1:
        detail = f"an epoch has {counted(number, 'step')}"
    yield _change(case, wait.new.us * PS_PER_US, wait.step_us * PS_PER_US, detail=detail)


def _overhead(diagnosis: Diagnosis, steps: list[_Steps]) -> Iterator[Change]:
    run = diagnosis.run
    launching = (*PARTS["launch"], *PARTS["runtime"])
    took = []
    for step in steps:
        # Without kernels in the trace, the GPU may be computing while the runtime waits.
        is_seen = step.host.timeline.devices or not run.gpu_used
        runtime_ps = step.took_ps(*launching) if is_seen else 0.0
        took.append((runtime_ps, step.took_ps(Phase.PROGRAM), step))
    if not took:
        return
    runtime_ps, program_ps, step = max(took, key=lambda each: each[0] + each[1])
    loop, step_ps = eager_loop(run.ops, run.steps), step.step_ps
    if loop is not None and program_ps + runtime_ps >= _LARGE * step_ps:
        at = f" ({loop.place})" if loop.place else ""
        detail = f"Python runs {counted(loop.ops, 'op')} per step one by one{at}"
        yield _change(_eager_case(run), program_ps + runtime_ps, step_ps, detail=detail)
        return
    if diagnosis.on_a_gpu is not None:
        return  # the step is another one on the machine of the prediction
    if program_ps >= _LARGE * step_ps:
        yield from _between_calls(run, step, program_ps)
    # Without a GPU, the trace does not show what the runtime costs beside one.
    is_open = run.gpu_used and not uses_xla(run) and not _is_closed_to_xla(diagnosis)
    if is_open and runtime_ps >= _LARGE * step_ps:
        code = "model.compile(..., {})" if step.is_keras else "@tf.function({})"
        yield _change("launches", runtime_ps, step_ps, instead=code.format("jit_compile=True"))


def _eager_case(run: Run) -> str:
    """Return the advice on an eager loop: the program may have a function that runs eagerly."""
    if functions_run_eagerly(run):
        return "functions_run_eagerly"
    sources = Sources(capture_file for _, capture_file in run.captured)
    return "keras_runs_eagerly" if keras_runs_eagerly(run, sources) else "eager_loop"


def _between_calls(run: Run, step: _Steps, program_ps: float) -> Iterator[Change]:
    """Yield what to do about the time between two calls of the training step.

    One call for several steps saves only what a call costs, and the steps of one epoch at most.
    """
    wait = worst_wait(run)
    if wait is not None and wait.new.in_steps > _OFTEN:
        return  # this is mostly the work between two epochs
    what = "your program, callbacks, and Keras" if step.is_keras else "your program"
    detail = f"between the calls, Python runs {what}; the trace does not show what it does there"
    if program_ps > _MOST_OF_A_CALL_PS:
        yield _change("between_calls", program_ps, step.step_ps, detail=detail)
    elif not fetches_several_batches(step.host):
        code = step.several_per_call
        yield _change("program", program_ps, step.step_ps, detail=detail, instead=code)


def _is_closed_to_xla(diagnosis: Diagnosis) -> bool:
    """Return whether a graph has ops with which `jit_compile=True` may fail, such as a callback."""
    ops = diagnosis.run.ops
    found = {o for f in diagnosis.findings if f.cause in _CLOSED_TO_XLA for o in f.op_ids}
    in_graph = ops["op_id"].isin(found) & ~ops["is_eager"] & ~ops["in_input_pipeline"]
    return bool(in_graph.any())
