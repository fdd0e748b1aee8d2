"""Finds the recorded inputs and outputs of ops.

If a capture recorded a graph, its edges are known. For an eager op, a capture has dtypes and
shapes, but no edges. A trace without a capture shows only transferred values.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from math import prod
from typing import NamedTuple

from traceanalyzer.capture_file.document import CaptureFile, Tensor
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.format import op_label
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import DTYPE_BYTES


class Value(NamedTuple):
    """An input or output of an op."""

    end: str
    op_id: str | None = None  # the op at the other end
    label: str = ""  # "" if the other end is unknown
    type: str | None = None
    bytes: float | None = None


def recorded_values(run: Run, op_ids: Collection[str]) -> Iterator[tuple[str, Value]]:
    """Yield the inputs and outputs of ops for which a capture file has edges or shapes."""
    sizes = _output_bytes(run)
    for host, capture_file in run.captured:
        for op_id, value in _recorded(host, capture_file, op_ids):
            maker = op_id if value.end == "output" else value.op_id
            size = sizes.get(maker or "") if value.bytes is None else value.bytes
            yield op_id, value._replace(bytes=size)


def _output_bytes(run: Run) -> dict[str, float]:
    """Return the output size, in bytes, of each op whose outputs all have the same size."""
    made = run.allocations
    made = made[(made["region_type"] == "output") & made["op_id"].notna()]
    sizes = made.groupby(made["op_id"].astype(str))["requested_bytes"].agg(["min", "max"]).dropna()
    same = sizes[sizes["min"] == sizes["max"]]
    return {str(op_id): float(size) for op_id, size in same["min"].items()}


def _recorded(
    host: Host, capture_file: CaptureFile, op_ids: Collection[str]
) -> Iterator[tuple[str, Value]]:
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
            yield op_id, Value(end, other, label, output_type)


def _value(end: str, tensors: Sequence[Tensor], label: str = "") -> Value:
    """Return a value with the first tensor's dtype, and the shape if all tensors share it."""
    first = tensors[0]
    shape = first.shape if all(t.shape == first.shape for t in tensors) else None
    if shape is None or min(shape, default=0) < 0 or not first.dtype:
        return Value(end, None, label, first.dtype or None)
    item = DTYPE_BYTES.get(first.dtype)
    size = None if item is None else float(item * prod(shape))
    return Value(end, None, label, f"{first.dtype} {list(shape)}", size)


def _argument(capture_file: CaptureFile, graph: Graph, at: int, calls: Sequence[int]) -> Value:
    """Return the value that calls of a function pass for an argument. Label variables by name."""
    number = capture_file.attribute_set(graph.attributes[at]).get("index")
    signatures = capture_file.signatures
    label, inputs = f"{graph.names[at]} (argument)", [signatures[call].inputs for call in calls]
    bound = [t[number] for t in inputs if isinstance(number, int) and number < len(t)]
    if not bound:
        return Value("input", None, label)
    resources = {tensor.resource for tensor in bound}
    resource = capture_file.resource_of(bound[0]) if len(resources) == 1 else None
    if resource is None:
        return _value("input", bound, label)
    shape = "" if resource.shape is None else f" {list(resource.shape)}"
    size = None if resource.bytes is None else float(resource.bytes)
    name = f"{resource.name or graph.names[at]} (variable)"
    return Value("input", None, name, f"{resource.dtype}{shape}" or None, size)


class _Edges:
    """The data edges of a graph in both directions, without constants and identities."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._consumers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for node in range(len(graph)):
            for source, output in graph.sources(node):
                self._consumers[source].append((node, output))

    def of(self, name: str) -> Iterator[tuple[str, int, int, bool]]:
        """Yield each edge's direction, other node, and output index, and True if it is an input."""
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
