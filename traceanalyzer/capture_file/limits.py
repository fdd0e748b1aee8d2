"""Keeps a capture file within its size limit: the least useful parts are left out, and counted.

The limit on the JSON is what a reader loads in a second; that on the gzipped file is the promise
made to the user's disk.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import Note
from traceanalyzer.capture_file.files import packed, serialised
from traceanalyzer.capture_file.function_records import UNKNOWN

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.capture_file.function_records import Function

MAX_PACKED_BYTES: Final = 20_000_000
MAX_JSON_BYTES: Final = 40_000_000

_IN_WORDS: Final = {
    "partition_attributes": ("the attributes of", "node that ran", "nodes that ran"),
    "functions": ("the graphs of", "function", "functions"),
    "eager_ops": ("the order of", "eager op", "eager ops"),
    "definitions": ("the lines of", "function", "functions"),
}


def bounded(
    capture_file: CaptureFile,
    *,
    max_packed_bytes: int = MAX_PACKED_BYTES,
    max_json_bytes: int = MAX_JSON_BYTES,
) -> CaptureFile:
    """Leave out of a capture file what does not fit.

    First go the attributes of partitions, which rarely differ from those of the input; then, where
    they are too large, the sequences and the definitions; then graphs, the largest first.

    Returns:
        The capture file, or one that says in `omitted` and in a note what it lacks.
    """
    limits = (max_packed_bytes, max_json_bytes)
    if _excess(capture_file, *limits) <= 0:
        return capture_file
    capture_file = _without_partition_attributes(capture_file)
    for leave_out in (_without_sequences, _without_definitions):
        if _excess(replace(capture_file, functions=()), *limits) > 0:
            capture_file = leave_out(capture_file)
    while capture_file.functions and (excess := _excess(capture_file, *limits)) > 0:
        capture_file = _without_largest_functions(capture_file, excess)
    return _with_note(capture_file)


def _excess(capture_file: CaptureFile, max_packed_bytes: int, max_json_bytes: int) -> float:
    """Return the share of a capture file that is too much; not above 0 where it fits."""
    document = serialised(capture_file)
    excess = 1 - max_json_bytes / len(document)
    if len(document) > max_packed_bytes:  # gzip makes nothing longer
        excess = max(excess, 1 - max_packed_bytes / len(packed(document)))
    return excess


def _without_partition_attributes(capture_file: CaptureFile) -> CaptureFile:
    left_out = 0
    functions = []
    for function in capture_file.functions:
        instances = []
        for instance in function.instances:
            left_out += sum(len(p) for p in instance.partitions)
            bare = [replace(p, attributes=(UNKNOWN,) * len(p)) for p in instance.partitions]
            instances.append(replace(instance, partitions=tuple(bare)))
        functions.append(replace(function, instances=tuple(instances)))
    found = replace(capture_file, functions=tuple(functions))
    return _omit(_pruned(found), "partition_attributes", left_out)


def _without_sequences(capture_file: CaptureFile) -> CaptureFile:
    left_out = sum(int(s.counts.sum()) for s in capture_file.sequences)
    return _omit(replace(capture_file, sequences=()), "eager_ops", left_out)


def _without_definitions(capture_file: CaptureFile) -> CaptureFile:
    return _omit(
        replace(capture_file, definitions=()), "definitions", len(capture_file.definitions)
    )


def _without_largest_functions(capture_file: CaptureFile, share: float) -> CaptureFile:
    """Leave out the largest functions, which hold at least a share of all nodes."""
    by_size = sorted(capture_file.functions, key=_nodes, reverse=True)
    enough = share * sum(map(_nodes, by_size))
    dropped: set[int] = set()
    for function in by_size:
        dropped.add(id(function))
        enough -= _nodes(function)
        if enough <= 0:
            break
    kept = tuple(f for f in capture_file.functions if id(f) not in dropped)
    return _omit(_pruned(replace(capture_file, functions=kept)), "functions", len(dropped))


def _nodes(function: Function) -> int:
    return sum(
        len(i.input) + sum(len(partition) for partition in i.partitions) for i in function.instances
    )


def _pruned(capture_file: CaptureFile) -> CaptureFile:
    used = {signature.attributes for signature in capture_file.signatures}
    for function in capture_file.functions:
        for instance in function.instances:
            for graph in (instance.input, *instance.partitions):
                used.update(graph.attributes)
    sets = enumerate(capture_file.attributes)
    return replace(capture_file, attributes=tuple(s if at in used else {} for at, s in sets))


def _omit(capture_file: CaptureFile, what: str, count: int) -> CaptureFile:
    if not count:
        return capture_file
    before = capture_file.omitted.get(what, 0)
    return replace(capture_file, omitted={**capture_file.omitted, what: before + count})


def _with_note(capture_file: CaptureFile) -> CaptureFile:
    left_out = ", ".join(_in_words(what, n) for what, n in capture_file.omitted.items())
    message = f"to keep the evidence small these were left out: {left_out}"
    note = Note(id="evidence_left_out", severity="warning", message=message)
    return replace(capture_file, notes=(*capture_file.notes, note))


def _in_words(what: str, count: int) -> str:
    of, one, several = _IN_WORDS[what]
    return f"{of} {count:,} {one if count == 1 else several}"
