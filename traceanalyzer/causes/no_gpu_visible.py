"""TensorFlow used no GPU."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile, line_text
from traceanalyzer.capture_file.visibility import (
    Obstacle,
    obstacles,
    of_the_program,
    ran_in_sessions_alone,
    saw_no_gpu,
)
from traceanalyzer.causes._cause import finding, fix
from traceanalyzer.causes.knowledge.advice import read
from traceanalyzer.causes.knowledge.caught_errors import raised_evidence
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.findings import CERTAINTIES, Finding
from traceanalyzer.format import counted, series
from traceanalyzer.model import Evidence, Fix, TraceWhere
from traceanalyzer.placement.by_registry import coverage_text
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObstacleText:
    """The text about an obstacle; see `data/gpu_obstacles.toml` for the fields."""

    reason: str
    title: str
    where: str
    fix: Fix
    source: str
    possible: str = ""


_OBSTACLES: Final = {each.reason: each for each in read("gpu_obstacles", _ObstacleText)}
_LOGICAL_DEVICES: Final = observed(
    "devices", "in the program, tf.config.list_logical_devices() found no GPU", "devices.logical"
)
_LISTED_DEVICES: Final = observed(
    "devices", "in the program, tf.config.list_physical_devices() found no GPU", "devices.physical"
)
_DESCRIBED: Final = (
    " The profiler found a GPU, so the machine has one and its driver responds, but TensorFlow "
    "did not use it. Perhaps CUDA libraries could not be loaded, or the GPU is hidden."
)
_NO_GPU_PLANE: Final = "the trace has no GPU plane, and no transfer or allocation names a GPU"
_MAY_BE_MISSED: Final = "the GPU tracer was off or reported an error, so it may have missed a GPU"


def not_applicable(run: Run) -> str | None:
    if run.gpu_used:
        return "TensorFlow used a GPU"
    facts = [host.tables.facts for host in run.hosts]
    if any(f.pluggable_used for f in facts):
        return "the run used a pluggable device"
    if any("/device:TPU" in name for f in facts for name in f.accelerators):
        return "the run used TPUs"
    is_known = _lacking(run) or _listed_only(run)
    return "no op was recorded" if run.ops.empty and not is_known else None


def check(run: Run) -> Iterator[Finding]:
    ops, captured, lacking = run.ops, [c for _, c in run.captured], _lacking(run)
    is_cpu_op = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    found = ops[is_cpu_op & ~ops["type"].isin(PYTHON_CALLBACKS)]
    if found.empty and not lacking and not _listed_only(run):
        return
    if len(captured) == len(run.hosts) and all(saw_no_gpu(c) or c in lacking for c in captured):
        yield _by_captures(tuple(found["op_id"]), captured)
    elif not found.empty:
        yield _by_trace(run, found)


def _lacking(run: Run) -> list[CaptureFile]:
    return [c for _, c in run.captured if (failed := failure(c)) is not None and failed.missing]


def _listed_only(run: Run) -> bool:
    captured = [capture_file for _, capture_file in run.captured]
    return run.ops.empty and bool(captured) and all(map(saw_no_gpu, captured))


def _by_trace(run: Run, found: pd.DataFrame) -> Finding:
    evidence = []
    for host in run.hosts:
        facts = host.tables.facts
        described = [(n, counted(events, "event")) for n, events in facts.accelerators.items()]
        seen = [
            ("device_plane", name, f"the profiler found {name} and recorded {events} on it")
            for name, events in described
        ] or [("device_plane", "/host:CPU", _NO_GPU_PLANE)]
        if facts.gpu_may_be_missed:
            seen.append(("tracer", "Task Environment", _MAY_BE_MISSED))
        for kind, plane, text in seen:
            where = TraceWhere(host=host.name, plane=plane, line=None)
            evidence.append(Evidence(kind=kind, text=text, where=where))
    coverage = observed("kernel_registry", coverage_text(found, run.tensorflow_version))
    is_described = any(host.tables.facts.accelerators for host in run.hosts)
    may_be_missed = any(host.tables.facts.gpu_may_be_missed for host in run.hosts)
    ask, variable = fix("no_gpu_visible/ask"), fix("no_gpu_visible/variable")
    return finding(
        f"no_gpu_visible/{'gpu_may_be_missed' if may_be_missed else ''}",
        (ask, _OBSTACLES["cpu_only_build"].fix, variable),
        {"described": _DESCRIBED if is_described else ""},
        sub_reason="gpu_described_but_unused" if is_described else None,
        scope="",
        certainty="possible" if may_be_missed else "likely",
        op_ids=tuple(found["op_id"]),
        evidence=(*evidence, coverage),
    )


def _by_captures(op_ids: tuple[str, ...], captured: Sequence[CaptureFile]) -> Finding:
    every = dict.fromkeys(o for capture_file in captured for o in obstacles(capture_file))
    # A program may hide GPUs because there are none: without a known GPU, that is not the cause.
    has_gpu = any(capture_file.gpus for capture_file in captured)
    known = sorted(every, key=lambda o: is_doubtful(o) and not has_gpu)
    sub_reason, title = None, "TensorFlow had no GPU: every op ran on the CPU"
    if proved := [o for o in known if has_gpu or not is_doubtful(o)]:
        sub_reason = proved[0].reason
        titles = [f"{o.title or _OBSTACLES[o.reason].title}{_at(o)}" for o in proved]
        title = f"TensorFlow had no GPU: {series(list(dict.fromkeys(titles)))}"
    fixes = [obstacle_fix(o) for o in known] or [fix("no_gpu_visible/ask")]
    errors: list[Evidence] = []
    for capture_file in captured:
        failed = failure(capture_file)
        if failed is None or not failed.missing:
            continue
        sub_reason = "gpu_required"
        title = f"The program failed{f' at {failed.at}' if failed.at else ''}: {failed.requires}"
        errors.append(raised_evidence(capture_file, failed.error, failed.said))
        if failed.is_strict:
            fixes.insert(0, fix("no_gpu_visible/soft_placement"))
    devices = () if all(map(ran_in_sessions_alone, captured)) else (_LOGICAL_DEVICES,)
    if not any((capture_file.devices or {}).get("context_made") for capture_file in captured):
        devices = devices and (_LISTED_DEVICES,)
    return finding(
        "no_gpu_visible/recorded",
        dict.fromkeys(fixes),
        {"title": title},
        sub_reason=sub_reason,
        scope="",
        certainty="certain",
        op_ids=op_ids,
        evidence=(*errors, *devices, *_evidence(known)),
    )


def hidden_there(op_ids: tuple[str, ...], capture_files: Iterable[CaptureFile]) -> Finding | None:
    """Return the finding, if any, that the program itself hides the GPU on any machine."""
    known = dict.fromkeys(o for c in capture_files for o in of_the_program(c))
    if not known:
        return None
    first = min(known, key=lambda o: CERTAINTIES.index(o.certainty or "possible"))
    text, is_certain = _OBSTACLES[first.reason], first.certainty == "certain"
    return finding(
        "no_gpu_visible/on_a_gpu_machine",
        dict.fromkeys(map(obstacle_fix, known)),
        {
            "modal": "would" if is_certain else "may",
            "hides": text.title if is_certain else text.possible,
            "at": _at(first),
            "proviso": first.proviso or "It does so on every machine.",
        },
        sub_reason=first.reason,
        scope="on a GPU machine",
        certainty=first.certainty or "possible",
        op_ids=op_ids,
        evidence=_evidence(known),
    )


def is_doubtful(obstacle: Obstacle) -> bool:
    """Return whether the program may leave the GPU visible on a machine that has one."""
    return bool(obstacle.proviso) and obstacle.frame is not None


def obstacle_fix(obstacle: Obstacle) -> Fix:
    """Return the change to make, with the program's own line if it is known."""
    frame, fix = obstacle.frame, obstacle.fix or _OBSTACLES[obstacle.reason].fix
    if frame is None:
        return fix
    if obstacle.proviso:
        return Fix.of(f"Check that {line_text(frame)} leaves a GPU visible", code=frame.text)
    return replace(fix, text=f"Remove {line_text(frame)}, which hides the GPU.", code=frame.text)


def _at(obstacle: Obstacle) -> str:
    return "" if obstacle.frame is None else f" ({line_text(obstacle.frame)})"


def _evidence(known: Iterable[Obstacle]) -> tuple[Evidence, ...]:
    return tuple(
        observed(
            o.reason,
            o.text,
            "machine_obstacles" if o.fix is not None else _OBSTACLES[o.reason].where,
            line=o.frame,
        )
        for o in known
    )
