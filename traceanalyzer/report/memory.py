"""Memory in the report: each allocator's peak, the ops that used it, and warnings."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.format import counted, percent_text, size_text
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import (
    AllocatorMemory,
    Memory,
    MemoryGrowth,
    MemoryHolder,
    MemoryPeak,
)
from traceanalyzer.report.records import in_us, table, to_record
from traceanalyzer.report.text import in_bytes, op_link, part, table_of
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from traceanalyzer.memory.use import AllocatorUse
    from traceanalyzer.run import Run

_MAX_HOLDERS: Final = 50
_MAX_STEPS: Final = 500
_NEARLY_FULL: Final = 0.9
_LEAST_SHARE: Final = 1e-6  # smaller shares would be rounded to 0
_ALLOCATORS_SHOWN: Final = 8
_HOLDERS_SHOWN: Final = 15
_NEAR: Final = 0.3  # of the limit: below it, the limit would make the chart flat
_LIMIT: Final = "TensorFlow's limit"
_KINDS: Final = {
    "device": "a device's", "pinned_host": "the host's, pinned", "host": "the host's",
    "unknown": None,
}  # fmt: skip
_ALLOCATORS: Final = (
    b.Column(name="allocator", title="Allocator", kind="code"),
    b.Column(name="host", title="Host", kind="code"),
    b.Column(name="whose", title="Whose memory"),
    b.Column(name="peak_bytes", title="Peak in the trace", kind="bytes"),
    b.Column(name="limit_bytes", title=_LIMIT, kind="bytes"),
    b.Column(name="peak_share", title="Peak, of the limit", kind="share"),
    b.Column(name="highest_bytes", title="Highest ever", kind="bytes"),
)
_HOLDERS: Final = (
    b.Column(name="op", title="Op"),
    b.Column(name="region_type", title="Kind"),
    b.Column(name="data_type", title="Data type", kind="code"),
    b.Column(name="shape", title="Shape", kind="code"),
    b.Column(name="bytes", title="Bytes", kind="bytes"),
    b.Column(name="count", title="Blocks", kind="count"),
)


# --- data ------------------------------------------------------------------------------------


def memory(run: Run) -> Memory | None:
    """Return the memory use of a run's allocators; None without records."""
    uses = [(host.name, use) for host in run.hosts for use in host.memory]
    if not uses:
        return None
    names = sum(int(host.tables.allocations["allocator"].nunique()) for host in run.hosts)
    several = len(run.hosts) > 1
    remarks = [_remarks(use, _name(use.allocator, host, several=several)) for host, use in uses]
    return Memory(
        remarks=tuple(chain.from_iterable(remarks)),
        allocators=tuple(_allocator(host, use, run) for host, use in uses),
        allocators_total=names if names > len(uses) else None,
    )


def _name(allocator: str, host: str, *, several: bool) -> str:
    return f"{allocator} of {host}" if several else allocator


def _allocator(host: str, use: AllocatorUse, run: Run) -> AllocatorMemory:
    origin_ps = min(host.start_ps for host in run.hosts)
    timeline, steps = in_us(use.timeline, origin_ps), in_us(use.steps, origin_ps)
    peak, growth = use.peak, use.growth
    return to_record(
        AllocatorMemory,
        use,
        host=host,
        device=None if use.device is None else placement_of_device(use.device),
        peak=None
        if peak is None
        else to_record(
            MemoryPeak,
            peak,
            at_us=(peak.at_ps - origin_ps) / PS_PER_US,
            share=_share(peak.bytes, use.limit_bytes),
            fragmentation_share=peak.fragmentation,
            **_holders(peak.holders, run),
        ),
        timeline=table(timeline[["at_us", "bytes"]], total_rows=use.records),
        steps=table(steps[["step", "start_us", "peak_bytes", "end_bytes"]], _MAX_STEPS),
        growth=None
        if growth is None
        else to_record(MemoryGrowth, growth, **_holders(growth.holders, run)),
    )


def _holders(groups: pd.DataFrame, run: Run) -> dict[str, Any]:
    """Return the largest groups of blocks, with the type and source line of each op."""
    ops = run.ops[["op_id", "type", "source_file", "source_line"]]
    shown = groups.head(_MAX_HOLDERS).merge(ops, how="left", on="op_id")
    shown["file"] = shown_files(shown["source_file"], run)
    shown = shown.rename(columns={"op_name": "op", "source_line": "line"})
    holders = tuple(to_record(MemoryHolder, row) for row in shown.to_dict("records"))
    total = len(groups) if len(groups) > _MAX_HOLDERS else None
    return {"holders": holders, "holders_total": total}


