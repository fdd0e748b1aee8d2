"""Reports memory use: each allocator's peak, the ops that held the memory, and warnings."""

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

import pandas as pd

from traceanalyzer.format import percent_text, size_text
from traceanalyzer.memory import AllocatorUse, Peak
from traceanalyzer.model import blocks as b
from traceanalyzer.model import figures as m
from traceanalyzer.report.records import in_us, table, to_record
from traceanalyzer.report.text import fill, in_bytes, op_link, part, phrase, table_of, word
from traceanalyzer.run import Run
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import placement_of_device
from traceanalyzer.units import PS_PER_US

_MAX_HOLDERS: Final = 50
_MAX_STEPS: Final = 500
_NEARLY_FULL: Final = 0.9
_LEAST_SHARE: Final = 1e-6  # smaller shares would be rounded to 0
_ALLOCATORS_SHOWN: Final = 8
_HOLDERS_SHOWN: Final = 15
_NEAR: Final = 0.3  # of the limit: below it, the limit would make the chart flat
_LIMIT: Final = "TensorFlow's limit"


# --- data ------------------------------------------------------------------------------------


def memory(run: Run) -> m.Memory | None:
    """Return the memory use of a run's allocators, or None if none was recorded."""
    uses = [(host.name, use) for host in run.hosts for use in host.memory]
    if not uses:
        return None
    names = sum(int(host.tables.allocations["allocator"].nunique()) for host in run.hosts)
    several = len(run.hosts) > 1
    remarks = [_remarks(use, _name(use.allocator, host, several=several)) for host, use in uses]
    return m.Memory(
        remarks=tuple(chain.from_iterable(remarks)),
        allocators=tuple(_allocator(host, use, run) for host, use in uses),
        allocators_total=names if names > len(uses) else None,
    )


def _name(allocator: str, host: str, *, several: bool) -> str:
    return f"{allocator} of {host}" if several else allocator


def _allocator(host: str, use: AllocatorUse, run: Run) -> m.AllocatorMemory:
    origin_ps = min(host.start_ps for host in run.hosts)
    timeline, steps = in_us(use.timeline, origin_ps), in_us(use.steps, origin_ps)
    peak = None
    if use.peak is not None:
        at_us, share = (use.peak.at_ps - origin_ps) / PS_PER_US, _share(use.peak, use)
        more = _holders(use.peak.holders, run) | {"fragmentation_share": use.peak.fragmentation}
        peak = to_record(m.MemoryPeak, use.peak, at_us=at_us, share=share, **more)
    return to_record(
        m.AllocatorMemory,
        use,
        host=host,
        device=None if use.device is None else placement_of_device(use.device),
        peak=peak,
        timeline=table(timeline[["at_us", "bytes"]], total_rows=use.records),
        steps=table(steps[["step", "start_us", "peak_bytes", "end_bytes"]], _MAX_STEPS),
    )


def _holders(groups: pd.DataFrame, run: Run) -> dict[str, Any]:
    """Return the ops that hold the most memory, with their source lines, as record fields."""
    ops = run.ops[["op_id", "type", "source_file", "source_line"]]
    shown = groups.head(_MAX_HOLDERS).merge(ops, how="left", on="op_id")
    shown["file"] = shown_files(shown["source_file"], run)
    shown = shown.rename(columns={"op_name": "op", "source_line": "line"})
    holders = tuple(to_record(m.MemoryHolder, row) for row in shown.to_dict("records"))
    total = len(groups) if len(groups) > _MAX_HOLDERS else None
    return {"holders": holders, "holders_total": total}


def _share(peak: Peak, use: AllocatorUse) -> float | None:
    if not use.limit_bytes or peak.bytes > use.limit_bytes:
        return None
    return max(peak.bytes / use.limit_bytes, _LEAST_SHARE) if peak.bytes else 0.0


