"""The Report in the terminal: the verdict, what limits it, the findings, and what is left open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.diagnosis import RAN_ONCE
from traceanalyzer.format import counted, share
from traceanalyzer.report import grids, text, views
from traceanalyzer.report.console_text import QUIET, ConsoleText, heading
from traceanalyzer.report.sources import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import Console, RenderableType

    from traceanalyzer.model import Cell, Finding, Fix, Report, UnexplainedOp
    from traceanalyzer.model.transfers import CopyGraph, DeviceCopies

FINDINGS_SHOWN = 10
OPS_SHOWN = 10
UNEXPLAINED_SHOWN = 5
COPIES_SHOWN = 8
READ_BACKS_SHOWN = 3
REMARKS_SHOWN = 5
BLOCKERS_SHOWN = 5
_SOURCE_SHOWN = 100  # characters of a line of the program
_NARROW = 64  # characters below which a table keeps only what it cannot do without
_CAUSE = 28  # characters of a line of causes in a table
_WIDE = 200  # characters from which causes need not be folded
_TINY = 30  # characters below which there is one figure beside each name

_SEVERITY = {"error": "bold red", "warning": "yellow", "info": "dim"}
_HARM = {"harmful": "bold red", "harmless": "dim", "by_design": "dim"}


def print_summary(report: Report, console: Console) -> None:
    """Print what a reader needs first; the page and the tables hold the rest.

    Names from the trace are never read as markup, and what does not show is made visible.
    """
    words = ConsoleText(console)
    for part in _parts(report, words, console.width):
        console.print(part)


def _parts(report: Report, words: ConsoleText, width: int) -> Iterator[RenderableType]:
    yield words.prose(report.summary.verdict, "bold")
    yield Text()
    yield _key_figures(report, words)
    yield from _health(report, words)
    yield from _findings(report, words)
    yield from _myths(report, words)
    yield from _memory(report, words)
    yield from _on_a_gpu(report, words)
    yield from _cpu_ops(report, words, width)
    yield from _copies(report, words, width)
    yield from _unexplained(report, words, width)


def _key_figures(report: Report, words: ConsoleText) -> Grid:
    summary = report.summary
    grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style=QUIET, no_wrap=True)
    grid.add_column()
    if summary.step_us is None:
        why = views.why_unknown(report, "steps")
        grid.add_row("Step time", words.share(None, why))
    else:
        step = words.time(summary.step_us.median)
        if report.steps is None or report.steps.count != 1:
            step += words(", 95th percentile ") + words.time(summary.step_us.p95)
        grid.add_row("Step time", step)
    exposed = summary.exposed_us_per_step
    why = views.why_unknown(report, "exposed")
    waits = words.time(exposed) if exposed is not None else words.share(None, why)
    grid.add_row("GPU wait", waits + words(" per step" if exposed is not None else ""))
    idle = words.share(summary.gpu_idle_share, views.why_unknown(report, "idle"))
    known = summary.gpu_idle_share is not None
    grid.add_row("GPU idle", idle + words(f" {views.idle_of(report)}" if known else ""))
    ops = f" in {summary.cpu_ops:,} CPU-placed op{'' if summary.cpu_ops == 1 else 's'}"
    grid.add_row("CPU-op time", words.time(summary.cpu_op_us) + words(ops))
    why = views.why_unknown(report, "explained")
    explained = words.share(summary.explained_share, why)
    parts = ", ".join(f"{part.words} {share(part.share)}" for part in views.explained_parts(report))
    grid.add_row("Explained", explained + words(f" ({parts})" if parts else "", QUIET))
    return grid


def _health(report: Report, words: ConsoleText) -> Iterator[RenderableType]:
    if not report.health:
        return
    yield heading(words, "Trace health")
    for entry in report.health:
        line = words(f"{entry.severity}: ", _SEVERITY[entry.severity])
        yield line + words.prose(entry.message)


def _findings(report: Report, words: ConsoleText) -> Iterator[RenderableType]:
    yield heading(words, "Findings")
    if not report.findings:
        yield words("No known cause was found in this trace.", QUIET)
    shown, once = _apart(report.findings)
    for number, finding in enumerate(shown[:FINDINGS_SHOWN], start=1):
        yield words(f"{number}. ") + words.prose(finding.title, "bold")
        for line in _finding_lines(finding, words):
            yield Padding(line, (0, 0, 0, len(str(number)) + 2), expand=False)
    yield from _left(shown, once, words)


def _apart(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return findings, and apart from them those of ops that are not part of each step."""
    once = [f for f in findings if RAN_ONCE in f.modifiers]
    return [f for f in findings if f not in once], once


