"""What limits a trace: everything a reader must know before believing the rest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from traceanalyzer.capture_file.recorded_part import recorded_part
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model import Health
from traceanalyzer.placement.failure import failure
from traceanalyzer.placement.keras_models import what_keras_compiled, without_cudnn
from traceanalyzer.tables.step_kinds import eager_loop
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.trace.clock import LONGEST_PS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.run import Host, Run
    from traceanalyzer.tables.joined import OpRecord
    from traceanalyzer.tables.tracer import TracerFacts


_OP_LEVEL, _EVERY_OP_LEVEL = 2, 3
_MANY, _LONG = 20, 2000
_LONGEST_HOURS = 24  # no profile is a day long
_NEARLY_ALL = 0.99  # joined with the capture file: what is left is not worth a warning
_SHOWN = 0.0005  # a share that is not rounded to 0.0 %


def trace_health(run: Run) -> tuple[Health, ...]:
    """Return what limits the traces of a run, the gravest first."""
    order = ("error", "warning", "info")
    found = [*_of_run(run), *(h for host in run.hosts for h in _of_host(host))]
    return tuple(sorted(found, key=lambda h: order.index(h.severity)))


def _of_run(run: Run) -> Iterator[Health]:
    for unread in run.failures:
        if unread.is_duplicate:
            yield Health(
                id="duplicate_host", severity="warning", message=f"{unread.host}: {unread.reason}"
            )
        else:
            yield Health(
                id="unreadable_host",
                severity="error",
                message=f"the trace of {unread.host} could not be read: {unread.reason}",
            )
    if run.other_runs:
        yield Health(
            id="other_runs",
            severity="info",
            message=f"this is the run {run.name}; also there: {listed(run.other_runs)}",
        )
    if run.steps.empty and not run.ops.empty:
        yield Health(
            id="steps_missing",
            severity="warning",
            message=(
                "nothing in the trace marks steps, so there are no figures per step; "
                "tf.profiler.experimental.Trace('train', step_num=i, _r=1) around a step marks it"
            ),
        )
    elif len(run.steps) and run.steps["is_inferred"].all():
        yield Health(
            id="steps_inferred",
            severity="info",
            message=(
                "nothing in the trace marks steps; they are inferred from what it repeats; "
                "tf.profiler.experimental.Trace('train', step_num=i, _r=1) around a step marks it"
            ),
        )
    loop = eager_loop(run.ops, run.steps)
    if loop is not None:
        place = f" ({loop.place})" if loop.place else ""
        yield Health(
            id="eager_loop",
            severity="info",
            message=(
                f"each step runs {counted(loop.ops, 'op')} one by one from Python{place} and takes "
                f"{duration_text(loop.step_ps)}; in a function decorated with @tf.function, "
                "TensorFlow runs a step as one graph, without Python between its ops; that saves "
                "time, but rarely changes the device of an op"
            ),
        )
    if run.version is None:
        yield Health(
            id="tf_version_unknown",
            severity="info",
            message=(
                "the version of TensorFlow is not known: no event file with a graph lies beside "
                "the profile"
            ),
        )
    yield from _placements(run)


def _placements(run: Run) -> Iterator[Health]:
    ops = run.ops
    unknown = ops[(ops["placement"] == "unknown") & (ops["role"] == Role.COMPUTE)]
    if len(unknown):
        took = duration_text(int(unknown["host_self_ps"].sum()))
        waited_ps = _waited_for_unplaced_ps(run)
        waited = f"; devices waited {duration_text(waited_ps)} for them, which is counted apart"
        yield Health(
            id="placement_unknown",
            severity="warning",
            message=(
                f"for {counted(len(unknown), 'op')} ({took} on host threads) the trace "
                "does not tell where they ran; they are not counted as CPU-placed"
                + (waited if waited_ps else "")
            ),
        )
    kernels = run.kernels
    total_ps = int(kernels["duration_ps"].sum())
    linked_ps = int(kernels.loc[kernels["op_id"].notna(), "duration_ps"].sum())
    if 0 <= linked_ps < total_ps:
        yield Health(
            id="unlinked_kernels",
            severity="info",
            message=(
                f"{1 - linked_ps / total_ps:.1%} of kernel time belongs to kernels that name no op "
                "and were launched outside of any"
            ),
        )


def _waited_for_unplaced_ps(run: Run) -> float:
    """Return how long devices waited for ops of unknown placement, the mean over devices."""
    every = [device.parts for host in run.hosts for device in host.timeline.devices]
    waited = [int(p.duration_ps[p.phase == Phase.UNPLACED].sum()) for p in every]
    return sum(waited) / len(waited) if waited else 0.0


def _of_host(host: Host) -> Iterator[Health]:
    said = f"{host.name}: the profiler reported: "
    for text in _first(host.errors):
        yield Health(id="xspace_error", severity="error", message=said + text)
    for text in _first(host.warnings):
        yield Health(id="xspace_warning", severity="warning", message=said + text)
    if host.damage is not None:
        yield Health(
            id="damaged",
            severity="error",
            message=(
                f"{host.name}: the file is damaged in {counted(host.damage.places, 'place')}; "
                f"{counted(host.damage.bytes_lost, 'byte')} could not be read, "
                f"{counted(host.damage.events_kept, 'event')} could"
            ),
        )
    if host.impossible_events:
        yield Health(
            id="impossible_times",
            severity="error",
            message=(
                f"{host.name}: {counted(host.impossible_events, 'event')} left out of all figures: "
                f"negative durations, or times more than {LONGEST_PS / 3.6e15:.0f} hours away "
                "from the rest of the trace. The file is damaged or its writer has a bug; "
                "record again"
            ),
        )
    unnamed = [(host.unnamed_events, "event"), (host.unnamed_stats, "stat")]
    lacking = " and ".join(counted(number, what) for number, what in unnamed if number)
    if lacking:
        yield Health(
            id="unknown_metadata",
            severity="warning",
            message=(
                f"{host.name}: {lacking} without a name in the file. Kernels without a name belong "
                "to no op, and host events and stats without one are ignored, so figures of ops "
                "can be too low"
            ),
        )
    hours = (host.end_ps - host.start_ps) / 3.6e15
    if hours > _LONGEST_HOURS:
        yield Health(
            id="implausible_times",
            severity="warning",
            message=(
                f"{host.name}: by its events the trace spans {hours:,.0f} hours: their "
                "times are damaged, or a clock was set; believe no duration"
            ),
        )
    shifted = {d: ps for d, ps in host.timeline.shifts_ps.items() if ps}
    if shifted:
        later = [f"of {device} as {duration_text(ps)} later" for device, ps in shifted.items()]
        yield Health(
            id="clock_skew",
            severity="info",
            message=(
                f"{host.name}: by the trace's clocks devices began work before it was launched; "
                f"times count {listed(later)}"
            ),
        )
    if host.file is not None and host.file.note:
        yield Health(id="file_note", severity="warning", message=f"{host.name}: {host.file.note}")
    if host.format != "xplane":
        yield Health(
            id="reduced_format",
            severity="warning",
            message=(
                f"{host.name}: read from {host.format}, which lacks allocations, launch details "
                "and everything else without a duration; figures can be lower than they were"
            ),
        )
    yield from _tracers(host)
    yield from _capture(host)


def _first(texts: tuple[str, ...]) -> list[str]:
    """Return the distinct texts, each once; of very many or very long ones only the beginning."""
    distinct = list(dict.fromkeys(texts))
    shown = [text if len(text) <= _LONG else f"{text[:_LONG]} ..." for text in distinct[:_MANY]]
    if len(distinct) > _MANY:
        shown.append(f"and {counted(len(distinct) - _MANY, 'other message')}")
    return shown


def _ran_nothing(facts: TracerFacts) -> bool:
    """Return whether a trace holds no events although host threads were recorded."""
    is_known = facts.host_level_source != "assumed" and facts.host_level >= _OP_LEVEL
    has_events = facts.has_host_plane or any(facts.accelerators.values())
    return is_known and not has_events


def _tracers(host: Host) -> Iterator[Health]:
    facts = host.tables.facts
    if facts.unread_planes:
        yield Health(
            id="planes_left_out",
            severity="warning",
            message=f"{host.name}: not read, as no table has a place for it: "
            + listed(facts.unread_planes),
        )
    if _ran_nothing(facts):
        yield Health(
            id="no_host_events",
            severity="info",
            message=f"{host.name}: no op ran while the trace was recorded",
        )
    elif not facts.has_host_plane:
        yield Health(
            id="no_host_plane",
            severity="warning",
            message=f"{host.name}: host threads were not recorded, so no CPU op can be seen",
        )
    elif facts.host_level < _OP_LEVEL:
        yield Health(
            id="tracer_level",
            severity="warning",
            message=(
                f"{host.name}: host tracer level {facts.host_level} ({facts.host_level_source}) "
                "records no ops, so no CPU op can be seen; `traceanalyzer capture script.py` "
                "records at a level that does"
            ),
        )
    elif facts.host_level >= _EVERY_OP_LEVEL:
        yield Health(
            id="tracer_level",
            severity="info",
            message=(
                f"{host.name}: host tracer level {facts.host_level} ({facts.host_level_source}): "
                "ops on any device leave host events, so one without a kernel need not have run "
                "on the CPU"
            ),
        )
    else:
        assumed = facts.host_level_source == "assumed"
        yield Health(
            id="tracer_level",
            severity="info",
            message=(
                f"{host.name}: host tracer level {facts.host_level}"
                + (", as nothing shows another" if assumed else f" ({facts.host_level_source})")
                + ": cheap ops on the CPU leave no event, so counts are lower bounds, and "
                + (
                    "the trace holds no dtypes"
                    if host.capture_file is None
                    else "the trace holds no shapes; dtypes are those that the capture recorded"
                )
            ),
        )
    if facts.handed_over:
        named = facts.handed_over_is_named
        yield Health(
            id="eager_ops_handed_over",
            severity="warning",
            message=(
                f"{host.name}: eager ops ran asynchronously, on a thread of TensorFlow's own"
                + ("" if named else " whose events name none")
                + f": {counted(facts.handed_over, 'time')} the program handed one over, and "
                + (
                    "such an op is seen twice, handed over and run; its host time is that of both"
                    if named
                    else "the op's host time is that of handing it over, and of waiting there"
                )
                + "; tf.config.experimental.set_synchronous_execution(True) shows what each takes"
            ),
        )
    options = facts.options
    if options is not None and options.device_tracer_level == 0:
        yield Health(
            id="device_tracer_off",
            severity="warning",
            message=f"{host.name}: the device tracer was off: GPU work is not in the trace",
        )
    yield from _devices(host)


def _devices(host: Host) -> Iterator[Health]:
    facts = host.tables.facts
    idle = [name for name, events in facts.accelerators.items() if not events]
    if facts.pluggable_used:
        yield Health(
            id="pluggable_device",
            severity="warning",
            message=(
                f"{host.name}: a pluggable device (such as Metal) was used; its kernels are not in "
                "the trace, only what the host sent to it"
            ),
        )
    elif not facts.accelerators:
        used = f", although there are {facts.gpu_witness}" if facts.gpu_used else ""
        yield Health(
            id="no_device_plane",
            severity="warning" if facts.gpu_used else "info",
            message=f"{host.name}: the trace has no GPU plane{used}",
        )
    elif idle:
        some = len(idle) < len(facts.accelerators)
        yield Health(
            id="idle_devices" if some else "device_plane_empty",
            severity="warning",
            message=(
                f"{host.name}: nothing ran on {listed(idle)}"
                if some
                else f"{host.name}: {listed(idle)} described, but nothing ran there"
            ),
        )


def _capture(host: Host) -> Iterator[Health]:
    if host.capture_file_problem:
        is_foreign = host.capture_file_is_foreign
        why = "belongs to another recording" if is_foreign else "could not be read"
        yield Health(
            id="sidecar_foreign" if is_foreign else "sidecar_unreadable",
            severity="warning",
            message=(
                f"{host.name}: the capture file beside the trace {why}, so this is reported "
                f"from the trace alone: {host.capture_file_problem}"
            ),
        )
    capture_file = host.capture_file
    if capture_file is None:
        return
    if failed := failure(capture_file):
        at = f" at {failed.at}" if failed.at else ""
        yield Health(
            id="program_failed",
            severity="warning",
            message=(
                f"{host.name}: the program ended with {failed.error.type}{at}: {failed.said} "
                "(what follows covers what ran before)"
            ),
        )
    yield from _window(host, capture_file)
    yield from _levels(host, capture_file)
    for note in capture_file.notes:
        yield Health(
            id=note.id,
            severity="warning" if note.severity == "warning" else "info",
            message=f"{host.name}: {note.message}",
        )
    for text in what_keras_compiled(capture_file):
        yield Health(id="keras_xla", severity="info", message=f"{host.name}: {text}")
    for text in without_cudnn(capture_file):
        yield Health(id="keras_without_cudnn", severity="warning", message=f"{host.name}: {text}")
    yield from _joined_share(host)


def _window(host: Host, capture_file: CaptureFile) -> Iterator[Health]:
    """Say which part of the program was recorded."""
    if host.session is None:
        return
    session = capture_file.sessions[host.session]
    others = len([s for s in capture_file.sessions if s.trace]) - bool(session.trace)
    part = recorded_part(capture_file, host.session)
    more = f"; other runs hold {counted(others, 'other part')} of it" if others > 0 else ""
    yield Health(
        id="capture_window",
        severity="info",
        message=(
            f"{host.name}: the capture recorded {part or 'a part'} of the program: "
            f"{session.reason}{more}"
        ),
    )


def _levels(host: Host, capture_file: CaptureFile) -> Iterator[Health]:
    """Compare the tracer levels that were asked for with those that were in force."""
    session = None if host.session is None else capture_file.sessions[host.session]
    if session is None or session.requested is None:
        return
    asked = session.requested
    if session.effective is not None:
        differing = [
            f"{tracer} tracer level {wanted}, in force was {was}"
            for tracer, wanted, was in (
                ("host", asked.host_tracer_level, session.effective.host_tracer_level),
                ("device", asked.device_tracer_level, session.effective.device_tracer_level),
                ("python", asked.python_tracer_level, session.effective.python_tracer_level),
            )
            if wanted != was
        ]
    else:  # TensorFlow before 2.19 does not say; events of level 3 show that it was
        level = host.tables.facts.host_level
        differing = (
            [f"host tracer level {asked.host_tracer_level}, the trace shows no more than {level}"]
            if asked.host_tracer_level > level
            else []
        )
    if differing:
        yield Health(
            id="tracer_level_ignored",
            severity="warning",
            message=f"{host.name}: asked for was {listed(differing)}",
        )


def _joined_share(host: Host) -> Iterator[Health]:
    """Say how much of the CPU ops' time has a record, and what the rest is."""
    joined = host.tables.joined
    ops = host.tables.ops
    counts = ((ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)).tolist()
    if joined is None or not any(counts):
        return
    took: Counter[str] = Counter()
    for record, function, is_eager, self_ps, is_counted in zip(
        joined.records,
        ops["function"].astype(object).where(ops["function"].notna(), None),
        ops["is_eager"],
        ops["host_self_ps"],
        counts,
        strict=True,
    ):
        if is_counted:
            took[_how_joined(record, function, is_eager=bool(is_eager))] += int(self_ps)
    total = sum(took.values())
    if not total:
        return
    with_line, without_line = took.pop(_WITH_LINE, 0), took.pop(_WITHOUT_LINE, 0)
    share = (with_line + without_line) / total
    rest = [*took.most_common(), ("has a record but no line of the program", without_line)]
    parts = [f"{part / total:.1%} {what}" for what, part in rest if part / total >= _SHOWN]
    yield Health(
        id="unjoined",
        severity="info" if share >= _NEARLY_ALL else "warning",
        message=(
            f"{host.name}: {share:.1%} of the self time of CPU-placed compute ops was joined with "
            "what the capture recorded" + (f"; {', '.join(parts)}" if parts else "")
        ),
    )


_WITH_LINE, _WITHOUT_LINE = "with a line", "without a line"


def _how_joined(record: OpRecord | None, function: str | None, *, is_eager: bool) -> str:
    if record is not None:
        return _WITHOUT_LINE if record.frame is None else _WITH_LINE
    if is_eager:
        return "is of eager ops whose line is not certain, or that TensorFlow ran by itself"
    if function is None:
        return "is of ops whose function the trace does not tell"
    return "is of nodes that the recorded graphs do not hold, or hold differently"
