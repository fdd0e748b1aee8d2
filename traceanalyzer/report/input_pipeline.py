"""Input pipelines in the report: whether they keep up, what is slow, and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.format import counted, duration_text, percent_text
from traceanalyzer.model import Gain, Table
from traceanalyzer.model.resources import InputFixRecord, InputHost, InputPipeline
from traceanalyzer.report.convert import in_us, table, to_record, us
from traceanalyzer.source_files import shown_files
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.input_pipeline.fixes import InputFix
    from traceanalyzer.input_pipeline.verdict import HostInput
    from traceanalyzer.run import Run

_MAX_STAGES: Final = 200
_MAX_STEPS: Final = 500
_INJECTED: Final = "inject/"  # inject_prefetch.cc: added by tf.data
_STAGE_TIMES: Final = ("self", "input", "call", "python")
_WRAPPERS: Final = ("Root", "Model")  # around a pipeline, and called as its last stage
_STAGE_COLUMNS: Final = (
    "host", "pipeline", "stage", "type", "name", "is_async", "elements", "request_us", "self_us",
    "input_us", "calls", "call_us", "python_us", "ops", "parallelism", "autotune", "buffer_size",
    "element_bytes", "threads", "source", "function",
)  # fmt: skip
_LARGE_SHARE: Final = 0.05  # of a step, as `traceanalyzer.input_pipeline.verdict` has it
_HANDING_OVER: Final = (
    "Its stages did not work all the time. What is left is the time to hand over ready elements, a "
    "large part of such short steps."
)
_WAIT_COLUMNS: Final = ("host", "step", "name", "duration_us", "wait_us", "wait_before_us", "kind")


def input_pipeline(run: Run) -> InputPipeline | None:
    """Return what is known about the input pipelines of a run; None if it has none."""
    use = run.input_pipeline
    if use is None:
        return None
    worst = use.worst
    return InputPipeline(
        verdict=worst.verdict,
        text=_text(worst, run),
        host=worst.host,
        fixes=tuple(map(_fix, worst.fixes)),
        hosts=tuple(_host(host) for host in use.hosts),
        stages=_stage_table(run),
        waits=_wait_table(use.hosts),
    )


def _fix(fix: InputFix) -> InputFixRecord:
    low_us, high_us = fix.low_ps / PS_PER_US, fix.high_ps / PS_PER_US
    gain = Gain(low=low_us, high=high_us, basis="input wait", note=fix.basis)
    return to_record(InputFixRecord, fix, gain_us_per_step=gain)


def _host(host: HostInput) -> InputHost:
    waits = host.waits if host.waits is not None and host.waits.steps else None
    slow = host.slow
    return InputHost(
        host=host.host,
        verdict=host.verdict,
        reason=host.reason or None,
        steps_count=0 if waits is None else waits.steps,
        wait_mean_us=us(waits.mean_ps) if waits else None,
        wait_median_us=us(waits.median_ps) if waits else None,
        wait_share=waits.share if waits else None,
        other_us=us(waits.other_ps) if waits else None,
        slow_stage=slow.stage if slow else None,
        slow_us=us(slow.busy_ps) if slow else None,
        slow_wait_share=slow.in_wait_share if slow else None,
        startup_us=us(host.startup_ps),
        shuffle_fill_us=us(host.fill_ps),
        shuffle_fill_count=host.fill_size,
    )


# --- words -----------------------------------------------------------------------------------


def _text(host: HostInput, run: Run) -> str:
    parts = [_verdict(host, run)]
    if host.fill_ps is not None and host.startup_ps:
        buffer = (
            "its buffer" if host.fill_size is None else f"its buffer of {host.fill_size:,} elements"
        )
        parts.append(
            f"The first element took {duration_text(host.startup_ps)}, as a shuffle filled "
            f"{buffer} before it gave one. It does so once for each iterator, mostly once an epoch."
        )
    return "\n\n".join(parts)


def _verdict(host: HostInput, run: Run) -> str:
    where = f" of {host.host}" if len(run.hosts) > 1 else ""
    waits = host.waits
    if waits is None or host.verdict == "unknown":
        return f"It is unknown whether the input pipeline{where} keeps up: {host.reason}."
    waited = (
        f"a step waits {duration_text(waits.mean_ps)} for input, {percent_text(waits.share)} of "
        f"its time (mean of {counted(waits.steps, 'step')})"
    )
    if host.verdict == "keeps_up":
        said = f"The input pipeline{where} runs on the CPU by design, and it keeps up: {waited}."
        return said if waits.share < _LARGE_SHARE else f"{said} {_HANDING_OVER}"
    return f"The input pipeline{where} is too slow on the CPU: {waited}. {_slow(host, run)}"


def _slow(host: HostInput, run: Run) -> str:
    slow = host.slow
    if slow is None:
        return "The trace does not show which stage is slow."
    rows = run.stages[run.stages["host"].astype(str) == host.host].reset_index(drop=True)
    row = rows.iloc[slow.row]
    made = _place(row["source_file"], row["source_line"], run)
    inside = _place(row["function_file"], row["function_line"], run)
    said = f"The stage `{slow.stage}`" + (f" (made at {made})" if made else "")
    said += (
        f" bounds the rate: its work takes {duration_text(slow.busy_ps)} a step, and "
        f"{percent_text(slow.in_wait_share)} of the wait is for it."
    )
    if isinstance(row["ops"], str):
        at = f" at {inside}" if inside else ""
        said += f" Its function{at} runs {row['ops']}."
    if not pd.isna(row["python_ps"]) and row["python_ps"] > 0:
        said += " That calls back into Python, which runs one call at a time."
    return said


# --- tables ----------------------------------------------------------------------------------


def _stage_table(run: Run) -> Table:
    shown = run.stages.head(_MAX_STAGES)
    times = {
        f"{name}_us": shown[f"{column}_ps"].astype("Float64") / PS_PER_US
        for name, column in (("request", "total"), *((n, n) for n in _STAGE_TIMES))
    }
    kinds = zip(shown["name"].astype(object), shown["type"].astype(str), strict=True)
    names = [None if kind in _WRAPPERS else _name(name) for name, kind in kinds]
    frame = shown.assign(
        **times,
        name=pd.Series(names, shown.index, dtype=object),
        source=_places(shown, "source", run),
        function=_places(shown, "function", run),
    )
    return table(frame[list(_STAGE_COLUMNS)], total_rows=len(run.stages))


def _name(name: object) -> str | None:
    if not isinstance(name, str):
        return None
    return "added by tf.data itself" if name.startswith(_INJECTED) else name


def _places(rows: pd.DataFrame, kind: str, run: Run) -> pd.Series[Any]:
    pairs = zip(rows[f"{kind}_file"].astype(object), rows[f"{kind}_line"], strict=True)
    places = [_place(file, line, run) for file, line in pairs]
    return pd.Series(places, rows.index, dtype=object)


def _place(file: object, line: object, run: Run) -> str | None:
    (shown,) = shown_files([file], run)
    return None if shown is None or pd.isna(line) else f"{shown}:{line}"  # type: ignore[call-overload]


def _wait_table(hosts: Iterable[HostInput]) -> Table:
    parts = [
        in_us(host.waits.table.assign(host=host.host, name=host.waits.table["name"].astype(str)))
        for host in hosts
        if host.waits is not None
    ]
    if not parts:
        return Table(columns=_WAIT_COLUMNS, rows=(), total_rows=0)
    joined = pd.concat(parts, ignore_index=True)
    joined["kind"] = np.where(joined["counts"], "regular", "left out")
    return table(joined[list(_WAIT_COLUMNS)], _MAX_STEPS)
