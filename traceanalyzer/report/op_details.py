"""Single ops in full, for the page's drawer and `traceanalyzer analyze --op`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from typing import Any, Final, NamedTuple

import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile, Tensor
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted, op_label
from traceanalyzer.model import blocks as b
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.report.op_reasons import Reasoner
from traceanalyzer.report.ops import ranked
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import line_texts, places, source_lines, us
from traceanalyzer.report.text import op_link, table_of, time, word
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import DTYPE_BYTES, Role

_CPU_OPS: Final = 150
_OTHER_OPS: Final = 50
_ROWS: Final = 6
_MOST: Final = 20  # ops shown for an expression
_SUGGESTED: Final = 3
_VALUES_SHOWN: Final = 8


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


def ops_that_match(
    diagnosis: Diagnosis, expression: re.Pattern[str]
) -> tuple[list[OpReasons], int]:
    """Return the ops whose name or type an expression matches, at most 20, and how many match.

    CPU ops come first; then the most host time does.

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
        msg = f"no op of the run has a name or type that matches {expression.pattern!r}"
        lowered = {type_.lower(): type_ for type_ in sorted(set(map(str, ops["type"].dropna())))}
        alike = get_close_matches(expression.pattern.lower(), lowered, n=_SUGGESTED)
        hint = f"similar types: {', '.join(lowered[name] for name in alike)}"
        if not alike:
            hint = f"`traceanalyzer tables` writes all of its {counted(len(ops), 'op')}"
        msg = f"{msg}; {hint}"
        raise NoSuchOpError(msg)
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable")
    on_cpu = _is_on_cpu(rows)
    rows = pd.concat([rows[on_cpu], rows[~on_cpu]])
    return list(_reasons_of(rows.head(_MOST), diagnosis)), len(rows)


def _is_on_cpu(ops: pd.DataFrame) -> pd.Series[bool]:
    return (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)


