"""Decides whether a run's pipelines keep up with its steps and, if not, which stages are slow."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.input_pipeline.fixes import InputFix, fixes
from traceanalyzer.input_pipeline.throughput import Pipeline, StepWaits, is_positive, times_of
from traceanalyzer.model.figures import InputVerdict
from traceanalyzer.tables.stages import Pipelines
from traceanalyzer.tables.steps import REGULAR, main_steps
from traceanalyzer.timeline.intervals import Intervals, inside_ps

_MIN_STEPS: Final = 3
_TOO_LONG: Final = 0.05  # share of a step spent waiting
# If a pipeline was busy for less than this share, elements were ready, and the steps waited until
# these were passed to their thread.
_BUSY: Final = 0.6
_SLOW: Final = 0.3  # share of the wait in which the slow stage must be busy
_MOST_OF_THE_START: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class SlowStage:
    """The stage that bounds the rate of a pipeline."""

    row: int  #: of the host's table of stages
    stage: str  #: its path
    busy_ps: float  #: wall-clock time per step
    in_wait_share: float  #: share of the wait in which the stage was busy


@dataclass(frozen=True, eq=False, kw_only=True)
class HostInput:
    """The verdict on the input pipelines of one host, with fixes."""

    host: str
    verdict: InputVerdict
    reason: str = ""  #: why the verdict is unknown
    waits: StepWaits | None = None
    slow: SlowStage | None = None
    fixes: tuple[InputFix, ...] = ()  #: alternatives, the best first: their gains do not add up
    startup_ps: int | None = None  #: the longest first request of an iterator
    fill_ps: float | None = None  #: time to fill a shuffle's buffer, if most of `startup_ps`
    fill_size: int | None = None  #: elements in that buffer
    fills: int = 0  #: how often it was filled

    @property
    def is_handing_over(self) -> bool:
        """Whether steps wait although elements are ready, because passing them on takes long."""
        waits = self.waits
        return self.verdict == "keeps_up" and waits is not None and waits.share >= _TOO_LONG


@dataclass(frozen=True, eq=False)
class InputUse:
    """The input pipelines of a run."""

    hosts: tuple[HostInput, ...]
    worst: HostInput  #: the host whose steps wait longest, as a share of their time


def input_use(hosts: Sequence[HostInput]) -> InputUse | None:
    """Combine the input pipelines of all hosts; return None if there are none."""

    def urgency(host: HostInput) -> tuple[bool, float]:
        return host.verdict != "unknown", host.waits.share if host.waits else 0.0

    return InputUse(tuple(hosts), max(hosts, key=urgency)) if hosts else None


def host_input(
    host: str, stages: pd.DataFrame, pipelines: Pipelines, steps: pd.DataFrame
) -> HostInput | None:
    """Return the verdict on one host's input pipelines; None if its trace shows none."""
    if stages.empty and not len(pipelines.requests.row):
        return None
    waiting = times_of(pipelines.requests)
    waits = _step_waits(steps, waiting)
    reason = ""
    if waits is None:
        reason = "the trace does not mark steps"
    elif waits.steps < _MIN_STEPS:
        reason = f"fewer than {_MIN_STEPS} regular steps were recorded"
    elif not len(pipelines.requests.row):
        reason = "the trace does not show when the program waits for input"
    unknown = HostInput(
        host=host,
        verdict="unknown",
        reason=reason,
        waits=waits,
        **_startup(stages, pipelines),
    )
    if waits is None or reason:
        return unknown
    if waits.share < _TOO_LONG:
        return replace(unknown, verdict="keeps_up")
    pipeline = _pipeline(stages, pipelines, waiting, waits)
    if pipeline is None:
        return replace(unknown, reason="the trace does not show the pipeline's work")
    whole = waits.mean_ps + waits.other_ps
    if max(pipeline.own_ps / waits.mean_ps, pipeline.slowest_without() / whole) < _BUSY:
        return replace(unknown, verdict="keeps_up")
    slow = _slow_stage(pipeline)
    cpus = stages["cpu_budget"].max()
    cpu_count = int(cpus) if is_positive(cpus) else None
    found = () if slow is None else fixes(pipeline, slow.row, cpu_count)
    return replace(unknown, verdict="too_slow", slow=slow, fixes=found)


