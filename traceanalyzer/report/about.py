"""Builds the "About the trace" section: limits, devices, software, command, and glossary."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from traceanalyzer.capture_file.recorded_run import shown_command
from traceanalyzer.format import size_text
from traceanalyzer.model import DeviceInfo, Health, RunInfo, TfVersion
from traceanalyzer.model import blocks as b
from traceanalyzer.report.records import to_record
from traceanalyzer.report.steps import steps_of
from traceanalyzer.report.text import prose, sentence, table_of, terms, time
from traceanalyzer.run import Host, Run, once_per_run
from traceanalyzer.tables.recording import logical_devices
from traceanalyzer.timeline.intervals import durations, union
from traceanalyzer.units import NS_PER_S, PS_PER_US
from traceanalyzer.version import VERSION

# --- data ------------------------------------------------------------------------------------


@once_per_run
def run_info(run: Run) -> RunInfo:
    """Return a run's hosts, devices, TensorFlow version, command, and recording time."""
    facts = [host.tables.facts for host in run.hosts]
    levels = {f.host_level if f.host_level_source != "assumed" else None for f in facts}
    commands = [capture_file.command for _, capture_file in run.captured if capture_file.command]
    unknown = ["traceanalyzer", "report", run.path_name]
    return to_record(
        RunInfo,
        run,
        hosts=tuple(h.name for h in run.hosts),
        tf_version=to_record(TfVersion, run.version or {"value": None, "source": None}),
        steps=steps_of(run).count or None,
        devices=tuple(device for host in run.hosts for device in _devices(run, host)),
        command=shown_command(commands[0] if commands else unknown),
        recorded_at=_recorded_at(run),
        host_tracer_level=levels.pop() if len(levels) == 1 else None,
    )


def _recorded_at(run: Run) -> str | None:
    """Return when the recording began, in UTC, or None without a capture file."""
    starts_ns = [
        capture_file.sessions[host.session].start_ns
        for host, capture_file in run.captured
        if host.session is not None
    ]
    start_ns = min((start_ns for start_ns in starts_ns if start_ns > 0), default=0)
    start = datetime.fromtimestamp(start_ns // NS_PER_S, UTC)
    return f"{start:%Y-%m-%d %H:%M:%S}" if start_ns else None


def _devices(run: Run, host: Host) -> Iterator[DeviceInfo]:
    facts, kernels, copies = host.tables.facts, host.tables.kernels, host.tables.transfers
    of_host = f"{host.name} " if len(run.hosts) > 1 else ""
    for name in facts.accelerators:
        own = [t[(t["device"] == name).to_numpy()] for t in (kernels, copies)]
        starts_ps = np.concatenate([t["start_ps"].to_numpy(np.int64) for t in own])
        busy_ps = union(starts_ps, np.concatenate([*map(durations, own)])).total_ps
        yield DeviceInfo(
            name=f"{of_host}{name}",
            kind="tpu" if "TPU" in name else "gpu",
            model=_recorded_model(host, name) or _model(host.device_properties.get(name, {})),
            kernels=len(own[0]),
            busy_us=busy_ps / PS_PER_US,
            busy_share=busy_ps / run.duration_ps if run.duration_ps else None,
        )
    if facts.pluggable_used:
        yield DeviceInfo(name=f"{host.name} pluggable device", kind="pluggable")
    # GPUs that the capture lists but that have no plane in the trace.
    for device in (logical_devices(host.capture_file) if host.capture_file else None) or ():
        name = device[device.rfind("/device:") :]
        if name.startswith("/device:GPU:") and name not in facts.accelerators:
            model = _recorded_model(host, name)
            yield DeviceInfo(name=f"{of_host}{name}", kind="gpu", model=model)
    cpus = {str(d) for d in host.tables.ops["device"].dropna() if "/device:CPU:" in str(d)}
    # Eager ops are recorded with short or full device names; a short one is part of a full one.
    full = {name[name.rfind("/device:") :] for name in cpus if not name.startswith("/device:")}
    for name in sorted(cpus - full) or ["CPU"]:
        yield DeviceInfo(name=f"{host.name} {name}", kind="cpu")


def _recorded_model(host: Host, plane: str) -> str | None:
    devices = (host.capture_file.devices if host.capture_file else None) or {}
    match devices.get("details"):
        case dict(details):
            match details.get(plane.replace("/device:", "/physical_device:")):
                case {"device_name": str(model)}:
                    return model
    return None


def _model(properties: dict[str, str]) -> str | None:
    """Return a device's model or, if its plane does not name one, its other known properties."""
    named = properties.get("gpu_device_name") or properties.get("device_type_string")
    if named:
        return named
    major, memory = properties.get("compute_cap_major"), properties.get("memory_size", "")
    minor = properties.get("compute_cap_minor", "0")
    parts = (
        properties.get("device_vendor"),
        f"compute capability {major}.{minor}" if major is not None else None,
        f"{properties['core_count']} multiprocessors" if properties.get("core_count") else None,
        f"{size_text(int(memory))} of memory" if memory.isdecimal() else None,
    )
    return ", ".join(filter(None, parts)) or None


# --- the last section of the page --------------------------------------------------------------


def about(run: Run, limits: Sequence[Health]) -> b.Section:
    """Return the "About the trace" section, which begins with the limits of the trace."""
    health, info = health_lines(run, limits), run_info(run)
    tf, level = info.tf_version, info.host_tracer_level
    source = (tf.source or "").replace("_", " ")
    rows: dict[str, b.Text] = {
        "Run": (b.Code(text=info.name),) if info.name else (),
        "Command": (b.Code(text=info.command),) if info.command else (),
        "Recorded": (f"{info.recorded_at} UTC",) if info.recorded_at else (),
        "Duration": (time(info.duration_us),) if info.duration_us else (),
        "TensorFlow": (f"{tf.value}, by {source}",) if tf.value else (),
        "Host tracer level": () if level is None else (f"{level}",),
        "Report by": (f"traceanalyzer {VERSION}",),
    }
    glossary = b.KeyValues(  # its entries are the link targets of terms
        rows=tuple((name, prose(meaning)) for name, meaning in terms().items()),
        ids=tuple(f"term-{name.replace(' ', '-')}" for name in terms()),
    )
    blocks: tuple[b.Block, ...] = (
        *([b.Bullets(items=health)] if health else []),
        b.KeyValues(rows=tuple((name, text) for name, text in rows.items() if text)),
        *([table_of("devices", [*map(vars, info.devices)])] if info.devices else []),
        b.Fold(summary=("Glossary",), blocks=(glossary,), id="glossary"),
    )
    return b.Section(id="about", title="About the trace", blocks=blocks)


def health_lines(run: Run, limits: Sequence[Health]) -> tuple[b.Text, ...]:
    """Return the trace's limits, most severe first. Omit the host's name if there is only one."""
    prefix = f"{run.hosts[0].name}: " if len(run.hosts) == 1 else ""
    return tuple(prose(sentence(e.message.removeprefix(prefix))) for e in limits)
