"""Changes for functions that TensorFlow traces again and again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile, Frame
from traceanalyzer.capture_file.function_records import TracedArgument, Tracing
from traceanalyzer.changes.saving import LEAST, at_most
from traceanalyzer.data_files import toml
from traceanalyzer.findings import finding_id
from traceanalyzer.format import counted
from traceanalyzer.model.changes import Change, Saving
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.thread_activity import prepared_ps
from traceanalyzer.timeline.intervals import common, covered, union
from traceanalyzer.timeline.walk import Phase

_FEWEST: Final = 3  # traces after the first: two variants of a function are usual
_FRESH_SHARE: Final = 0.25  # of the calls, from which new `tf.function` objects are too many
_MOST_EXAMPLES: Final = 3
_IDENTITY: Final = re.compile(r"(?<= object) [0-9a-f]+$")
_NOTE: Final = "time in which TensorFlow builds and compiles these graphs"
_TEXTS: Final[dict[str, dict[str, str]]] = toml("changes/data/retracing.toml")


@dataclass(frozen=True, kw_only=True)
class _Varying:
    """The difference between successive traces of a function."""

    case: str  #: of `retracing.toml`
    argument: str = ""
    examples: str = ""
    is_only: bool = False  #: whether nothing else ever differed


def retracing_changes(run: Run) -> list[Change]:
    """Return a change for each function whose repeated tracing takes a noticeable time."""
    return [change for host in run.hosts for change in _of_host(host)]


def _of_host(host: Host) -> Iterator[Change]:
    calls = host.tables.python_calls
    if not calls["is_traced"].any():
        return
    capture_file = host.capture_file
    records = [] if capture_file is None else [*capture_file.tracings]
    place = _places(calls, records)
    for (function, at), own in calls.groupby(["function", place], sort=False, dropna=False):
        again = _again(own)
        saving = _saving(host, again) if len(again) >= _FEWEST else None
        if saving is not None:
            known = [each for each in records if each.place == at]
            yield _change(str(function), own, len(again), saving, known, capture_file)


def _places(calls: pd.DataFrame, records: Sequence[Tracing]) -> pd.Series[Any]:
    """Return the place of the code of each called function, null if unknown."""
    of_name: dict[str, set[tuple[str, int, str]]] = {}
    for each in records:
        of_name.setdefault(each.code, set()).add(each.place)
    only = {name: places.pop() for name, places in of_name.items() if len(places) == 1}
    known = calls["definition"].map({each.name: each.place for each in records})
    # Not all traces are recorded.
    return known.where(known.notna(), calls["function"].map(only))


def _again(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the calls that traced a function again."""
    traced = calls[calls["is_traced"]].sort_values("start_ps", kind="stable")
    # A function that makes variables is traced twice in its first call.
    if len(traced) and traced["traces"].iloc[0] <= 2:  # noqa: PLR2004
        traced = traced[1:]
    # Several objects may have the same function as a method, each with its own graph.
    is_fresh = traced["traces"] == 1
    return traced[~is_fresh] if is_fresh.sum() < _FRESH_SHARE * len(calls) else traced


def _saving(host: Host, again: pd.DataFrame) -> Saving | None:
    """Return the time that repeated traces take, per step or else in total, or None if short."""
    start, end = (again[name].to_numpy(np.int64) for name in ("start_ps", "end_ps"))
    within, steps = union(start, end - start), regular_steps(host.tables.steps)
    program = host.timeline.program
    every = [d.parts for d in host.timeline.devices] if program is None else [program]
    for parts in every if len(steps) else ():
        prepares = parts.phase == Phase.PREPARATION
        times = common(union(parts.start_ps[prepares], parts.duration_ps[prepares]), within)
        took_ps = common(times, covered(steps)).total_ps / len(steps)
        step_ps = covered(steps).total_ps / len(steps)
        if took_ps >= LEAST * step_ps > 0:
            return at_most(took_ps, step_ps, _NOTE)
    took_ps = int(prepared_ps(host.tables.threads, start, end).sum())
    whole_ps = host.end_ps - host.start_ps
    return at_most(took_ps, whole_ps, _NOTE, "run") if took_ps >= LEAST * whole_ps > 0 else None


def _change(  # noqa: PLR0913, PLR0917 - facts of one function
    function: str,
    calls: pd.DataFrame,
    again: int,
    saving: Saving,
    records: Sequence[Tracing],
    capture_file: CaptureFile | None,
) -> Change:
    found = _difference(records, is_xla=bool(calls["is_xla"].any()))
    traced = f"traced again {again:,} times in {counted(len(calls), 'call')}"
    values = {
        "function": function, "argument": found.argument, "traced": traced,
        "examples": found.examples,
    }  # fmt: skip
    texts: dict[str, Any] = {key: text.format(**values) for key, text in _TEXTS[found.case].items()}
    line = _call_line(records, capture_file)
    return Change(
        id=finding_id("retracing", function),
        kind="retracing",
        place=None if line is None else (line.file, line.line),
        saving=saving,
        certainty="certain" if found.is_only else "likely",
        is_by_placement=False,
        **texts,
    )


def _call_line(records: Sequence[Tracing], capture_file: CaptureFile | None) -> Frame | None:
    """Return the user's line whose call traced the function most often."""
    frames = Counter(each.frame for each in records if each.frame >= 0)
    if not frames or capture_file is None:
        return None
    return capture_file.frame(frames.most_common(1)[0][0])


def _difference(records: Sequence[Tracing], *, is_xla: bool) -> _Varying:
    pairs = [(a, b) for a, b in pairwise(records) if b.number == a.number + 1]
    if len(pairs) < _FEWEST - 1:
        return _Varying(case="unknown")
    if 2 * sum(a.object != b.object for a, b in pairs) > len(pairs):
        return _Varying(case="function", is_only=True)
    found = [dict(_differing(a, b)) for a, b in pairs]
    counts = Counter(each for arguments in found for each in arguments.items())
    if not counts:
        return _Varying(case="unknown_recorded")
    (argument, case), most = counts.most_common(1)[0]
    examples = _examples(records, argument)
    is_only = most == len(pairs) and all(len(arguments) == 1 for arguments in found)
    case = "shape_xla" if case == "shape" and is_xla else case
    return _Varying(case=case, argument=argument, examples=examples, is_only=is_only)


def _differing(a: Tracing, b: Tracing) -> Iterator[tuple[str, str]]:
    """Yield each argument that differs between two traces, and how."""
    before = {each.name: each for each in a.arguments}
    for now in b.arguments:
        was = before.get(now.name)
        if was is not None and was != now:
            yield now.name, _how(was, now)


def _how(was: TracedArgument, now: TracedArgument) -> str:
    if was.kind != now.kind or now.kind == "object":
        return "object"
    if now.kind == "value":
        return "value"
    return "dtype" if was.text.partition("[")[0] != now.text.partition("[")[0] else "shape"


def _examples(records: Sequence[Tracing], argument: str) -> str:
    values = (a for each in records for a in each.arguments if a.name == argument)
    # The end of an object's text only tells objects of one class apart.
    distinct = list(dict.fromkeys(_IDENTITY.sub("", a.text) for a in values))
    more = ", ..." if len(distinct) > _MOST_EXAMPLES else ""
    return ", ".join(f"`{text}`" for text in distinct[:_MOST_EXAMPLES]) + more
