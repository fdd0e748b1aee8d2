"""What limits a trace: everything a reader must know before believing the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model import Health
from traceanalyzer.placement.keras import what_keras_compiled, without_cudnn
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.tables.steps import eager_loop
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, Role
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.trace.clock import LONGEST_PS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.run import Host, Run
    from traceanalyzer.tables.recording import TracerFacts

_SEVERITIES: Final = ("error", "warning", "info")
_OP_LEVEL: Final = 2
_MANY, _LONG = 20, 2000
_LONGEST_HOURS: Final = 24  # no profile is a day long
_PS_PER_HOUR: Final = 3.6e15
_NEARLY_ALL: Final = 0.99  # covered by the capture file: the rest is not worth a warning
_MARK_STEPS: Final = (
    "to mark a step, wrap it in tf.profiler.experimental.Trace('train', step_num=i, _r=1)"
)
_CAPTURE: Final = "`traceanalyzer capture script.py`"


def trace_health(run: Run) -> tuple[Health, ...]:
    """Return what limits the traces of a run, the most severe first."""
    found = [*_of_run(run), *_placements(run)]
    for host in run.hosts:
        of_host = [*_of_file(host), *_tracers(host), *_devices(host), *_capture(host)]
        found += [replace(h, message=f"{host.name}: {h.message}") for h in of_host]
    return tuple(sorted(found, key=lambda h: _SEVERITIES.index(h.severity)))


def _error(health_id: str, message: str) -> Health:
    return Health(id=health_id, severity="error", message=message)


def _warning(health_id: str, message: str) -> Health:
    return Health(id=health_id, severity="warning", message=message)


def _info(health_id: str, message: str) -> Health:
    return Health(id=health_id, severity="info", message=message)


def _of_run(run: Run) -> Iterator[Health]:
    for left_out in run.failures:
        if left_out.is_duplicate:
            yield _warning("duplicate_host", f"{left_out.host}: {left_out.reason}")
        else:
            yield _error(
                "unreadable_host",
                f"{left_out.host}: the trace could not be read: {left_out.reason}",
            )
    if run.other_runs:
        others = listed(run.other_runs)
        yield _info("other_runs", f"this is the run {run.name}; `--run` selects another: {others}")
    if run.steps.empty and not run.ops.empty:
        yield _warning(
            "steps_missing",
            f"the trace marks no steps, so there are no figures per step; {_MARK_STEPS}",
        )
    elif len(run.steps) and run.steps["is_inferred"].all():
        yield _info(
            "steps_inferred",
            f"the trace marks no steps, so they are inferred from what repeats; {_MARK_STEPS}",
        )
    loop = eager_loop(run.ops, run.steps)
    if loop is not None:
        place = f" ({loop.place})" if loop.place else ""
        yield _info(
            "eager_loop",
            f"each step runs {counted(loop.ops, 'op')} one by one from Python{place} and takes "
            f"{duration_text(loop.step_ps)}; in a function decorated with @tf.function, TensorFlow "
            "runs a step as one graph, which saves the time of Python between the ops, but rarely "
            "changes the device of an op",
        )
    if run.version is None:
        yield _info(
            "tf_version_unknown",
            "the version of TensorFlow is unknown, as no event file with a graph is beside the "
            f"profile; {_CAPTURE} records it",
        )


def _placements(run: Run) -> Iterator[Health]:
    ops = run.ops
    unknown = ops[(ops["placement"] == "unknown") & (ops["role"] == Role.COMPUTE)]
    if len(unknown):
        self_time = duration_text(int(unknown["host_self_ps"].sum()))
        waited_ps = _wait_for_unplaced_ps(run)
        waited = f"; devices waited {duration_text(waited_ps)} for them, counted separately"
        yield _warning(
            "placement_unknown",
            f"the trace does not show where {counted(len(unknown), 'op')} ran ({self_time} on host "
            "threads), so they are not counted as CPU ops" + (waited if waited_ps else ""),
        )
    kernels = run.kernels
    total_ps = int(kernels["duration_ps"].sum())
    linked_ps = int(kernels.loc[kernels["op_id"].notna(), "duration_ps"].sum())
    if 0 <= linked_ps < total_ps:
        yield _info(
            "unlinked_kernels",
            f"{1 - linked_ps / total_ps:.1%} of kernel time is attributed to no op: these kernels "
            "name none and were launched outside of any",
        )


def _wait_for_unplaced_ps(run: Run) -> float:
    """Return how long devices waited for ops of unknown placement, the mean over devices."""
    every = [device.parts for host in run.hosts for device in host.timeline.devices]
    waited = [int(p.duration_ps[p.phase == Phase.UNPLACED].sum()) for p in every]
    return sum(waited) / len(waited) if waited else 0.0


def _of_file(host: Host) -> Iterator[Health]:
    for text in _first(host.errors):
        yield _error("xspace_error", f"the profiler reported: {text}")
    for text in _first(host.warnings):
        yield _warning("xspace_warning", f"the profiler reported: {text}")
    if host.damage is not None:
        yield _error(
            "damaged",
            f"the file is damaged in {counted(host.damage.places, 'place')}: "
            f"{counted(host.damage.bytes_lost, 'byte')} could not be read, "
            f"{counted(host.damage.events_kept, 'event')} could; record again for a complete trace",
        )
    if host.impossible_events:
        yield _error(
            "impossible_times",
            f"{counted(host.impossible_events, 'event')} left out, as their durations are negative "
            f"or their times more than {LONGEST_PS / _PS_PER_HOUR:.0f} hours away from the rest of "
            "the trace; the file is damaged or its writer has a bug, so record again",
        )
    unnamed = [(host.unnamed_events, "event"), (host.unnamed_stats, "stat")]
    lacking = " and ".join(counted(number, noun) for number, noun in unnamed if number)
    if lacking:
        yield _warning(
            "unknown_metadata",
            f"{lacking} without a name in the file, so figures of ops can be too low: kernels "
            "without a name belong to no op, and host events and stats without one are ignored",
        )
    hours = (host.end_ps - host.start_ps) / _PS_PER_HOUR
    if hours > _LONGEST_HOURS:
        yield _warning(
            "implausible_times",
            f"the events span {hours:,.0f} hours, so their times are damaged or a "
            "clock was changed; do not trust any duration",
        )
    shifted = {d: ps for d, ps in host.timeline.shifts_ps.items() if ps}
    if shifted:
        later = [f"{device} by {duration_text(ps)}" for device, ps in shifted.items()]
        yield _info(
            "clock_skew",
            "the clocks of devices are early: work begins before its launch; their times are moved "
            f"later: {listed(later)}",
        )
    if host.file is not None and host.file.note:
        yield _warning("file_note", host.file.note)
    if host.format != "xplane":
        yield _warning(
            "reduced_format",
            f"read from {host.format}, which lacks allocations, launch details and all events "
            "without a duration, so figures can be too low; an .xplane.pb file has everything",
        )


def _first(texts: tuple[str, ...]) -> list[str]:
    """Return the distinct texts; of very many or very long ones only the beginning."""
    distinct = list(dict.fromkeys(texts))
    shown = [text if len(text) <= _LONG else f"{text[:_LONG]} ..." for text in distinct[:_MANY]]
    if len(distinct) > _MANY:
        shown.append(f"and {counted(len(distinct) - _MANY, 'other message')}")
    return shown


def _tracers(host: Host) -> Iterator[Health]:
    facts = host.tables.facts
    if facts.unread_planes:
        yield _warning(
            "planes_left_out", f"not analyzed, as no table covers it: {listed(facts.unread_planes)}"
        )
    yield _host_tracer(facts, has_capture_file=host.capture_file is not None)
    if facts.handed_over:
        yield _warning(
            "eager_ops_handed_over",
            f"TensorFlow ran {counted(facts.handed_over, 'eager op')} asynchronously, so "
            + (
                "these ops are seen twice, handed over and run, and their host time is the sum"
                if facts.handed_over_is_named
                else "their host time is that of handing them over and of waiting there"
            )
            + "; tf.config.experimental.set_synchronous_execution(True) shows how long each takes",
        )
    if facts.options is not None and facts.options.device_tracer_level == 0:
        yield _warning(
            "device_tracer_off",
            "the device tracer was off, so GPU work is not in the trace; record again with "
            "device_tracer_level=1",
        )


def _host_tracer(facts: TracerFacts, *, has_capture_file: bool) -> Health:
    level, is_assumed = facts.host_level, facts.host_level_source == "assumed"
    has_events = facts.has_host_plane or any(facts.accelerators.values())
    if not has_events and level >= _OP_LEVEL and not is_assumed:
        return _info("no_host_events", "no op ran while the trace was recorded")
    if not facts.has_host_plane:
        return _warning(
            "no_host_plane",
            f"host threads were not recorded, so CPU ops are missing; {_CAPTURE} records them",
        )
    known = "assumed, as nothing shows another" if is_assumed else facts.host_level_source
    tracer = f"host tracer level {level} ({known})"
    if level < _OP_LEVEL:
        return _warning(
            "tracer_level",
            f"{tracer} records no ops, so CPU ops are missing; {_CAPTURE} records them",
        )
    if level >= EVERY_OP_LEVEL:
        return _info(
            "tracer_level",
            f"{tracer} records ops on any device, so an op without a kernel need not have run on "
            "the CPU",
        )
    types = (
        "the trace has no shapes; dtypes are those that the capture recorded"
        if has_capture_file
        else "the trace has no dtypes"
    )
    return _info(
        "tracer_level",
        f"{tracer} leaves out cheap ops on the CPU, so counts are lower bounds, and {types}",
    )


def _devices(host: Host) -> Iterator[Health]:
    facts = host.tables.facts
    idle = [name for name, events in facts.accelerators.items() if not events]
    if facts.pluggable_used:
        yield _warning(
            "pluggable_device",
            "a pluggable device (such as Metal) was used; its kernels are not in the trace, only "
            "what the host sent to it",
        )
    elif not facts.accelerators and facts.gpu_used:
        yield _warning(
            "no_device_plane",
            f"the trace has no GPU plane, although there are {facts.gpu_witness}, so GPU work is "
            "missing",
        )
    elif not facts.accelerators:
        yield _info("no_device_plane", "the trace has no GPU plane")
    elif idle:
        is_every = len(idle) == len(facts.accelerators)
        yield _warning(
            "device_plane_empty" if is_every else "idle_devices", f"nothing ran on {listed(idle)}"
        )


def _capture(host: Host) -> Iterator[Health]:
    if host.capture_file_problem:
        is_foreign = host.capture_file_is_foreign
        why = "belongs to another recording" if is_foreign else "could not be read"
        yield _warning(
            "capture_file_foreign" if is_foreign else "capture_file_unreadable",
            f"the capture file beside the trace {why}, so only the trace is analyzed: "
            f"{host.capture_file_problem}",
        )
    capture_file = host.capture_file
    if capture_file is None:
        return
    if failed := failure(capture_file):
        at = f" at {failed.at}" if failed.at else ""
        yield _warning(
            "program_failed",
            f"the program ended with {failed.error.type}{at}, so only what ran before is analyzed: "
            f"{failed.said}",
        )
    yield from _sessions(host, capture_file)
    for note in capture_file.notes:
        is_warning = note.severity == "warning"
        yield _warning(note.id, note.message) if is_warning else _info(note.id, note.message)
    for text in what_keras_compiled(capture_file):
        yield _info("keras_xla", text)
    for text in without_cudnn(capture_file):
        yield _warning("keras_without_cudnn", text)
    yield from _covered_share(host)


def _sessions(host: Host, capture_file: CaptureFile) -> Iterator[Health]:
    """Say which part of the program was recorded, and whether at the requested levels."""
    if host.session is None:
        return
    session = capture_file.sessions[host.session]
    others = len([s for s in capture_file.sessions if s.trace]) - bool(session.trace)
    part = recorded_part(capture_file, host.session)
    more = f"; other runs hold {counted(others, 'other part')} of it" if others > 0 else ""
    yield _info(
        "capture_window",
        f"the capture recorded {part or 'a part'} of the program: {session.reason}{more}",
    )
    requested, effective = session.requested, session.effective
    if requested is None:
        return
    if effective is None:  # TensorFlow before 2.19; events of level 3 show that it was used
        level = host.tables.facts.host_level
        pairs = [("host", requested.host_tracer_level, min(level, requested.host_tracer_level))]
    else:
        pairs = [
            ("host", requested.host_tracer_level, effective.host_tracer_level),
            ("device", requested.device_tracer_level, effective.device_tracer_level),
            ("python", requested.python_tracer_level, effective.python_tracer_level),
        ]
    ignored = [
        f"{tracer} tracer level {used} instead of {wanted}"
        for tracer, wanted, used in pairs
        if used != wanted
    ]
    if ignored:
        yield _warning("tracer_level_ignored", f"the profiler used {listed(ignored)}")


def _covered_share(host: Host) -> Iterator[Health]:
    """Say how much of the CPU ops' time has a record, and how much also a line of the program."""
    joined, ops = host.tables.joined, host.tables.ops
    if joined is None:
        return
    is_counted = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    counted_ps = ops["host_self_ps"].where(is_counted, 0).to_numpy(np.float64)
    total = counted_ps.sum()
    if not total:
        return
    recorded = np.array([record is not None for record in joined.records])
    with_line = np.array(
        [record is not None and record.frame is not None for record in joined.records]
    )
    share, of_lines = counted_ps[recorded].sum() / total, counted_ps[with_line].sum() / total
    message = (
        f"the capture file covers {share:.1%} of the self time of CPU ops; {of_lines:.1%} has a "
        "line of the program"
    )
    yield _info("unjoined", message) if share >= _NEARLY_ALL else _warning("unjoined", message)
