"""Reads dumps of functions' graphs before placement, after placement, and after partitioning.

TensorFlow names a dump `FUNCTION.NUMBER.main.STAGE.pb` or, after partitioning,
`FUNCTION_partition_DEVICE.NUMBER.main.STAGE.pb` (`.pbtxt` in 2.13 to 2.15: see `graph_text`). Later
instantiations have higher numbers (util/debug_data_dumper.cc). Graphs of v1 sessions have other
stages. The first graph is named `unknown_graph`, and the recorder renames others to
`unknown_graph#1` and so on. In file names, TensorFlow replaces special characters by `_`
(util/dump_graph.cc, MakeUniqueFilename).
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from traceanalyzer.capture_file.document import CaptureNote, is_session
from traceanalyzer.capture_file.function_records import (
    Function,
    Graph,
    Instance,
    Partition,
    partition_of,
)
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph
from traceanalyzer.capture_file.graph_text import graph_of_text
from traceanalyzer.format import counted, printable, series
from traceanalyzer.trace.message import BrokenMessageError

_INPUT, _ASSIGNED, _PARTITION = "input", "assigned", "partition"
_STAGES: Final = {
    "before_placer": _INPUT,
    "before_post_placement_passes": _ASSIGNED,
    "after_partition_passes": _PARTITION,
}
# A v1 session has no stages of a function's instantiation.
_SESSION_STAGES: Final = {
    "after_opt_group_pre_placement": _INPUT,
    "before_opt_group_post_placement": _ASSIGNED,
    "after_opt_group_post_partitioning": _PARTITION,
}
_STAGED: Final = re.compile(
    r"(.+?)(?:_partition_(_job:.+))?\.(\d{4,9})\.main\.([a-z_]+?)(?:_\d+)?\.pb(?:txt)?"
)
_TEXT: Final = ".pbtxt"
_ESCAPED: Final = str.maketrans("/[]*?\\", "______")


class _Dump(NamedTuple):
    number: int
    path: Path
    time_ns: int


# The dumps of a function by stage and, for partitions, by device.
_Dumps: TypeAlias = dict[tuple[str, str], list[_Dump]]


def read_dumps(
    folder: Path, attributes: AttributePool, definitions: Iterable[str]
) -> tuple[list[Function], list[CaptureNote]]:
    """Return the functions dumped in a folder, and notes about dumps that cannot be read.

    Args:
        definitions: The real function names: file names have `_` for special characters.
    """
    names = {name.translate(_ESCAPED): name for name in definitions}
    reader = _Reader(attributes)
    functions = []
    for escaped, dumps in sorted(_found(folder).items()):
        if instances := reader.instances(dumps):
            functions.append(Function(name=names.get(escaped, escaped), instances=instances))
    notes = []
    if bad := reader.unreadable:
        which = f"{counted(len(bad), 'dumped graph')} {'is' if len(bad) == 1 else 'are'}"
        message = f"{which} cut short or damaged: {series([printable(b) for b in bad])}"
        notes.append(CaptureNote(id="graphs_damaged", severity="warning", message=message))
    return functions, notes


def _found(folder: Path) -> dict[str, _Dumps]:
    found: dict[str, _Dumps] = defaultdict(lambda: defaultdict(list))
    for path in chain(folder.glob("*.pb"), folder.glob("*.pbtxt")):
        match = _STAGED.fullmatch(path.name)
        name, device, number, stage = match.groups(default="") if match else ("", "", "", "")
        kind = (_SESSION_STAGES if is_session(name) else _STAGES).get(stage)
        if kind is not None:
            dump = _Dump(int(number), path, path.stat().st_mtime_ns)
            found[name][kind, device].append(dump)
    for dumps in found.values():
        for each in dumps.values():
            each.sort()
    return found


class _Reader:
    """Reads dumps, and lists those that it cannot read."""

    def __init__(self, attributes: AttributePool) -> None:
        self.unreadable: list[str] = []
        self._attributes = attributes

    def instances(self, dumps: _Dumps) -> tuple[Instance, ...]:
        """Return the distinct instances of a function."""
        found: list[Instance] = []
        inputs, assigned = dumps[_INPUT, ""], dumps[_ASSIGNED, ""]
        partitions = _by_instance(inputs, dumps)
        for at, dump in enumerate(inputs):
            graph = self._graph(dump, self._attributes)
            if graph is None:
                continue
            # The first answer between this input and the next one.
            answer = next((each for each in assigned if each.number >= dump.number), None)
            later = inputs[at + 1].number if at + 1 < len(inputs) else dump.number
            if answer is not None and answer.number >= later > dump.number:
                answer = None
            instance = Instance(
                input=graph,
                assigned=self._assigned(graph, answer),
                partitions=tuple(filter(None, (self._partition(*p) for p in partitions[at]))),
            )
            if instance not in found:
                found.append(instance)
        return tuple(found)

    def _graph(self, dump: _Dump, attributes: AttributePool | None = None) -> Graph | None:
        try:
            if dump.path.suffix == _TEXT:
                return parse_graph(graph_of_text(dump.path.read_text("utf-8")), attributes)
            # Mapped, because constants can be large and are skipped.
            mapped = np.memmap(dump.path, np.uint8, mode="r")
            return parse_graph(mapped.data, attributes)
        except (OSError, ValueError, BrokenMessageError):  # ValueError: an empty file
            self.unreadable.append(dump.path.name)
            return None

    def _assigned(self, graph: Graph, dump: _Dump | None) -> tuple[str, ...]:
        answer = None if dump is None else self._graph(dump)
        devices = dict(zip(answer.names, answer.devices, strict=True)) if answer else {}
        return tuple(devices.get(name, "") for name in graph.names)

    def _partition(self, device: str, dump: _Dump) -> Partition | None:
        graph = self._graph(dump, self._attributes)
        if graph is None:
            return None
        named = re.sub(r"_(job|replica|task|device):", r"/\1:", device)
        return partition_of(graph, named)


def _by_instance(inputs: list[_Dump], dumps: _Dumps) -> list[list[tuple[str, _Dump]]]:
    """Return the partitions of each instance, with their devices.

    If a device has one partition per instance, they are paired in order. Otherwise, some instances
    have no ops on the device, and the partitions are assigned by time.
    """
    found: list[list[tuple[str, _Dump]]] = [[] for _ in inputs]
    times = [dump.time_ns for dump in inputs]
    for (kind, device), partitions in sorted(dumps.items()):
        for place, dump in enumerate(partitions if kind == _PARTITION else ()):
            is_paired = len(partitions) == len(times)
            at = place if is_paired else bisect_right(times, dump.time_ns) - 1
            if at >= 0:
                found[at].append((device, dump))
    return found
