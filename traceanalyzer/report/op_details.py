"""Shows details of individual ops, for the page's drawer and `traceanalyzer analyze --op`."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import pandas as pd

from traceanalyzer.diagnosis import Diagnosis, cpu_ops
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.model import blocks as b
from traceanalyzer.op_values import recorded_values
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.report.op_reasons import Reasoner
from traceanalyzer.report.ops import ranked
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import line_texts, places, source_lines
from traceanalyzer.report.text import op_link, table_of, time, word
from traceanalyzer.run import Run
from traceanalyzer.units import us

_CPU_OPS: Final = 150
_OTHER_OPS: Final = 50
_ROWS: Final = 6
_MOST: Final = 20  # ops shown for an expression
_SUGGESTED: Final = 3
_VALUES_SHOWN: Final = 8


@dataclass(frozen=True, kw_only=True)
class OpReasons:
    """An op, and the reasons for its placement."""

    name: str
    place: str  # `file:line`, or ""
    facts: b.KeyValues
    here: tuple[b.Block, ...]  # in this run
    on_a_gpu: tuple[b.Block, ...]  # on a machine with a GPU; empty if unknown


def ops_that_match(
    diagnosis: Diagnosis, expression: re.Pattern[str]
) -> tuple[list[OpReasons], int]:
    """Return up to 20 ops whose name or type matches an expression, and the number of matches.

    CPU ops come first. Within each group, ops are sorted by host time.

    Raises:
        TraceAnalyzerError: No op matches. The message suggests similar types.
    """
    ops, known_as = diagnosis.run.ops, _types_in_the_program(diagnosis)
    matches = [
        any(map(expression.search, (str(name), str(type_), known_as.get(op_id, ""))))
        for op_id, name, type_ in zip(ops["op_id"], ops["name"], ops["type"], strict=True)
    ]
    rows = ops[matches]
    if rows.empty:
        msg = f"no op of the run has a name or type that matches {expression.pattern!r}"
        lowered = {type_.lower(): type_ for type_ in sorted(set(map(str, ops["type"].dropna())))}
        alike = get_close_matches(expression.pattern.lower(), lowered, n=_SUGGESTED)
        hint = f"similar types: {', '.join(lowered[name] for name in alike)}"
        if not alike:
            hint = "`traceanalyzer tables` lists all ops"
        msg = f"{msg}; {hint}"
        raise TraceAnalyzerError(msg)
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable")
    on_cpu = rows["op_id"].isin(cpu_ops(diagnosis.run)["op_id"])
    rows = pd.concat([rows[on_cpu], rows[~on_cpu]])
    return list(_reasons_of(rows.head(_MOST), diagnosis)), len(rows)


def _types_in_the_program(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the types that CPU ops had before TensorFlow's rewrites, by op id."""
    there, known = diagnosis.on_a_gpu, diagnosis.cpu_ops
    if there is not None:
        known = {**there.analysis.on_host, **there.analysis.cpu_ops, **known}
    return {op_id: cpu_op.explanation.type for op_id, cpu_op in known.items()}


def _reasons_of(ops: pd.DataFrame, diagnosis: Diagnosis) -> Iterator[OpReasons]:
    reasoner, known_as = Reasoner(diagnosis), _types_in_the_program(diagnosis)
    has_hosts = len(diagnosis.run.hosts) > 1
    for row, place in zip(ops.itertuples(index=False), places(ops, diagnosis.run), strict=True):
        in_program = known_as.get(str(row.op_id), str(row.type))
        yield OpReasons(
            name=str(row.name),
            place=place or "",
            facts=b.KeyValues(rows=tuple(_facts(row, in_program, has_hosts=has_hosts))),
            here=tuple(reasoner.here(row)),
            on_a_gpu=tuple(reasoner.on_a_gpu(row)),
        )


def _facts(row: Any, in_program: str, *, has_hosts: bool) -> Iterator[tuple[str, b.Text]]:  # noqa: ANN401
    ran_on = word("placement", str(row.placement))
    if isinstance(row.device, str):
        on_host = ", computed on the host" if row.placement == "host_memory" else ""
        ran_on = f"{device_text(row.device)}{on_host}"
    if row.placement != "unknown":
        ran_on += f" ({row.placement_certainty}: {word('witness', str(row.placement_source))})"
    yield "Type", (b.Code(text=str(row.type)),)
    yield "Placement", (ran_on,)
    if isinstance(row.requested_device, str):
        requested = row.requested_device
        yield "Requested device", (b.Code(text=requested) if requested else "none",)
    if isinstance(row.input_types, str) and row.input_types:
        types = ", ".join(python_name(t) for t in row.input_types.split(";") if t)
        yield "Input types", (b.Code(text=types),)
    if in_program != row.type:
        yield "In your program", (b.Code(text=in_program),)
    if isinstance(row.function, str):
        yield "Function", (b.Code(text=row.function),)
    if has_hosts:
        yield "Host", (b.Code(text=str(row.host)),)
    if isinstance(row.no_event, str):
        yield "Time", (f"unknown: {word('no_event', row.no_event)}",)
        return
    took = time(us(row.host_self_ps) or 0.0)
    yield "Occurrences", (f"{row.occurrences:,}, ", took, " of host time")


