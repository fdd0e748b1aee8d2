"""Finds in a folder of TensorFlow's graph dumps what each function was and what became of it.

TensorFlow names a dump `FUNCTION.NUMBER.main.STAGE.pb`, after partitioning
`FUNCTION_partition_DEVICE.NUMBER.main.STAGE.pb`; the number runs on for each of these names while
a function is instantiated again (util/debug_data_dumper.cc). A v1 session's graph is called
`unknown_graph`, by the recorder `unknown_graph#1` and so on where there are several, and has stages
of its own. The placer of 2.12 writes `FUNCTIONplacer_input_N.pbtxt`,
which the recorder turns into `.pb`. In file names TensorFlow puts `_` for what might be special
(util/dump_graph.cc, MakeUniqueFilename).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

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
from traceanalyzer.trace.message import BrokenMessageError, fields

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
    device: str = ""


@dataclass(slots=True)
class _Dumps:
    """The dumps of one function, each stage's in the order in which they were written."""

    inputs: list[_Dump] = field(default_factory=list)
    assigned: list[_Dump] = field(default_factory=list)
    partitions: dict[str, list[_Dump]] = field(default_factory=lambda: defaultdict(list))

    def sort(self) -> None:
        for dumps in (self.inputs, self.assigned, *self.partitions.values()):
            dumps.sort(key=lambda dump: dump.number)


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
        instances = reader.instances(dumps)
        if instances:
            functions.append(Function(name=names.get(escaped, escaped), instances=instances))
    notes = list(reader.notes())
    texts = sum(1 for _ in folder.glob("*placer_input*.pbtxt"))
    if texts:
        message = f"{counted(texts, 'dumped graph')} left as text, which cannot be read here"
        notes.append(Note(id="graphs_as_text", severity="warning", message=message))
    return functions, notes


def _found(folder: Path) -> dict[str, _Dumps]:
    found: dict[str, _Dumps] = defaultdict(_Dumps)
    for path in sorted(folder.glob("*.pb")):
        if match := _STAGED.fullmatch(path.name):
            name, number, stage = match[1], int(match[2]), match[3]
            device = ""
            if partitioned := _PARTITIONED.fullmatch(name):
                name, device = partitioned[1], partitioned[2]
            kind = (_SESSION_STAGES if is_session(name) else _STAGES).get(stage)
        elif match := _PLACER.fullmatch(path.name):
            name, number, device = match[1], int(match[3] or 0), ""
            kind = _INPUT if match[2] == "input" else _ASSIGNED
        else:
            continue
        dump = _Dump(path=path, number=number, time_ns=path.stat().st_mtime_ns, device=device)
        if kind == _INPUT:
            found[name].inputs.append(dump)
        elif kind == _ASSIGNED:
            found[name].assigned.append(dump)
        elif kind == _PARTITION:
            found[name].partitions[device].append(dump)
    return found


class _Reader:
    """Reads dumps and counts those it cannot read."""

    def __init__(self, attributes: AttributePool) -> None:
        self._attributes = attributes
        self._unreadable: list[str] = []

    def notes(self) -> Iterable[Note]:
        if self._unreadable:
            count, first = len(self._unreadable), printable(self._unreadable[0])
            are = "is" if count == 1 else "are"
            which = f"{counted(count, 'dumped graph')} {are} cut short or damaged"
            message = f"{which}, the first of them {first}"
            yield Note(id="graphs_damaged", severity="warning", message=message)

    def instances(self, dumps: _Dumps) -> tuple[Instance, ...]:
        """Return the instances of a function, those that are alike once."""
        counts: Counter[int] = Counter()
        found: list[Instance] = []
        partitions = _by_instance(dumps)
        for at, dump in enumerate(dumps.inputs):
            graph = self._graph(dump, self._attributes)
            if graph is None:
                continue
            instance = Instance(
                input=graph,
                assigned=self._assigned(graph, _answer_to(dumps, at)),
                partitions=tuple(filter(None, map(self._partition, partitions[at]))),
            )
            if instance not in found:
                found.append(instance)
            counts[found.index(instance)] += 1
        return tuple(replace(each, count=counts[at]) for at, each in enumerate(found))

    def _graph(self, dump: _Dump, attributes: AttributePool | None) -> Graph | None:
        try:
            # Mapped, not read: constants may be large, and are passed over.
            mapped = np.memmap(dump.path, np.uint8, mode="r")
            return parse_graph(mapped.data, attributes)
        except (OSError, ValueError, BrokenMessageError):  # ValueError: an empty file
            self._unreadable.append(dump.path.name)
            return None

    def _assigned(self, graph: Graph, dump: _Dump | None) -> tuple[str, ...]:
        answer = None if dump is None else self._graph(dump, None)
        if answer is None:
            return ("",) * len(graph)
        if answer.names == graph.names:
            return answer.devices
        devices = dict(zip(answer.names, answer.devices, strict=True))
        return tuple(devices.get(name, "") for name in graph.names)

    def _partition(self, dump: _Dump) -> Partition | None:
        graph = self._graph(dump, self._attributes)
        if graph is None:
            return None
        named = re.sub(r"_(job|replica|task|device):", r"/\1:", dump.device)
        return Partition(
            device=next(filter(None, graph.devices), named),
            names=graph.names,
            ops=graph.ops,
            attributes=graph.attributes,
            origin_functions=graph.origin_functions,
            origin_nodes=graph.origin_nodes,
        )


def _answer_to(dumps: _Dumps, at: int) -> _Dump | None:
    """Return the assignment that followed an input: the first after it and before the next."""
    begin = dumps.inputs[at].number
    after = [dump for dump in dumps.assigned if dump.number >= begin]
    if not after:
        return None
    if at + 1 < len(dumps.inputs) and after[0].number >= dumps.inputs[at + 1].number > begin:
        return None
    return after[0]


