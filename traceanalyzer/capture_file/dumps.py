"""Reads each function's graph and its placed and partitioned forms from TensorFlow's dumps.

TensorFlow names a dump `FUNCTION.NUMBER.main.STAGE.pb`, after partitioning
`FUNCTION_partition_DEVICE.NUMBER.main.STAGE.pb`; the number runs on for each of these names while
a function is instantiated again (util/debug_data_dumper.cc). A v1 session's graph is called
`unknown_graph`, or `unknown_graph#1` and so on by the recorder if there are several, and has other
stages. The placer of 2.12 writes `FUNCTIONplacer_input_N.pbtxt`,
which the recorder turns into `.pb`. In file names TensorFlow puts `_` for what might be special
(util/dump_graph.cc, MakeUniqueFilename).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.capture_file.document import Note, is_session
from traceanalyzer.capture_file.function_records import (
    UNKNOWN,
    Function,
    Graph,
    Instance,
    Partition,
)
from traceanalyzer.format import counted, printable
from traceanalyzer.trace.message import (
    BrokenMessageError,
    as_bytes,
    as_number,
    as_text,
    fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from traceanalyzer.capture_file.attributes import AttributePool

_INPUT, _ASSIGNED, _PARTITION = "input", "assigned", "partition"
_STAGES: Final = {
    "before_placer": _INPUT,
    "before_post_placement_passes": _ASSIGNED,
    "after_partition_passes": _PARTITION,
}
# A v1 session runs passes but has no stages of a function's instantiation.
_SESSION_STAGES: Final = {
    "after_opt_group_pre_placement": _INPUT,
    "before_opt_group_post_placement": _ASSIGNED,
    "after_opt_group_post_partitioning": _PARTITION,
}
_STAGED: Final = re.compile(r"(.+)\.(\d{4,9})\.main\.([a-z_]+?)(?:_\d+)?\.pb")
_PLACER: Final = re.compile(r"(.+?)_?placer_(input|output)(?:_(\d{1,9}))?\.(pb|pbtxt)")
_PARTITIONED: Final = re.compile(r"(.+)_partition_(_job:.+)")
_ESCAPED: Final = str.maketrans("/[]*?\\", "______")


@dataclass(frozen=True, kw_only=True)
class _Dump:
    path: Path
    number: int
    time_ns: int


@dataclass(slots=True)
class _Dumps:
    """The dumps of one function, each stage's in the order in which they were written."""

    inputs: list[_Dump] = field(default_factory=list)
    assigned: list[_Dump] = field(default_factory=list)
    partitions: dict[str, list[_Dump]] = field(default_factory=lambda: defaultdict(list))

    def sort(self) -> None:
        for dumps in (self.inputs, self.assigned, *self.partitions.values()):
            dumps.sort(key=lambda dump: dump.number)

    def answer_to(self, at: int) -> _Dump | None:
        """Return the assignment for an input: the first one after it and before the next input."""
        begin = self.inputs[at].number
        after = next((dump for dump in self.assigned if dump.number >= begin), None)
        later = self.inputs[at + 1].number if at + 1 < len(self.inputs) else begin
        return None if after is not None and after.number >= later > begin else after

    def by_instance(self) -> list[list[tuple[str, _Dump]]]:
        """Return the partitions of each instance, with their devices.

        They are numbered separately for each device. If a device has one per instance, they are
        paired in order; otherwise, e.g. if an instance had no ops on a device, by time.
        """
        found: list[list[tuple[str, _Dump]]] = [[] for _ in self.inputs]
        times = [dump.time_ns for dump in self.inputs]
        for device, partitions in sorted(self.partitions.items()):
            for at, dump in enumerate(partitions):
                if len(partitions) != len(times):
                    at = bisect_right(times, dump.time_ns) - 1  # noqa: PLW2901 - not in order
                if at >= 0:
                    found[at].append((device, dump))
        return found


def read_dumps(
    folder: Path, attributes: AttributePool, definitions: Iterable[str]
) -> tuple[list[Function], list[Note]]:
    """Return the functions of a folder of dumps, and notes about what could not be read.

    Args:
        definitions: Names of functions, which file names do not always keep.
    """
    names = {name.translate(_ESCAPED): name for name in definitions}
    reader = _Reader(attributes)
    functions = []
    for escaped, dumps in sorted(_found(folder).items()):
        dumps.sort()
        if instances := reader.instances(dumps):
            functions.append(Function(name=names.get(escaped, escaped), instances=instances))
    notes = []
    if bad := reader.unreadable:
        which = f"{counted(len(bad), 'dumped graph')} {'is' if len(bad) == 1 else 'are'}"
        message = f"{which} cut short or damaged, the first of them {printable(bad[0])}"
        notes.append(Note(id="graphs_damaged", severity="warning", message=message))
    if texts := sum(1 for _ in folder.glob("*placer_input*.pbtxt")):
        message = f"{counted(texts, 'dumped graph')} left as text, which cannot be read here"
        notes.append(Note(id="graphs_as_text", severity="warning", message=message))
    return functions, notes


def _found(folder: Path) -> dict[str, _Dumps]:
    found: dict[str, _Dumps] = defaultdict(_Dumps)
    for path in sorted(folder.glob("*.pb")):
        device = ""
        if match := _STAGED.fullmatch(path.name):
            name, number, stage = match[1], int(match[2]), match[3]
            if partitioned := _PARTITIONED.fullmatch(name):
                name, device = partitioned[1], partitioned[2]
            kind = (_SESSION_STAGES if is_session(name) else _STAGES).get(stage)
        elif match := _PLACER.fullmatch(path.name):
            name, number = match[1], int(match[3] or 0)
            kind = _INPUT if match[2] == "input" else _ASSIGNED
        else:
            continue
        dump = _Dump(path=path, number=number, time_ns=path.stat().st_mtime_ns)
        if kind == _INPUT:
            found[name].inputs.append(dump)
        elif kind == _ASSIGNED:
            found[name].assigned.append(dump)
        elif kind == _PARTITION:
            found[name].partitions[device].append(dump)
    return found


