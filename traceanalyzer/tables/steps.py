"""Finds and classifies steps, based on markers or else on repeated calls."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.arrays import (
    Flags,
    Ints,
    by_line,
    filled,
    inside_ps,
    is_outermost,
    mask,
)
from traceanalyzer.tables.device_events import DeviceEvents
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.program_calls import (
    Calls,
    ProgramCalls,
    Repeated,
    program_calls,
    repeated,
    steps_of_threads,
)
from traceanalyzer.tables.stage_events import NO_INTERVALS, StageIntervals
from traceanalyzer.tables.thread_activity import ThreadActivity, prepared_ps
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.trace.columns import Plane, Trace
from traceanalyzer.trace.strings import Strings

Done = Callable[[int, int], int]

REGULAR: Final = "regular"
WARM_UP: Final = "warm_up"
OUTLIER: Final = "outlier"
PARTIAL: Final = "partial"

_FEWEST: Final = 3  # steps needed to compare one with the rest
# How far from the median a step may be: this many standard deviations (estimated from the median
# deviation), but at least a quarter of the median, since steps can be nearly equal.
_DEVIATIONS: Final = 5.0
_SIGMA_OF_MAD: Final = 1.4826
_LEAST_SHARE: Final = 0.25
# Without its wait for input, a step that only waits longer takes this many usual steps at most.
_SIMILAR: Final = 2.0
_PREPARED_SHARE: Final = 0.1  # of a step, from which preparation matters
_RECURRING_SHARE: Final = 0.1  # of the steps

_REPEATED: Final = re.compile(r"(\d+) ops")  # how `program_calls` names such steps
_FEWEST_OPS: Final = 10  # a step in a function has some eager ops around it
_OF_EACH_STEP: Final = 0.9  # of the steps: an op that runs in fewer is not part of each
_MOST_OF_THEM: Final = 0.75

_STEPS_LINE: Final = "Steps"
_MODULES_LINE: Final = "XLA Modules"
_FINGERPRINT: Final = re.compile(r"\(\d+\)$")  # `jit_f(1219...)`
_NUMBER: Final = re.compile(r"\s*\d+$")  # `train 108` is a step of `train`
_STEP: Final = re.compile(r"[0-9]{1,18}")
_COLUMNS: Final = ("step", "name", "start_ps", "duration_ps", "source", "is_inferred", "is_partial")

# keras/engine/training.py: the functions that Keras 2.2 and later call for one or more batches.
_KERAS_KIND: Final = re.compile("(train|test|predict)_function")
# Also those that training and evaluation share, in TensorFlow 2.0 and 2.1 (training_v2_utils.py)
# and in Keras 3 (backend/tensorflow/trainer.py).
_KERAS_FUNCTION: Final = re.compile(
    rf"{_KERAS_KIND.pattern}|distributed_function|multi_step_on_iterator"
    "|one_step_on_(data|data_distributed|iterator)"
)


def step_rows(
    trace: Trace,
    host: HostOps,
    device: DeviceEvents,
    threads: ThreadActivity | None = None,
    requests: StageIntervals = NO_INTERVALS,
) -> pd.DataFrame:
    """Build one host's rows of the step table, from the first source that has steps.

    `threads` show when TensorFlow built or compiled graphs, and `requests` when the program waited
    for input.

    1. Markers: events with the stat `step_num` (`tf.profiler.experimental.Trace`, Keras's
       `TraceContext`, JAX's `StepTraceAnnotation`). Only the outermost of nested markers counts. A
       step has its marker's name, or `train` or `test` for Keras. A capture marks the calls of
       the first function that repeats; another function may turn out to be the main one.
    2. Calls of the function in which Keras runs a batch.
    3. The `Steps` lines that older profilers added for each device.
    4. Repeated executions of XLA programs on TPUs.
    5. Repeated calls of the program's threads: see `program_calls`.
    6. The timeline of one call of `Session.run`, which is one step.

    Overlapping steps of several threads or devices with the same name and number are one step. A
    step of source 2 or 5 lasts until the next one begins. The last one lasts until its call has
    returned and the work that it launched on devices is done.
    """
    calls = program_calls(host)
    linked = np.flatnonzero(device.launch >= 0)
    launch_ps, done_ps = host.plane.start_ps[device.launch[linked]], device.end_ps[linked]

    def done(begin_ps: int, end_ps: int) -> int:
        inside = (launch_ps >= begin_ps) & (launch_ps < end_ps)
        return int(done_ps[inside].max(initial=end_ps))

    sources: tuple[Callable[[], pd.DataFrame], ...] = (
        lambda: _main_marked(trace, calls),
        lambda: _keras_steps(host, calls, done),
        lambda: _merged([_steps_line(plane) for plane in trace.planes]),
        lambda: _merged([_modules(plane) for plane in trace.planes]),
        lambda: _repeated_calls(host, calls, done),
        lambda: _session_run(trace),
    )
    tables = (source() for source in sources)
    table = next((table for table in tables if len(table)), _rows())
    table = table.sort_values("start_ps", kind="stable", ignore_index=True)
    kinds = np.empty(len(table), object)
    for rows in table.groupby("name", sort=False).indices.values():
        start, duration = (table[c].to_numpy(np.int64)[rows] for c in ("start_ps", "duration_ps"))
        partial = table["is_partial"].to_numpy(np.bool_)[rows]
        end = start + duration
        waited = inside_ps(requests.start_ps, requests.end_ps, start, end)
        kinds[rows] = step_kinds(duration, partial, prepared_ps(threads, start, end), waited)
    return table.assign(kind=kinds)


def _rows(**columns: object) -> pd.DataFrame:
    given = {**dict.fromkeys(_COLUMNS, ()), "is_inferred": False, "is_partial": False, **columns}
    return pd.DataFrame({name: given[name] for name in _COLUMNS})


def _merged(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Merge overlapping steps that have the same name and number."""
    found = [part for part in parts if len(part)]
    if not found:
        return _rows()
    table = pd.concat(found).sort_values(
        ["name", "step", "start_ps"], kind="stable", ignore_index=True
    )
    start = table["start_ps"].to_numpy(np.int64)
    end = start + table["duration_ps"].to_numpy(np.int64)
    begins = np.ones(len(table), np.bool_)
    same = (table[["name", "step"]] == table[["name", "step"]].shift()).all(axis=1).to_numpy()
    for row in np.flatnonzero(same).tolist():  # few: a number rarely occurs twice
        if start[row] < end[row - 1]:
            begins[row] = False
            end[row] = max(end[row], end[row - 1])
    first = np.flatnonzero(begins)
    last = np.append(first, len(table))[1:] - 1
    return table.iloc[first].assign(duration_ps=end[last] - start[first])


def _main_marked(trace: Trace, calls: ProgramCalls) -> pd.DataFrame:
    """Return the marked steps, or none if a capture marked them and they are not the main ones.

    They are not if calls of another function outside the steps took longer than all steps.
    """
    steps = _merged([_marked(plane) for plane in trace.planes])
    if steps.empty or not all(map(_is_marked_by_capture, trace.planes)):
        return steps
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64)
    order = np.argsort(start)
    step = np.searchsorted(start[order], calls.start_ps, side="right") - 1
    is_inside = (step >= 0) & (calls.start_ps < end[order][step])
    function = pd.factorize(calls.definition)[0]
    is_other = calls.is_function & ~calls.traced & ~np.isin(function, function[is_inside])
    took_ps = np.bincount(function, weights=(calls.end_ps - calls.start_ps) * is_other)
    took_ps[np.bincount(function[is_other], minlength=len(took_ps)) < _FEWEST] = 0
    return _rows() if took_ps.max(initial=0) > (end - start).sum() else steps


