"""Reports on input pipelines: the verdict, the slow stages, and fixes."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pandas as pd

from traceanalyzer.format import counted, duration_text, percent_text
from traceanalyzer.input_pipeline.fixes import InputFix
from traceanalyzer.input_pipeline.verdict import HostInput
from traceanalyzer.input_waits import InputWait, input_waits
from traceanalyzer.model import DataTable, Gain
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import InputFixRecord, InputHost, InputPipeline
from traceanalyzer.report.records import in_us, places, table, to_record
from traceanalyzer.report.text import phrase, quantity, table_of, time
from traceanalyzer.run import Run
from traceanalyzer.units import PS_PER_US, us

_MAX_STAGES: Final = 200
_WORTH_NAMING: Final = 0.1  # of a wait
_MAX_STEPS: Final = 500
_STAGES_SHOWN: Final = 40
_INJECTED: Final = "inject/"  # inject_prefetch.cc: added by tf.data
_WRAPPERS: Final = ("Root", "Model")  # wrap a pipeline, and act as its last stage
_STAGE_COLUMNS: Final = (
    "host", "pipeline", "stage", "type", "name", "is_async", "elements", "request_us", "self_us",
    "input_us", "calls", "call_us", "python_us", "ops", "parallelism", "autotune", "buffer_size",
    "batch_size", "element_bytes", "threads", "source", "function",
)  # fmt: skip
_WAIT_COLUMNS: Final = ("host", "step", "name", "duration_us", "wait_us", "wait_before_us", "kind")


def input_pipeline(run: Run) -> InputPipeline | None:
    """Return the verdict, fixes, and stages of a run's input pipelines, or None if it has none."""
    use = run.input_pipeline
    if use is None:
        return None
    worst, waits = use.worst, {each.host.host: each for each in input_waits(run)}
    wait = waits.get(worst.host)
    fixes = worst.fixes if wait is None or wait.verdict == "too_slow" else ()
    return to_record(
        InputPipeline,
        worst,
        verdict=worst.verdict if wait is None else wait.verdict,
        text=_text(worst, wait, run),
        fixes=tuple(to_record(InputFixRecord, f, gain_us_per_step=_gain(f, wait)) for f in fixes),
        hosts=tuple(_host(host, waits.get(host.host)) for host in use.hosts),
        stages=_stage_table(run),
        waits=_wait_table(use.hosts),
    )


def _gain(fix: InputFix, wait: InputWait | None) -> Gain:
    most_us = fix.high_ps / PS_PER_US
    high_us = most_us if wait is None else min(most_us, wait.us + wait.before_us)
    return Gain(high=round(high_us, 6), basis="input wait", note=fix.basis)


def _host(host: HostInput, wait: InputWait | None) -> InputHost:
    slow = host.slow
    return to_record(
        InputHost,
        host,
        verdict=host.verdict if wait is None else wait.verdict,
        reason=host.reason or None,
        wait_mean_us=wait and round(wait.us + wait.before_us, 6),
        wait_share=wait and wait.share,
        slow_stage=slow and slow.stage,
        slow_us=slow and us(slow.busy_ps),
    )


# --- words -----------------------------------------------------------------------------------


def _text(host: HostInput, wait: InputWait | None, run: Run) -> str:
    verdict = _verdict(host, wait, run)
    if host.fill_ps is None or not host.startup_ps:
        return verdict
    of = "" if host.fill_size is None else f" of {host.fill_size:,} elements"
    took = duration_text(host.startup_ps)
    return phrase("shuffle_filled", verdict=verdict, took=took, of=of)


def _verdict(host: HostInput, wait: InputWait | None, run: Run) -> str:
    it = "input pipeline" + (f" of {host.host}" if len(run.hosts) > 1 else "")
    if wait is None or wait.verdict == "unknown":
        waits = f" {_waited(wait)}" if wait is not None and wait.is_noticeable else ""
        reason = host.reason or "its steps are unknown"
        return f"It is unknown whether the {it} keeps up: {reason}.{waits}"
    if wait.verdict == "too_slow":
        return f"The {it} is too slow on the CPU. {_waited(wait)} {_slow(host, run)}"
    if not wait.is_noticeable:
        return f"The {it} runs on the CPU by design, and it keeps up. {_waited(wait)}"
    why = [phrase("handing_over")] if host.is_handing_over else []
    if wait.new.us >= _WORTH_NAMING * wait.us:
        why.append(phrase("new_iterators", took=quantity(wait.new.us, "us")))
    return " ".join([_waited(wait), f"No stage of the {it} is slow.", *why])


