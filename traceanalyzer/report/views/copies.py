"""Copies between ops: what their ends are called, and which come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.views.grids import ROWS_SHOWN

if TYPE_CHECKING:
    from traceanalyzer.model import CopyEdge, ReadBack, Report

__all__ = ["copy_edges", "in_a_step", "node_labels"]


def node_labels(report: Report) -> dict[str, str]:
    """Returns what each node of the copy graph is called."""
    graph = report.copy_graph
    return {} if graph is None else {node.op_id: node.label for node in graph.nodes}


def copy_edges(report: Report) -> tuple[CopyEdge, ...]:
    """Returns the edges of the copy graph, those that the GPU waits for longest first."""
    graph = report.copy_graph
    if graph is None:
        return ()
    dearest = sorted(graph.edges, key=lambda e: (-(e.exposed_us or 0.0), -(e.total_us or 0.0)))
    return tuple(dearest[:ROWS_SHOWN])


def in_a_step(back: ReadBack, total_us: float | None) -> float | None:
    """Returns what a total over all copies of a value comes to in a step; unchanged without steps.

    That is the mean over the copies times their median number in a step.
    """
    if total_us is None or back.count_per_step is None:
        return total_us
    return total_us / back.count * back.count_per_step