def _pipeline(
    stages: pd.DataFrame, pipelines: Pipelines, waiting: Intervals, waits: StepWaits
) -> Pipeline | None:
    requests = pipelines.requests
    groups = np.append(stages["pipeline"].to_numpy(np.int64), -1)[requests.row]
    periods = waits.begin_ps, waits.end_ps
    waited = {
        group: int(inside_ps(times_of(requests, groups == group), *periods).sum())
        for group in np.unique(groups[groups >= 0]).tolist()
    }
    if not waited:
        return None
    longest = max(waited, key=lambda group: waited[group])
    return Pipeline(
        stages={
            k: {str(column): cell for column, cell in stage.items()}
            for k, stage in enumerate(stages.to_dict("records"))
            if stage["pipeline"] == longest
        },
        work=pipelines.work,
        waiting=waiting,
        waits=waits,
    )


def _slow_stage(pipeline: Pipeline) -> SlowStage | None:
    in_wait = {k: pipeline.in_wait_ps(k) for k in pipeline.stages}
    row = max(in_wait, key=lambda k: in_wait[k])
    share = min(1.0, in_wait[row] / pipeline.waits.mean_ps)
    if share < _SLOW:
        return None
    return SlowStage(
        row=row,
        stage=str(pipeline.stages[row]["stage"]),
        busy_ps=pipeline.busy_ps([row]),
        in_wait_share=share,
    )


def _startup(stages: pd.DataFrame, pipelines: Pipelines) -> dict[str, Any]:
    """Return the fields of `HostInput` about the slowest iterator's start and shuffle buffer."""
    requests, first = pipelines.requests, pipelines.is_first
    if not first.any():
        return {}
    took = requests.end_ps[first] - requests.start_ps[first]
    longest = int(took.argmax())
    startup = {"startup_ps": int(took[longest])}
    group = stages["pipeline"].iloc[int(requests.row[first][longest])]
    mine = stages[(stages["pipeline"] == group) & stages["type"].astype(str).str.match("Shuffle")]
    if mine.empty:
        return startup
    each = mine["first_ps"] / mine["iterators"].clip(lower=1)
    row = each.idxmax()
    if each[row] < _MOST_OF_THE_START * took[longest]:
        return startup
    size = mine.loc[row, "buffer_size"]
    return {
        **startup,
        "fill_ps": float(each[row]),
        "fill_size": int(size) if is_positive(size) else None,
        "fills": int(mine.loc[row, "iterators"]),
    }


def _step_waits(steps: pd.DataFrame, waiting: Intervals) -> StepWaits | None:
    if steps.empty:
        return None
    main = str(main_steps(steps)["name"].iloc[0])
    ordered = steps.sort_values("start_ps", kind="stable")
    start = ordered["start_ps"].to_numpy(np.int64)
    end = start + ordered["duration_ps"].to_numpy(np.int64)
    # The previous step can be of any kind: validation between two epochs is not a wait of training.
    since = np.minimum(np.append(start[:1], np.maximum.accumulate(end)[:-1]), start)
    mine = (ordered["name"].astype(str) == main).to_numpy()
    table = ordered[mine][["step", "name", "start_ps", "duration_ps"]].reset_index(drop=True)
    table["wait_ps"] = inside_ps(waiting, start, end)[mine]
    table["wait_before_ps"] = inside_ps(waiting, since, start)[mine]
    table["since_ps"] = since[mine]
    table["counts"] = (ordered["kind"].astype(str) == REGULAR).to_numpy()[mine]
    counted = table[table["counts"]]
    wait = (counted["wait_ps"] + counted["wait_before_ps"]).to_numpy(np.float64)
    whole = (counted["duration_ps"] + counted["wait_before_ps"]).to_numpy(np.float64)
    begin = counted["since_ps"].to_numpy(np.int64)
    stop = (counted["start_ps"] + counted["duration_ps"]).to_numpy(np.int64)
    return StepWaits(
        table=table,
        steps=len(counted),
        begin_ps=begin,
        end_ps=stop,
        mean_ps=float(wait.mean()) if len(wait) else 0.0,
        share=float(wait.sum() / whole.sum()) if whole.sum() else 0.0,
        other_ps=float(np.median(stop - begin - wait)) if len(wait) else 0.0,
    )
