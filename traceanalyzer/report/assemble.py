"""Diagnosis to Report: figures are counted and rows are cut here, and nowhere later."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.diagnosis import cpu_ops
from traceanalyzer.format import size_text
from traceanalyzer.health import trace_health
from traceanalyzer.model import (
    DeviceInfo,
    ExplainedShares,
    Finding,
    OnAGpu,
    OpRef,
    Report,
    RuleStatus,
    RunInfo,
    Steps,
    StepTime,
    Summary,
    Table,
    Tables,
    TfVersion,
    ToolInfo,
    Unexplained,
    UnexplainedOp,
)
from traceanalyzer.native.events import sum_by
from traceanalyzer.report.beliefs import beliefs
from traceanalyzer.report.copies import copy_graph
from traceanalyzer.report.costs import copies_of_unknown_size, gain, joint_cost, op_cost, path_us
from traceanalyzer.report.events import event_timeline
from traceanalyzer.report.input_pipeline import input_pipeline
from traceanalyzer.report.islands import islands
from traceanalyzer.report.memory import memory
from traceanalyzer.report.ops import all_ops, dearest_ops
from traceanalyzer.report.origin import command, host_tracer_level, recorded_at
from traceanalyzer.report.scopes import scopes
from traceanalyzer.report.sources import evidence_shown, line_texts, shown_files
from traceanalyzer.report.steps import steps_of
from traceanalyzer.report.timeline import critical_paths, idle_share, timeline
from traceanalyzer.report.verdict import Shown, verdict
from traceanalyzer.report.views import ranked
from traceanalyzer.tables.tracer import logical_devices
from traceanalyzer.timeline.device_work import durations
from traceanalyzer.timeline.intervals import union
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer import findings
    from traceanalyzer.costs import Costs
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Host, Run

__all__ = ["assemble"]

_MAX_OPS: Final = 500  # ops of a finding
_BULK_BYTES: Final = 3_200_000  # of what is packed: the page has 5 MB for everything
_MAX_ROWS: Final = 500  # rows of the other tables, and edges of the copy graph


def assemble(diagnosis: Diagnosis) -> Report:
    """Build the report of a diagnosed run."""
    run = diagnosis.run
    devices = _devices(run)
    steps = steps_of(run)
    findings = ranked(_finding(f, run, diagnosis.costs) for f in diagnosis.findings)
    titles = {cause.id: cause.title for cause in all_causes()}
    searched = all_ops(diagnosis)
    times = timeline(run)
    left_bytes = _BULK_BYTES - (0 if searched is None else len(searched.data))
    return Report(
        tool=ToolInfo(version=version("traceanalyzer")),
        run=_run_info(run, devices, steps),
        health=trace_health(run),
        summary=_summary(diagnosis, idle_share(times, devices), steps, findings),
        findings=findings,
        unexplained=_unexplained(diagnosis),
        rules=tuple(
            RuleStatus(cause=o.cause, status=o.status, reason=o.reason, title=titles.get(o.cause))
            for o in diagnosis.outcomes
        ),
        on_a_gpu=_on_a_gpu(diagnosis),
        steps=steps,
        timeline=times,
        scopes=scopes(run),
        critical_path=critical_paths(diagnosis.costs),
        copy_graph=copy_graph(run),
        islands=islands(diagnosis, partial(_refs_of, run)),
        islands_total=len(run.transfer_costs.round_trips),
        memory=memory(run),
        input_pipeline=input_pipeline(run),
        beliefs=beliefs(run),
        trace=event_timeline(diagnosis, left_bytes),
        tables=Tables(
            ops=_op_table(run),
            all_ops=searched,
            copies=_copy_table(run),
            steps=_cut(_in_us(run.steps, _origin(run)), _MAX_ROWS),
            kernels=_kernel_table(run.kernels),
        ),
    )


def _run_info(run: Run, devices: tuple[DeviceInfo, ...], steps: Steps) -> RunInfo:
    return RunInfo(
        name=run.name,
        path_name=run.path_name,
        hosts=tuple(h.name for h in run.hosts),
        tf_version=TfVersion(
            value=run.version.value if run.version else None,
            source=run.version.source if run.version else None,
        ),
        duration_us=run.duration_ps / PS_PER_US,
        steps=steps.count or None,
        devices=devices,
        command=command(run),
        recorded_at=recorded_at(run),
        host_tracer_level=host_tracer_level(run),
    )


def _devices(run: Run) -> tuple[DeviceInfo, ...]:
    return tuple(device for host in run.hosts for device in _host_devices(run, host))


def _host_devices(run: Run, host: Host) -> Iterable[DeviceInfo]:
    several = len(run.hosts) > 1
    kernels, copies = host.tables.kernels, host.tables.transfers
    for name in host.tables.facts.accelerators:
        ran = (kernels["device"] == name).to_numpy()
        copied = (copies["device"] == name).to_numpy()
        start_ps = [t["start_ps"].to_numpy(np.int64) for t in (kernels, copies)]
        took_ps = [durations(t) for t in (kernels, copies)]
        busy = union(
            np.concatenate([start_ps[0][ran], start_ps[1][copied]]),
            np.concatenate([took_ps[0][ran], took_ps[1][copied]]),
        ).total_ps
        yield DeviceInfo(
            name=f"{host.name} {name}" if several else name,
            kind="tpu" if "TPU" in name else "gpu",
            model=_recorded_model(host, name) or _model(host.device_properties.get(name, {})),
            kernels=int(ran.sum()),
            busy_us=busy / PS_PER_US,
            busy_share=busy / run.duration_ps if run.duration_ps else None,
        )
    facts = host.tables.facts
    if facts.pluggable_used:
        yield DeviceInfo(name=f"{host.name} pluggable device", kind="pluggable")
    yield from _unseen_gpus(host, several=several)
    told = {str(d) for d in host.tables.ops["device"].dropna() if "/device:CPU:" in str(d)}
    # A short name is one of the full names there are: eager ops are recorded with either.
    full = {name[name.rfind("/device:") :] for name in told if not name.startswith("/device:")}
    for name in sorted(told - full) or ["CPU"]:
        yield DeviceInfo(name=f"{host.name} {name}", kind="cpu")


def _unseen_gpus(host: Host, *, several: bool) -> Iterable[DeviceInfo]:
    """Name the GPUs that TensorFlow had, by the capture's list, without a plane in the trace."""
    listed = (logical_devices(host.capture_file) if host.capture_file else None) or ()
    for device in listed:
        name = device[device.rfind("/device:") :]
        if name.startswith("/device:GPU:") and name not in host.tables.facts.accelerators:
            yield DeviceInfo(
                name=f"{host.name} {name}" if several else name,
                kind="gpu",
                model=_recorded_model(host, name),
            )


