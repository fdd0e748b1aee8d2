"""The run in the report: its devices, the command that made it, when and how it was recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.capture_file.recorded_run import shown_command
from traceanalyzer.format import size_text
from traceanalyzer.model import DeviceInfo, RunInfo, TfVersion
from traceanalyzer.tables.recording import logical_devices
from traceanalyzer.timeline.device_work import durations
from traceanalyzer.timeline.intervals import union
from traceanalyzer.units import NS_PER_S, PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.model.times import Steps
    from traceanalyzer.run import Host, Run


def run_info(run: Run, devices: tuple[DeviceInfo, ...], steps: Steps) -> RunInfo:
    """Return what the report says about the run itself."""
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
        command=_command(run),
        recorded_at=_recorded_at(run),
        host_tracer_level=_host_tracer_level(run),
    )


def devices_of(run: Run) -> tuple[DeviceInfo, ...]:
    """Return the devices of all hosts, and how busy they were."""
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
    cpus = {str(d) for d in host.tables.ops["device"].dropna() if "/device:CPU:" in str(d)}
    # A short name is one of the full names there are: eager ops are recorded with either.
    full = {name[name.rfind("/device:") :] for name in cpus if not name.startswith("/device:")}
    for name in sorted(cpus - full) or ["CPU"]:
        yield DeviceInfo(name=f"{host.name} {name}", kind="cpu")


def _unseen_gpus(host: Host, *, several: bool) -> Iterable[DeviceInfo]:
    """Yield the GPUs that the capture lists and that have no plane in the trace."""
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
    """Return the name that TensorFlow gave a GPU, if a capture recorded it."""
    devices = (host.capture_file.devices if host.capture_file else None) or {}
    details = devices.get("details")
    physical = plane.replace("/device:", "/physical_device:")
    known = details.get(physical) if isinstance(details, dict) else None
    model = known.get("device_name") if isinstance(known, dict) else None
    return model if isinstance(model, str) else None


def _model(properties: dict[str, str]) -> str | None:
    """Describe a device from the properties of its plane; few planes name the model."""
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


def _command(run: Run) -> str:
    """Return the command that captured a run or, if unknown, that reports it; without secrets."""
    for host in run.hosts:
        if host.capture_file is not None and host.capture_file.command:
            return shown_command(host.capture_file.command)
    return shown_command(["traceanalyzer", "report", run.path_name])


def _recorded_at(run: Run) -> str | None:
    """Return when the recording began, in UTC; None without a capture."""
    starts = [at for host in run.hosts if (at := _start_ns(host)) is not None]
    if not starts:
        return None
    try:
        began = datetime.fromtimestamp(min(starts) // NS_PER_S, UTC)
    except (OverflowError, OSError, ValueError):  # a year that no calendar has
        return None
    return f"{began:%Y-%m-%d %H:%M:%S}"


def _host_tracer_level(run: Run) -> int | None:
    """Return the host tracer level; None if it is unknown or hosts differ."""
    facts = [host.tables.facts for host in run.hosts]
    levels = {f.host_level if f.host_level_source != "assumed" else None for f in facts}
    return levels.pop() if len(levels) == 1 else None


def _start_ns(host: Host) -> int | None:
    if host.capture_file is None or host.session is None:
        return None
    start_ns = host.capture_file.sessions[host.session].start_ns
    return start_ns if start_ns > 0 else None