def _left(shown: Sequence[Finding], once: Sequence[Finding], words: ConsoleText) -> Iterator[Text]:
    page = "see the page (`traceanalyzer report PATH`)"
    if once:
        took = sum(f.cost.host_us or 0.0 for f in once)
        what = f"{counted(len(once), 'finding')} of ops that do not run in each step ("
        yield words(what, QUIET) + words.time(took) + words(f" in total): {page}", QUIET)
    left = len(shown) - FINDINGS_SHOWN
    if left > 0:
        yield words(f"and {left} more: {page}", QUIET)


def _myths(report: Report, words: ConsoleText) -> Iterator[RenderableType]:
    if not report.beliefs:
        return
    yield heading(words, "Not the cause")
    for belief in report.beliefs:
        yield words("- ") + words.prose(belief.answer)


def _memory(report: Report, words: ConsoleText) -> Iterator[RenderableType]:
    if report.memory is None or not report.memory.remarks:
        return
    yield heading(words, "Memory")
    for remark in report.memory.remarks[:REMARKS_SHOWN]:
        yield words("- ") + words.prose(remark)
    left = len(report.memory.remarks) - REMARKS_SHOWN
    if left > 0:
        yield words(f"and {left} more: see the page (`traceanalyzer report PATH`)", QUIET)


def _on_a_gpu(report: Report, words: ConsoleText) -> Iterator[RenderableType]:
    replay = report.on_a_gpu
    if replay is None:
        return
    yield heading(words, "With a GPU")
    yield words("Predicted by replaying the placer. Assumed: ") + words.prose(replay.assumed)
    shown, once = _apart(replay.findings)
    for finding in shown[:FINDINGS_SHOWN]:
        marks = f" ({finding.certainty}, {text.cut(finding.cause)})"
        yield words("- ") + words.prose(finding.title) + words(marks, QUIET)
    yield from _left(shown, once, words)
    unexplained = max(replay.unexplained.ops_total or 0, len(replay.unexplained.ops))
    if unexplained:
        ops = "op" if unexplained == 1 else "ops"
        yield words(f"- {unexplained:,} more {ops} without a known cause")
    if nothing := views.nothing_on_the_cpu(report):
        yield words(nothing)
    for difference in replay.program_differs[:REMARKS_SHOWN]:
        yield words("May differ: ") + words.prose(difference)


def _finding_lines(finding: Finding, words: ConsoleText) -> Iterator[Text]:
    total = max(finding.ops_total or 0, len(finding.ops))
    cause = finding.cause if finding.sub_reason is None else f"{finding.cause}/{finding.sub_reason}"
    marks = words(finding.certainty) + words(", ")
    marks += words(finding.harm.replace("_", " "), _HARM[finding.harm])
    yield marks + words(f" · {text.cut(cause)} · {total:,} op{'' if total == 1 else 's'}")
    cost = finding.cost
    figures = words("host ") + words.time(cost.host_us)
    if cost.host_us_per_step is not None:
        figures += words(", ") + words.time(cost.host_us_per_step) + words(" per step")
    figures += words(" · copied ") + words.size(cost.copy_bytes) + words(" · GPU wait ")
    figures += words.time(cost.exposed_us_per_step)
    yield figures + words(" per step" if cost.exposed_us_per_step is not None else "")
    yield from _source(finding, words)
    yield from _blockers(finding, words)
    for fix in finding.fixes[:1]:
        which = "Fix for the first: " if len(finding.blockers) > 1 else "Fix: "
        yield words(which, "bold") + words.prose(fix.text)
        yield from _code(fix, words)