class _Reader:
    """Reads dumps, and lists those it cannot read."""

    def __init__(self, attributes: AttributePool) -> None:
        self.unreadable: list[str] = []
        self._attributes = attributes

    def instances(self, dumps: _Dumps) -> tuple[Instance, ...]:
        """Return the distinct instances of a function."""
        counts: Counter[int] = Counter()
        found: list[Instance] = []
        for at, (dump, partitions) in enumerate(
            zip(dumps.inputs, dumps.by_instance(), strict=True)
        ):
            graph = self._graph(dump, self._attributes)
            if graph is None:
                continue
            instance = Instance(
                input=graph,
                assigned=self._assigned(graph, dumps.answer_to(at)),
                partitions=tuple(filter(None, (self._partition(*each) for each in partitions))),
            )
            if instance not in found:
                found.append(instance)
            counts[found.index(instance)] += 1
        return tuple(replace(each, count=counts[at]) for at, each in enumerate(found))

    def _graph(self, dump: _Dump, attributes: AttributePool | None) -> Graph | None:
        try:
            # Map the file instead of reading it: constants can be large and are skipped.
            mapped = np.memmap(dump.path, np.uint8, mode="r")
            return parse_graph(mapped.data, attributes)
        except (OSError, ValueError, BrokenMessageError):  # ValueError: an empty file
            self.unreadable.append(dump.path.name)
            return None

    def _assigned(self, graph: Graph, dump: _Dump | None) -> tuple[str, ...]:
        answer = None if dump is None else self._graph(dump, None)
        if answer is None:
            return ("",) * len(graph)
        if answer.names == graph.names:
            return answer.devices
        devices = dict(zip(answer.names, answer.devices, strict=True))
        return tuple(devices.get(name, "") for name in graph.names)

    def _partition(self, device: str, dump: _Dump) -> Partition | None:
        graph = self._graph(dump, self._attributes)
        if graph is None:
            return None
        named = re.sub(r"_(job|replica|task|device):", r"/\1:", device)
        return Partition(
            device=next(filter(None, graph.devices), named),
            names=graph.names,
            ops=graph.ops,
            attributes=graph.attributes,
            origin_functions=graph.origin_functions,
            origin_nodes=graph.origin_nodes,
        )


# --- One graph ------------------------------------------------------------------------------------
#
# A serialized GraphDef, read without TensorFlow and protobuf. Numbers of fields are those of
# graph.proto, node_def.proto and versions.proto in TensorFlow's `core/framework`.

_NODE, _VERSIONS = 1, 4  # of a GraphDef
_PRODUCER = 1  # of its VersionDef
_NAME, _OP, _INPUT_OF, _DEVICE, _ATTR, _DEBUG = range(1, 7)  # of a NodeDef
_ORIGINAL_NODE, _ORIGINAL_FUNCTION = 1, 2  # of its ExperimentalDebugInfo


def parse_graph(data: bytes | memoryview, attributes: AttributePool | None = None) -> Graph:
    """Read a serialized GraphDef without its function library.

    Args:
        attributes: Collects the attribute sets; None to skip them.

    Raises:
        BrokenMessageError: The bytes are not a GraphDef.
    """
    nodes = _Nodes(attributes)
    producer = 0
    for number, value, _ in fields(memoryview(data)):
        if number == _NODE:
            nodes.add(as_bytes(value))
        elif number == _VERSIONS:
            versions = {k: each for k, each, _ in fields(as_bytes(value))}
            producer = as_number(versions.get(_PRODUCER, 0))
    rows = list(zip(*nodes.rows, strict=True)) or [()] * len(_FIELDS)
    return Graph(**dict(zip(_FIELDS, rows, strict=True)), producer=producer)


_FIELDS: Final = (
    *("names", "ops", "inputs", "devices", "attributes"),
    *("origin_functions", "origin_nodes"),
)


class _Nodes:
    """The nodes of a graph: a row for each, of the columns `_FIELDS`."""

    def __init__(self, attributes: AttributePool | None) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self._pool = attributes
        self._texts: dict[bytes, str] = {}

    def add(self, node: memoryview) -> None:
        """Read a NodeDef."""
        texts = {_NAME: "", _OP: "", _DEVICE: ""}
        origin = {_ORIGINAL_FUNCTION: "", _ORIGINAL_NODE: ""}
        inputs: list[str] = []
        entries: list[memoryview] = []
        for number, value, _ in fields(node):
            if number == _ATTR:
                entries.append(as_bytes(value))
            elif number == _INPUT_OF:
                inputs.append(self._text(value))
            elif number in texts:
                texts[number] = self._text(value)
            elif number == _DEBUG:
                for inner, name, _ in fields(as_bytes(value)):
                    if inner in origin:  # the first if several: Grappler merged them
                        origin[inner] = origin[inner] or self._text(name)
        attributes = UNKNOWN if self._pool is None else self._pool.add_entries(entries)
        named = texts[_NAME], texts[_OP], tuple(inputs), texts[_DEVICE]
        self.rows.append((*named, attributes, *origin.values()))

    def _text(self, value: int | memoryview) -> str:
        """Decode a text, once for all nodes that have it."""
        data = bytes(as_bytes(value))
        known = self._texts.get(data)
        if known is None:
            known = self._texts[data] = as_text(value)
        return known
