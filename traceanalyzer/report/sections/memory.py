"""The tab Memory: what each allocator had in use, and what held it at its peak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import (
    Chart,
    Code,
    Column,
    Fold,
    KeyValues,
    Line,
    Link,
    Note,
    Quantity,
    Series,
    Tab,
)
from traceanalyzer.report.sections.shared import op_link, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.model.blocks import Block, Cell, Inline, Table, Text
    from traceanalyzer.model.resources import AllocatorMemory, Memory, MemoryHolder, MemoryPeak

_ALLOCATORS_SHOWN: Final = 8
_HOLDERS_SHOWN: Final = 15
_NEAR: Final = 0.3  # of the limit: below it, the limit would make the chart flat
_KINDS: Final = {
    "device": "a device's",
    "pinned_host": "the host's, pinned",
    "host": "the host's",
    "unknown": None,
}
_ALLOCATORS: Final = (
    Column(name="allocator", title="Allocator", kind="code"),
    Column(name="host", title="Host", kind="code"),
    Column(name="whose", title="Whose memory"),
    Column(name="peak_bytes", title="Peak in the trace", kind="bytes"),
    Column(name="limit_bytes", title="TensorFlow's limit", kind="bytes"),
    Column(name="peak_share", title="Peak, of the limit", kind="share"),
    Column(name="highest_bytes", title="Highest ever", kind="bytes"),
)
_HOLDERS: Final = (
    Column(name="op", title="Op"),
    Column(name="region", title="Kind"),
    Column(name="dtype", title="Data type", kind="code"),
    Column(name="shape", title="Shape", kind="code"),
    Column(name="bytes", title="Bytes", kind="bytes"),
    Column(name="count", title="Blocks", kind="count"),
)


def memory_tab(memory: Memory | None) -> Tab | None:
    """Return the tab; None without records of allocators."""
    if memory is None:
        return None
    blocks: list[Block] = [Note(text=(text,), tone="warning") for text in memory.remarks]
    blocks.append(_allocators(memory))
    for allocator in memory.allocators[:_ALLOCATORS_SHOWN]:
        blocks += _allocator(allocator, several=len({a.host for a in memory.allocators}) > 1)
    return Tab(id="memory", title="Memory", blocks=tuple(blocks))


def _allocators(memory: Memory) -> Table:
    several = len({allocator.host for allocator in memory.allocators}) > 1
    rows: list[dict[str, Cell]] = [
        {
            "allocator": a.allocator,
            "host": a.host if several else None,
            "whose": _KINDS[a.kind] if a.device is None else a.device,
            "peak_bytes": None if a.peak is None else a.peak.bytes,
            "limit_bytes": a.limit_bytes,
            "peak_share": None if a.peak is None else a.peak.share,
            "highest_bytes": a.highest_bytes,
        }
        for a in memory.allocators
    ]
    return table_of(_ALLOCATORS, rows, memory.allocators_total, table_id="allocators")


def _allocator(allocator: AllocatorMemory, *, several: bool) -> Iterator[Block]:
    name = f"{allocator.allocator} of {allocator.host}" if several else allocator.allocator
    moments = allocator.timeline.records()
    peak = allocator.peak
    if len(moments) > 1 and peak is not None and peak.bytes:
        limit = allocator.limit_bytes
        is_near = limit is not None and peak.bytes >= _NEAR * limit
        yield Chart(
            style="steps",
            x_label="Time",
            x_unit="us",
            x=tuple(float(row["at_us"] or 0) for row in moments),
            y_unit="bytes",
            series=(Series(label=f"In use, {name}", values=tuple(_size(row) for row in moments)),),
            limit=("TensorFlow's limit", float(limit)) if limit and is_near else None,
        )
    if peak is not None:
        summary = ("At the peak of ", Code(text=name), ": ", _bytes(peak.bytes))
        facts = KeyValues(rows=tuple(_peak(peak)))
        holders = (_holders(peak.holders, peak.holders_total),) if peak.holders else ()
        yield Fold(summary=summary, blocks=(facts, *holders))
    growth = allocator.growth
    if growth is not None and growth.holders:
        grew: Text = (
            "Growth of ", Code(text=name), f" over {counted(growth.steps, 'step')}: ",
            _bytes(growth.last_bytes - growth.first_bytes),
        )  # fmt: skip
        yield Fold(summary=grew, blocks=(_holders(growth.holders, growth.holders_total),))


def _size(row: Mapping[str, object]) -> float | None:
    size = row["bytes"]
    return float(size) if isinstance(size, int | float) else None


def _bytes(size: float) -> Quantity:
    return Quantity(value=float(size), unit="bytes")


def _peak(peak: MemoryPeak) -> Iterator[tuple[str, Text]]:
    """Yield the facts of a peak; parts that are zero are left out."""
    begin, end = f"{peak.at_us:.3f}", f"{peak.at_us + 1:.3f}"
    yield "In use at the peak", (Link(text="show it in the timeline", to=f"time-{begin}-{end}"),)
    parts = (
        ("Allocated before the trace began", peak.before_bytes),
        ("Allocated for unnamed ops", peak.unnamed_bytes),
        ("Reserved by the allocator", peak.reserved_bytes),
        ("Unaccounted for (lost records)", abs(peak.unaccounted_bytes)),
        ("Rounding of blocks", peak.rounding_bytes),
    )
    for name, size in parts:
        if size:
            yield name, (_bytes(size),)
    if peak.fragmentation_share is not None:
        share = Quantity(value=peak.fragmentation_share, unit="share")
        yield "Free memory outside the largest free block", (share,)


def _holders(found: Sequence[MemoryHolder], total: int | None) -> Table:
    rows = [_holder(holder) for holder in found[:_HOLDERS_SHOWN]]
    return table_of(_HOLDERS, rows, max(total or 0, len(found)))


def _holder(holder: MemoryHolder) -> dict[str, Cell]:
    op: list[Inline] = [] if holder.op is None else [op_link(holder.op, holder.op_id)]
    if holder.file is not None:
        op += [" ", Line(file=holder.file, line=holder.line)]
    return {
        "op": tuple(op) or None,
        "region": holder.region_type,
        "dtype": holder.data_type,
        "shape": holder.shape,
        "bytes": holder.bytes,
        "count": holder.count,
    }