def _blockers(finding: Finding, words: ConsoleText) -> Iterator[Text]:
    """Say what all must change, where more than one cause keeps the ops."""
    said = views.kept_by_several(finding)
    if not said:
        return
    yield words(said, "bold")
    blockers = finding.blockers
    for blocker in blockers[:BLOCKERS_SHOWN]:
        line = words(f"- {text.cut(blocker.cause)} ({blocker.certainty})")
        for evidence in blocker.evidence[:1]:
            line += words(": ") + words.prose(evidence.text)
            place = place_of(evidence)
            line += words(f" [{text.cut(place)}]" if place else "", QUIET)
        yield line
    left = len(blockers) - BLOCKERS_SHOWN
    if left > 0:
        yield words(f"- and {left} more: see the page (`traceanalyzer report PATH`)", QUIET)


def _code(fix: Fix, words: ConsoleText) -> Iterator[Text]:
    for line in (fix.code or "").strip("\r\n").split("\n")[:6]:
        if line.strip():
            yield words("    " + line.rstrip("\r").expandtabs(4))


def _source(finding: Finding, words: ConsoleText) -> Iterator[Text]:
    """Name the first line of the program that is known, and its text."""
    for op in finding.ops:
        place = _place(op.file, op.line)
        if place is not None:
            yield words.name(place)
            if op.source is not None:
                yield words(f"    {text.cut(op.source, _SOURCE_SHOWN)}")
            return


def _place(file: Cell, line: Cell) -> str | None:
    if not isinstance(file, str):
        return None
    return file if line is None else f"{file}:{line}"


def _table(*columns: str) -> Grid:
    """Return a table whose first column is a name and whose other columns are figures."""
    table = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, overflow="fold", ratio=1, min_width=8)
        else:
            # Folded where there is no room at all: a figure with its end cut off would be wrong.
            table.add_column(column, justify="right", overflow="fold")
    return table


def _cpu_ops(report: Report, words: ConsoleText, width: int) -> Iterator[RenderableType]:
    shown = grids.cpu_ops_grid(report)
    if not shown.rows:
        return
    yield heading(words, "CPU-placed ops")
    causes = _causes(report)
    columns: dict[str, Callable[[Mapping[str, Cell]], Text]] = {
        "Op": lambda row: words.op(
            str(row.get("name")), _place(row.get("source_file"), row.get("source_line"))
        ),
        "Runs": lambda row: words.count(row.get("occurrences")),
        "Host time": lambda row: words.time(row.get("host_self_us")),
        "GPU wait": lambda row: words.time(row.get("exposed_us")),
    }
    if width < _NARROW:
        del columns["Runs"]
    if width < _TINY or not shown.has("exposed_us"):  # unknowns would crowd out the names
        del columns["GPU wait"]
    table = _table(*columns)
    if width >= _NARROW:
        limit = _CAUSE if width < _WIDE else None
        table.add_column("Cause", overflow="fold", max_width=limit)
        columns["Cause"] = lambda row: words(causes.get(str(row.get("op_id")), text.UNKNOWN))
    rows = shown.rows[:OPS_SHOWN]
    for row in rows:
        table.add_row(*(cell(row) for cell in columns.values()))
    yield table
    yield from _cutting(words, len(rows), shown.total_rows, "CPU-placed ops")


def _causes(report: Report) -> dict[str, str]:
    """Return for each op the causes that findings give, or that there is none."""
    causes = {op.op_id: "unexplained" for op in report.unexplained.ops}
    for op_id, found in views.explanations(report).items():
        given = "; ".join(f"{e.finding.cause} ({e.finding.certainty})" for e in found)
        causes[op_id] = text.cut(given, 60)
    return causes


