"""Copies written by hand, for the pictures of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.report.examples import gpu_run
from traceanalyzer.model.transfers import (
    CopyGraph,
    CopyGroup,
    CopyGroups,
    DeviceCopies,
    GroupCopies,
)

if TYPE_CHECKING:
    from traceanalyzer.model import Direction, Report


def copies(source: str, target: str, size: int | None, way: Direction = "unknown") -> DeviceCopies:
    return DeviceCopies(
        source=source, target=target, direction=way, bytes=size, count=1, total_us=1.0
    )


def group(name: str, **more: object) -> CopyGroup:
    return CopyGroup(kind="op", label=name, ops=2, node=name, name=name, **more)  # type: ignore[arg-type]


def flow(source: int, target: int, size: int | None, memories: str = "host gpu:0") -> GroupCopies:
    here, there = memories.split()
    return GroupCopies(
        source=source,
        target=target,
        source_memory=here,
        target_memory=there,
        direction="h2d",
        bytes=size,
        unknown_bytes=0 if size is not None else 2,
        count=2,
        total_us=1.0,
        exposed_us=None,
    )


def with_copies(*devices: DeviceCopies, groups: CopyGroups | None = None) -> Report:
    """Return a report of these copies."""
    graph = CopyGraph(nodes=(), edges=(), devices=devices, groups=groups)
    return replace(gpu_run(), copy_graph=graph)
