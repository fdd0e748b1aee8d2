"""Whether a run's pipelines keep up with its steps, and what is slow where they do not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.input_pipeline.fixes import Setting, fixes
from traceanalyzer.input_pipeline.throughput import Pipeline, is_positive
from traceanalyzer.input_pipeline.waits import periods, requested, step_waits
from traceanalyzer.timeline.intervals import inside_ps, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from traceanalyzer.input_pipeline.fixes import InputFix
    from traceanalyzer.input_pipeline.waits import StepWaits
    from traceanalyzer.model.figures import InputVerdict
    from traceanalyzer.tables.pipelines import Pipelines
    from traceanalyzer.timeline.intervals import Intervals

_MIN_STEPS: Final = 3
_TOO_LONG: Final = 0.05  # share of a step in which it waits
# A pipeline that bounds the rate is busy nearly all the time, or makes the steps wait for work on
# their own thread. Below this, elements were ready, and the wait is for handing them over.
_BUSY: Final = 0.6
_SLOW: Final = 0.3  # share of the wait during which the slow stage must have been busy
_MOST_OF_THE_START: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class SlowStage:
    """The stage that bounds how fast a pipeline is."""

    row: int  #: of the host's table of stages
    stage: str  #: its path
    type: str
    busy_ps: float  #: per step, as time on the clock
    in_wait_share: float  #: of the wait, while the stage was busy


@dataclass(frozen=True, eq=False, kw_only=True)
class HostInput:
    """The input pipelines of one host."""

    host: str
    verdict: InputVerdict
    reason: str = ""  #: why the verdict is unknown
    waits: StepWaits | None = None
    slow: SlowStage | None = None
    fixes: tuple[InputFix, ...] = ()  #: alternatives, the best first: their gains do not add up
    startup_ps: int | None = None  #: the longest first request of an iterator
    #: How long a shuffle took for its first element while it filled its buffer, if that is most of
    #: the start.
    fill_ps: float | None = None
    fill_size: int | None = None  #: elements in that buffer
    fills: int = 0  #: iterators of the shuffle: each filled it


@dataclass(frozen=True, eq=False)
class InputUse:
    """The input pipelines of a run."""

    hosts: tuple[HostInput, ...]
    worst: HostInput  #: the host whose steps wait longest, as a share of their time


def input_use(hosts: Sequence[HostInput]) -> InputUse | None:
    """Return the pipelines of a run from those of its hosts; None if there are none."""

    def urgency(host: HostInput) -> tuple[bool, float]:
        return host.verdict != "unknown", host.waits.share if host.waits else 0.0

    return InputUse(tuple(hosts), max(hosts, key=urgency)) if hosts else None


def host_input(
    host: str, stages: pd.DataFrame, pipelines: Pipelines, steps: pd.DataFrame, *, has_gpu: bool
) -> HostInput | None:
    """Judge the input pipelines of one host; None if its trace shows none."""
    if stages.empty and not len(pipelines.requests.row):
        return None
    waiting = requested(pipelines.requests)
    waits = step_waits(steps, waiting)
    unknown = HostInput(
        host=host,
        verdict="unknown",
        reason=_too_little(waits, pipelines),
        waits=waits,
        **_startup(stages, pipelines),
    )
    if waits is None or unknown.reason:
        return unknown
    if waits.share < _TOO_LONG:
        return replace(unknown, verdict="keeps_up")
    pipeline = _pipeline(stages, pipelines, waiting, waits)
    if pipeline is None:
        return replace(unknown, reason="the trace does not show what the pipeline did meanwhile")
    whole = waits.mean_ps + waits.other_ps
    if max(pipeline.own_ps / waits.mean_ps, pipeline.slowest_ps / whole) < _BUSY:
        return replace(unknown, verdict="keeps_up")
    slow = _slow_stage(pipeline)
    cpus = stages["cpu_budget"].max()
    setting = Setting(int(cpus) if is_positive(cpus) else None, has_gpu)
    found = () if slow is None else fixes(pipeline, slow.row, setting)
    return replace(unknown, verdict="too_slow", slow=slow, fixes=found)


def _too_little(waits: StepWaits | None, pipelines: Pipelines) -> str:
    if waits is None:
        return "the trace does not mark steps"
    if waits.steps < _MIN_STEPS:
        return f"fewer than {_MIN_STEPS} regular steps were recorded"
    if not len(pipelines.requests.row):
        return "the trace does not show where the program waits for an element"
    return ""


def _pipeline(
    stages: pd.DataFrame, pipelines: Pipelines, waiting: Intervals, waits: StepWaits
) -> Pipeline | None:
    """Return the pipeline for which the steps wait longest."""
    begin, stop = periods(waits.table)
    requests = pipelines.requests
    groups = np.append(stages["pipeline"].to_numpy(np.int64), -1)[requests.row]
    waited = {}
    for group in np.unique(groups[groups >= 0]).tolist():
        mine = groups == group
        times = union(requests.start_ps[mine], requests.end_ps[mine] - requests.start_ps[mine])
        waited[group] = int(inside_ps(times, begin, stop).sum())
    if not waited:
        return None
    longest = max(waited, key=lambda g: waited[g])
    return Pipeline(
        stages={
            k: {str(column): cell for column, cell in stage.items()}
            for k, stage in enumerate(stages.to_dict("records"))
            if stage["pipeline"] == longest
        },
        work=pipelines.work,
        waiting=waiting,
        begin_ps=begin,
        end_ps=stop,
        other_ps=waits.other_ps,
        wait_ps=waits.mean_ps,
    )


def _slow_stage(pipeline: Pipeline) -> SlowStage | None:
    """Return the stage that was busy longest while the steps waited."""
    in_wait = {k: pipeline.in_wait_ps([k]) for k in pipeline.stages}
    row = max(in_wait, key=lambda k: in_wait[k])
    share = min(1.0, in_wait[row] / pipeline.wait_ps)
    if share < _SLOW:
        return None
    return SlowStage(
        row=row,
        stage=str(pipeline.stages[row]["stage"]),
        type=str(pipeline.stages[row]["type"]),
        busy_ps=pipeline.busy_ps([row]),
        in_wait_share=share,
    )


def _startup(stages: pd.DataFrame, pipelines: Pipelines) -> dict[str, Any]:
    """Return the longest start of an iterator, and how long a shuffle filled its buffer in it."""
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