def _by_instance(dumps: _Dumps) -> list[list[_Dump]]:
    """Return the partitions of each instance.

    Their numbers run on their own for each device. Where a device has as many as there are
    instances they pair up; otherwise, as where an instance had nothing on a device, by time.
    """
    found: list[list[_Dump]] = [[] for _ in dumps.inputs]
    times = [dump.time_ns for dump in dumps.inputs]
    for _, partitions in sorted(dumps.partitions.items()):
        if len(partitions) == len(dumps.inputs):
            for at, dump in enumerate(partitions):
                found[at].append(dump)
            continue
        for dump in partitions:
            if (at := bisect_right(times, dump.time_ns) - 1) >= 0:
                found[at].append(dump)
    return found


# --- One graph ------------------------------------------------------------------------------------
#
# A serialized GraphDef, read without TensorFlow and protobuf. Numbers of fields are those of
# graph.proto, node_def.proto and versions.proto in TensorFlow's `core/framework`.

_NODE, _VERSIONS = 1, 4  # of a GraphDef
_PRODUCER = 1  # of its VersionDef
# Of a NodeDef; each is a length-delimited field, whose tag is one byte.
_NAME, _OP, _INPUT_OF, _DEVICE, _ATTR, _DEBUG = (number << 3 | 2 for number in range(1, 7))
_ORIGINAL_NODE, _ORIGINAL_FUNCTION = 1, 2  # of its ExperimentalDebugInfo
_LENGTH: Final = 2
# Larger nodes are constants: a view is read slower than a copy, but a copy of them costs more.
_COPIED: Final = 4096


def parse_graph(data: bytes | memoryview, attributes: AttributePool | None = None) -> Graph:
    """Read a serialized GraphDef without its function library.

    Args:
        attributes: Where attribute sets are put; None to pass over them.

    Raises:
        BrokenMessageError: The bytes are not a GraphDef.
    """
    columns = _Columns(attributes)
    producer = 0
    for number, value, _ in fields(memoryview(data)):
        if number == _NODE:
            columns.add(_message(value))
        elif number == _VERSIONS:
            for inner_number, inner, _ in fields(_message(value)):
                if inner_number == _PRODUCER and isinstance(inner, int):
                    producer = inner
    return columns.graph(producer)


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise BrokenMessageError
    return value


class _Columns:
    """The columns of a graph as they grow."""

    def __init__(self, attributes: AttributePool | None) -> None:
        self._pool = attributes
        self._texts: dict[bytes, str] = {}
        self._names: list[str] = []
        self._ops: list[str] = []
        self._inputs: list[tuple[str, ...]] = []
        self._devices: list[str] = []
        self._attributes: list[int] = []
        self._origin_functions: list[str] = []
        self._origin_nodes: list[str] = []

    def graph(self, producer: int) -> Graph:
        return Graph(
            names=tuple(self._names),
            ops=tuple(self._ops),
            inputs=tuple(self._inputs),
            devices=tuple(self._devices),
            attributes=tuple(self._attributes),
            origin_functions=tuple(self._origin_functions),
            origin_nodes=tuple(self._origin_nodes),
            producer=producer,
        )

    def add(self, view: memoryview) -> None:
        """Read a NodeDef. The loop is written out: graphs have a million fields."""
        node = bytes(view) if len(view) <= _COPIED else view
        text = self._text
        texts = {_NAME: "", _OP: "", _DEVICE: ""}
        function = origin = ""
        inputs: list[str] = []
        entries: list[bytes | memoryview] = []
        at, end = 0, len(node)
        while at < end:
            tag = node[at]
            at += 1
            if tag & 7 != _LENGTH or tag > 0x7F or at >= end:  # noqa: PLR2004 - a longer tag
                at = self._pass_over(view, at - 1)
                continue
            length = node[at]
            at += 1
            if length > 0x7F:  # noqa: PLR2004 - a length of several bytes
                length, at = _long(node, at - 1)
            stop = at + length
            if stop > end:
                raise BrokenMessageError(cut_short=True)
            if tag == _ATTR:
                entries.append(node[at:stop])
            elif tag == _INPUT_OF:
                inputs.append(text(bytes(node[at:stop])))
            elif tag in texts:
                texts[tag] = text(bytes(node[at:stop]))
            elif tag == _DEBUG:
                function, origin = self._origin(view[at:stop])
            at = stop
        self._names.append(texts[_NAME])
        self._ops.append(texts[_OP])
        self._inputs.append(tuple(inputs))
        self._devices.append(texts[_DEVICE])
        self._attributes.append(UNKNOWN if self._pool is None else self._pool.add_entries(entries))
        self._origin_functions.append(function)
        self._origin_nodes.append(origin)

    def _origin(self, data: memoryview) -> tuple[str, str]:
        """Return the first function and node: of several, grappler merged them."""
        node = function = ""
        for number, value, _ in fields(data):
            if number == _ORIGINAL_NODE and not node:
                node = self._text(bytes(_message(value)))
            elif number == _ORIGINAL_FUNCTION and not function:
                function = self._text(bytes(_message(value)))
        return function, node

    def _text(self, data: bytes) -> str:
        """Decode a text, once for all nodes that have it."""
        known = self._texts.get(data)
        if known is None:
            known = self._texts[data] = str(data, "utf-8", "backslashreplace")
        return known

    def _pass_over(self, node: memoryview, at: int) -> int:
        """Return the end of a field that is none of ours."""
        for _, _, end in fields(node[at:]):
            return at + end
        raise BrokenMessageError


def _long(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 63:  # noqa: PLR2004 - bits of the longest
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value, at
        shift += 7
    raise BrokenMessageError(cut_short=True)
