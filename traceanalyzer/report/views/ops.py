"""Ops as tables: those on the CPU first, the dearest of them before the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.model import number_in
from traceanalyzer.report.views.grids import Column, Grid, grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.model import Cell, Report, Table

__all__ = ["cpu_ops_grid", "is_cpu_op", "ops_grid"]

OPS_SHOWN = 500
_OTHER_OPS_SHOWN = 100  # at least, where so many CPU-placed ops come before them
_CPU_OP_COLUMNS = (
    "name",
    "op_id",
    "occurrences",
    "host_self_us",
    "exposed_us",
    "h2d_bytes",
    "d2h_bytes",
    "copy_us",
    "input_types",
    "requested_device",
)
_OP_COLUMNS = (
    "name",
    "op_id",
    "placement",
    "occurrences",
    "host_self_us",
    "exposed_us",
    "kernel_us",
    "h2d_bytes",
    "d2h_bytes",
    "input_types",
)


def _figure(record: Mapping[str, Cell], name: str) -> float:
    return number_in(record.get(name))


def is_cpu_op(record: Mapping[str, Cell]) -> bool:
    """Returns whether an op needs a cause: those of the input pipeline and the runtime do not."""
    if record.get("placement") != "cpu" or record.get("in_input_pipeline") is True:
        return False
    return record.get("role", "compute") == "compute"


def cpu_ops_grid(report: Report) -> Grid:
    """Returns the CPU-placed ops, those that the GPU waits for longest first."""
    table = report.tables.ops
    rows = _cpu_ops(table)
    return _with_causes(grid(table, _CPU_OP_COLUMNS, rows=rows, total_rows=report.summary.cpu_ops))


def ops_grid(report: Report) -> Grid:
    """Returns the CPU-placed ops, as `cpu_ops_grid` has them, and then the other ops.

    These by host and kernel time together. Some of them are shown however many ops are on the CPU.
    """
    table = report.tables.ops
    first = _cpu_ops(table)
    others = sorted(
        (row for row in table.records() if not is_cpu_op(row)),
        key=lambda row: -(_figure(row, "host_self_us") + _figure(row, "kernel_us")),
    )
    at_most = OPS_SHOWN - min(len(others), _OTHER_OPS_SHOWN)
    rows = [*first[:at_most], *others]
    return _with_causes(grid(table, _OP_COLUMNS, rows=rows, limit=OPS_SHOWN))


def _cpu_ops(table: Table) -> list[dict[str, Cell]]:
    return sorted(
        filter(is_cpu_op, table.records()),
        key=lambda row: (-_figure(row, "exposed_us"), -_figure(row, "host_self_us")),
    )


def _with_causes(shown: Grid) -> Grid:
    columns = tuple(
        Column("op_id", "Cause", "causes") if column.name == "op_id" else column
        for column in shown.columns
    )
    return replace(shown, columns=columns, folded=("type", "source_file"))