def _recorded_model(host: Host, plane: str) -> str | None:
    """Return what TensorFlow called a GPU, where a capture asked it."""
    devices = (host.capture_file.devices if host.capture_file else None) or {}
    details = devices.get("details")
    physical = plane.replace("/device:", "/physical_device:")
    told = details.get(physical) if isinstance(details, dict) else None
    model = told.get("device_name") if isinstance(told, dict) else None
    return model if isinstance(model, str) else None


def _model(properties: dict[str, str]) -> str | None:
    """Describe a device as far as its plane does; the model itself is mostly not told."""
    for stat in ("gpu_device_name", "device_type_string"):
        if properties.get(stat):
            return properties[stat]
    parts = []
    if vendor := properties.get("device_vendor"):
        parts.append(vendor)
    if "compute_cap_major" in properties:
        minor = properties.get("compute_cap_minor", "0")
        parts.append(f"compute capability {properties['compute_cap_major']}.{minor}")
    if cores := properties.get("core_count"):
        parts.append(f"{cores} multiprocessors")
    if (memory := properties.get("memory_size", "")).isdecimal():
        parts.append(f"{size_text(int(memory))} of memory")
    return ", ".join(parts) or None


def _summary(
    diagnosis: Diagnosis,
    gpu_idle_share: float | None,
    steps: Steps,
    findings: tuple[Finding, ...],
) -> Summary:
    run = diagnosis.run
    on_cpu = cpu_ops(run)
    total_ps = int(on_cpu["host_self_ps"].sum())
    level = on_cpu["op_id"].map(diagnosis.explained)

    def share(certainty: str) -> float | None:
        part = int(on_cpu.loc[level == certainty, "host_self_ps"].sum())
        return part / total_ps if total_ps else None

    shares = {c: share(c) for c in ("certain", "likely", "possible")}
    known = [shares["certain"], shares["likely"]]
    exposed = diagnosis.costs.exposed_ps(on_cpu["op_id"])
    return Summary(
        verdict=verdict(
            diagnosis,
            Shown(
                run=run,
                on_cpu=on_cpu,
                explained=shares,
                findings=findings,
                exposed_ps=exposed,
                step_ps=diagnosis.costs.step_ps(),
            ),
        ),
        cpu_ops=len(on_cpu),
        cpu_op_us=total_ps / PS_PER_US,
        explained=ExplainedShares(**shares),
        explained_share=sum(s for s in known if s is not None)
        if run.gpu_used and total_ps
        else None,
        gpu_idle_share=gpu_idle_share,
        step_us=None
        if steps.median_us is None
        else StepTime(median=steps.median_us, p95=steps.p95_us),
        exposed_us_per_step=None if exposed is None else exposed / PS_PER_US,
    )


