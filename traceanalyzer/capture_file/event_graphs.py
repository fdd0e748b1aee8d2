"""Graphs in events files beside a trace, in the form of a capture file.

`tf.summary.trace_export` and Keras' TensorBoard callback write a RunMetadata. It contains, for each
function that ran while they recorded, TensorFlow's graph before the placer and the partitions that
ran (`FunctionGraphs`, core/protobuf/config.proto). The functions have no names there, so a function
of the trace is recognized by its ops: their names are those of the nodes.

Such a graph can come from another call of the function, or from an earlier run of the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import CaptureFile, Note
from traceanalyzer.capture_file.function_records import Function, Instance, partition_of
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph
from traceanalyzer.format import counted, printable
from traceanalyzer.trace.message import BrokenMessageError, Message, as_bytes
from traceanalyzer.trace.tfevents import run_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traceanalyzer.capture_file.document import Attributes
    from traceanalyzer.trace.discovery import RunFiles
    from traceanalyzer.trace.tfevents import TfVersion

# Fields of RunMetadata and FunctionGraphs (config.proto).
_FUNCTION_GRAPHS: Final = 4
_PARTITIONS, _BEFORE = 1, 2
_PLACED_BY_CALLER: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})
# Grappler can move small tensors after the placer, mostly integers (pin_to_host_optimizer.cc; it is
# off by default). The graphs do not show it, so the placer's choice for such ops is unknown.
_MAY_BE_PINNED: Final = frozenset({"int32", "int64"})
_LEAST_SHARE: Final = 0.9  # of a function's ops that a graph must have
_FEWEST_OPS: Final = 3  # of at least one function that has a graph


@dataclass(frozen=True, kw_only=True)
class EventGraphs:
    """The graphs that events files beside a run contain, nearest in time first."""

    file: str  #: name of the first file that contains a graph
    instances: tuple[Instance, ...]
    attributes: tuple[Attributes, ...]
    version: str | None  #: of the run's TensorFlow

    def of_functions(
        self, ops_of_function: Mapping[str, Collection[str]], devices: Collection[str]
    ) -> CaptureFile | None:
        """Return the functions of a trace that have a graph here; None if there are none.

        Args:
            ops_of_function: The names of the ops that each function of the trace ran.
            devices: Full names of the devices that the trace shows.
        """
        found = {name: self._instance(set(ops)) for name, ops in ops_of_function.items()}
        functions = tuple(
            Function(name=name, instances=(instance,))
            for name, instance in found.items()
            if instance is not None
        )
        # Few ops of a function can have the names of another program's.
        if not any(len(ops_of_function[f.name]) >= _FEWEST_OPS for f in functions):
            return None
        used = {part.device for f in functions for i in f.instances for part in i.partitions}
        return CaptureFile(
            tool="",
            host="",
            complete=False,
            environment={"tensorflow": {"version": self.version}} if self.version else None,
            devices={"logical": [{"name": name} for name in sorted({*devices, *used})]},
            attributes=self.attributes,
            functions=functions,
            omitted={"functions": 1},  # those that no graph shows
            notes=(self._note(len(functions), len(ops_of_function)),),
        )

    def _note(self, found: int, functions: int) -> Note:
        message = (
            f"{self.file}, beside the trace, has graphs with the op names of {found} of "
            f"{counted(functions, 'function')}; they may belong to other calls, so no answer from "
            "them is certain"
        )
        return Note(id="event_graphs", severity="info", message=message)

    def _instance(self, ops: set[str]) -> Instance | None:
        """Return the smallest graph with these ops, of equal ones the nearest in time."""
        sizes = []
        for at, instance in enumerate(self.instances):
            nodes = {name for part in instance.partitions for name in part.names}
            if len(ops & nodes) >= _LEAST_SHARE * len(ops):
                sizes.append((len(nodes), at))
        return self.instances[min(sizes)[1]] if sizes else None


def event_graphs(run: RunFiles, version: TfVersion | None) -> EventGraphs | None:
    """Read the graphs in the events files beside a run; None if there are none."""
    pool = AttributePool()
    instances: list[Instance] = []
    first = ""
    for file, data in run_metadata(run):
        try:
            functions = Message(data).every(_FUNCTION_GRAPHS)
            found = [_read(Message(each), pool) for each in functions]
        except BrokenMessageError:
            continue
        instances += filter(None, found)
        first = first or (printable(file.name) if instances else "")
    if not instances:
        return None
    return EventGraphs(
        file=first,
        instances=tuple(instances),
        attributes=tuple(pool.sets),
        version=None if version is None else version.value,
    )


def _read(function: Message, pool: AttributePool) -> Instance | None:
    before = function.every(_BEFORE)
    partitions = [
        partition_of(parse_graph(as_bytes(part), pool)) for part in function.every(_PARTITIONS)
    ]
    if not before or not partitions:
        return None
    graph = parse_graph(as_bytes(before[-1]), pool)
    device_of = {name: part.device for part in partitions for name in part.names}
    may_be_pinned = [_may_be_pinned(pool.sets[at]) for at in graph.attributes]
    assigned = tuple(
        "" if is_moved and "CPU" in device_of.get(name, "") else device_of.get(name, "")
        for name, is_moved in zip(graph.names, may_be_pinned, strict=True)
    )
    # A placed argument or result shows its device instead of a request, as in a capture.
    devices = tuple(
        device if op in _PLACED_BY_CALLER else requested
        for op, device, requested in zip(graph.ops, assigned, graph.devices, strict=True)
    )
    return Instance(
        input=replace(graph, devices=devices), assigned=assigned, partitions=tuple(partitions)
    )


def _may_be_pinned(attributes: Attributes) -> bool:
    types = {value for value in attributes.values() if isinstance(value, str)}
    return bool(types) and types <= _MAY_BE_PINNED
