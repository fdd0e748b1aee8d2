"""What the drawer of an op shows beside its row of the table: why it is there, its transfers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pandas as pd

from traceanalyzer.causes import all_causes
from traceanalyzer.format import listed
from traceanalyzer.model.blocks import (
    Bullets,
    Code,
    Column,
    KeyValues,
    Link,
    Note,
    Source,
    Strong,
)
from traceanalyzer.report.reasoning import Reasoner
from traceanalyzer.report.sections.ops import ranked
from traceanalyzer.report.sections.shared import changes_by_op, op_link, table_of
from traceanalyzer.report.sources import line_texts
from traceanalyzer.report.text import DIRECTIONS
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.changes import Change
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model.blocks import Block, Cell, Inline, Table, Text
    from traceanalyzer.report.reasoning import OpReasoning, View
    from traceanalyzer.report.sections.shared import Named
    from traceanalyzer.run import Run

_CPU_OPS: Final = 150
_OTHER_OPS: Final = 50
_ROWS: Final = 6
_TRANSFERS: Final = (
    Column(name="end", title="Transfers"),
    Column(name="op", title="From or to"),
    Column(name="direction", title="Direction"),
    Column(name="count", title="Count", kind="count"),
    Column(name="bytes", title="Bytes", kind="bytes"),
    Column(name="time_us", title="Time", kind="us"),
)
_KERNELS: Final = (
    Column(name="kernel", title="Kernel", kind="code"),
    Column(name="count", title="Count", kind="count"),
    Column(name="time_us", title="Time", kind="us"),
)


def op_details(diagnosis: Diagnosis, changes: Sequence[Change]) -> dict[str, tuple[Block, ...]]:
    """Return the blocks of the CPU ops and of the most expensive other ops, by op id."""
    run = diagnosis.run
    of_changes = changes_by_op(changes)
    ops = ranked(run.ops)
    on_cpu = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    ops = pd.concat([ops[on_cpu].head(_CPU_OPS), ops[~on_cpu].head(_OTHER_OPS)])
    reasoner = Reasoner(diagnosis, all_causes())
    transfers, kernels = _transfers(run, set(ops["op_id"])), _kernels(run, set(ops["op_id"]))
    places = zip(shown_files(ops["source_file"], run), line_texts(ops, run), strict=True)
    found: dict[str, tuple[Block, ...]] = {}
    for row, (file, line_text) in zip(ops.itertuples(index=False), places, strict=True):
        known = reasoner.of(row, file)
        op_id = str(row.op_id)
        blocks = [
            *_why(known),
            *_named(of_changes.get(op_id, ())),
            KeyValues(rows=tuple(_facts(known))),
        ]
        if file is not None and line_text is not None:
            line = int(row.source_line)  # type: ignore[arg-type]  # of a row of pandas
            blocks.append(Source(file=file, first_line=line, lines=(line_text,), marked=(line,)))
        blocks += [table[op_id] for table in (transfers, kernels) if op_id in table]
        found[op_id] = tuple(blocks)
    return found


# --- why it is there -------------------------------------------------------------------------


def _why(known: OpReasoning) -> Iterator[Block]:
    yield from _view(known.here)
    if known.on_a_gpu is not None:
        yield Note(text=(Strong(text="With a GPU: "), known.on_a_gpu.said or "on the CPU, too."))
        yield from _view(known.on_a_gpu, is_said=True)


def _view(view: View, *, is_said: bool = False) -> Iterator[Block]:
    if view.said and not is_said:
        yield Note(text=(view.said,))
    if view.reasons:
        yield Bullets(
            items=tuple(
                (*filter(None, [reason.tie]), Strong(text=reason.title), f" ({reason.certainty})")
                for reason in view.reasons[:_ROWS]
            )
        )
    if view.open:
        causes = [f"{title or cause}" for cause, title in view.open[:_ROWS]]
        yield Note(text=(f"Possible causes: {listed(causes)}.",))
    if view.settled_by:
        yield Note(text=(view.settled_by,))


def _named(names: Sequence[Named]) -> Iterator[Block]:
    if names:
        yield Note(text=(Strong(text="To change:"),))
        links: tuple[Text, ...] = tuple((Link(text=n.title, to=n.to),) for n in names[:_ROWS])
        yield Bullets(items=links)


def _facts(known: OpReasoning) -> Iterator[tuple[str, Text]]:
    source = "" if known.certainty == "unknown" else f" ({known.certainty}: {known.witness})"
    yield "Placement", (f"{known.ran_on}{source}",)
    if known.requested is not None:
        yield "Requested device", (Code(text=known.requested) if known.requested else "none",)
    if known.input_types:
        yield "Input types", (Code(text=", ".join(known.input_types)),)
    if known.stands_for:
        yield "In your program", (Code(text=known.stands_for),)
    yield "Occurrences", (f"{known.occurrences:,}",)


# --- its transfers and kernels ---------------------------------------------------------------


def _transfers(run: Run, op_ids: set[str]) -> dict[str, Table]:
    """Return the transfers of each op, those of most bytes first."""
    graph = run.transfer_graph
    rows: dict[str, list[dict[str, Cell]]] = defaultdict(list)
    for source, target, direction, sums in graph.edges(keys=True, data=True):
        for op_id, other, end in ((source, target, "output"), (target, source, "input")):
            if op_id in op_ids:
                rows[op_id].append(
                    {
                        "end": end,
                        "op": (_end(graph.nodes[other]["label"], other),),
                        "direction": DIRECTIONS[direction],
                        "count": sums["count"],
                        "bytes": sums["bytes"],
                        "time_us": None
                        if sums["total_ps"] is None
                        else sums["total_ps"] / PS_PER_US,
                    }
                )
    return {op_id: _table(_TRANSFERS, of, "bytes") for op_id, of in rows.items()}


def _end(label: str, node: str) -> Inline:
    is_op = label != node and not node.startswith("name:")
    return op_link(label, node if is_op else None)


def _kernels(run: Run, op_ids: set[str]) -> dict[str, Table]:
    """Return the kernels of each op, those of most time first."""
    kernels = run.kernels[run.kernels["op_id"].isin(op_ids)]
    sums = kernels.groupby(["op_id", "name"], observed=True)["duration_ps"].agg(["size", "sum"])
    rows: dict[str, list[dict[str, Cell]]] = defaultdict(list)
    for (op_id, name), count, took_ps in sums.itertuples():
        row: dict[str, Cell] = {
            "kernel": str(name),
            "count": int(count),
            "time_us": took_ps / PS_PER_US,
        }
        rows[str(op_id)].append(row)
    return {op_id: _table(_KERNELS, of, "time_us") for op_id, of in rows.items()}


def _table(columns: Sequence[Column], rows: list[dict[str, Cell]], by: str) -> Table:
    rows.sort(key=lambda row: -float(row[by] or 0))  # type: ignore[arg-type]
    return table_of(columns, rows[:_ROWS], len(rows))