def _remarks(use: AllocatorUse, name: str) -> Iterator[str]:
    peak = use.peak
    if peak is not None:
        share = _share(peak, use)
        if use.kind == "device" and share is not None and share >= _NEARLY_FULL:
            sizes = {"peak": size_text(peak.bytes), "limit": size_text(use.limit_bytes or 0)}
            yield phrase("allocator_full", name=name, share=percent_text(share), **sizes)
        if peak.unaccounted_bytes:
            lost = "allocations" if peak.unaccounted_bytes > 0 else "deallocations"
            size = size_text(abs(peak.unaccounted_bytes))
            yield phrase("records_lost", name=name, lost=lost, size=size)


# --- the tab ---------------------------------------------------------------------------------


def memory_tab(memory: m.Memory | None) -> b.Tab | None:
    """Return the "Memory" tab, or None if no memory use was recorded."""
    if memory is None:
        return None
    several = len({allocator.host for allocator in memory.allocators}) > 1
    rows: list[dict[str, b.Cell]] = [
        {
            **vars(a),
            "host": a.host if several else None,
            "whose": a.device or (None if a.kind == "unknown" else word("memory", a.kind)),
            "peak_bytes": None if a.peak is None else a.peak.bytes,
            "peak_share": None if a.peak is None else a.peak.share,
        }
        for a in memory.allocators
    ]
    blocks: list[b.Block] = [b.Note(text=(text,), tone="warning") for text in memory.remarks]
    blocks.append(table_of("allocators", rows, memory.allocators_total, table_id="allocators"))
    for allocator in memory.allocators[:_ALLOCATORS_SHOWN]:
        name = _name(allocator.allocator, allocator.host, several=several)
        blocks += [*_chart(allocator, name), *_folds(allocator, name)]
    return b.Tab(id="memory", title="Memory", blocks=tuple(blocks))


def _chart(allocator: m.AllocatorMemory, name: str) -> Iterator[b.Chart]:
    peak, limit, moments = allocator.peak, allocator.limit_bytes, allocator.timeline.rows
    if peak is None or not peak.bytes or len(moments) < 2:  # noqa: PLR2004 - a line needs two
        return
    at_us, in_use = ([float(x or 0) for x in column] for column in zip(*moments, strict=True))
    is_near = limit is not None and peak.bytes >= _NEAR * limit
    yield b.Chart(
        style="steps",
        x_label="Time",
        x_unit="us",
        x=tuple(at_us),
        y_unit="bytes",
        series=(b.Series(label=f"In use, {name}", values=tuple(in_use)),),
        limit=(_LIMIT, float(limit)) if limit and is_near else None,
    )


def _folds(allocator: m.AllocatorMemory, name: str) -> Iterator[b.Fold]:
    peak, of = allocator.peak, b.Code(text=name)
    if peak is not None:
        to = f"time-{peak.at_us:.3f}-{peak.at_us + 1:.3f}"
        link = b.Link(text="show it in the timeline", to=to)
        sizes = {
            "Allocated before the trace began": peak.before_bytes,
            "Allocated for unnamed ops": peak.unnamed_bytes,
            "Reserved by the allocator": peak.reserved_bytes,
            "Unaccounted for (lost records)": abs(peak.unaccounted_bytes),
            "Rounding of blocks": peak.rounding_bytes,
        }
        facts: list[tuple[str, b.Text]] = [("In use at the peak", (link,))]
        facts += [(what, (in_bytes(size),)) for what, size in sizes.items() if size]
        if peak.fragmentation_share is not None:
            free = (part(peak.fragmentation_share),)
            facts.append(("Free memory outside the largest free block", free))
        yield b.Fold(
            summary=fill("At the peak of {}: {}", of, in_bytes(peak.bytes)),
            blocks=(b.KeyValues(rows=tuple(facts)), *_holder_table(peak)),
        )


def _holder_table(found: m.MemoryPeak) -> Iterator[b.Table]:
    rows: list[dict[str, b.Cell]] = []
    for holder in found.holders[:_HOLDERS_SHOWN]:
        op: list[b.Inline] = [] if holder.op is None else [op_link(holder.op, holder.op_id)]
        if holder.file is not None:
            op += [" ", b.Line(file=holder.file, line=holder.line)]
        rows.append(vars(holder) | {"op": tuple(op) or None})
    if rows:
        yield table_of("holders", rows, max(found.holders_total or 0, len(found.holders)))
