"""Copies between ops: what their ends are called, and which come first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.report.views.grids import ROWS_SHOWN

if TYPE_CHECKING:
    from traceanalyzer.model import CopyEdge, Report

__all__ = ["copy_edges", "node_labels"]


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