def _share(size: int, limit_bytes: int | None) -> float | None:
    """Return a share; None if it is above 1 or unknown. A small one is not rounded to 0."""
    if not limit_bytes or size > limit_bytes:
        return None
    return max(size / limit_bytes, _LEAST_SHARE) if size else 0.0


def _remarks(use: AllocatorUse, name: str) -> Iterator[str]:
    peak, growth = use.peak, use.growth
    if peak is not None:
        share = _share(peak.bytes, use.limit_bytes)
        if use.kind == "device" and share is not None and share >= _NEARLY_FULL:
            yield (
                f"{name} was {percent_text(share)} full at its peak ({size_text(peak.bytes)} of "
                f"{size_text(use.limit_bytes or 0)}). Larger allocations fail with "
                "ResourceExhausted."
            )
        if peak.unaccounted_bytes:
            lost = "allocations" if peak.unaccounted_bytes > 0 else "deallocations"
            yield (
                f"Some records of {name} are missing from the trace: {lost} of "
                f"{size_text(abs(peak.unaccounted_bytes))} before its peak."
            )
    if growth is not None:
        first = growth.holders["op_name"].iloc[0] if len(growth.holders) else None
        most = f"; most of it belongs to {first}" if first else ""
        yield (
            f"Memory in use of {name} grew in each of {growth.steps} steps, by "
            f"{size_text(growth.bytes_per_step)} per step{most}. Memory is not freed after each "
            "step; a long run may reach the limit."
        )


# --- the tab ---------------------------------------------------------------------------------


def memory_tab(memory: Memory | None) -> b.Tab | None:
    """Return the tab; None without records of allocators."""
    if memory is None:
        return None
    several = len({allocator.host for allocator in memory.allocators}) > 1
    rows: list[dict[str, b.Cell]] = [
        {
            **vars(a),
            "host": a.host if several else None,
            "whose": _KINDS[a.kind] if a.device is None else a.device,
            "peak_bytes": None if a.peak is None else a.peak.bytes,
            "peak_share": None if a.peak is None else a.peak.share,
        }
        for a in memory.allocators
    ]
    blocks: list[b.Block] = [b.Note(text=(text,), tone="warning") for text in memory.remarks]
    blocks.append(table_of(_ALLOCATORS, rows, memory.allocators_total, table_id="allocators"))
    for allocator in memory.allocators[:_ALLOCATORS_SHOWN]:
        name = _name(allocator.allocator, allocator.host, several=several)
        blocks += [*_chart(allocator, name), *_folds(allocator, name)]
    return b.Tab(id="memory", title="Memory", blocks=tuple(blocks))


def _chart(allocator: AllocatorMemory, name: str) -> Iterator[b.Chart]:
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


def _folds(allocator: AllocatorMemory, name: str) -> Iterator[b.Fold]:
    """Yield the largest users of memory at the peak, and its growth."""
    peak, growth, of = allocator.peak, allocator.growth, b.Code(text=name)
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
            summary=("At the peak of ", of, ": ", in_bytes(peak.bytes)),
            blocks=(b.KeyValues(rows=tuple(facts)), *_holder_table(peak)),
        )
    if growth is not None and growth.holders:
        grew = in_bytes(growth.last_bytes - growth.first_bytes)
        over = f" over {counted(growth.steps, 'step')}: "
        yield b.Fold(summary=("Growth of ", of, over, grew), blocks=tuple(_holder_table(growth)))


def _holder_table(found: MemoryPeak | MemoryGrowth) -> Iterator[b.Table]:
    rows: list[dict[str, b.Cell]] = []
    for holder in found.holders[:_HOLDERS_SHOWN]:
        op: list[b.Inline] = [] if holder.op is None else [op_link(holder.op, holder.op_id)]
        if holder.file is not None:
            op += [" ", b.Line(file=holder.file, line=holder.line)]
        rows.append(vars(holder) | {"op": tuple(op) or None})
    if rows:
        yield table_of(_HOLDERS, rows, max(found.holders_total or 0, len(found.holders)))
