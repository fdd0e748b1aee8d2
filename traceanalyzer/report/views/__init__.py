"""What the page and the terminal show of a Report: which rows, in which order, under which words.

Pure functions from the document to small records; they add no fact to it.
"""

from __future__ import annotations

from traceanalyzer.report.views.anchors import Home, fragment, homes
from traceanalyzer.report.views.copies import copy_edges, in_a_step, node_labels
from traceanalyzer.report.views.figures import (
    Part,
    devices_in_short,
    explained_parts,
    health_in_short,
    idle_of,
    why_unknown,
)
from traceanalyzer.report.views.findings import (
    FINDINGS_IN_FULL,
    Explanation,
    NumberedFinding,
    SourcePlace,
    cause_title,
    explanations,
    host_time,
    kept_by_several,
    nothing_on_the_cpu,
    numbered_findings,
    numbered_on_a_gpu,
    ops_listed,
    ranked,
    source_places,
    why_silent,
)
from traceanalyzer.report.views.grids import ROWS_SHOWN, Column, Grid, grid
from traceanalyzer.report.views.ops import cpu_ops_grid, is_cpu_op, ops_grid

__all__ = [
    "FINDINGS_IN_FULL",
    "ROWS_SHOWN",
    "Column",
    "Explanation",
    "Grid",
    "Home",
    "NumberedFinding",
    "Part",
    "SourcePlace",
    "cause_title",
    "copy_edges",
    "cpu_ops_grid",
    "devices_in_short",
    "explained_parts",
    "explanations",
    "fragment",
    "grid",
    "health_in_short",
    "homes",
    "host_time",
    "idle_of",
    "in_a_step",
    "is_cpu_op",
    "kept_by_several",
    "node_labels",
    "nothing_on_the_cpu",
    "numbered_findings",
    "numbered_on_a_gpu",
    "ops_grid",
    "ops_listed",
    "ranked",
    "source_places",
    "why_silent",
    "why_unknown",
]
