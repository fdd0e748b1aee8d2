"""Reports written by hand, `documents/*.json` among them: what the renderings are tried on."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.report.bad_input import HOSTILE_TEXTS, with_texts
from tests.report.schema import loads
from traceanalyzer.model import (
    ExplainedShares,
    Report,
    RunInfo,
    Summary,
    Tables,
    TfVersion,
    ToolInfo,
    Unexplained,
)


@cache
def _document(name: str) -> Report:
    file = Path(__file__).with_name("documents") / f"{name}.json"
    return loads(file.read_text())


def gpu_run() -> Report:
    """A training run on a GPU with some ops on the CPU, one of them unexplained."""
    return _document("gpu")


def cpu_only_run() -> Report:
    """A run in which TensorFlow saw no GPU."""
    return _document("cpu_only")


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