# --- the drawer ------------------------------------------------------------------------------


def op_details(facts: PageFacts) -> dict[str, tuple[b.Block, ...]]:
    """Return the contents of the page's drawer for the most expensive ops, by op id."""
    run, ops = facts.run, ranked(facts.run.ops)
    on_cpu = ops["op_id"].isin(cpu_ops(run)["op_id"])
    ops = pd.concat([ops[on_cpu].head(_CPU_OPS), ops[~on_cpu].head(_OTHER_OPS)])
    tables = [_values(run, set(ops["op_id"])), _kernels(run, set(ops["op_id"]))]
    found: dict[str, tuple[b.Block, ...]] = {}
    sources = zip(source_lines(ops, run), line_texts(ops, run), strict=True)
    reasons = _reasons_of(ops, facts.diagnosis)
    for op_id, known, (at, text) in zip(ops["op_id"], reasons, sources, strict=True):
        blocks = [*known.here, *known.on_a_gpu]
        if changes := facts.changes_of_op.get(op_id, [])[:_ROWS]:
            links = [b.Link(text=c.title.replace("`", ""), to=f"change-{c.id}") for c in changes]
            blocks.append(b.Note(text=(b.Strong(text="To change:"),)))
            blocks.append(b.Bullets(items=tuple((link,) for link in links)))
        blocks.append(known.facts)
        if at is not None and at.line is not None and text is not None:
            line = at.line
            blocks.append(b.Source(file=at.file, first_line=line, lines=(text,), marked=(line,)))
        blocks += [of_op[op_id] for of_op in tables if op_id in of_op]
        found[op_id] = tuple(blocks)
    return found


def _kernels(run: Run, op_ids: set[str]) -> dict[str, b.Table]:
    """Return a table of kernels for each op, longest kernels first."""
    kernels = run.kernels[run.kernels["op_id"].isin(op_ids)]
    sums = kernels.groupby(["op_id", "name"], observed=True)["duration_ps"].agg(["size", "sum"])
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    rows: dict[str, list[dict[str, b.Cell]]] = defaultdict(list)
    for (op_id, name), count, took_ps in sums.itertuples():
        rows[str(op_id)].append({"kernel": str(name), "count": count, "time_us": us(took_ps)})
    return {op_id: table_of("kernels", of[:_ROWS], len(of)) for op_id, of in rows.items()}


# --- values ------------------------------------------------------------------------------


def _values(run: Run, op_ids: Collection[str]) -> dict[str, b.Table]:
    """Return a table of each op's inputs and outputs, transferred values first, then by size."""
    moved = _transfers(run, op_ids)
    found: dict[str, list[dict[str, b.Cell]]] = defaultdict(list)
    for op_id, value in recorded_values(run, op_ids):
        name = (op_link(value.label, value.op_id),) if value.label else None
        row: dict[str, b.Cell] = {"op": name, "type": value.type, "bytes": value.bytes}
        found[op_id].append({"end": value.end, **row} | moved[op_id].pop(value[:2], {}))
    for op_id, others in moved.items():
        found[op_id] += others.values()
    for rows in found.values():
        rows.sort(key=_order)
    return {op_id: table_of("values", of[:_VALUES_SHOWN], len(of)) for op_id, of in found.items()}


def _order(row: Mapping[str, b.Cell]) -> tuple[bool, str, float]:
    sizes = (row.get("transferred"), row.get("bytes"))
    size = next((float(v) for v in sizes if isinstance(v, int | float)), 0.0)
    return "count" not in row, str(row["end"]), -size


def _transfers(
    run: Run, op_ids: Collection[str]
) -> dict[str, dict[tuple[str, str | None], dict[str, b.Cell]]]:
    """Return each op's transfers, keyed by their end ("input" or "output") and the other op."""
    graph = run.transfer_graph
    found: dict[str, dict[tuple[str, str | None], dict[str, b.Cell]]] = defaultdict(dict)
    for source, target, direction, sums in graph.edges(keys=True, data=True):
        for op_id, other, end in ((source, target, "output"), (target, source, "input")):
            if op_id in op_ids:
                label = graph.nodes[other]["label"]
                is_op = label != other and not other.startswith("name:")
                found[op_id][end, other if is_op else label] = {
                    "end": end,
                    "op": (op_link(label, other if is_op else None),),
                    "direction": word("direction", direction),
                    "count": sums["count"],
                    "transferred": sums["bytes"],
                    "time_us": us(sums["total_ps"]),
                }
    return found
