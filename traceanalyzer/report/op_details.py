"""Single ops in full, for the page's drawer and `traceanalyzer analyze --op`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.report.op_reasons import Reasoner
from traceanalyzer.report.op_values import op_values
from traceanalyzer.report.ops import places, ranked
from traceanalyzer.report.records import line_texts, us
from traceanalyzer.report.text import table_of, time
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.report.page_facts import PageFacts
    from traceanalyzer.run import Run

_CPU_OPS: Final = 150
_OTHER_OPS: Final = 50
_ROWS: Final = 6
_MOST: Final = 20  # ops shown for an expression
_SUGGESTED: Final = 3
_KERNELS: Final = (
    b.Column(name="kernel", title="Kernel", kind="code"),
    b.Column(name="count", title="Count", kind="count"),
    b.Column(name="time_us", title="Time", kind="us"),
)


class NoSuchOpError(TraceAnalyzerError):
    """No op of a run matches."""


@dataclass(frozen=True, kw_only=True)
class OpReasons:
    """An op, and the reasons for its placement."""

    name: str
    place: str  # `file:line`, or ""
    facts: b.KeyValues
    here: tuple[b.Block, ...]  # in this run
    on_a_gpu: tuple[b.Block, ...]  # on a machine with a GPU; empty if unknown


# --- single ops ------------------------------------------------------------------------------
# How it is known where an op ran.
_PLACES: Final = {"cpu": "the CPU", "host_memory": "a GPU, computed on the host"}
_WITNESS: Final = {
    "capture_file": "the capture recorded it",
    "graph": "a graph in an events file beside the trace shows it",
    "kernel": "its kernel ran there",
    "compiled": "XLA compiled it into a kernel",
    "input_pipeline": "it ran for tf.data",
    "executor": "a send names the executor's device",
    "transfer": "it is at one end of a transfer",
    "allocator": "its output was allocated there",
    "host_event": "at host tracer level 2, only CPU ops leave an event",
    "no_gpu": "the trace shows no GPU",
    "registry": "no TensorFlow version has a GPU kernel for it",
    "summary": "a summary was written right after it",
    "none": "not recorded",
}


def ops_that_match(
    diagnosis: Diagnosis, expression: re.Pattern[str]
) -> tuple[list[OpReasons], int]:
    """Return the ops whose name or type an expression matches, at most 20, and how many match.

    CPU ops come first, then the other ops; each group is sorted by host time, longest first.

    Raises:
        NoSuchOpError: None matches; the message names similar types.
    """
    ops, known_as = diagnosis.run.ops, _types_in_the_program(diagnosis)
    matches = [
        any(map(expression.search, (str(name), str(type_), known_as.get(op_id, ""))))
        for op_id, name, type_ in zip(ops["op_id"], ops["name"], ops["type"], strict=True)
    ]
    rows = ops[matches]
    if rows.empty:
        raise NoSuchOpError(_nothing_matches(expression.pattern, ops))
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable")
    on_cpu = _is_on_cpu(rows)
    rows = pd.concat([rows[on_cpu], rows[~on_cpu]])
    return list(_reasons_of(rows.head(_MOST), diagnosis)), len(rows)


def _is_on_cpu(ops: pd.DataFrame) -> pd.Series[bool]:
    return (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)


def _types_in_the_program(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the types that CPU ops had before any rewrite, by op id."""
    there = diagnosis.on_a_gpu
    assumed = {} if there is None else {**there.analysis.on_host, **there.analysis.cpu_ops}
    known = {**assumed, **diagnosis.cpu_ops}
    return {op_id: cpu_op.explanation.type for op_id, cpu_op in known.items()}


def _nothing_matches(expression: str, ops: pd.DataFrame) -> str:
    types = sorted({str(op_type) for op_type in ops["type"].dropna()})
    lowered = {op_type.lower(): op_type for op_type in types}
    alike = get_close_matches(expression.lower(), lowered, n=_SUGGESTED)
    msg = f"no op of the run has a name or type that matches {expression!r}"
    if alike:
        return f"{msg}; similar types: {', '.join(lowered[name] for name in alike)}"
    return f"{msg}; `traceanalyzer tables` writes all of its {counted(len(ops), 'op')}"


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
    ran_on = _PLACES.get(str(row.placement), str(row.placement))
    if isinstance(row.device, str):
        on_host = ", computed on the host" if row.placement == "host_memory" else ""
        ran_on = f"{device_text(row.device)}{on_host}"
    witness = _WITNESS.get(str(row.placement_source), str(row.placement_source))
    source = f"{row.placement_certainty}: {witness}"
    yield "Type", (b.Code(text=str(row.type)),)
    yield "Placement", (f"{ran_on} ({source})" if row.placement != "unknown" else ran_on,)
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
    yield (
        "Occurrences",
        (f"{row.occurrences:,}, ", time(us(row.host_self_ps) or 0.0), " of host time"),
    )


# --- the drawer ------------------------------------------------------------------------------


def op_details(facts: PageFacts) -> dict[str, tuple[b.Block, ...]]:
    """Return the drawers of the CPU ops and of the most expensive other ops, by op id."""
    run, ops = facts.run, ranked(facts.run.ops)
    on_cpu = _is_on_cpu(ops)
    ops = pd.concat([ops[on_cpu].head(_CPU_OPS), ops[~on_cpu].head(_OTHER_OPS)])
    tables = [op_values(run, set(ops["op_id"])), _kernels(run, set(ops["op_id"]))]
    found: dict[str, tuple[b.Block, ...]] = {}
    for op_id, known, line_text in zip(
        ops["op_id"], _reasons_of(ops, facts.diagnosis), line_texts(ops, run), strict=True
    ):
        blocks = [*known.here, *known.on_a_gpu]
        if changes := facts.changes_of_op.get(op_id, [])[:_ROWS]:
            links = [b.Link(text=c.title.replace("`", ""), to=f"change-{c.id}") for c in changes]
            blocks.append(b.Note(text=(b.Strong(text="To change:"),)))
            blocks.append(b.Bullets(items=tuple((link,) for link in links)))
        blocks.append(known.facts)
        if known.place and line_text is not None:
            file, _, line = known.place.rpartition(":")
            at = int(line)
            blocks.append(b.Source(file=file, first_line=at, lines=(line_text,), marked=(at,)))
        blocks += [of_op[op_id] for of_op in tables if op_id in of_op]
        found[op_id] = tuple(blocks)
    return found


def _kernels(run: Run, op_ids: set[str]) -> dict[str, b.Table]:
    """Return a table of the kernels of each op, the longest first."""
    kernels = run.kernels[run.kernels["op_id"].isin(op_ids)]
    sums = kernels.groupby(["op_id", "name"], observed=True)["duration_ps"].agg(["size", "sum"])
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    rows: dict[str, list[dict[str, b.Cell]]] = defaultdict(list)
    for (op_id, name), count, took_ps in sums.itertuples():
        rows[str(op_id)].append({"kernel": str(name), "count": count, "time_us": us(took_ps)})
    return {op_id: table_of(_KERNELS, of[:_ROWS], len(of)) for op_id, of in rows.items()}
