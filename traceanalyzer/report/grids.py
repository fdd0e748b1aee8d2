"""Tables as they are shown: which columns, under which headings, how many rows, which cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from traceanalyzer.model import number_in
from traceanalyzer.report.text import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.model import Cell, Report, Table

ROWS_SHOWN = 100

Kind: TypeAlias = Literal[
    "time", "bytes", "share", "count", "number", "name", "word", "op", "causes"
]


@dataclass(frozen=True)
class Column:
    """A column as it is shown: the table's own name for it, its heading, its kind of cell."""

    name: str
    heading: str
    kind: Kind

    @property
    def is_figure(self) -> bool:
        """Whether cells are figures, which are set flush right."""
        return self.kind in ("time", "bytes", "share", "count", "number")


@dataclass(frozen=True)
class Grid:
    """A table as it is shown."""

    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    total_rows: int
    unknown: tuple[str, ...]  # headings of columns that hold nothing in any row
    folded: tuple[str, ...] = ()  # columns shown below the op's name

    def has(self, name: str) -> bool:
        """Return whether a column is shown."""
        return any(column.name == name for column in self.columns)


_HEADINGS = {
    "bytes": "Bytes",
    "consumer": "Used by",
    "consumer_name": "Used by",
    "copy_us": "Copy time",
    "count": "Count",
    "cpu_op_us": "CPU-op time",
    "d2h_bytes": "To host",
    "duration_us": "Time",
    "exposed_us": "GPU waits",
    "gpu_busy_us": "GPU busy",
    "h2d_bytes": "To device",
    "host_self_us": "Host time",
    "host_total_us": "Host time with callees",
    "input_types": "Input types",
    "kernel_us": "Kernel time",
    "kernels": "Kernels",
    "name": "Name",
    "occurrences": "Runs",
    "op": "Op",
    "op_id": "Op",
    "producer": "Made by",
    "producer_name": "Made by",
    "requested_device": "Requested device",
    "source_file": "Source",
    "start_us": "Start",
    "total_us": "Copy time",
}
_NAMES = frozenset(
    {
        *("consumer", "consumer_name", "device", "function", "name", "op", "producer"),
        *("producer_name", "source_file", "type"),
    }
)
# Numbers that are no quantities: shown without thousands separators.
_NUMBERS = frozenset({"correlation_id", "step", "stream"})
# Shown inside another column (the source's line behind its file) or only as a link's target.
_FOLDED = frozenset({"op_id", "source_line"})
# Keys that are not shown beside their names.
_NAMED = {"producer": "producer_name", "consumer": "consumer_name"}


def _kind(name: str, cells: Iterable[Cell], *, is_op: bool) -> Kind:
    if name.endswith("_us"):
        return "time"
    if name == "bytes" or name.endswith("_bytes"):
        return "bytes"
    if name.endswith("_share"):
        return "share"
    if name in _NAMES:
        return "op" if is_op else "name"
    known = [cell for cell in cells if cell is not None]
    numeric = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known)
    if not known or not numeric:
        return "word"
    return "number" if name in _NUMBERS else "count"


def _is_folded(name: str, names: Sequence[str]) -> bool:
    return name in _FOLDED or _NAMED.get(name) in names


def _op_column(names: Sequence[str]) -> str | None:
    """Return the column that names the op of ``op_id``: a kernel's own name is not its op's."""
    if "op_id" not in names:
        return None
    return "op" if "op" in names else "name"


def _heading(name: str) -> str:
    words = name.removesuffix("_us").replace("_", " ")
    return _HEADINGS.get(name) or words[:1].upper() + words[1:]


def _in_words(record: Mapping[str, Cell]) -> Mapping[str, Cell]:
    direction = record.get("direction")
    if not isinstance(direction, str):
        return record
    return {**record, "direction": DIRECTIONS.get(direction, direction)}


def grid(
    table: Table,
    names: Sequence[str] | None = None,
    *,
    limit: int = ROWS_SHOWN,
    rows: Sequence[Mapping[str, Cell]] | None = None,
    total_rows: int | None = None,
) -> Grid:
    """Return a table as it is shown."""
    records = table.records() if rows is None else rows
    chosen = [
        name
        for name in (table.columns if names is None else names)
        if name in table.columns and (names is not None or not _is_folded(name, table.columns))
    ]
    empty = {name for name in chosen if records and all(r[name] is None for r in records)}
    op_column = _op_column(table.columns)
    columns = tuple(
        Column(
            name,
            "Op" if name == op_column else _heading(name),
            _kind(name, (record[name] for record in records), is_op=name == op_column),
        )
        for name in chosen
        if name not in empty
    )
    total = table.total_rows if total_rows is None else total_rows
    return Grid(
        columns=columns,
        rows=tuple(map(_in_words, records[:limit])),
        total_rows=max(total, len(records)),
        unknown=tuple(_heading(name) for name in chosen if name in empty),
    )


OPS_SHOWN = 500
_OTHER_OPS_SHOWN = 100  # at least, where so many CPU-placed ops come before them
_CPU_OP_COLUMNS = (
    *("name", "op_id", "occurrences", "host_self_us", "exposed_us", "h2d_bytes", "d2h_bytes"),
    *("copy_us", "input_types", "requested_device"),
)
_OP_COLUMNS = (
    *("name", "op_id", "placement", "occurrences", "host_self_us", "exposed_us", "kernel_us"),
    *("h2d_bytes", "d2h_bytes", "input_types"),
)


def _figure(record: Mapping[str, Cell], name: str) -> float:
    return number_in(record.get(name))


def is_cpu_op(record: Mapping[str, Cell]) -> bool:
    """Return whether an op needs a cause: those of the input pipeline and the runtime do not."""
    if record.get("placement") != "cpu" or record.get("in_input_pipeline") is True:
        return False
    return record.get("role", "compute") == "compute"


def cpu_ops_grid(report: Report) -> Grid:
    """Return the CPU-placed ops, those that the GPU waits for longest first."""
    table = report.tables.ops
    rows = _cpu_ops(table)
    return _with_causes(grid(table, _CPU_OP_COLUMNS, rows=rows, total_rows=report.summary.cpu_ops))


def ops_grid(report: Report) -> Grid:
    """Return the CPU-placed ops, as `cpu_ops_grid` has them, and then the other ops.

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