def _is_marked_by_capture(plane: Plane) -> bool:
    """Return whether a capture made all of a plane's step markers (`StepMarks`)."""
    event = np.flatnonzero(plane.integers("step_num").present)
    names = {plane.names[k] for k in plane.name_of[event].tolist()}
    return names <= {"step"} and bool(plane.strings("graph_type", event).present.all())


def _marked(plane: Plane) -> pd.DataFrame:
    number = plane.integers("step_num")
    event = by_line(plane, np.flatnonzero(number.present))
    event = event[is_outermost(plane, event)]
    names = Strings(plane.name_of, plane.names)
    return _rows(
        step=number.values[event],
        name=filled(plane.strings("graph_type", event), names.take(event)).to_list(),
        start_ps=plane.start_ps[event],
        duration_ps=plane.duration_ps[event],
        source="step_num",
    )


def _keras_steps(host: HostOps, calls: ProgramCalls, done: Done) -> pd.DataFrame:
    is_keras = mask(map(_KERAS_FUNCTION.fullmatch, calls.labels))
    rows = np.flatnonzero(is_keras[calls.label] & calls.is_function)
    if not len(rows):
        return _rows()
    labels = {definition: label for label, definition in host.definitions.items()}
    names = []
    for row in rows.tolist():
        own = calls.labels[calls.label[row]]
        kind = _KERAS_KIND.fullmatch(own)
        names.append(kind[1] if kind else labels.get(calls.definition[row], own))
    name, line, start = pd.Series(names, dtype=object), calls.line[rows], calls.start_ps[rows]
    end = np.append(start[1:], 0)
    is_last = np.append(line[1:] != line[:-1], True)  # of its thread
    for k in np.flatnonzero(is_last).tolist():
        end[k] = done(int(start[k]), int(calls.end_ps[rows[k]]))
    return _rows(
        step=name.groupby([line, name]).cumcount(),
        name=name,
        start_ps=start,
        duration_ps=end - start,
        source="Keras function",
        is_partial=is_last & np.append(False, ~is_last[:-1]),
    )


