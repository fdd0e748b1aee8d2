"""Finds the limits of traces, which readers must know before they rely on a report."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias

import numpy as np

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.capture_file.recorded_run import recorded_part, were_cpus_taken
from traceanalyzer.data_files import toml
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model import Health, RuleStatus, Severity
from traceanalyzer.placement.keras import Keras
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.steps import eager_loop
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, Role
from traceanalyzer.trace.clock import LONGEST_PS
from traceanalyzer.trace.run_timeline import FORMAT as TIMELINE

_Remark: TypeAlias = tuple[Severity, str, str]  # severity, id, message

_TEXTS: Final = toml("health.toml")
_SEVERITIES: Final = ("error", "warning", "info")
_OP_LEVEL: Final = 2
_NONE: Final[Mapping[str, str]] = {}
_MANY, _LONG = 20, 2000  # number and length of the profiler's messages
_PS_PER_HOUR: Final = 3.6e15
_NEARLY_ALL: Final = 0.99  # covered by the capture file: the rest needs no warning


def trace_health(
    run: Run, outcomes: Iterable[RuleStatus] = (), failed_parts: Mapping[str, str] = _NONE
) -> tuple[Health, ...]:
    """Return the limits of the traces of a run and of its report, the most severe first.

    Args:
        run: The run.
        outcomes: What came of each cause.
        failed_parts: Parts of the report that raised an error, with the error.
    """
    found = [
        _remark("cause_failed", title=each.title, reason=each.reason)
        for each in outcomes
        if each.status == "failed"
    ]
    found += [_remark("part_failed", part=p, reason=why) for p, why in failed_parts.items()]
    found += _of_run(run)
    # What the host tracer leaves out of a TensorFlow program is not missing from these.
    skipped = "tracer_level" if compiled_ops(run) == len(run.ops) > 0 else ""
    for host in run.hosts:
        every = chain(_of_file(host), _tracers(host), _devices(host), _capture(host))
        of_host = (remark for remark in every if remark[1] != skipped)
        found += [(severity, id_, f"{host.name}: {text}") for severity, id_, text in of_host]
    found.sort(key=lambda remark: _SEVERITIES.index(remark[0]))
    return tuple(Health(severity=severity, id=id_, message=text) for severity, id_, text in found)


def compiled_ops(run: Run) -> int:
    """Return the number of ops that XLA compiled, as in JAX programs and for TPUs."""
    computing = run.ops["placement"][run.ops["role"] == Role.COMPUTE].astype(str)
    return int(computing.str.startswith(("xla", "tpu")).sum())


def _remark(case: str, **values: object) -> _Remark:
    entry, words = _TEXTS[case], {"capture": _TEXTS["capture"]}
    return entry["severity"], case.partition("/")[0], entry["message"].format(**words, **values)


def _of_run(run: Run) -> Iterator[_Remark]:
    for left_out in run.failures:
        case = "duplicate_host" if left_out.is_duplicate else "unreadable_host"
        yield _remark(case, host=left_out.host, reason=left_out.reason)
    if run.other_runs:
        yield _remark("other_runs", run=run.name, others=listed(run.other_runs))
    is_jax = any(host.tables.facts.jax_version is not None for host in run.hosts)
    is_jax = is_jax or (run.version is None and compiled_ops(run) > 0)
    mark = _TEXTS["mark_jax" if is_jax else "mark"]
    if run.steps.empty and not run.ops.empty:
        yield _remark("steps_missing", mark=mark)
    elif len(run.steps) and run.steps["is_inferred"].all():
        yield _remark("steps_inferred", mark=mark)
    if (loop := eager_loop(run.ops, run.steps)) is not None:
        at, took = f" ({loop.place})" if loop.place else "", duration_text(loop.step_ps)
        yield _remark("eager_loop", ops=counted(loop.ops, "op"), at=at, took=took)
    if run.version is None and not compiled_ops(run) == len(run.ops) > 0:
        yield _remark("tf_version_unknown")
    unknown = run.ops[(run.ops["placement"] == "unknown") & (run.ops["role"] == Role.COMPUTE)]
    if len(unknown):
        took = duration_text(int(unknown["host_self_ps"].sum()))
        yield _remark("placement_unknown", ops=counted(len(unknown), "op"), took=took)


def _of_file(host: Host) -> Iterator[_Remark]:
    trace = host.trace
    for case, texts in (("xspace_error", trace.errors), ("xspace_warning", trace.warnings)):
        distinct = list(dict.fromkeys(texts))
        if len(distinct) > _MANY:
            distinct[_MANY:] = [f"and {counted(len(distinct) - _MANY, 'other message')}"]
        yield from (_remark(case, text=text[:_LONG]) for text in distinct)
    if (damage := trace.damage) is not None:
        yield _remark(
            "damaged",
            places=counted(damage.places, "place"),
            lost=counted(damage.bytes_lost, "byte"),
            kept=counted(damage.events_kept, "event"),
        )
    if number := trace.impossible_events:
        hours = LONGEST_PS / _PS_PER_HOUR
        yield _remark("impossible_times", events=counted(number, "event"), hours=hours)
    if number := host.unnamed_events:
        yield _remark("unknown_metadata", lacking=counted(number, "event"))
    shifts = host.timeline.shifts_ps.items()
    if later := [f"{device} by {duration_text(ps)}" for device, ps in shifts if ps]:
        yield _remark("clock_skew", later=listed(later))
    if host.file is not None and host.file.note:
        yield _remark("file_note", note=host.file.note)
    if trace.format != "xplane":
        case = "reduced_format/timeline" if trace.format == TIMELINE else "reduced_format"
        yield _remark(case, format=trace.format)


def _tracers(host: Host) -> Iterator[_Remark]:
    facts = host.tables.facts
    if facts.unread_planes:
        yield _remark("planes_left_out", planes=listed(facts.unread_planes))
    yield _host_tracer(facts, has_capture_file=host.capture_file is not None)
    if facts.handed_over:
        yield _remark("eager_ops_handed_over", ops=counted(facts.handed_over, "eager op"))
    if facts.options is not None and facts.options.device_tracer_level == 0:
        yield _remark("device_tracer_off")


def _host_tracer(facts: TracerFacts, *, has_capture_file: bool) -> _Remark:
    level, is_assumed = facts.host_level, facts.host_level_source == "assumed"
    has_events = facts.has_host_plane or any(facts.accelerators.values())
    if not has_events and (has_capture_file or (level >= _OP_LEVEL and not is_assumed)):
        return _remark("no_host_events")
    if not facts.has_host_plane:
        return _remark("no_host_plane")
    known = "assumed: not in the trace" if is_assumed else f"from {facts.host_level_source}"
    case = "captured" if has_capture_file else "usual"
    case = "no_ops" if level < _OP_LEVEL else "every_op" if level >= EVERY_OP_LEVEL else case
    return _remark(f"tracer_level/{case}", tracer=f"host tracer level {level} ({known})")


def _devices(host: Host) -> Iterator[_Remark]:
    facts = host.tables.facts
    idle = [name for name, events in facts.accelerators.items() if not events]
    if facts.pluggable_used:
        yield _remark("pluggable_device")
    elif not facts.accelerators:
        case = "no_device_plane/missing" if facts.gpu_used else "no_device_plane"
        yield _remark(case, witness=facts.gpu_witness)
    elif idle:
        is_lost = facts.gpu_used and len(idle) == len(facts.accelerators)
        case = "device_plane_empty" if len(idle) == len(facts.accelerators) else "idle_devices"
        case = "device_plane_empty/unrecorded" if is_lost else case
        yield _remark(case, devices=listed(idle), witness=facts.gpu_witness)


def _capture(host: Host) -> Iterator[_Remark]:
    if problem := host.capture_file_problem:
        why = "foreign" if host.capture_file_is_foreign else "unreadable"
        yield _remark(f"capture_file_{why}", problem=problem)
    capture_file, joined = host.capture_file, host.tables.joined
    if capture_file is None:
        graphs = None if joined is None else joined.graphs
        yield from (("info", n.id, n.message) for n in (graphs.notes if graphs else ()))
        return
    if failed := failure(capture_file):
        at = f" at {failed.at}" if failed.at else ""
        yield _remark("program_failed", error=failed.error.type, at=at, said=failed.said)
    yield from _session(host, capture_file)
    is_v1 = bool(capture_file.session_configs)
    has_graph = any(is_session(function.name) for function in capture_file.functions)
    ops = host.tables.ops
    if is_v1 and not has_graph and bool((~ops["is_eager"] & ops["function"].isna()).any()):
        yield _remark("session_graphs", version=capture_file.tensorflow_version or "this version")
    for note in capture_file.notes:
        yield "warning" if note.severity == "warning" else "info", note.id, note.message
    yield from Keras(capture_file).remarks()
    yield from _covered_share(host)


def _session(host: Host, capture_file: CaptureFile) -> Iterator[_Remark]:
    if host.session is None:
        return
    session = capture_file.sessions[host.session]
    others = len([s for s in capture_file.sessions if s.trace]) - bool(session.trace)
    more = f"; other runs contain {counted(others, 'more part')}" if others > 0 else ""
    part = recorded_part(capture_file, host.session) or "a part"
    yield _remark("capture_window", part=part, reason=session.reason, more=more)
    if were_cpus_taken(session):
        yield _remark("cpus_taken", others=session.others_share, idle=session.idle_share)
    requested, effective = session.requested, host.tables.facts.options
    if requested is None or effective is None:
        return
    ignored = [
        f"{tracer} tracer level {used} instead of {wanted}"
        for tracer in ("host", "device", "python")
        if (used := getattr(effective, f"{tracer}_tracer_level"))
        != (wanted := getattr(requested, f"{tracer}_tracer_level"))
    ]
    if ignored:
        yield _remark("tracer_level_ignored", ignored=listed(ignored))


def _covered_share(host: Host) -> Iterator[_Remark]:
    joined, ops = host.tables.joined, host.tables.ops
    if joined is None:
        return
    is_counted = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    counted_ps = ops["host_self_ps"].where(is_counted, 0).to_numpy(np.float64)
    if not (total := counted_ps.sum()):
        return
    known = [(r is not None, r is not None and r.frame is not None) for r in joined.records]
    share, of_lines = counted_ps @ np.array(known) / total
    case = "unjoined/nearly_all" if share >= _NEARLY_ALL else "unjoined"
    yield _remark(case, share=share, of_lines=of_lines)
