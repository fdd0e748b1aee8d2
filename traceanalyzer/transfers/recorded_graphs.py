"""What goes from which op to which within a function, as a capture recorded its graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.devices import CPU, DeviceNameError, parse_device
from traceanalyzer.tables.graph_nodes import base_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.capture_file.function_records import Graph, Instance, Partition
    from traceanalyzer.tables.graph_nodes import OpRecord


@dataclass(frozen=True, eq=False)
class PlacedGraph:
    """The graph of a function, as one instance of it was placed."""

    function: str
    graph: Graph
    on_cpu: tuple[bool | None, ...]  #: of each node; None if not recorded
    inputs: tuple[tuple[tuple[int, int], ...], ...]  #: of each node: node and output

    @classmethod
    def of(cls, function: str, instance: Instance) -> PlacedGraph:
        """Take one instance of a function."""
        graph = instance.input
        on_cpu = {device: _is_cpu(device) for device in set(instance.assigned)}
        return cls(
            function=function,
            graph=graph,
            on_cpu=tuple(on_cpu[device] for device in instance.assigned),
            inputs=tuple(tuple(graph.sources(node)) for node in range(len(graph))),
        )

    def find(self, name: str) -> int:
        """Return the node of that name, or the one that it was made from; -1 for none."""
        for base in (name, *base_names(name)):
            if (at := self.graph.index(base)) != UNKNOWN:
                return at
        return UNKNOWN


class RecordedGraphs:
    """The recorded graphs of one host's functions, and the rows of the op table in them."""

    def __init__(
        self,
        capture_file: CaptureFile,
        records: Sequence[OpRecord | None],
        functions: Iterable[str | None],
    ) -> None:
        """Take what a capture recorded.

        Args:
            capture_file: The capture file.
            records: Its record of each row of the op table.
            functions: The column `function` of these rows.
        """
        self._capture_file = capture_file
        self.place: dict[int, tuple[str, str]] = {}
        """Function and node of rows of the op table."""
        self.rows: dict[tuple[str, str], list[int]] = {}
        """Rows of each function and node."""
        called: dict[str, set[str]] = {}
        for row, (record, label) in enumerate(zip(records, functions, strict=True)):
            if record is None or not record.node:
                continue
            key = (record.function, record.node)
            self.place[row] = key
            self.rows.setdefault(key, []).append(row)
            if label is not None:
                called.setdefault(label, set()).add(record.function)
        self.full_names = {label: min(names) for label, names in called.items() if len(names) == 1}
        """Full names of functions by their name in tables, where it is unique."""

    def instances(self, function: str) -> list[PlacedGraph]:
        """Return the placed instances of a function.

        There are none of a session's graph: each run has a part of it.
        """
        found = None if is_session(function) else self._capture_file.function(function)
        return [] if found is None else [PlacedGraph.of(function, i) for i in found.instances]


def node_types(capture_file: CaptureFile, names: Iterable[str]) -> dict[str, str]:
    """Return the types of nodes that ran, by name; of those that have one type throughout."""
    instances = [i for f in capture_file.functions for i in f.instances]
    graphs: list[Graph | Partition] = [p for i in instances for p in i.partitions]
    graphs += [i.input for i in instances]
    found = {}
    for name in names:
        types = {g.ops[at] for g in graphs if (at := g.index(name)) != UNKNOWN}
        if len(types) == 1:
            found[name] = types.pop()
    return found


def _is_cpu(device: str) -> bool | None:
    try:
        return parse_device(device).type == CPU if device else None
    except DeviceNameError:
        return None
