"""Ops that a graph optimizer moved to the host."""

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import Final

from traceanalyzer.capture_file.document import Attributes, CaptureFile, is_session
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.finding_text import dtypes_in, observed
from traceanalyzer.cpu_ops import NOT_ON_CPU, analyse
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed
from traceanalyzer.model import Evidence
from traceanalyzer.placement.devices import asks_for_cpu, device_text
from traceanalyzer.placement.on_a_gpu import MOST_ELEMENTS, MOVED_IF_SMALL, OPTION, pinned_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.vocabulary import Role

# How the option was set: the evidence, its place in the capture file, and code that undoes it.
_SET_BY: Final = {
    "program": (
        f"the program set {OPTION}",
        "devices: optimizer_options",
        f'tf.config.optimizer.set_experimental_options({{"{OPTION}": False}})',
    ),
    "session": (
        f"the session's ConfigProto sets {OPTION}",
        "session_configs: rewrites",
        f"config.graph_options.rewrite_options.{OPTION} = rewriter_config_pb2.RewriterConfig.OFF",
    ),
}


def check(run: Run) -> Iterator[Finding]:
    yield from _by_graphs(run)
    for host, capture_file in run.captured:
        moved: dict[str, dict[int, Evidence]] = defaultdict(dict)
        for row, set_by, evidence in _moved(host, capture_file):
            moved[set_by][row] = evidence
        for set_by, by_row in moved.items():
            rows = host.tables.ops.iloc[list(by_row)]
            is_certain = bool((rows["placement_certainty"] == "certain").all())
            option, place, code = _SET_BY[set_by]
            yield CAUSE.finding(
                values={
                    "option": OPTION,
                    "count": counted(len(rows), "op"),
                    "types": listed(sorted(set(rows["type"].astype(str)))),
                    "code": code,
                },
                scope="" if set_by == "program" else set_by,
                certainty="certain" if is_certain else "likely",
                op_ids=tuple(rows["op_id"]),
                evidence=(observed("optimizer_options", option, place), *[*by_row.values()][:5]),
            )


def _by_graphs(run: Run) -> Iterator[Finding]:
    """Yield findings about CPU ops that a graph beside the trace places on a GPU."""
    _, _, code = _SET_BY["program"]
    for host in run.hosts:
        joined = host.tables.joined
        graphs = None if joined is None else joined.graphs
        moved = [
            op
            for op in analyse(run).cpu_ops.values()
            if graphs is not None and op.host == host.name
            if op.explanation.contradiction == NOT_ON_CPU and _is_moved(graphs, *op.node)
        ]
        if moved:
            shown = [
                observed(
                    "assigned_device",
                    f"a replay puts {op.name} on a GPU, but it is in the CPU's partition",
                )
                for op in moved[:5]
            ]
            yield CAUSE.finding(
                "by_graph",
                values={
                    "option": OPTION,
                    "count": counted(len(moved), "op"),
                    "types": listed(sorted({op.type for op in moved})),
                    "code": code,
                },
                scope=host.name,
                certainty="likely",
                op_ids=tuple(op.op_id for op in moved),
                evidence=tuple(shown),
            )


def _is_moved(graphs: CaptureFile, name: str, node: str) -> bool:
    """Return whether a node's partition is recorded and the optimizer moves its tensors."""
    function = graphs.function(name)
    for instance in () if function is None else function.instances:
        graph = instance.input
        if instance.partitions and (at := graph.index(node)) >= 0:
            known = graphs.attribute_set(graph.attributes[at]).values()
            types = {dtype for value in known for dtype in dtypes_in(value)}
            around = (at, *(source for source, _ in graph.sources(at)))
            sets = (graphs.attribute_set(graph.attributes[each]) for each in around)
            is_large = any(map(_names_large_tensor, sets)) and types != {"string"}
            return bool(types) and types <= MOVED_IF_SMALL and not is_large
    return False


def _names_large_tensor(attributes: Attributes) -> bool:
    """Return whether a node's attributes contain the shape of a tensor that is not small."""
    values = (
        v for value in attributes.values() for v in (value if isinstance(value, list) else [value])
    )
    for shape in (value.get("shape") for value in values if isinstance(value, dict)):
        sizes = [n for n in shape if isinstance(n, int)] if isinstance(shape, list) else []
        if min(sizes, default=-1) >= 0 and prod(sizes) > MOST_ELEMENTS:
            return True
    return False


def _moved(host: Host, capture_file: CaptureFile) -> Iterator[tuple[int, str, Evidence]]:
    """Yield each op that moved to the CPU: its row, who set the option, and the evidence."""
    ops, joined = host.tables.ops, host.tables.joined
    records = () if joined is None else joined.records
    is_on_cpu = ((ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)).tolist()
    for row, record in enumerate(records):
        if not is_on_cpu[row]:
            continue
        if record is None or not record.node or not asks_for_cpu(record.device or ""):
            continue
        assigned = _assigned(capture_file, record.function, record.node)
        set_by = pinned_by(capture_file, is_of_session=is_session(record.function))
        if set_by and assigned and not any(asks_for_cpu(d) or not d for d in assigned):
            text = f"{record.node} was placed on {device_text(min(assigned))}, but ran on the CPU"
            yield row, set_by, observed("assigned_device", text, f"node {record.node}")


def _assigned(capture_file: CaptureFile, name: str, node: str) -> set[str]:
    function = capture_file.function(name)
    instances = () if function is None else function.instances
    places = [(each.assigned, each.input.index(node)) for each in instances]
    return {assigned[at] if at < len(assigned) else "" for assigned, at in places if at >= 0}


def _why_not(run: Run) -> str | None:
    joined = [host.tables.joined for host in run.hosts]
    has_graphs = any(each is not None and each.graphs is not None for each in joined)
    is_known = run.captured or (has_graphs and run.gpu_used)
    return None if is_known else "it needs data that only a capture records"


CAUSE = Cause(__name__, check=check, not_applicable=_why_not)
