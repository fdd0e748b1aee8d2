"""Reports written by hand, `documents/*.json` among them: what the renderings are tried on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd

from tests.report.bad_input import HOSTILE_TEXTS, with_texts
from tests.report.made_timeline import Made, MadeLane, made_timeline
from traceanalyzer.model import (
    ExplainedShares,
    PackedTable,
    Report,
    RunInfo,
    Summary,
    Table,
    Tables,
    TfVersion,
    ToolInfo,
    Unexplained,
)
from traceanalyzer.model.times import EventTimeline, IdleGap
from traceanalyzer.report import document, views
from traceanalyzer.report.ops import pack_ops

HOST = "trainer-0"
# Ops of the run on a GPU, by id and name.
PY_FUNC_ID, PY_FUNC = "a41f09c2", "augment/EagerPyFunc"
MATMUL_ID, MATMUL = "c09d5510", "model/ranker/scores/MatMul"
CONV_ID, CONV = "e6610b3a", "model/backbone/block_3/conv2d/Conv2D"
SCOPES_COLUMNS = ("parent", "name", "kind", "cpu_us", "device_us", "launch_us", "ops")


@cache
def _document(name: str) -> Report:
    """Return a document with its ops packed too, as `assemble` does."""
    file = Path(__file__).with_name("documents") / f"{name}.json"
    report = document.loads(file.read_text())
    packed = _packed_ops(report, report.tables.ops)
    return replace(report, tables=replace(report.tables, all_ops=packed))


def gpu_run() -> Report:
    """A training run on a GPU with some ops on the CPU, one of them unexplained."""
    return replace(_document("gpu"), trace=_gpu_trace())


def cpu_only_run() -> Report:
    """A run in which TensorFlow saw no GPU."""
    return _document("cpu_only")


def _packed_ops(report: Report, ops: Table) -> PackedTable:
    """Packs rows of ops, with the causes that the report's findings give them."""
    frame = pd.DataFrame(ops.records(), columns=[*ops.columns], dtype=object)
    found = views.explanations(report)
    unexplained = {op.op_id for op in report.unexplained.ops}
    for name in ("cause", "certainty", "findings"):
        frame[name] = pd.Series("", index=frame.index, dtype=object)  # a lone surrogate is no str
    for row, op_id in enumerate(frame["op_id"]):
        told = found.get(op_id, [])
        causes = [
            f"{'dragged_along_by_' if e.dragged_along else ''}{e.finding.cause}" for e in told
        ]
        if not told and op_id in unexplained:
            causes = ["unexplained"]
        frame.loc[row, "cause"] = " | ".join(causes)
        frame.loc[row, "certainty"] = " | ".join(e.finding.certainty for e in told)
        frame.loc[row, "findings"] = " | ".join(e.finding.id for e in told)
    places = [
        file if file is None or line is None else f"{file}:{line}"
        for file, line in zip(frame["source_file"], frame["source_line"], strict=True)
    ]
    frame["source"] = pd.Series(places, index=frame.index, dtype=object)
    for name in ("is_eager", "in_input_pipeline"):
        frame[name] = frame[name].map({True: "yes", False: "no"})
    frame["role"] = "compute"
    frame["host_nested_us"] = frame["host_total_us"] - frame["host_self_us"]
    return pack_ops(frame, ops.total_rows)


@cache
def _gpu_trace() -> EventTimeline:
    """Forty steps: the GPU waits for a Python function in the middle of each."""
    steps: list[Made] = []
    kernels: list[Made] = []
    copies: list[Made] = []
    python: list[Made] = []
    threads: list[Made] = []
    input_: list[Made] = []
    for index in range(40):
        at = 14_100.0 * index
        steps.append(Made(at, 14_021.5, f"train {index}", "step"))
        kernels += [Made(at + 200 + 60 * k, 55, CONV, "compute", CONV_ID) for k in range(100)]
        kernels.append(Made(at + 9_000, 4_000, CONV, "compute", CONV_ID))
        copies.append(Made(at + 6_250, 400, "copy, device to host", "copy", PY_FUNC_ID))
        python.append(Made(at + 100, 13_000, None, "call"))
        threads += [
            Made(at + 150, 6_000, None, "runtime", count=7),
            Made(at + 6_700, 2_114, PY_FUNC, "host_op", PY_FUNC_ID, "f3a91c07"),
            Made(at + 8_850, 120, MATMUL, "host_op", MATMUL_ID, "0be77d52"),
        ]
        input_.append(Made(at + 2_000, 7_000, "Iterator::Root::Prefetch", "input"))
    gaps = [
        IdleGap(
            host=HOST,
            device="/device:GPU:0",
            start_us=14_100.0 * index + 6_650,
            duration_us=2_350 - index,
            step=f"train {index}",
            phase="host_op",
            phase_us=2_114,
            op_id=PY_FUNC_ID,
            op=PY_FUNC,
            finding_id="f3a91c07",
            before="copy, device to host",
            after=CONV,
        )
        for index in range(30)
    ]
    gpu = "/device:GPU:0"
    return made_timeline(
        (
            MadeLane(HOST, "train", "steps", steps),
            MadeLane(HOST, "Stream #13(Compute)", "stream", kernels, gpu),
            MadeLane(HOST, "Stream #14(MemcpyD2H)", "stream", copies, gpu),
            MadeLane(HOST, "python", "thread", python, is_program=True),
            MadeLane(HOST, "tf_Compute/2087", "thread", threads),
            MadeLane(HOST, "tf_data_iterator_resource/2101", "thread", input_),
        ),
        gaps,
    )


def empty_run() -> Report:
    """A trace with no op, no step and no device in it."""
    return Report(
        tool=ToolInfo(version="0.1.0"),
        run=RunInfo(
            name="empty",
            path_name="empty.xplane.pb",
            hosts=(),
            tf_version=TfVersion(value=None, source=None),
            duration_us=None,
            steps=None,
            devices=(),
        ),
        health=(),
        summary=Summary(
            verdict="The trace holds no TensorFlow op.",
            cpu_ops=0,
            cpu_op_us=0.0,
            explained=ExplainedShares(certain=None, likely=None, possible=None),
            explained_share=None,
            gpu_idle_share=None,
            step_us=None,
            exposed_us_per_step=None,
        ),
        findings=(),
        unexplained=Unexplained(cpu_op_us=0.0, ops=()),
        rules=(),
        tables=Tables(
            **{
                name: replace(getattr(_document("gpu").tables, name), rows=(), total_rows=0)
                for name in ("ops", "copies", "steps", "kernels")
            }
        ),
    )


@cache
def hostile_run() -> Report:
    """The GPU run, each text in it replaced by something that tries to act, or will not fit."""
    return with_texts(gpu_run(), *HOSTILE_TEXTS.values())


EXAMPLES = {
    "gpu": gpu_run,
    "cpu_only": cpu_only_run,
    "empty": empty_run,
    "hostile": hostile_run,
}
