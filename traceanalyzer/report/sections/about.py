"""About the trace: what limits it, devices, software, command, and the glossary."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from traceanalyzer.model.blocks import Bullets, Code, Column, Fold, KeyValues, Section, Table
from traceanalyzer.report.inline import prose, time
from traceanalyzer.report.run_info import devices_of, run_info
from traceanalyzer.report.sections.folds import health_lines
from traceanalyzer.report.steps import steps_of
from traceanalyzer.report.text import terms

if TYPE_CHECKING:
    from traceanalyzer.model import DeviceInfo
    from traceanalyzer.model.blocks import Block, Cell, Text
    from traceanalyzer.report.page_facts import PageFacts

_DEVICE_COLUMNS: Final = (
    Column(name="device", title="Device", kind="code", term="device"),
    Column(name="model", title="Model"),
    Column(name="kernels", title="Kernels", kind="count", term="kernel"),
    Column(name="busy_share", title="Busy, of the recording", kind="share"),
)


def about(facts: PageFacts) -> Section:
    """Return the last section."""
    health = health_lines(facts)
    blocks: list[Block] = [Bullets(items=health)] if health else []
    blocks += [_recording(facts), *_devices(devices_of(facts.run)), _glossary()]
    return Section(id="about", title="About the trace", blocks=tuple(blocks))


def _recording(facts: PageFacts) -> KeyValues:
    run = facts.run
    info = run_info(run, (), steps_of(run))
    rows: list[tuple[str, Text]] = [("Run", (Code(text=run.name),))] if run.name else []
    if info.command:
        rows.append(("Command", (Code(text=info.command),)))
    if info.recorded_at:
        rows.append(("Recorded", (f"{info.recorded_at} UTC",)))
    if info.duration_us:
        rows.append(("Duration", (time(info.duration_us),)))
    if run.version is not None:
        rows.append(
            ("TensorFlow", (f"{run.version.value}, by {run.version.source.replace('_', ' ')}",))
        )
    if info.host_tracer_level is not None:
        rows.append(("Host tracer level", (str(info.host_tracer_level),)))
    rows.append(("Report by", (f"traceanalyzer {version('traceanalyzer')}",)))
    return KeyValues(rows=tuple(rows))


def _devices(devices: tuple[DeviceInfo, ...]) -> tuple[Table, ...]:
    """Return the table of devices, without columns that are unknown for all of them."""
    rows: list[tuple[Cell, ...]] = [
        (d.name, d.model, None if d.kernels is None else float(d.kernels), d.busy_share)
        for d in devices
    ]
    kept = [k for k in range(len(_DEVICE_COLUMNS)) if any(row[k] is not None for row in rows)]
    columns = tuple(_DEVICE_COLUMNS[k] for k in kept)
    cells = tuple(tuple(row[k] for k in kept) for row in rows)
    return (Table(columns=columns, rows=cells, total_rows=len(cells)),) if rows else ()


def _glossary() -> Fold:
    """Return the glossary; its entries are what the uses of a term link to."""
    entries = KeyValues(
        rows=tuple((name, prose(meaning)) for name, meaning in terms().items()),
        ids=tuple(f"term-{name.replace(' ', '-')}" for name in terms()),
    )
    return Fold(summary=("Glossary",), blocks=(entries,), id="glossary")
