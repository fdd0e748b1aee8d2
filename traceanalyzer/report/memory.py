"""Memory in the report: each allocator's peak, what held it, and what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.format import percent_text, size_text
from traceanalyzer.model.resources import (
    AllocatorMemory,
    Memory,
    MemoryGrowth,
    MemoryHolder,
    MemoryPeak,
)
from traceanalyzer.report.convert import in_us, table, to_record
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from traceanalyzer.memory.use import AllocatorUse, Growth, Peak
    from traceanalyzer.run import Host, Run

_MAX_HOLDERS: Final = 50
_MAX_STEPS: Final = 500
_NEARLY_FULL: Final = 0.9
_LEAST_SHARE: Final = 1e-6  # a smaller one is rounded away


def memory(run: Run) -> Memory | None:
    """Return what the allocators of a run's hosts had in use; None without records."""
    uses = [(host, use) for host in run.hosts for use in host.memory]
    if not uses:
        return None
    origin_ps = min(host.start_ps for host in run.hosts)
    ops = _Ops(run, [use for _, use in uses])
    names = sum(int(host.tables.allocations["allocator"].nunique()) for host in run.hosts)
    return Memory(
        remarks=tuple(
            remark for host, use in uses for remark in _remarks(use, _called(host, use, run))
        ),
        allocators=tuple(_allocator(host, use, origin_ps, ops) for host, use in uses),
        allocators_total=names if names > len(uses) else None,
    )


def _allocator(host: Host, use: AllocatorUse, origin_ps: int, ops: _Ops) -> AllocatorMemory:
    timeline, steps = in_us(use.timeline, origin_ps), in_us(use.steps, origin_ps)
    return to_record(
        AllocatorMemory,
        use,
        host=host.name,
        device=None if use.device is None else placement_of_device(use.device),
        peak=None if use.peak is None else _peak(use.peak, use.limit_bytes, origin_ps, ops),
        timeline=table(timeline[["at_us", "bytes"]], total_rows=use.records),
        steps=table(steps[["step", "start_us", "peak_bytes", "end_bytes"]], _MAX_STEPS),
        growth=None if use.growth is None else _growth(use.growth, ops),
    )


def _peak(peak: Peak, limit_bytes: int | None, origin_ps: int, ops: _Ops) -> MemoryPeak:
    return to_record(
        MemoryPeak,
        peak,
        at_us=(peak.at_ps - origin_ps) / PS_PER_US,
        share=_share(peak.bytes, limit_bytes),
        fragmentation_share=peak.fragmentation,
        holders=ops.holders(peak.holders),
        holders_total=len(peak.holders) if len(peak.holders) > _MAX_HOLDERS else None,
    )


def _growth(growth: Growth, ops: _Ops) -> MemoryGrowth:
    return to_record(
        MemoryGrowth,
        growth,
        holders=ops.holders(growth.holders),
        holders_total=len(growth.holders) if len(growth.holders) > _MAX_HOLDERS else None,
    )


class _Ops:
    """Types and source lines of the ops that hold memory."""

    def __init__(self, run: Run, uses: Iterable[AllocatorUse]) -> None:
        parts = [
            part.holders for use in uses for part in (use.peak, use.growth) if part is not None
        ]
        keys = {op_id for groups in parts for op_id in groups["op_id"].head(_MAX_HOLDERS)}
        ops = run.ops[run.ops["op_id"].isin(keys)]
        places = zip(shown_files(ops["source_file"], run), ops["source_line"], strict=True)
        self._known = {
            op_id: {"type": op_type, "file": file, "line": line}
            for op_id, op_type, (file, line) in zip(ops["op_id"], ops["type"], places, strict=True)
        }

    def holders(self, groups: pd.DataFrame) -> tuple[MemoryHolder, ...]:
        """Return the groups that hold most."""
        names = [str(name) for name in groups.columns]
        shown = groups.head(_MAX_HOLDERS).itertuples(index=False, name=None)
        return tuple(self._holder(dict(zip(names, group, strict=True))) for group in shown)

    def _holder(self, group: dict[str, Any]) -> MemoryHolder:
        known = self._known.get(group["op_id"], {"type": None})
        return MemoryHolder(op=group.pop("op_name"), **known, **group)


def _share(part: int, limit_bytes: int | None) -> float | None:
    """Return a share; None if it is impossible. A small one is not rounded to 0."""
    if not limit_bytes or part > limit_bytes:
        return None
    return max(part / limit_bytes, _LEAST_SHARE) if part else 0.0


def _called(host: Host, use: AllocatorUse, run: Run) -> str:
    return f"{use.allocator} of {host.name}" if len(run.hosts) > 1 else use.allocator


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
            f"{size_text(growth.bytes_per_step)} per step{most}. Something is kept from step to "
            "step; a long run may reach the limit."
        )
