"""What the report says of input pipelines: whether they keep up, what is slow, and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from traceanalyzer.format import counted, duration_text, percent_text
from traceanalyzer.model import Gain, Table
from traceanalyzer.model.resources import InputCure, InputHost, InputPipeline
from traceanalyzer.report.sources import shown_files
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.input_pipeline.fixes import InputFix
    from traceanalyzer.input_pipeline.verdict import HostInput
    from traceanalyzer.run import Run

_MAX_STAGES: Final = 200
_MAX_STEPS: Final = 500
_INJECTED: Final = "inject/"  # inject_prefetch.cc: what tf.data added of its own
_WRAPPERS: Final = ("Root", "Model")  # around a pipeline, and called as its last stage
_STAGE_COLUMNS: Final = (
    "host", "pipeline", "stage", "type", "name", "is_async", "elements", "request_us", "self_us",
    "input_us", "calls", "call_us", "python_us", "ops", "parallelism", "autotune", "buffer_size",
    "element_bytes", "threads", "source", "function",
)  # fmt: skip
_WAIT_COLUMNS: Final = ("host", "step", "name", "duration_us", "wait_us", "wait_before_us", "kind")


def input_pipeline(run: Run) -> InputPipeline | None:
    """Return what is known of the input pipelines of a run; None where it has none."""
    use = run.input_pipeline
    if use is None:
        return None
    worst = use.worst
    stages = _stage_table(run)
    return InputPipeline(
        verdict=worst.verdict,
        text=_text(worst, run),
        host=worst.host,
        cures=tuple(map(_fix, worst.fixes)),
        hosts=tuple(_host(host) for host in use.hosts),
        stages=stages,
        waits=_wait_table(use.hosts),
    )


def _fix(fix: InputFix) -> InputCure:
    return InputCure(
        kind=fix.kind,
        text=fix.text,
        code=fix.code,
        gain_us_per_step=Gain(
            low=fix.low_ps / PS_PER_US,
            high=fix.high_ps / PS_PER_US,
            basis="input wait",
            note=fix.basis,
        ),
    )


def _host(host: HostInput) -> InputHost:
    waits = host.waits if host.waits is not None and host.waits.steps else None
    slow = host.slow
    return InputHost(
        host=host.host,
        verdict=host.verdict,
        reason=host.reason or None,
        steps_count=0 if waits is None else waits.steps,
        wait_mean_us=_us(waits.mean_ps if waits else None),
        wait_median_us=_us(waits.median_ps if waits else None),
        wait_share=waits.share if waits else None,
        other_us=_us(waits.other_ps if waits else None),
        slow_stage=slow.stage if slow else None,
        slow_us=_us(slow.busy_ps if slow else None),
        slow_wait_share=slow.in_wait_share if slow else None,
        startup_us=_us(host.startup_ps),
        shuffle_fill_us=_us(host.fill_ps),
        shuffle_fill_count=host.fill_size,
    )


def _us(ps: float | None) -> float | None:
    return None if ps is None else ps / PS_PER_US


# --- words -----------------------------------------------------------------------------------


def _text(host: HostInput, run: Run) -> str:
    """Say whether the pipeline keeps up: the first thing a reader wants to know."""
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
        return f"Whether the input pipeline{where} keeps up is not known: {host.reason}."
    waited = (
        f"a step waits {duration_text(waits.mean_ps)} for input, {percent_text(waits.share)} of "
        f"its time (mean of {counted(waits.steps, 'step')})"
    )
    if host.verdict == "keeps_up":
        return (
            f"The input pipeline{where} runs on the CPU by design, and it keeps up: {waited}."
            + _handing_over(waits.share)
        )
    return f"The input pipeline{where} is too slow on the CPU: {waited}. {_slow(host, run)}"


def _handing_over(share: float) -> str:
    if share < 0.05:  # noqa: PLR2004 - as the verdict has it
        return ""
    return (
        " Its stages were not at work all the time, so what is left is the handing over of what "
        "was ready: of steps as short as these a large part."
    )


def _slow(host: HostInput, run: Run) -> str:
    slow = host.slow
    if slow is None:
        return "Which stage is slow the trace does not tell."
    rows = run.stages[run.stages["host"].astype(str) == host.host].reset_index(drop=True)
    row = rows.iloc[slow.row]
    made = _place(row["source_file"], row["source_line"], run)
    inside = _place(row["function_file"], row["function_line"], run)
    said = f"The stage `{slow.stage}`" + (f" (made at {made})" if made else "")
    said += (
        f" bounds the rate: its work takes {duration_text(slow.busy_ps)} a step, and "
        f"{percent_text(slow.in_wait_share)} of the waiting is for it."
    )
    if isinstance(row["ops"], str):
        at = f" at {inside}" if inside else ""
        said += f" Its function{at} runs {row['ops']}."
    if not pd.isna(row["python_ps"]) and row["python_ps"] > 0:
        said += " That calls back into Python, which runs one call at a time."
    return said


# --- tables ----------------------------------------------------------------------------------


def _stage_table(run: Run) -> Table:
    stages = run.stages
    shown = stages.head(_MAX_STAGES)
    columns: dict[str, Any] = {
        name: shown[name] for name in _STAGE_COLUMNS if name in shown.columns
    }
    columns["request_us"] = shown["total_ps"] / PS_PER_US
    for name in ("self", "input", "call", "python"):
        columns[f"{name}_us"] = shown[f"{name}_ps"].astype("Float64") / PS_PER_US
    columns["name"] = [
        None if kind in _WRAPPERS else _name(name)
        for name, kind in zip(shown["name"].astype(object), shown["type"].astype(str), strict=True)
    ]
    for name, kind in (("source", "source"), ("function", "function")):
        columns[name] = [
            _place(file, line, run)
            for file, line in zip(
                shown[f"{kind}_file"].astype(object), shown[f"{kind}_line"], strict=True
            )
        ]
    frame = pd.DataFrame(columns, index=shown.index)[list(_STAGE_COLUMNS)]
    return _table(frame, len(stages))


def _name(name: object) -> str | None:
    """Return what a dataset is called, and that of one which tf.data added itself."""
    if not isinstance(name, str):
        return None
    return "added by tf.data itself" if name.startswith(_INJECTED) else name


def _place(file: object, line: object, run: Run) -> str | None:
    (shown,) = shown_files([file], run)
    return None if shown is None or pd.isna(line) else f"{shown}:{line}"  # type: ignore[call-overload]


def _wait_table(hosts: Iterable[HostInput]) -> Table:
    parts = []
    for host in hosts:
        if host.waits is None:
            continue
        table = host.waits.table
        parts.append(
            pd.DataFrame(
                {
                    "host": host.host,
                    "step": table["step"].astype("int64"),
                    "name": table["name"].astype(str),
                    "duration_us": table["duration_ps"].astype("float64") / PS_PER_US,
                    "wait_us": table["wait_ps"] / PS_PER_US,
                    "wait_before_us": table["wait_before_ps"] / PS_PER_US,
                    "kind": ["regular" if flag else "left out" for flag in table["counts"]],
                }
            )
        )
    if not parts:
        return Table(columns=_WAIT_COLUMNS, rows=(), total_rows=0)
    joined = pd.concat(parts, ignore_index=True)
    return _table(joined.head(_MAX_STEPS), len(joined))


def _table(shown: pd.DataFrame, total: int) -> Table:
    plain = shown.astype(object).where(shown.notna(), None)
    return Table(
        columns=tuple(str(c) for c in shown.columns),
        rows=tuple(tuple(row) for row in plain.to_numpy(dtype=object).tolist()),
        total_rows=total,
    )