def _steps_line(plane: Plane) -> pd.DataFrame:
    event = _events_of(plane, _STEPS_LINE)
    own = [plane.names[k] for k in plane.name_of[event].tolist()]
    labels = zip(plane.strings("step_name", event).to_list(), own, strict=True)
    return _rows(
        step=[int(text) if _STEP.fullmatch(text) else k for k, text in enumerate(own)],
        name=[_NUMBER.sub("", label or name) or "step" for label, name in labels],
        start_ps=plane.start_ps[event],
        duration_ps=plane.duration_ps[event],
        source="line Steps",
    )


def _modules(plane: Plane) -> pd.DataFrame:
    event = by_line(plane, _events_of(plane, _MODULES_LINE))
    if not len(event):
        return _rows()
    codes, labels = pd.factorize(
        np.array([_FINGERPRINT.sub("", plane.names[k]) for k in plane.name_of[event]], object)
    )
    calls = Calls(
        label=codes.astype(np.int32),
        labels=tuple(labels),
        is_function=np.ones(len(event), np.bool_),
        start_ps=plane.start_ps[event],
        end_ps=plane.end_ps[event],
    )
    return _inferred(repeated(calls), "XLA modules")


def _events_of(plane: Plane, line: str) -> Ints:
    return np.flatnonzero(mask(name == line for name in plane.lines.name)[plane.line_of])


def _repeated_calls(host: HostOps, calls: ProgramCalls, done: Done) -> pd.DataFrame:
    steps = steps_of_threads(host, calls)
    if steps is not None:
        steps.end_ps[-1] = done(int(steps.start_ps[-1]), int(steps.end_ps[-1]))
    return _inferred(steps)


def _session_run(trace: Trace) -> pd.DataFrame:
    planes = [plane for plane in trace.planes if len(plane)]
    if not trace.is_one_run or not planes:
        return _rows()
    start_ps = min(int(plane.start_ps.min()) for plane in planes)
    end_ps = max(int(plane.end_ps.max()) for plane in planes)
    return _rows(
        step=[0],
        name="session run",
        start_ps=[start_ps],
        duration_ps=[end_ps - start_ps],
        source="a timeline of one run",
        is_inferred=True,
    )


def _inferred(steps: Repeated | None, source: str | None = None) -> pd.DataFrame:
    if steps is None:
        return _rows()
    numbers = np.arange(len(steps.start_ps))
    return _rows(
        step=numbers,
        name=steps.name,
        start_ps=steps.start_ps,
        duration_ps=steps.end_ps - steps.start_ps,
        source=source or steps.source,
        is_inferred=True,
        is_partial=numbers == len(numbers) - 1,
    )


