"""The Report in the terminal: the verdict, what limits it, the findings, and what is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.report import text, views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from traceanalyzer.report.model import Cell, Finding, Fix, Report

__all__ = ["print_summary"]

FINDINGS_SHOWN = 10
OPS_SHOWN = 10
UNEXPLAINED_SHOWN = 5
COPIES_SHOWN = 8
_LONG_NAME = 56
_NARROW = 64  # columns below which a table keeps only what it cannot do without

_SEVERITY = {"error": "bold red", "warning": "yellow", "info": "dim"}
_HARM = {"harmful": "bold red", "harmless": "dim", "by_design": "dim"}
_QUIET = "dim"
# For consoles that cannot show them; anything else comes out as its code point.
_PLAIN = str.maketrans({"µ": "u", "…": "~", "·": "-", "⟨": "<", "⟩": ">", "\xa0": " "})


def print_summary(report: Report, console: Console) -> None:
    """Prints what a reader needs first; the page and the tables hold the rest.

    Names from the trace are never read as markup, and what does not show is made visible.

    Args:
        report: The document.
        console: Where to print; its width decides what fits.
    """
    words = _Words(console)
    for part in _parts(report, words, narrow=console.width < _NARROW):
        console.print(part)


class _Words:
    """Makes text for one console: inert, visible, and in characters that the console has."""

    def __init__(self, console: Console) -> None:
        self._is_unicode = console.encoding.lower().startswith("utf")

    def __call__(self, words: object, style: str = "") -> Text:
        """Returns a text that holds no markup."""
        said = text.visible(str(words))
        if not self._is_unicode:
            said = said.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
        return Text(said, style=style)

    def name(self, name: str, length: int = _LONG_NAME) -> Text:
        """Returns a name of the trace, its middle cut where it is long."""
        return self(text.cut(name, length))

    def prose(self, prose: str, style: str = "") -> Text:
        """Returns prose on one line, for the console to wrap."""
        return self(text.cut_long(text.one_line(prose)), style)

    def time(self, us: Cell) -> Text:
        """Returns a time, or that it is unknown."""
        if isinstance(us, int | float):
            return self(text.duration(us))
        return self(text.UNKNOWN, _QUIET)

    def size(self, size_bytes: Cell) -> Text:
        """Returns a size, or that it is unknown."""
        if isinstance(size_bytes, int | float):
            return self(text.size(size_bytes))
        return self(text.UNKNOWN, _QUIET)

    def share(self, part: float | None, why: str | None) -> Text:
        """Returns a share, or that it is unknown and why."""
        if part is not None:
            return self(text.share(part))
        return self(f"{text.UNKNOWN} ({why})" if why else text.UNKNOWN, _QUIET)


def _parts(report: Report, words: _Words, *, narrow: bool) -> Iterator[RenderableType]:
    yield words.prose(report.summary.verdict, "bold")
    yield Text()
    yield _key_figures(report, words)
    yield from _health(report, words)
    yield from _findings(report, words)
    yield from _on_a_gpu(report, words)
    yield from _cpu_ops(report, words, narrow=narrow)
    yield from _copies(report, words, narrow=narrow)
    yield from _unexplained(report, words, narrow=narrow)


def _heading(words: _Words, title: str) -> Text:
    return Text("\n") + words(title, "bold underline")


def _key_figures(report: Report, words: _Words) -> Grid:
    summary = report.summary
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style=_QUIET, no_wrap=True)
    grid.add_column()
    if summary.step_us is None:
        why = views.why_unknown(report, "steps")
        grid.add_row("Step time", words.share(None, why))
    else:
        step = words.time(summary.step_us.median) + words(", 95th percentile ")
        grid.add_row("Step time", step + words.time(summary.step_us.p95))
    exposed = summary.exposed_us_per_step
    why = views.why_unknown(report, "exposed")
    waits = words.time(exposed) if exposed is not None else words.share(None, why)
    grid.add_row("GPU waits", waits + words(" per step" if exposed is not None else ""))
    grid.add_row("GPU idle", words.share(summary.gpu_idle_share, views.why_unknown(report, "idle")))
    ops = f" in {text.count(summary.cpu_ops)} CPU-placed op{'' if summary.cpu_ops == 1 else 's'}"
    grid.add_row("CPU-op time", words.time(summary.cpu_op_us) + words(ops))
    why = views.why_unknown(report, "explained")
    explained = words.share(summary.explained_share, why)
    parts = ", ".join(
        f"{part.words} {text.share(part.share)}" for part in views.explained_parts(report)
    )
    grid.add_row("Explained", explained + words(f" ({parts})" if parts else "", _QUIET))
    return grid


def _health(report: Report, words: _Words) -> Iterator[RenderableType]:
    if not report.health:
        return
    yield _heading(words, "Trace health")
    for entry in report.health:
        line = words(f"{entry.severity}: ", _SEVERITY[entry.severity])
        yield line + words.prose(entry.message)


def _findings(report: Report, words: _Words) -> Iterator[RenderableType]:
    yield _heading(words, "Findings")
    if not report.findings:
        yield words("No rule found a cause in this trace.", _QUIET)
    for number, finding in enumerate(report.findings[:FINDINGS_SHOWN], start=1):
        yield words(f"{number}. ") + words.prose(finding.title, "bold")
        for line in _finding_lines(finding, words):
            yield Padding(line, (0, 0, 0, len(str(number)) + 2), expand=False)
    left = len(report.findings) - FINDINGS_SHOWN
    if left > 0:
        yield words(f"and {left} more: see the page (`traceanalyzer report PATH`)", _QUIET)


def _on_a_gpu(report: Report, words: _Words) -> Iterator[RenderableType]:
    replay = report.on_a_gpu
    if replay is None:
        return
    yield _heading(words, "On a GPU machine")
    yield words("By replaying the placer, not measured. Assumed: ") + words.prose(replay.assumed)
    for finding in replay.findings[:FINDINGS_SHOWN]:
        marks = f" ({finding.certainty}, {text.cut(finding.cause)})"
        yield words("- ") + words.prose(finding.title) + words(marks, _QUIET)
    left = len(replay.findings) - FINDINGS_SHOWN
    if left > 0:
        yield words(f"and {left} more: see the page (`traceanalyzer report PATH`)", _QUIET)


def _finding_lines(finding: Finding, words: _Words) -> Iterator[Text]:
    total = max(finding.ops_total or 0, len(finding.ops))
    cause = finding.cause if finding.sub_reason is None else f"{finding.cause}/{finding.sub_reason}"
    marks = words(finding.certainty) + words(", ")
    marks += words(finding.harm.replace("_", " "), _HARM[finding.harm])
    yield marks + words(f" · {text.cut(cause)} · {text.count(total)} op{'' if total == 1 else 's'}")
    cost = finding.cost
    figures = words("host ") + words.time(cost.host_us) + words(" · copied ")
    figures += words.size(cost.copy_bytes) + words(" · GPU waits ")
    figures += words.time(cost.exposed_us_per_step)
    yield figures + words(" per step" if cost.exposed_us_per_step is not None else "")
    source = _source(finding)
    if source is not None:
        yield words.name(source)
    for fix in finding.fixes[:1]:
        yield words("Change: ", "bold") + words.prose(fix.text)
        yield from _code(fix, words)


def _code(fix: Fix, words: _Words) -> Iterator[Text]:
    for line in (fix.code or "").strip("\r\n").split("\n")[:6]:
        if line.strip():
            yield words("    " + line.rstrip("\r").expandtabs(4))


def _source(finding: Finding) -> str | None:
    for op in finding.ops:
        if op.file is not None:
            return op.file if op.line is None else f"{op.file}:{op.line}"
    return None


def _table(*columns: str) -> Grid:
    """Returns a table whose first column is a name and whose other columns are figures."""
    table = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, overflow="fold", ratio=1, min_width=12)
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def _cpu_ops(report: Report, words: _Words, *, narrow: bool) -> Iterator[RenderableType]:
    shown = views.cpu_ops_grid(report)
    if not shown.rows:
        return
    yield _heading(words, "CPU-placed ops")
    explained = views.explanations(report)
    unexplained = {op.op_id for op in report.unexplained.ops}
    columns = (
        ("Op", "Host time", "GPU waits") if narrow else ("Op", "Runs", "Host time", "GPU waits")
    )
    table = _table(*columns)
    if not narrow:
        table.add_column("Cause", overflow="fold", max_width=28)
    rows = shown.rows[:OPS_SHOWN]
    for row in rows:
        runs = row.get("occurrences")
        cells = [
            words.name(str(row.get("name"))),
            words(text.count(runs) if isinstance(runs, int) else text.UNKNOWN),
            words.time(row.get("host_self_us")),
            words.time(row.get("exposed_us")),
        ]
        if narrow:
            del cells[1]
        else:
            found = explained.get(str(row.get("op_id")), [])
            causes = [f"{e.finding.cause} ({e.finding.certainty})" for e in found]
            if not causes:
                causes = ["unexplained" if row.get("op_id") in unexplained else text.UNKNOWN]
            cells.append(words(text.cut("; ".join(causes), 60)))
        table.add_row(*cells)
    yield table
    yield from _cutting(words, len(rows), shown.total_rows, "CPU-placed ops")


def _copies(report: Report, words: _Words, *, narrow: bool) -> Iterator[RenderableType]:
    graph = report.copy_graph
    if graph is None or not graph.devices:
        return
    yield _heading(words, "Copies")
    columns = ("Direction", "Bytes", "Copy time")
    table = _table(*columns) if narrow else _table(*columns, "Copies")
    for copies in graph.devices[:COPIES_SHOWN]:
        ends = f"{text.cut(copies.source, 24)} to {text.cut(copies.target, 24)}"
        cells = [words(ends), words.size(copies.bytes), words.time(copies.total_us)]
        if not narrow:
            cells.append(words(text.count(copies.count)))
        table.add_row(*cells)
    yield table
    shown = min(COPIES_SHOWN, len(graph.devices))
    yield from _cutting(words, shown, len(graph.devices), "directions")


def _unexplained(report: Report, words: _Words, *, narrow: bool) -> Iterator[RenderableType]:
    unexplained = report.unexplained
    if not unexplained.ops and unexplained.cpu_op_us == 0:
        return
    yield _heading(words, "Unexplained")
    said = words("No rule found a cause for ") + words.time(unexplained.cpu_op_us)
    yield said + words(" of CPU-op time.")
    if not unexplained.ops:
        return
    table = (
        _table("Op", "Host time", "GPU waits")
        if narrow
        else _table("Op", "Host time", "Copied", "GPU waits per step")
    )
    for op in unexplained.ops[:UNEXPLAINED_SHOWN]:
        cells = [words.name(op.name), words.time(op.cost.host_us)]
        if not narrow:
            cells.append(words.size(op.cost.copy_bytes))
        table.add_row(*cells, words.time(op.cost.exposed_us_per_step))
    yield table
    for settled_by in dict.fromkeys(op.settled_by for op in unexplained.ops if op.settled_by):
        yield words("Would settle it: ") + words.prose(settled_by)
    shown = min(UNEXPLAINED_SHOWN, len(unexplained.ops))
    total = max(unexplained.ops_total or 0, len(unexplained.ops))
    yield from _cutting(words, shown, total, "ops")


def _cutting(words: _Words, shown: int, total: int, what: str) -> Iterator[Text]:
    if shown < total:
        counts = f"Showing {text.count(shown)} of {text.count(total)} {what}. "
        yield words(counts + "All of them: traceanalyzer tables PATH -o DIR", _QUIET)
