"""What limits a trace: everything a reader must know before believing the rest."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model import Health
from traceanalyzer.placement.keras import Keras
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.tables.steps import eager_loop
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, Role
from traceanalyzer.trace.clock import LONGEST_PS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.model import Severity
    from traceanalyzer.run import Host, Run
    from traceanalyzer.tables.recording import TracerFacts

    _Remark: TypeAlias = tuple[Severity, str, str]  # severity, id, message

_SEVERITIES: Final = ("error", "warning", "info")
_OP_LEVEL: Final = 2
_MANY, _LONG = 20, 2000  # number and length of the profiler's messages
_PS_PER_HOUR: Final = 3.6e15
_NEARLY_ALL: Final = 0.99  # covered by the capture file: the rest needs no warning
_MARK_STEPS: Final = (
    "to mark a step, wrap it in tf.profiler.experimental.Trace('train', step_num=i, _r=1)"
)
_CAPTURE: Final = "`traceanalyzer capture script.py`"


def trace_health(run: Run) -> tuple[Health, ...]:
    """Return what limits the traces of a run, the most severe first."""
    found = list(_of_run(run))
    for host in run.hosts:
        of_host = chain(_of_file(host), _tracers(host), _devices(host), _capture(host))
        found += [(severity, id_, f"{host.name}: {text}") for severity, id_, text in of_host]
    found.sort(key=lambda remark: _SEVERITIES.index(remark[0]))
    return tuple(Health(severity=severity, id=id_, message=text) for severity, id_, text in found)


def _of_run(run: Run) -> Iterator[_Remark]:
    for left_out in run.failures:
        if left_out.is_duplicate:
            yield "warning", "duplicate_host", f"{left_out.host}: {left_out.reason}"
        else:
            text = f"{left_out.host}: the trace could not be read: {left_out.reason}"
            yield "error", "unreadable_host", text
    if run.other_runs:
        others = listed(run.other_runs)
        text = f"this is the run {run.name}; `--run` selects another: {others}"
        yield "info", "other_runs", text
    if run.steps.empty and not run.ops.empty:
        text = f"the trace marks no steps, so there are no figures per step; {_MARK_STEPS}"
        yield "warning", "steps_missing", text
    elif len(run.steps) and run.steps["is_inferred"].all():
        text = f"the trace marks no steps, so they are inferred from what repeats; {_MARK_STEPS}"
        yield "info", "steps_inferred", text
    loop = eager_loop(run.ops, run.steps)
    if loop is not None:
        place = f" ({loop.place})" if loop.place else ""
        text = (
            f"each step runs {counted(loop.ops, 'op')} one by one from Python{place} and takes "
            f"{duration_text(loop.step_ps)}; in a function decorated with @tf.function, TensorFlow "
            "runs a step as one graph, which saves the time of Python between the ops, but rarely "
            "changes the device of an op"
        )
        yield "info", "eager_loop", text
    if run.version is None:
        text = (
            "the version of TensorFlow is unknown, because no events file with a graph lies beside "
            f"the profile; {_CAPTURE} records it"
        )
        yield "info", "tf_version_unknown", text
    unknown = run.ops[(run.ops["placement"] == "unknown") & (run.ops["role"] == Role.COMPUTE)]
    if len(unknown):
        self_time = duration_text(int(unknown["host_self_ps"].sum()))
        text = (
            f"the trace does not show where {counted(len(unknown), 'op')} ran ({self_time} on host "
            "threads), so they are not counted as CPU ops"
        )
        yield "warning", "placement_unknown", text


def _of_file(host: Host) -> Iterator[_Remark]:
    reported: tuple[tuple[Severity, str, tuple[str, ...]], ...] = (
        ("error", "xspace_error", host.trace.errors),
        ("warning", "xspace_warning", host.trace.warnings),
    )
    for severity, id_, texts in reported:
        distinct = list(dict.fromkeys(texts))
        if len(distinct) > _MANY:
            distinct[_MANY:] = [f"and {counted(len(distinct) - _MANY, 'other message')}"]
        for text in distinct:
            yield severity, id_, f"the profiler reported: {text[:_LONG]}"
    if (damage := host.trace.damage) is not None:
        text = (
            f"the file is damaged in {counted(damage.places, 'place')}: "
            f"{counted(damage.bytes_lost, 'byte')} could not be read, "
            f"{counted(damage.events_kept, 'event')} could; record again for a complete trace"
        )
        yield "error", "damaged", text
    if number := host.trace.impossible_events:
        text = (
            f"{counted(number, 'event')} left out, as their durations are negative "
            f"or their times more than {LONGEST_PS / _PS_PER_HOUR:.0f} hours away from the rest of "
            "the trace; the file is damaged or its writer has a bug, so record again"
        )
        yield "error", "impossible_times", text
    unnamed = [(host.unnamed_events, "event"), (host.unnamed_stats, "stat")]
    if lacking := " and ".join(counted(number, noun) for number, noun in unnamed if number):
        text = (
            f"{lacking} without a name in the file, so figures of ops can be too low: kernels "
            "without a name belong to no op, and host events and stats without one are ignored"
        )
        yield "warning", "unknown_metadata", text
    later = [f"{d} by {duration_text(ps)}" for d, ps in host.timeline.shifts_ps.items() if ps]
    if later:
        text = (
            "the clocks of devices are early: work begins before its launch; their times are moved "
            f"later: {listed(later)}"
        )
        yield "info", "clock_skew", text
    if host.file is not None and host.file.note:
        yield "warning", "file_note", host.file.note
    if host.trace.format != "xplane":
        text = (
            f"read from {host.trace.format}, which lacks allocations, launch details and events "
            "without a duration, so figures can be too low; an .xplane.pb file has everything"
        )
        yield "warning", "reduced_format", text


def _tracers(host: Host) -> Iterator[_Remark]:
    facts = host.tables.facts
    if facts.unread_planes:
        text = f"not analyzed, as no table covers it: {listed(facts.unread_planes)}"
        yield "warning", "planes_left_out", text
    yield _host_tracer(facts, has_capture_file=host.capture_file is not None)
    if facts.handed_over:
        text = (
            f"TensorFlow ran {counted(facts.handed_over, 'eager op')} asynchronously, so their "
            "host time is the time to enqueue them (in older traces, also the time to run them); "
            "tf.config.experimental.set_synchronous_execution(True) shows how long each takes"
        )
        yield "warning", "eager_ops_handed_over", text
    if facts.options is not None and facts.options.device_tracer_level == 0:
        text = (
            "the device tracer was off, so GPU work is not in the trace; record again with "
            "device_tracer_level=1"
        )
        yield "warning", "device_tracer_off", text


def _host_tracer(facts: TracerFacts, *, has_capture_file: bool) -> _Remark:
    level, is_assumed = facts.host_level, facts.host_level_source == "assumed"
    has_events = facts.has_host_plane or any(facts.accelerators.values())
    if not has_events and level >= _OP_LEVEL and not is_assumed:
        return "info", "no_host_events", "no op ran while the trace was recorded"
    if not facts.has_host_plane:
        text = f"host threads were not recorded, so CPU ops are missing; {_CAPTURE} records them"
        return "warning", "no_host_plane", text
    known = "assumed, as nothing shows another" if is_assumed else facts.host_level_source
    tracer = f"host tracer level {level} ({known})"
    if level < _OP_LEVEL:
        text = f"{tracer} records no ops, so CPU ops are missing; {_CAPTURE} records them"
        return "warning", "tracer_level", text
    if level >= EVERY_OP_LEVEL:
        text = (
            f"{tracer} records ops on any device, so an op without a kernel need not have run on "
            "the CPU"
        )
        return "info", "tracer_level", text
    types = (
        "the trace has no shapes; dtypes are those that the capture recorded"
        if has_capture_file
        else "the trace has no dtypes"
    )
    text = f"{tracer} leaves out cheap ops on the CPU, so counts are lower bounds, and {types}"
    return "info", "tracer_level", text


def _devices(host: Host) -> Iterator[_Remark]:
    facts = host.tables.facts
    idle = [name for name, events in facts.accelerators.items() if not events]
    if facts.pluggable_used:
        text = (
            "a pluggable device (such as Metal) was used; its kernels are not in the trace, only "
            "what the host sent to it"
        )
        yield "warning", "pluggable_device", text
    elif not facts.accelerators and facts.gpu_used:
        text = (
            f"the trace has no GPU plane, although there are {facts.gpu_witness}, so GPU work is "
            "missing"
        )
        yield "warning", "no_device_plane", text
    elif not facts.accelerators:
        yield "info", "no_device_plane", "the trace has no GPU plane"
    elif idle:
        id_ = "device_plane_empty" if len(idle) == len(facts.accelerators) else "idle_devices"
        yield "warning", id_, f"nothing ran on {listed(idle)}"


def _capture(host: Host) -> Iterator[_Remark]:
    if host.capture_file_problem:
        is_foreign = host.capture_file_is_foreign
        why = "belongs to another recording" if is_foreign else "could not be read"
        text = (
            f"the capture file beside the trace {why}, so only the trace is analyzed: "
            f"{host.capture_file_problem}"
        )
        yield "warning", "capture_file_foreign" if is_foreign else "capture_file_unreadable", text
    capture_file, joined = host.capture_file, host.tables.joined
    if capture_file is None:
        graphs = None if joined is None else joined.graphs
        yield from (("info", n.id, n.message) for n in (graphs.notes if graphs else ()))
        return
    if failed := failure(capture_file):
        at = f" at {failed.at}" if failed.at else ""
        text = (
            f"the program ended with {failed.error.type}{at}, so only what ran before is analyzed: "
            f"{failed.said}"
        )
        yield "warning", "program_failed", text
    yield from _session(host, capture_file)
    for note in capture_file.notes:
        yield "warning" if note.severity == "warning" else "info", note.id, note.message
    yield from Keras(capture_file).remarks()
    yield from _covered_share(host)


def _session(host: Host, capture_file: CaptureFile) -> Iterator[_Remark]:
    """Say which part of the program was recorded, and whether at the requested levels."""
    if host.session is None:
        return
    session = capture_file.sessions[host.session]
    others = len([s for s in capture_file.sessions if s.trace]) - bool(session.trace)
    part = recorded_part(capture_file, host.session) or "a part"
    more = f"; other runs hold {counted(others, 'other part')} of it" if others > 0 else ""
    text = f"the capture recorded {part} of the program: {session.reason}{more}"
    yield "info", "capture_window", text
    requested, effective = session.requested, host.tables.facts.options or session.effective
    if requested is None:
        return
    if effective is None:  # TensorFlow before 2.19; events of level 3 show that it was used
        level = min(host.tables.facts.host_level, requested.host_tracer_level)
        effective = replace(requested, host_tracer_level=level)
    ignored = [
        f"{tracer} tracer level {used} instead of {wanted}"
        for tracer in ("host", "device", "python")
        if (used := getattr(effective, f"{tracer}_tracer_level"))
        != (wanted := getattr(requested, f"{tracer}_tracer_level"))
    ]
    if ignored:
        yield "warning", "tracer_level_ignored", f"the profiler used {listed(ignored)}"


def _covered_share(host: Host) -> Iterator[_Remark]:
    """Say how much of the CPU ops' time has a record, and how much also a line of the program."""
    joined, ops = host.tables.joined, host.tables.ops
    if joined is None:
        return
    is_counted = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    counted_ps = ops["host_self_ps"].where(is_counted, 0).to_numpy(np.float64)
    if not (total := counted_ps.sum()):
        return
    known = [(r is not None, r is not None and r.frame is not None) for r in joined.records]
    share, of_lines = counted_ps @ np.array(known) / total
    text = (
        f"the capture file covers {share:.1%} of the self time of CPU ops; {of_lines:.1%} has a "
        "line of the program"
    )
    yield "info" if share >= _NEARLY_ALL else "warning", "unjoined", text
