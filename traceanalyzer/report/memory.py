"""What the report says of memory: each allocator's peak, what held it, and what needs attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.format import percent_text, size_text
from traceanalyzer.model import (
    AllocatorMemory,
    Memory,
    MemoryGrowth,
    MemoryHolder,
    MemoryPeak,
    Table,
)
from traceanalyzer.report.sources import shown_files
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd

    from traceanalyzer.memory.growth import Growth
    from traceanalyzer.memory.use import AllocatorUse, Peak
    from traceanalyzer.run import Host, Run

__all__ = ["memory"]

_MAX_HOLDERS: Final = 50
_MAX_STEPS: Final = 500
_NEARLY_FULL: Final = 0.9
_LEAST_SHARE: Final = 1e-6  # a smaller one is rounded away


def memory(run: Run) -> Memory | None:
    """Return what the allocators of a run's hosts had in use, or None where no record tells."""
    told = [(host, use) for host in run.hosts for use in host.memory]
    if not told:
        return None
    origin_ps = min(host.start_ps for host in run.hosts)
    ops = _Ops(run, [use for _, use in told])
    names = sum(int(host.tables.allocations["allocator"].nunique()) for host in run.hosts)
    return Memory(
        remarks=tuple(
            remark for host, use in told for remark in _remarks(use, _called(host, use, run))
        ),
        allocators=tuple(_allocator(host, use, origin_ps, ops) for host, use in told),
        allocators_total=names if names > len(told) else None,
    )


def _allocator(host: Host, use: AllocatorUse, origin_ps: int, ops: _Ops) -> AllocatorMemory:
    timeline, steps = use.timeline, use.steps
    return AllocatorMemory(
        host=host.name,
        allocator=use.allocator,
        kind=use.kind,
        device=None if use.device is None else placement_of_device(use.device),
        records=use.records,
        limit_bytes=use.limit_bytes,
        highest_bytes=use.highest_bytes,
        peak=None if use.peak is None else _peak(use.peak, use.limit_bytes, origin_ps, ops),
        timeline=Table(
            columns=("at_us", "bytes"),
            rows=tuple(
                zip(
                    ((timeline["at_ps"] - origin_ps) / PS_PER_US).tolist(),
                    timeline["bytes"].tolist(),
                    strict=True,
                )
            ),
            total_rows=use.records,
        ),
        steps=Table(
            columns=("step", "start_us", "peak_bytes", "end_bytes"),
            rows=tuple(
                zip(
                    steps["step"].tolist(),
                    ((steps["start_ps"] - origin_ps) / PS_PER_US).tolist(),
                    steps["peak_bytes"].tolist(),
                    steps["end_bytes"].tolist(),
                    strict=True,
                )
            )[:_MAX_STEPS],
            total_rows=len(steps),
        ),
        growth=None if use.growth is None else _growth(use.growth, ops),
    )


def _peak(peak: Peak, limit_bytes: int | None, origin_ps: int, ops: _Ops) -> MemoryPeak:
    return MemoryPeak(
        at_us=(peak.at_ps - origin_ps) / PS_PER_US,
        bytes=peak.bytes,
        share=_share(peak.bytes, limit_bytes),
        named_bytes=peak.named_bytes,
        unnamed_bytes=peak.unnamed_bytes,
        before_bytes=peak.before_bytes,
        reserved_bytes=peak.reserved_bytes,
        unaccounted_bytes=peak.unaccounted_bytes,
        rounding_bytes=peak.rounding_bytes,
        available_bytes=peak.available_bytes,
        fragmentation_share=peak.fragmentation,
        holders=ops.holders(peak.holders),
        holders_total=len(peak.holders) if len(peak.holders) > _MAX_HOLDERS else None,
    )


def _growth(growth: Growth, ops: _Ops) -> MemoryGrowth:
    return MemoryGrowth(
        steps=growth.steps,
        first_bytes=growth.first_bytes,
        last_bytes=growth.last_bytes,
        bytes_per_step=growth.bytes_per_step,
        holders=ops.holders(growth.holders),
        holders_total=len(growth.holders) if len(growth.holders) > _MAX_HOLDERS else None,
    )


class _Ops:
    """What the op table says of the ops that hold memory."""

    def __init__(self, run: Run, told: Iterable[AllocatorUse]) -> None:
        held = [part.holders for use in told for part in (use.peak, use.growth) if part is not None]
        keys = {op_id for groups in held for op_id in groups["op_id"].head(_MAX_HOLDERS)}
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
    """Return a share, unless what is said contradicts itself; what is little is not nothing."""
    if not limit_bytes or part > limit_bytes:
        return None
    return max(part / limit_bytes, _LEAST_SHARE) if part else 0.0


def _called(host: Host, use: AllocatorUse, run: Run) -> str:
    return f"{use.allocator} of {host.name}" if len(run.hosts) > 1 else use.allocator


def _remarks(use: AllocatorUse, name: str) -> Iterator[str]:
    """Walk what needs attention."""
    peak, growth = use.peak, use.growth
    if peak is not None:
        share = _share(peak.bytes, use.limit_bytes)
        if use.kind == "device" and share is not None and share >= _NEARLY_FULL:
            yield (
                f"{name} was {percent_text(share)} full at its peak ({size_text(peak.bytes)} of "
                f"{size_text(use.limit_bytes or 0)}): what needs more than the rest ends in "
                "ResourceExhausted."
            )
        if peak.unaccounted_bytes:
            lost = "allocations" if peak.unaccounted_bytes > 0 else "deallocations"
            yield (
                f"The records of {name} do not add up: {lost} of "
                f"{size_text(abs(peak.unaccounted_bytes))} before its peak are not in the trace."
            )
    if growth is not None:
        first = growth.holders["op_name"].iloc[0] if len(growth.holders) else None
        most = f"; most of it belongs to {first}" if first else ""
        yield (
            f"{name} had more in use at the end of each of {growth.steps} steps than at the end of "
            f"the one before, {size_text(growth.bytes_per_step)} a step{most}: something is kept "
            "from step to step, and if that goes on a long run reaches the limit."
        )
