"""Determines how one host was recorded: tracer settings, devices, and its capture file.

A capture file beside a trace may belong to another recording, if it was copied there or if a later
run of the same name overwrote the trace. Its devices and source lines would then be wrong.
"""

import logging
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pandas as pd

from traceanalyzer.capture_file import files as capture_files
from traceanalyzer.capture_file.document import CaptureFile, Session
from traceanalyzer.errors import CaptureFileError
from traceanalyzer.placement.devices import LOCAL
from traceanalyzer.tables.compiled_ops import jax_version
from traceanalyzer.tables.device_events import DeviceEvents, device_planes
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, placement_of_device
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.discovery import HostFile
from traceanalyzer.trace.run_timeline import FORMAT as TIMELINE
from traceanalyzer.trace.run_timeline import RAN_ON
from traceanalyzer.trace.xplane import ProfileOptions, profile_options

_log = logging.getLogger("traceanalyzer")

# Written at host tracer level 3 only (executor.cc: GetTFTraceMeLevel and the TraceMes of level 3).
_LEVEL_3_EVENTS: Final = frozenset({"ExecutorPropagateOutputs", "ExecutorState::ScheduleReady"})
# Pinned memory, `gpu_host_bfc`, is allocated only if there is a GPU (gpu_process_state.cc).
_GPU_ALLOCATOR: Final = re.compile(r"GPU_(\d+)_bfc|gpu_(\d+|host)_bfc|cuda_malloc_async")
_GPU_TRACER: Final = re.compile(r"cupti|roctracer|rocprofiler", re.IGNORECASE)
_OWN_PLANE: Final = re.compile(r"/host:CPU$|/device:[A-Z_]+:\d+$")
_PLUGGABLE: Final = re.compile(r"pluggable_device_\w*bfc")
_GPU_DEVICE: Final = re.compile(r"/device:GPU:\d+$")
_ENVIRONMENT: Final = "Task Environment"
_STARTED: Final = "profile_start_time"  # nanoseconds since 1970; from TensorFlow 2.19 on
_MOST_DIGITS: Final = 19
_SLACK_NS: Final = 5_000_000_000  # between the recorder's clock and the profiler's


@dataclass(frozen=True, kw_only=True)
class TracerFacts:
    """How a host was recorded, which limits what its trace can show."""

    host_level: int  #: host tracer level; 2 by default
    #: `profile_options`, `level 3 events`, `timeline` (of a session), `capture` (the capture
    #: file's session) or `assumed`.
    host_level_source: str
    options: ProfileOptions | None  #: the recorded options, if any
    accelerators: dict[str, int]  #: events on each GPU or TPU plane, 0 if it has only metadata
    gpu_used: bool  #: whether TensorFlow had a GPU
    gpu_witness: str  #: the evidence that it had one, in words; empty if there is none
    gpu_may_be_missed: bool  #: a GPU may have run unrecorded: its tracer was off or failed
    pluggable_used: bool  #: a pluggable device (Metal, ...) was used: the trace has its allocator
    has_host_plane: bool = True  #: whether host threads were recorded at all
    unread_planes: tuple[str, ...] = ()  #: planes with events that the tables leave out
    jax_version: str | None = None  #: "" if unknown, None if the program did not use JAX
    handed_over: int = 0  #: eager ops that ran on the threads of TensorFlow's eager executor


def tracer_facts(  # noqa: PLR0913, PLR0917 - all evidence about the tracers
    trace: Trace,
    host: HostOps,
    device: DeviceEvents,
    allocations: pd.DataFrame,
    capture_file: CaptureFile | None = None,
    session: int | None = None,
) -> TracerFacts:
    """Determine how a host was recorded, from its events and capture file."""
    options = profile_options(trace)
    recorded = None
    if capture_file is not None and session is not None:
        recorded = capture_file.sessions[session].requested
    level, source = _host_level(host, options, recorded)
    allocators = [str(a) for a in allocations["allocator"].cat.categories]
    listed = None if capture_file is None else logical_devices(capture_file)
    if capture_file is not None and listed is None:  # the script was killed
        listed = _devices_of_ops(capture_file) or None
    witness = _gpu_witness(host, device, allocators, listed or (), trace.emptied_planes)
    is_off = options is not None and options.device_tracer_level == 0
    is_in_doubt = is_off or any(map(_GPU_TRACER.search, (*trace.errors, *trace.warnings)))
    # Of devices that are neither CPU, GPU nor TPU; `XLA_CPU` and the like are as old as TF 2.0.
    named = {d for d in host.device.values if "/device:XLA_" not in d}
    # Device planes, or additional host planes, that no table uses.
    known = {id(p) for p in device_planes(trace)} | {id(host.plane)}
    others = [p for p in trace.planes if len(p) and id(p) not in known]
    return TracerFacts(
        host_level=level,
        host_level_source=source,
        options=options,
        accelerators={p.name: len(p) for p in device_planes(trace)},
        gpu_used=bool(witness),
        gpu_witness=witness,
        # A list of TensorFlow's devices without a GPU leaves no doubt.
        gpu_may_be_missed=not witness and listed is None and is_in_doubt,
        pluggable_used=any(map(_PLUGGABLE.fullmatch, allocators))
        or "pluggable" in map(placement_of_device, named),
        has_host_plane=len(host.plane) > 0,
        unread_planes=tuple(p.name for p in others if _OWN_PLANE.match(p.name)),
        jax_version=jax_version(trace),
        handed_over=int(host.is_handed_over.sum()),
    )


