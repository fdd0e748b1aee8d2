"""What the page and the terminal show of a Report: which rows, in which order, under which words.

Pure functions from the document to small records; they add no fact to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.model import (
        Cell,
        CopyEdge,
        Finding,
        OpRef,
        Report,
        RuleStatus,
        Severity,
        Table,
    )

__all__ = [
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
    "is_cpu_op",
    "node_labels",
    "numbered_findings",
    "numbered_on_a_gpu",
    "ops_grid",
    "ops_listed",
    "ranked",
    "source_places",
    "why_silent",
    "why_unknown",
]

ROWS_SHOWN = 100
_LONGEST_KEY = 200
OPS_SHOWN = 500
_OTHER_OPS_SHOWN = 100  # at least, where so many CPU-placed ops come before them

Kind: TypeAlias = Literal[
    "time", "bytes", "share", "count", "number", "name", "word", "op", "causes"
]


# --- columns -------------------------------------------------------------------------------


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
    folded: tuple[str, ...] = ()  # columns whose cells stand below the op's name

    def has(self, name: str) -> bool:
        """Returns whether a column is shown."""
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
    "requested_device": "Asked for",
    "source_file": "Source",
    "start_us": "Start",
    "total_us": "Copy time",
}
_NAMES = frozenset(
    {
        "consumer",
        "consumer_name",
        "device",
        "function",
        "name",
        "op",
        "producer",
        "producer_name",
        "source_file",
        "type",
    }
)
# Numbers that count nothing: a step is no quantity, and its thousands are not set apart.
_NUMBERS = frozenset({"correlation_id", "step", "stream"})
# Shown inside another column (the source's line behind its file) or only as a link's target.
_FOLDED = frozenset({"op_id", "source_line"})
# Keys that need not be shown where the name stands beside them.
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
    """Returns the column that names the op of ``op_id``: a kernel's own name is not its op's."""
    if "op_id" not in names:
        return None
    return "op" if "op" in names else "name"


def _heading(name: str) -> str:
    words = name.removesuffix("_us").replace("_", " ")
    return _HEADINGS.get(name) or words[:1].upper() + words[1:]


def grid(
    table: Table,
    names: Sequence[str] | None = None,
    *,
    limit: int = ROWS_SHOWN,
    rows: Sequence[Mapping[str, Cell]] | None = None,
    total_rows: int | None = None,
) -> Grid:
    """Returns a table as it is shown.

    Args:
        table: The table of the document.
        names: The columns to show, in order; without it all of them.
        limit: At most this many rows.
        rows: A selection of the table's rows; without it all of them.
        total_rows: What the selection was cut from; without it the table's own count.
    """
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
        rows=tuple(records[:limit]),
        total_rows=max(total, len(records)),
        unknown=tuple(_heading(name) for name in chosen if name in empty),
    )


# --- ops -----------------------------------------------------------------------------------

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
    cell = record.get(name)
    return float(cell) if isinstance(cell, int | float) else 0.0


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


@dataclass(frozen=True)
class Explanation:
    """A finding that an op takes part in."""

    finding: Finding
    dragged_along: bool


def explanations(report: Report) -> dict[str, list[Explanation]]:
    """Returns for each op the findings that name it, as a cause or as dragged along."""
    found: dict[str, list[Explanation]] = {}
    for finding in report.findings:
        for ops, dragged_along in ((finding.ops, False), (finding.dragged_along, True)):
            for op in ops:
                found.setdefault(op.op_id, []).append(Explanation(finding, dragged_along))
    return found


# --- findings ------------------------------------------------------------------------------

_HARM_ORDER = ("harmful", "harmless", "by_design")
# What all findings together may list, so that a page of very many stays small.
_OPS_IN_ALL = 2000
_OPS_AT_LEAST = 8
# Beyond these a finding is a row of the table at the top; the document holds it in full.
FINDINGS_IN_FULL = 200


@dataclass(frozen=True)
class NumberedFinding:
    """A finding and what it is called on the page, on paper and in the timeline: `3`, or `G3`."""

    label: str
    finding: Finding


def numbered_findings(report: Report) -> tuple[NumberedFinding, ...]:
    """Returns the findings in the page's order, numbered: what costs first, by its gain.

    What does harm comes before what does none and what is by design. Within each the most that
    mending can gain per step decides; where that is unknown how long the GPU waited per step; and
    then the host time.
    """
    return _numbered(report.findings, "")


def numbered_on_a_gpu(report: Report) -> tuple[NumberedFinding, ...]:
    """Returns what a replay of the placer finds for a machine with a GPU, numbered on its own."""
    return () if report.on_a_gpu is None else _numbered(report.on_a_gpu.findings, "G")


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns findings in the order of `numbered_findings`; of equals the first stays first."""
    return tuple(sorted(findings, key=_rank))


def _numbered(findings: Sequence[Finding], prefix: str) -> tuple[NumberedFinding, ...]:
    return tuple(
        NumberedFinding(f"{prefix}{n}", finding) for n, finding in enumerate(ranked(findings), 1)
    )


def _rank(finding: Finding) -> tuple[int, float, float]:
    gain = None if finding.gain_us_per_step is None else finding.gain_us_per_step.high
    waits = finding.cost.exposed_us_per_step or 0.0
    took = finding.cost.host_us or 0.0
    return _HARM_ORDER.index(finding.harm), -(waits if gain is None else gain), -took