def _types_in_the_program(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the types that CPU ops had before any rewrite, by op id."""
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
    took = time(us(row.host_self_ps) or 0.0)
    yield "Occurrences", (f"{row.occurrences:,}, ", took, " of host time")


# --- the drawer ------------------------------------------------------------------------------


def op_details(facts: PageFacts) -> dict[str, tuple[b.Block, ...]]:
    """Return the drawers of the CPU ops and of the most expensive other ops, by op id."""
    run, ops = facts.run, ranked(facts.run.ops)
    on_cpu = _is_on_cpu(ops)
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
    """Return a table of the kernels of each op, the longest first."""
    kernels = run.kernels[run.kernels["op_id"].isin(op_ids)]
    sums = kernels.groupby(["op_id", "name"], observed=True)["duration_ps"].agg(["size", "sum"])
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    rows: dict[str, list[dict[str, b.Cell]]] = defaultdict(list)
    for (op_id, name), count, took_ps in sums.itertuples():
        rows[str(op_id)].append({"kernel": str(name), "count": count, "time_us": us(took_ps)})
    return {op_id: table_of("kernels", of[:_ROWS], len(of)) for op_id, of in rows.items()}


# --- values ------------------------------------------------------------------------------
# The edges of a graph are known if a capture recorded it. For an eager op, a capture has dtypes
# and shapes, but no edges. A trace alone shows only the values that were transferred.


class _Value(NamedTuple):
    """An input or output of an op."""

    end: str
    op_id: str | None = None  # the op at the other end
    label: str = ""  # "" if the other end is unknown
    type: str | None = None
    bytes: float | None = None


def _values(run: Run, op_ids: Collection[str]) -> dict[str, b.Table]:
    """Return the inputs and outputs of each op: transferred ones first, most bytes first."""
    sizes = _output_bytes(run)
    moved = _transfers(run, op_ids)
    found: dict[str, list[dict[str, b.Cell]]] = defaultdict(list)
    for host, capture_file in run.captured:
        for op_id, value in _recorded(host, capture_file, op_ids):
            maker = op_id if value.end == "output" else value.op_id
            size = sizes.get(maker or "") if value.bytes is None else value.bytes
            name = (op_link(value.label, value.op_id),) if value.label else None
            row: dict[str, b.Cell] = {"op": name, "type": value.type, "bytes": size}
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


def _output_bytes(run: Run) -> dict[str, float]:
    """Return the bytes of each op's outputs, if all its outputs have the same size."""
    made = run.allocations
    made = made[(made["region_type"] == "output") & made["op_id"].notna()]
    sizes = made.groupby(made["op_id"].astype(str))["requested_bytes"].agg(["min", "max"]).dropna()
    same = sizes[sizes["min"] == sizes["max"]]
    return {str(op_id): float(size) for op_id, size in same["min"].items()}


# --- values, as captured ---------------------------------------------------------------------


def _recorded(
    host: Host, capture_file: CaptureFile, op_ids: Collection[str]
) -> Iterator[tuple[str, _Value]]:
    """Yield the inputs and outputs of ops that have an edge or a shape in the capture file."""
    joined, ids = host.tables.joined, host.tables.ops["op_id"]
    if joined is None:
        return
    records = {op_id: r for op_id, r in zip(ids, joined.records, strict=True) if r is not None}
    ops = {(r.function, r.node): op_id for op_id, r in records.items() if r.node}
    graphs: dict[str, _Edges] = {}
    for op_id in sorted(op_ids & records.keys()):
        record = records[op_id]
        calls = [capture_file.signatures[number] for number in record.signatures]
        for end in ("input", "output"):  # of an eager op, as in all of its calls
            for tensors in zip(*(getattr(call, f"{end}s") for call in calls), strict=False):
                yield op_id, _value(end, tensors)
        function = capture_file.function(record.function) if record.node else None
        if function is None:
            continue
        if record.function not in graphs:
            graphs[record.function] = _Edges(function.instances[0].input)
        edges = graphs[record.function]
        for end, at, output, is_maker in edges.of(record.node):
            name, op_type = edges.graph.names[at], edges.graph.ops[at]
            if op_type == "_Arg":
                bound = joined.calls.get(record.function, ())
                yield op_id, _argument(capture_file, edges.graph, at, bound)
                continue
            other = ops.get((record.function, name))
            maker = records.get(other or "") if is_maker else record
            types = ((maker.output_types if maker else None) or "").split(";")
            output_type = types[output] or None if output < len(types) else None
            label = f"{name} (result)" if op_type == "_Retval" else op_label(name, op_type)
            yield op_id, _Value(end, other, label, output_type)


def _value(end: str, tensors: Sequence[Tensor], label: str = "") -> _Value:
    """Return a value whose dtype and shape are those of all given tensors."""
    first = tensors[0]
    shape = first.shape if all(t.shape == first.shape for t in tensors) else None
    if shape is None or min(shape, default=0) < 0 or not first.dtype:
        return _Value(end, None, label, first.dtype or None)
    item = DTYPE_BYTES.get(first.dtype)
    size = None if item is None else float(item * prod(shape))
    return _Value(end, None, label, f"{first.dtype} {list(shape)}", size)


def _argument(capture_file: CaptureFile, graph: Graph, at: int, calls: Sequence[int]) -> _Value:
    """Return an argument of a function as its calls bound it; a variable keeps its name."""
    number = capture_file.attribute_set(graph.attributes[at]).get("index")
    bound = [
        signature.inputs[number]
        for signature in (capture_file.signatures[call] for call in calls)
        if isinstance(number, int) and number < len(signature.inputs)
    ]
    label = f"{graph.names[at]} (argument)"
    if not bound:
        return _Value("input", None, label)
    resources = {tensor.resource for tensor in bound}
    resource = capture_file.resource_of(bound[0]) if len(resources) == 1 else None
    if resource is None:
        return _value("input", bound, label)
    shape = "" if resource.shape is None else f" {list(resource.shape)}"
    size = None if resource.bytes is None else float(resource.bytes)
    name = f"{resource.name or graph.names[at]} (variable)"
    return _Value("input", None, name, f"{resource.dtype}{shape}" or None, size)


class _Edges:
    """The data edges of a graph, both ways: without constants, and through identities."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._consumers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for node in range(len(graph)):
            for source, output in graph.sources(node):
                self._consumers[source].append((node, output))

    def of(self, name: str) -> Iterator[tuple[str, int, int, bool]]:
        """Yield inputs and outputs: the other node, output number, whether that node makes it."""
        at = self.graph.index(name)
        if at >= 0:
            yield from (("input", source, output, True) for source, output in self._makers(at))
            yield from (("output", taker, output, False) for taker, output in self._takers(at))

    def _makers(self, at: int) -> Iterator[tuple[int, int]]:
        for source, output in self.graph.sources(at):
            if self.graph.ops[source] == "Identity":
                yield from self._makers(source)
            elif self.graph.ops[source] != "Const":
                yield source, output

    def _takers(self, at: int) -> Iterator[tuple[int, int]]:
        for consumer, output in self._consumers[at]:
            if self.graph.ops[consumer] == "Identity":
                yield from ((taker, output) for taker, _ in self._takers(consumer))
            else:
                yield consumer, output


# --- values, as transferred ------------------------------------------------------------------


def _transfers(
    run: Run, op_ids: Collection[str]
) -> dict[str, dict[tuple[str, str | None], dict[str, b.Cell]]]:
    """Return the transfers of each op, by end and other op."""
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