def gpu_names(trace: Trace) -> list[str]:
    """Return TensorFlow's full names for the GPUs in a trace."""
    found = (_GPU_DEVICE.search(plane.name) for plane in device_planes(trace))
    return [f"{LOCAL}{match[0]}" for match in found if match]


def logical_devices(capture_file: CaptureFile) -> tuple[str, ...] | None:
    """Return the names of TensorFlow's logical devices, or None if not recorded."""
    devices = (capture_file.devices or {}).get("logical")
    if not isinstance(devices, list) or not devices:
        return None
    names = (d.get("name") if isinstance(d, dict) else None for d in devices)
    return tuple(name for name in names if isinstance(name, str))


def _devices_of_ops(capture_file: CaptureFile) -> tuple[str, ...]:
    found = {output.device for signature in capture_file.signatures for output in signature.outputs}
    for instance in (each for f in capture_file.functions for each in f.instances):
        found.update(instance.assigned)
    return tuple(sorted(filter(_GPU_DEVICE.search, found)))


def _host_level(
    host: HostOps, options: ProfileOptions | None, recorded: ProfileOptions | None
) -> tuple[int, str]:
    # The stat `shape` and `_Arg` ops also require level 3 (seen in the corpus).
    if host.plane.has_stat(RAN_ON):  # of every op
        return EVERY_OP_LEVEL, TIMELINE
    shows_every_op = (
        not _LEVEL_3_EVENTS.isdisjoint(host.plane.names)
        or not {"_Arg", "_Retval"}.isdisjoint(host.names.type)
        or host.input_types.present.any()
    )
    if shows_every_op and (options is None or options.host_tracer_level < EVERY_OP_LEVEL):
        return EVERY_OP_LEVEL, "level 3 events"  # whatever the options say
    if options is not None:
        return options.host_tracer_level, "profile_options"
    return (2, "assumed") if recorded is None else (recorded.host_tracer_level, "capture")


def _gpu_witness(
    host: HostOps,
    device: DeviceEvents,
    allocators: list[str],
    listed: tuple[str, ...],
    emptied: tuple[str, ...],
) -> str:
    """Describe the evidence that TensorFlow had a GPU, or return "" if there is none."""
    witnesses = (
        ("events on {}", sorted(device.device.used()), _GPU_DEVICE.search),
        ("allocations of {}", allocators, _GPU_ALLOCATOR.fullmatch),
        ("ops or transfers naming {}", host.device.values, _GPU_DEVICE.search),
        ("events of {}, left out for their times", emptied, _GPU_DEVICE.search),
        ("devices such as {} in TensorFlow's own list", listed, _GPU_DEVICE.search),
    )
    return next(
        (text.format(name) for text, names, shows in witnesses for name in names if shows(name)), ""
    )


class Beside(NamedTuple):
    """The capture file beside a trace, or why it is not used."""

    capture_file: CaptureFile | None
    session: int | None = None  #: which of its sessions wrote the trace, if known
    problem: str = ""  #: why an existing capture file is not used
    is_foreign: bool = False  #: whether the reason is that it belongs to another recording
    is_timed: bool = False  #: whether the times of trace and capture file agree


def capture_beside(file: HostFile, trace: Trace) -> Beside:
    """Read the capture file beside a trace, unless it was recorded at another time."""
    if file.capture_file is None:
        return Beside(None)
    try:
        capture_file = capture_files.read(file.capture_file)
    except CaptureFileError as error:  # the trace can be reported without it
        _log.warning("%s", error)
        return Beside(None, problem=str(error))
    if capture_file is None:
        return Beside(None)
    folder = file.capture_file.parent
    traces = [s.trace and os.path.normpath(folder / s.trace) for s in capture_file.sessions]
    own = os.path.normpath(file.path).removesuffix(".gz")
    named = traces.index(own) if own in traces else 0 if len(traces) == 1 else None
    start_ns = _started_ns(trace)
    if not traces or start_ns is None:
        return Beside(capture_file, named, is_timed=start_ns is not None)
    fitting = [k for k, s in enumerate(capture_file.sessions) if _was_recording(s, start_ns)]
    if not fitting:
        recorded_ns = min(session.start_ns for session in capture_file.sessions)
        times = f"the file is of {_utc(recorded_ns)}, but the trace of {_utc(start_ns)}"
        return Beside(None, problem=times, is_foreign=True)
    return Beside(capture_file, named if named in fitting else fitting[0], is_timed=True)


def _started_ns(trace: Trace) -> int | None:
    """Return when the profiler began, in nanoseconds since 1970, or None if not recorded."""
    for plane in trace.planes:
        started = plane.own.get(_STARTED, "") if plane.name == _ENVIRONMENT else ""
        if started.isdecimal() and len(started) <= _MOST_DIGITS:
            return int(started)
    return None


def _was_recording(session: Session, at_ns: int) -> bool:
    begin_ns, end_ns = session.start_ns, at_ns if session.stop_ns is None else session.stop_ns
    # A session without a start was not timed.
    return begin_ns <= 0 or begin_ns - _SLACK_NS <= at_ns <= end_ns + _SLACK_NS


def _utc(at_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):  # a year that no calendar has
        return "an impossible time"