def step_kinds(
    duration_ps: Ints, is_partial: Flags, prepared: Ints, waited: Ints | None = None
) -> NDArray[np.object_]:
    """Return the kind of each step. All steps have the same name and are sorted by start.

    `prepared` is the time in each step in which TensorFlow built or compiled graphs, and `waited`
    the time in which the program waited for input.

    `warm_up`: the first steps, if they are slower than the rest, and steps that build or compile
    graphs, unless this recurs. `outlier`: far from the median, unless only because of its wait for
    input. `partial`: cut off by the recording. `regular`: all others.
    """
    kinds = np.where(is_partial, PARTIAL, REGULAR).astype(object)
    whole = np.flatnonzero(~is_partial)
    duration = duration_ps[whole].astype(np.float64)
    far = np.zeros(len(whole))
    if len(whole) >= _FEWEST:
        median = np.median(duration)
        spread = _SIGMA_OF_MAD * np.median(np.abs(duration - median))
        limit = max(_DEVIATIONS * spread, _LEAST_SHARE * median)
        far = np.sign(duration - median) * (np.abs(duration - median) > limit)
    kinds[whole[far != 0]] = OUTLIER
    if waited is not None and (far == 0).any():
        wait = waited[whole].astype(np.float64)
        own = duration - wait
        is_similar = (own <= _SIMILAR * np.median(own[far == 0])) | (own <= wait)
        kinds[whole[(far != 0) & (wait > 0) & is_similar]] = REGULAR
    prepares = prepared[whole] >= np.maximum(1, _PREPARED_SHARE * duration)
    # If most steps qualify, it is no warm-up.
    leading = (int(np.argmin(np.append(leads, False))) for leads in ((far > 0) | prepares, far > 0))
    first = next((number for number in leading if number * 2 <= len(whole)), 0)
    kinds[whole[:first]] = WARM_UP
    later = whole[first:][prepares[first:]]
    recurs = len(later) >= max(_FEWEST, _RECURRING_SHARE * len(whole))
    kinds[later] = REGULAR if recurs else WARM_UP
    return kinds


def main_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps with the name that took the most time, usually training."""
    if steps.empty:
        return steps
    names = steps["name"].astype(str)
    return steps[names == steps.groupby(names)["duration_ps"].sum().idxmax()]


def regular_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the regular main steps, or all main steps if none is regular."""
    main = main_steps(steps)
    regular = main[main["kind"].astype(str) == REGULAR]
    return regular if len(regular) else main


@dataclass(frozen=True, kw_only=True)
class EagerLoop:
    """A loop in which Python runs the ops of each step one by one."""

    ops: int  #: how many eager ops a step runs
    step_ps: int  #: the median duration of a regular step
    place: str  #: the file and lines of most of them; "" if not recorded


def eager_loop(ops: pd.DataFrame, steps: pd.DataFrame) -> EagerLoop | None:
    """Return the eager loop that makes up the steps, or None if graphs do most of the work."""
    regular = regular_steps(steps)
    if len(regular) < _FEWEST:
        return None
    of_steps = ops[
        (ops["occurrences"] >= _OF_EACH_STEP * len(regular))
        & ~ops["in_input_pipeline"]
        & (ops["role"] == Role.COMPUTE)
    ]
    eager = of_steps[of_steps["is_eager"]]
    runs = eager["occurrences"].sum()
    repeated = _REPEATED.fullmatch(str(regular["name"].iloc[0]))
    number = int(repeated[1]) if repeated else round(runs / len(regular))
    if number < _FEWEST_OPS or runs < _MOST_OF_THEM * of_steps["occurrences"].sum():
        return None
    duration_ps = int(np.median(regular["duration_ps"]))
    return EagerLoop(ops=number, step_ps=duration_ps, place=_place(eager))


def _place(eager: pd.DataFrame) -> str:
    known = eager.dropna(subset=["source_file", "source_line"])
    if known.empty:
        return ""
    by_file = known.groupby(known["source_file"].astype(str))
    file = str(by_file["occurrences"].sum().idxmax())
    lines = by_file.get_group(file)["source_line"].astype(int)
    last = f"-{lines.max()}" if lines.max() > lines.min() else ""
    return f"{PurePath(file).name}:{lines.min()}{last}"