def _finding(
    found: findings.Finding, run: Run, costs: Costs, *, is_measured: bool = True
) -> Finding:
    rows = run.ops[run.ops["op_id"].isin(found.op_ids)]
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable")
    return Finding(
        id=found.id,
        cause=found.cause,
        sub_reason=found.sub_reason,
        certainty=found.certainty,
        harm=found.harm,
        title=found.title,
        why=found.why,
        modifiers=found.modifiers,
        ops=tuple(OpRef(**ref) for ref in _refs(rows.head(_MAX_OPS), run)),
        ops_total=len(rows),
        dragged_along=tuple(OpRef(**ref) for ref in _refs(_dearest(found.dragged_along, run), run)),
        blockers=tuple(
            replace(b, evidence=evidence_shown(b.evidence, run)) for b in found.blockers
        ),
        evidence=evidence_shown(found.evidence, run),
        ruled_out=found.ruled_out,
        fixes=found.fixes,
        cost=joint_cost(rows, run.transfers, costs),
        # The bounds are those of moving ops to a device. What is by design, and a pipeline that is
        # too slow, is not mended so: the latter's own section says what helps, and what it gains.
        gain_us_per_step=None
        if not is_measured or found.harm == "by_design" or rows["in_input_pipeline"].all()
        else gain(found.op_ids, costs),
        path_us_per_step=path_us(found.op_ids, costs) if is_measured else None,
    )


def _dearest(op_ids: Sequence[str], run: Run) -> pd.DataFrame:
    rows = run.ops[run.ops["op_id"].isin(op_ids)]
    return rows.sort_values("host_self_ps", ascending=False, kind="stable").head(_MAX_OPS)


def _on_a_gpu(diagnosis: Diagnosis) -> OnAGpu | None:
    assumed = diagnosis.on_a_gpu
    if assumed is None:
        return None
    run = diagnosis.run
    rows = _dearest(assumed.unexplained, run)
    unmeasured = copies_of_unknown_size(run.transfers)
    return OnAGpu(
        assumed=assumed.assumption,
        findings=ranked(
            _finding(f, run, diagnosis.costs, is_measured=False) for f in assumed.findings
        ),
        unexplained=Unexplained(
            cpu_op_us=int(rows["host_self_ps"].sum()) / PS_PER_US,
            ops=tuple(
                UnexplainedOp(**ref, cost=op_cost(rows.iloc[k : k + 1], unmeasured, None))
                for k, ref in enumerate(_refs(rows, run))
            ),
            ops_total=len(assumed.unexplained),
        ),
        program_differs=assumed.program_differs,
        replayed=assumed.replayed,
        not_replayed=len(assumed.not_replayed),
    )


def _refs(rows: pd.DataFrame, run: Run) -> list[dict[str, Any]]:
    columns = ("op_id", "name", "type", "host", "placement")
    return [
        dict(zip(columns, values, strict=True)) | {"file": file, "line": line, "source": source}
        for values, file, line, source in zip(
            rows[list(columns)].itertuples(index=False),
            shown_files(rows["source_file"], run),
            rows["source_line"],
            line_texts(rows, run),
            strict=True,
        )
    ]


def _refs_of(run: Run, op_ids: Sequence[str]) -> tuple[OpRef, ...]:
    """Name ops in the order of their ids."""
    rows = run.ops[run.ops["op_id"].isin(op_ids)]
    named = {ref["op_id"]: OpRef(**ref) for ref in _refs(rows, run)}
    return tuple(named[op_id] for op_id in op_ids)