def host_time(entries: Iterable[NumberedFinding]) -> float | None:
    """Returns the host time of findings together; None where it is known of none."""
    known = [e.finding.cost.host_us for e in entries if e.finding.cost.host_us is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class SourcePlace:
    """A line of the program, and how many of a finding's ops stand on it."""

    file: str
    line: int | None
    text: str | None  # what stands there, where that is known
    ops: int


def source_places(finding: Finding) -> tuple[SourcePlace, ...]:
    """Returns the lines that a finding's ops stand on, those with the dearest ops first."""
    counts: dict[tuple[str, int | None], int] = {}
    texts: dict[tuple[str, int | None], str | None] = {}
    for op in finding.ops:
        if op.file is None:
            continue
        place = (op.file, op.line)
        counts[place] = counts.get(place, 0) + 1
        texts[place] = texts.get(place) or op.source
    return tuple(SourcePlace(*place, texts[place], ops) for place, ops in counts.items())


def why_silent(report: Report, rule: RuleStatus) -> str:
    """Returns why a rule that found nothing does not apply: by what excludes it, where told."""
    if rule.reason is not None:
        return rule.reason
    excluded = (
        out.because for f in report.findings for out in f.ruled_out if out.cause == rule.cause
    )
    because = next(excluded, None)
    return because or "Nothing in this run shows it."


def ops_listed(report: Report) -> int:
    """Returns how many ops, and how much evidence, each finding lists at most."""
    count = len(numbered_findings(report)) + len(numbered_on_a_gpu(report))
    return max(_OPS_AT_LEAST, min(ROWS_SHOWN, _OPS_IN_ALL // max(1, count)))


# --- anchors -------------------------------------------------------------------------------


def fragment(kind: str, key: str) -> str:
    """Returns the anchor of a finding or an op: the same in every report of the same program."""
    key = quote(key, safe="", errors="surrogatepass")
    if len(key) > _LONGEST_KEY:  # none of ours is
        key = f"{key[:_LONGEST_KEY]}-{sha256(key.encode('ascii')).hexdigest()[:12]}"
    return f"{kind}-{key}"


@dataclass(frozen=True)
class Home:
    """Where an op is at home on the page: a place and a row in it."""

    place: str
    row: int


def homes(report: Report) -> dict[str, Home]:
    """Returns for each op the one row that bears its anchor: an id stands once in a page."""
    found: dict[str, Home] = {}
    for place, keys in _places(report):
        for row, key in enumerate(keys):
            if isinstance(key, str):
                found.setdefault(key, Home(place, row))
    return found


def _places(report: Report) -> Iterator[tuple[str, Iterable[Cell]]]:
    yield "ops", [row.get("op_id") for row in ops_grid(report).rows]
    yield "unexplained", _keys(report.unexplained.ops)
    limit = ops_listed(report)
    for numbered in numbered_findings(report)[:FINDINGS_IN_FULL]:
        yield f"finding-{numbered.label}", _keys(numbered.finding.ops, limit)
        yield f"dragged-{numbered.label}", _keys(numbered.finding.dragged_along, limit)


def _keys(ops: Sequence[OpRef], limit: int = ROWS_SHOWN) -> list[Cell]:
    return [op.op_id for op in ops[:limit]]


# --- figures -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A part of a whole, in words and as a share of it."""

    id: str
    words: str
    share: float
    start: float  # the sum of the parts before it


def explained_parts(report: Report) -> tuple[Part, ...]:
    """Returns how CPU-op time divides by certainty; empty where that is not known."""
    summary = report.summary
    explained = summary.explained
    shares = (explained.certain, explained.likely, explained.possible)
    known = [part for part in shares if part is not None]
    if summary.explained_share is None or len(known) != len(shares):
        return ()
    rest = max(0.0, 1.0 - sum(known))
    ids = ("certain", "likely", "possible", "unexplained")
    parts: list[Part] = []
    start = 0.0
    for name, part in zip(ids, (*known, rest), strict=True):
        # A rest this small is rounding in the document, not an op without a cause.
        value = 0.0 if name == "unexplained" and part < 1e-5 else part  # noqa: PLR2004
        parts.append(Part(name, name, value, start))
        start += value
    return tuple(parts)


def _has_gpu(report: Report) -> bool:
    return any(device.kind == "gpu" for device in report.run.devices)


def _has_steps(report: Report) -> bool:
    return bool(report.run.steps) or (report.steps is not None and bool(report.steps.count))


def devices_in_short(report: Report) -> tuple[tuple[int, str, str | None], ...]:
    """Returns how many devices there are of each kind and model; accelerators come first."""
    counts: dict[tuple[str, str | None], int] = {}
    for device in report.run.devices:
        kind = (device.kind, device.model)
        counts[kind] = counts.get(kind, 0) + 1
    ordered = sorted(counts.items(), key=lambda entry: entry[0][0] == "cpu")
    return tuple((count, kind, model) for (kind, model), count in ordered)


def health_in_short(report: Report) -> tuple[tuple[Severity, int], ...]:
    """Returns how many remarks on the trace there are of each severity, the worst first."""
    found = [entry.severity for entry in report.health]
    severities: tuple[Severity, ...] = ("error", "warning", "info")
    return tuple((s, found.count(s)) for s in severities if s in found)


def why_unknown(report: Report, what: str) -> str | None:
    """Returns why a figure is unknown, where the document itself says so."""
    if what in ("explained", "idle", "exposed") and not _has_gpu(report):
        return "no GPU in this trace"
    if what == "explained" and report.summary.cpu_op_us == 0:
        return "no CPU-op time in this trace"
    if what in ("steps", "exposed") and not _has_steps(report):
        return "no steps in this trace"
    if what == "bytes":
        return "the trace does not say how much was copied"
    return None


# --- copies --------------------------------------------------------------------------------


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


def cause_title(cause: str) -> str:
    """Returns a cause's id as words."""
    return " ".join(_ACRONYMS.get(word, word) for word in cause.split("_"))


_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "xla": "XLA", "tf": "TF"}