def _copies(report: Report, words: ConsoleText, width: int) -> Iterator[RenderableType]:
    graph = report.copy_graph
    if graph is None or not graph.devices:
        return
    yield heading(words, "Transfers")
    columns: dict[str, Callable[[DeviceCopies], Text]] = {
        "Direction": lambda c: words(f"{text.cut(c.source, 24)} to {text.cut(c.target, 24)}"),
        "Bytes": lambda c: words.size(c.bytes),
    }
    if width >= _TINY:
        columns["Copy time"] = lambda c: words.time(c.total_us)
    if width >= _NARROW:
        columns["Copies"] = lambda c: words.count(c.count)
    table = _table(*columns)
    for copies in graph.devices[:COPIES_SHOWN]:
        table.add_row(*(cell(copies) for cell in columns.values()))
    yield table
    shown = min(COPIES_SHOWN, len(graph.devices))
    yield from _cutting(words, shown, len(graph.devices), "directions")
    yield from _syncs(report, graph, words)
    yield from _round_trips(report, words)


def _syncs(report: Report, graph: CopyGraph, words: ConsoleText) -> Iterator[Text]:
    """Yield the syncs that took at least 1 % of the run."""
    for back in graph.read_backs[:READ_BACKS_SHOWN]:
        least = (report.run.duration_us or 0) / 100
        if max(back.wait_us or 0, back.idle_us or 0) < least or not least:
            continue
        each, when = (
            (" in total", "") if back.count_per_step is None else (" per step", " each step")
        )
        line = words(f"Device-to-host sync{when}: ")
        line += words("a value") if back.source_name is None else words.name(back.source_name)
        line += words(f", used {text.READERS[back.reader]}; the host waits ")
        line += words.time(views.in_a_step(back, back.wait_us)) + words(f"{each}, then the GPU is")
        yield line + words(" idle for ") + words.time(views.in_a_step(back, back.idle_us))


def _round_trips(report: Report, words: ConsoleText) -> Iterator[Text]:
    if not report.islands:
        return
    first = report.islands[0]
    total = max(report.islands_total or 0, len(report.islands))
    line = words(f"Round trips through the CPU: {total:,}; the largest for ")
    line += words.name(first.ops[0].name if first.ops else first.unseen[0])
    line += words(", ") + words.size(first.arriving.bytes) + words(" from a GPU and ")
    yield line + words.size(first.leaving.bytes) + words(" back")


def _unexplained(report: Report, words: ConsoleText, width: int) -> Iterator[RenderableType]:
    unexplained = report.unexplained
    if not unexplained.ops and unexplained.cpu_op_us == 0:
        return
    yield heading(words, "Unexplained")
    said = words.time(unexplained.cpu_op_us)
    yield said + words(" of CPU-op time has no known cause yet.")
    if not unexplained.ops:
        return
    ops = unexplained.ops[:UNEXPLAINED_SHOWN]
    columns: dict[str, Callable[[UnexplainedOp], Text]] = {
        "Op": lambda op: words.op(op.name, _place(op.file, op.line)),
        "Host time": lambda op: words.time(op.cost.host_us),
        "Copied": lambda op: words.size(op.cost.copy_bytes),
    }
    if width < _NARROW:
        del columns["Copied"]
    if width >= _TINY and any(op.cost.exposed_us_per_step is not None for op in ops):
        columns["GPU wait per step"] = lambda op: words.time(op.cost.exposed_us_per_step)
    table = _table(*columns)
    for op in ops:
        table.add_row(*(cell(op) for cell in columns.values()))
    yield table
    for settled_by in dict.fromkeys(op.settled_by for op in ops if op.settled_by):
        yield words.prose(settled_by)
    total = max(unexplained.ops_total or 0, len(unexplained.ops))
    yield from _cutting(words, len(ops), total, "ops")


def _cutting(words: ConsoleText, shown: int, total: int, what: str) -> Iterator[Text]:
    if shown < total:
        counts = f"Showing {shown:,} of {total:,} {what}. "
        yield words(counts + "All of them: traceanalyzer tables PATH -o DIR", QUIET)
