"""What the tracers of one host were set to record, and what they saw of devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.tables.device_events import device_planes
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, Kind
from traceanalyzer.trace.profile_options import profile_options

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Trace
    from traceanalyzer.trace.profile_options import ProfileOptions


# Written at host tracer level 3 only (executor.cc: GetTFTraceMeLevel and the TraceMes of level 3).
_LEVEL_3_EVENTS: Final = frozenset({"ExecutorPropagateOutputs", "ExecutorState::ScheduleReady"})
# Pinned memory, `gpu_host_bfc`, is made only where there is a GPU (gpu_process_state.cc).
_GPU_ALLOCATOR: Final = re.compile(r"GPU_(\d+)_bfc|gpu_(\d+|host)_bfc|cuda_malloc_async")
_GPU_TRACER: Final = re.compile(r"cupti|roctracer|rocprofiler", re.IGNORECASE)
_OWN_PLANE: Final = re.compile(r"/host:CPU$|/device:[A-Z_]+:\d+$")
_PLUGGABLE: Final = re.compile(r"pluggable_device_\w*bfc")
_GPU_DEVICE: Final = re.compile(r"/device:GPU:\d+$")


@dataclass(frozen=True, kw_only=True)
class TracerFacts:
    """What a trace of one host can and cannot show."""

    #: Host tracer level; 2 where nothing shows another.
    host_level: int
    #: `profile_options`, `level 3 events`, `capture` (the capture file's session) or `assumed`.
    host_level_source: str
    #: The recorded options, if any.
    options: ProfileOptions | None
    #: Events on each GPU or TPU plane, 0 for one that is only described.
    accelerators: dict[str, int]
    #: Whether TensorFlow had a GPU: something ran on one, was allocated on one, or was sent to or
    #: from one, or the capture file lists one.
    gpu_used: bool
    #: What shows that, in words; empty where nothing does.
    gpu_witness: str
    #: Whether a GPU may have been at work unseen: its tracer was off or failed.
    gpu_may_be_missed: bool
    #: Whether a pluggable device (Metal, ...) was at work, seen by its allocator.
    pluggable_used: bool
    #: Whether host threads were recorded at all.
    has_host_plane: bool = True
    #: Planes with events that the tables leave out.
    unread_planes: tuple[str, ...] = ()
    #: How often the program handed an eager op over to TensorFlow's executor of such ops: this
    #: event is not the op's run.
    handed_over: int = 0
    #: Whether the executor's events name what they run: such an op is seen twice.
    handed_over_is_named: bool = False


def tracer_facts(  # noqa: PLR0913, PLR0917 - everything that says something about the tracers
    trace: Trace,
    host: HostOps,
    device: DeviceEvents,
    allocations: pd.DataFrame,
    capture_file: CaptureFile | None = None,
    session: int | None = None,
) -> TracerFacts:
    """Find out what was recorded on a host."""
    options = profile_options(trace)
    recorded = None
    if capture_file is not None and session is not None:
        recorded = capture_file.sessions[session].effective
    level, source = _host_level(host, options, recorded)
    allocators = [str(a) for a in allocations["allocator"].cat.categories]
    listed = None if capture_file is None else logical_devices(capture_file)
    witness = _gpu_witness(host, device, allocators) or _listed_gpu(listed)
    return TracerFacts(
        host_level=level,
        host_level_source=source,
        options=options,
        accelerators={p.name: len(p) for p in device_planes(trace)},
        gpu_used=bool(witness),
        gpu_witness=witness,
        # A list of TensorFlow's devices without a GPU leaves no doubt.
        gpu_may_be_missed=not witness and listed is None and _tracer_in_doubt(trace, options),
        pluggable_used=any(_PLUGGABLE.fullmatch(a) for a in allocators) or _other_device(host),
        has_host_plane=len(host.plane) > 0,
        unread_planes=_unread_planes(trace, host),
        handed_over=int(host.is_handed_over.sum()),
        handed_over_is_named=_names_handed_over_ops(host),
    )


def _names_handed_over_ops(host: HostOps) -> bool:
    """Tell whether eager ops left events of their kernels, `X:X`, beside those of handing over."""
    ran = (host.kind == Kind.EAGER_OP) & (host.names.kind[host.name] == Kind.OP)
    return bool(host.is_handed_over.any() and ran.any())


def logical_devices(capture_file: CaptureFile) -> tuple[str, ...] | None:
    """Return the names of TensorFlow's logical devices, or None where they were not recorded."""
    devices = (capture_file.devices or {}).get("logical")
    if not isinstance(devices, list) or not devices:
        return None
    names = (d.get("name") if isinstance(d, dict) else None for d in devices)
    return tuple(name for name in names if isinstance(name, str))


def _listed_gpu(devices: tuple[str, ...] | None) -> str:
    gpu = next((d for d in devices or () if _GPU_DEVICE.search(d)), None)
    return f"devices such as {gpu} in TensorFlow's own list" if gpu else ""


def _tracer_in_doubt(trace: Trace, options: ProfileOptions | None) -> bool:
    untraced = options is not None and options.device_tracer_level == 0
    return untraced or any(_GPU_TRACER.search(text) for text in (*trace.errors, *trace.warnings))


def _host_level(
    host: HostOps, options: ProfileOptions | None, recorded: ProfileOptions | None
) -> tuple[int, str]:
    if options is not None and options.host_tracer_level >= EVERY_OP_LEVEL:
        return options.host_tracer_level, "profile_options"
    # The stat `shape` and arguments as ops are of level 3, too (seen in the corpus).
    has_level_3_events = not _LEVEL_3_EVENTS.isdisjoint(host.plane.names)
    has_arguments = not {"_Arg", "_Retval"}.isdisjoint(host.names.type)
    if has_level_3_events or has_arguments or host.input_types.present.any():
        return EVERY_OP_LEVEL, "level 3 events"  # whatever the options say
    if options is not None:
        return options.host_tracer_level, "profile_options"
    return (2, "assumed") if recorded is None else (recorded.host_tracer_level, "capture")


def _named_devices(host: HostOps) -> list[str]:
    ends = [d for t in host.transfers for d in (t.source, t.target)]
    ends += [d for m in host.moves for d in (m.source, m.target)]
    return [*host.device.values, *ends]


def _other_device(host: HostOps) -> bool:
    """Tell whether a transfer names a device that is neither CPU, GPU nor TPU."""
    named = {d for d in _named_devices(host) if "/device:XLA_" not in d}  # as old as TF 2.0
    return any(placement_of_device(d) == "pluggable" for d in named)


def _unread_planes(trace: Trace, host: HostOps) -> tuple[str, ...]:
    """Name the planes of devices, or further ones of the host, that no table is made from."""
    known = {id(p) for p in device_planes(trace)} | {id(host.plane)}
    return tuple(
        p.name
        for p in trace.planes
        if len(p) and id(p) not in known and _OWN_PLANE.match(p.name) is not None
    )


def _gpu_witness(host: HostOps, device: DeviceEvents, allocators: list[str]) -> str:
    ran = [d for d in sorted(device.device.used()) if _GPU_DEVICE.search(d)]
    if ran:
        return f"events on {ran[0]}"
    gpu = [a for a in allocators if _GPU_ALLOCATOR.fullmatch(a)]
    if gpu:
        return f"allocations of {gpu[0]}"
    sent = [d for d in _named_devices(host) if _GPU_DEVICE.search(d)]
    return f"transfers naming {sent[0]}" if sent else ""