def _waited(wait: InputWait) -> str:
    """Return a sentence with the figures of the bar, and the wait that the bar does not show."""
    before = ""
    if wait.before_us >= _WORTH_NAMING * (wait.us + wait.before_us):
        before = f" ({quantity(wait.before_us, 'us')} of it before the step)"
    took = quantity(wait.us + wait.before_us, "us")
    return (
        f"A step waits {took} for input{before}, {quantity(wait.share, 'share')} of its time "
        f"(mean of {counted(wait.steps, 'step')})."
    )


def _slow(host: HostInput, run: Run) -> str:
    slow = host.slow
    if slow is None:
        return "The trace does not show which stage is slow."
    stages = run.stages[run.stages["host"].astype(str) == host.host]
    stages = stages.iloc[slow.row : slow.row + 1]
    row, (made,), (inside,) = stages.iloc[0], places(stages, run), places(stages, run, "function")
    text = f"The stage `{slow.stage}`" + (f" (made at {made})" if made else "")
    text += f" is the bottleneck: it is busy for {duration_text(slow.busy_ps)} per step, and "
    text += f"during {percent_text(slow.in_wait_share)} of the wait."
    if isinstance(row["ops"], str):
        text += f" Its function{f' at {inside}' if inside else ''} runs {row['ops']}."
    if not pd.isna(row["python_ps"]) and row["python_ps"] > 0:
        text += " It calls Python, which runs one call at a time."
    return text


# --- tables ----------------------------------------------------------------------------------


def _stage_table(run: Run) -> DataTable:
    shown = run.stages.head(_MAX_STAGES)
    times = {"request": "total", **{name: name for name in ("self", "input", "call", "python")}}
    names = shown["name"].astype(object).where(~shown["type"].isin(_WRAPPERS), None)
    is_injected = names.astype(str).str.startswith(_INJECTED)
    frame = shown.assign(
        **{f"{k}_us": shown[f"{v}_ps"].astype("Float64") / PS_PER_US for k, v in times.items()},
        name=names.mask(is_injected, "added by tf.data itself"),
        source=pd.Series(places(shown, run), shown.index, dtype=object),
        function=pd.Series(places(shown, run, "function"), shown.index, dtype=object),
    )
    return table(frame[list(_STAGE_COLUMNS)], total_rows=len(run.stages))


def _wait_table(hosts: Iterable[HostInput]) -> DataTable:
    parts = [in_us(h.waits.table.assign(host=h.host)) for h in hosts if h.waits is not None]
    if not parts:
        return DataTable(columns=_WAIT_COLUMNS, rows=(), total_rows=0)
    joined = pd.concat([part.assign(name=part["name"].astype(str)) for part in parts])
    joined["kind"] = np.where(joined["counts"], "regular", "left out")
    return table(joined[list(_WAIT_COLUMNS)], _MAX_STEPS)


def input_blocks(pipeline: InputPipeline) -> Iterator[b.Block]:
    """Yield the verdict and the table of stages, in which each stage precedes its inputs."""
    yield from (b.Note(text=(paragraph,)) for paragraph in pipeline.text.split("\n\n"))
    if not pipeline.stages.rows:
        return
    slow = {(h.host, h.slow_stage): h.slow_us for h in pipeline.hosts}
    stages = pipeline.stages.records()
    stages.sort(key=lambda s: (str(s["host"]), str(s["pipeline"]), str(s["stage"]).split("::")))
    hosts = len({stage["host"] for stage in stages}) > 1
    several = len({(stage["host"], stage["pipeline"]) for stage in stages}) > 1
    rows: list[dict[str, b.Cell]] = []
    for stage in stages[:_STAGES_SHOWN]:
        slow_us = slow.get((str(stage["host"]), str(stage["stage"])))
        place = f"{stage['host']} {stage['pipeline']}" if hosts else str(stage["pipeline"])
        row = {name: stage[name] for name in ("stage", "name", "elements", "parallelism")}
        row["work_us"] = stage["call_us"] or (None if stage["is_async"] else stage["self_us"])
        row["source"] = stage["function"] or stage["source"]
        bounds = None if slow_us is None else (time(slow_us), " a step")
        rows.append({**row, "pipeline": place if several else None, "slow": bounds})
    total, caption = pipeline.stages.total_rows, (phrase("stages"),)
    yield table_of("stages", rows, total, table_id="stages", caption=caption)