def _unexplained(diagnosis: Diagnosis) -> Unexplained:
    left = diagnosis.unexplained
    candidates = Candidates(diagnosis.run)
    shown = left.head(_MAX_OPS)
    unmeasured = copies_of_unknown_size(diagnosis.run.transfers)
    # A capture that is there would tell no more if it were made again.
    captured = {h.name for h in diagnosis.run.hosts if h.capture_file is not None}
    recorded = [str(host) in captured for host in shown["host"]]
    return Unexplained(
        cpu_op_us=int(left["host_self_ps"].sum()) / PS_PER_US,
        ops=tuple(
            UnexplainedOp(
                **ref,
                occurrences=int(shown["occurrences"].iloc[k]),
                cost=op_cost(shown.iloc[k : k + 1], unmeasured, diagnosis.costs),
                candidates=candidates.of(diagnosis.cpu_ops.get(shown["op_id"].iloc[k])),
                settled_by=None if recorded[k] else SETTLED_BY,
            )
            for k, ref in enumerate(_refs(shown, diagnosis.run))
        ),
        ops_total=len(left),
    )


def _op_table(run: Run) -> Table:
    return _table(_in_us(dearest_ops(run)), len(run.ops))


def _copy_table(run: Run) -> Table:
    """Aggregate the copy table by direction, memory and ends."""
    copies = run.transfers
    keys = ["direction", "memory", "producer_name", "consumer_name", "device"]
    texts = copies[keys].astype(object)
    table = texts.where(texts.notna(), None).assign(
        bytes=copies["bytes"], copy_ps=copies["duration_ps"], count=1
    )
    if table.empty:
        return Table(columns=(*keys, "count", "bytes", "copy_us"), rows=(), total_rows=0)
    sums = table.groupby(keys, dropna=False, sort=True).sum(min_count=1).reset_index()
    sums = sums[[*keys, "count", "bytes", "copy_ps"]]
    order = (
        sums[["bytes", "count"]]
        .fillna(0)
        .sort_values(["bytes", "count"], ascending=False, kind="stable")
    )
    return _cut(_in_us(sums.loc[order.index]), _MAX_ROWS)


def _kernel_table(kernels: pd.DataFrame) -> Table:
    """Aggregate the kernel table by kernel, op and device."""
    keys = ["name", "op_id", "op", "device"]
    if kernels.empty:  # an empty group has lost its dtypes
        return Table(columns=(*keys, "count", "duration_us"), rows=(), total_rows=0)
    codes = [kernels[key].cat.codes.to_numpy(np.int64) for key in keys]
    group = np.zeros(len(kernels), np.int64)
    for of_key in codes:  # two codes become one, which is again less than the number of rows
        group, _ = pd.factorize(group * (int(of_key.max()) + 2) + of_key + 1)
    took_ps = sum_by(group, kernels["duration_ps"].to_numpy(np.int64), int(group.max()) + 1)
    first = np.empty(len(took_ps), np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]
    order = np.lexsort((*(of_key[first] for of_key in reversed(codes)), -took_ps))[:_MAX_ROWS]
    sums: dict[str, object] = {}
    for key, of_key in zip(keys, codes, strict=True):
        categories = np.array([*kernels[key].cat.categories, None], dtype=object)
        sums[key] = categories[of_key[first[order]]]
    sums["count"] = np.bincount(group)[order]
    sums["duration_ps"] = took_ps[order]
    return _table(_in_us(pd.DataFrame(sums)), len(took_ps))


def _origin(run: Run) -> int:
    return min((h.start_ps for h in run.hosts), default=0)


def _in_us(table: pd.DataFrame, origin_ps: int = 0) -> pd.DataFrame:
    """Turn the columns in picoseconds into microseconds, starts counted from `origin_ps`."""
    out = {}
    for name in table.columns:
        if str(name).endswith("_ps"):
            column = table[name] - origin_ps if name == "start_ps" else table[name]
            out[f"{str(name).removesuffix('_ps')}_us"] = column / PS_PER_US
        else:
            out[str(name)] = table[name]
    return pd.DataFrame(out)


def _cut(table: pd.DataFrame, rows: int) -> Table:
    return _table(table.head(rows), len(table))


def _table(shown: pd.DataFrame, total: int) -> Table:
    plain = shown.astype(object).where(shown.notna(), None)
    rows: Sequence[Sequence[object]] = plain.to_numpy(dtype=object).tolist()
    return Table(
        columns=tuple(str(c) for c in shown.columns),
        rows=tuple(tuple(row) for row in rows),  # type: ignore[arg-type]
        total_rows=total,
    )
