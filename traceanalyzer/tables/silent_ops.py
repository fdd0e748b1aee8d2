"""Finds the ops that TensorFlow placed on the CPU but that left no event in the trace.

The capture file has TensorFlow's own final graph of each function, and the eager ops. At host
tracer level 2, many of these ops leave no event (executor.cc): those with an asynchronous kernel,
those that cost nothing, and those that became cheap after some runs. Others did not run while the
trace was recorded, or may not have run. None of them has a duration.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.capture_file.function_records import (
    UNKNOWN,
    Function,
    Graph,
    Instance,
    split_input,
)
from traceanalyzer.data_files import toml
from traceanalyzer.placement.calls import functions_of_datasets, functions_of_steps
from traceanalyzer.tables.functions import base_and_counter
from traceanalyzer.tables.graph_nodes import GraphNodes, OpRecord
from traceanalyzer.tables.joined import Joined, distinct_records
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, OPTIONALS, Role, role_of_type

_FACTS: Final = toml("placement/data/without_events.toml")
_VERSION: Final = "2.21."  # whose kernels are known
_TYPES: Final = {name: frozenset(fact["ops"]) for name, fact in _FACTS.items()}
DESCRIBES: Final = _TYPES["describes"]  #: types of ops that describe a value
#: Those, and the types of ops that hand on a value.
NO_WORK: Final = DESCRIBES | _TYPES["hands_on"] | _TYPES["constants"]
_CPU: Final = "/device:CPU:"
_OP_LEVEL: Final = 2  # the lowest host tracer level that records ops
_MERGES: Final = frozenset({"Merge", "RefMerge"})
_SWITCHES: Final = frozenset({"Switch", "RefSwitch", "_SwitchN"})
_EXITS: Final = frozenset({"Exit", "RefExit"})
_BACK: Final = frozenset({"NextIteration", "RefNextIteration"})

# The predicates that an op depends on, each with its value.
_Guards: TypeAlias = frozenset[tuple[str, int]]


class _Silent(NamedTuple):
    """An op without an event, which becomes a row of the op table."""

    function: str | None
    type: str
    record: OpRecord


def with_silent_ops(
    occurrences: OpOccurrences,
    joined: Joined,
    capture_file: CaptureFile,
    facts: TracerFacts,
    session: int | None,
) -> tuple[OpOccurrences, Joined]:
    """Add a row without occurrences for each captured CPU op that has no row yet."""
    found = [
        *_OfGraphs(occurrences, joined, capture_file, facts).find(),
        *_of_eager_code(occurrences, joined, capture_file, facts, session),
    ]
    if not found:
        return occurrences, joined
    rows = pd.DataFrame(
        {
            "function": pd.Series([op.function for op in found], dtype=object),
            "name": [op.record.node or op.type for op in found],
            "type": [op.type for op in found],
            "device": pd.Series([None] * len(found), dtype=object),
            "input_types": pd.Series([None] * len(found), dtype=object),
            "is_eager": [bool(op.record.signatures) for op in found],
            "is_xla": False,
            "record": -1,
            "device_assumed": False,
        }
    )
    if len(occurrences.rows):
        rows = pd.concat([occurrences.rows, rows], ignore_index=True)
    records = (*joined.records, *(op.record for op in found))
    return replace(occurrences, rows=rows), replace(joined, records=records)


class _OfGraphs:
    """Finds the graph nodes on the CPU that have no row in the op table."""

    def __init__(
        self,
        occurrences: OpOccurrences,
        joined: Joined,
        capture_file: CaptureFile,
        facts: TracerFacts,
    ) -> None:
        self._capture_file, self._facts = capture_file, facts
        self._nodes = GraphNodes(capture_file)
        definitions, self._copies = occurrences.host.definitions, occurrences.host.copies
        self._called = set(definitions.values())
        # The function of the op table in which the ops of each function appear.
        self._label_of: dict[str, str] = {}
        for label, called in definitions.items():
            for function in (called, *self._nodes.called_by(called)):
                self._label_of.setdefault(function, label)
        # The names of the nodes with events, by function.
        self._events: dict[str, set[str]] = defaultdict(set)
        self._seen: set[tuple[object, str, str]] = set()
        self._unmatched: set[tuple[str, str]] = set()
        rows = occurrences.rows
        keys = zip(rows["function"], rows["name"], rows["type"], strict=True)
        for (function, name, op), record in zip(keys, joined.records, strict=True):
            self._seen.add((function, name, op))
            if record is None:
                self._unmatched.add((name, op))
            else:
                self._events[record.function].add(name)

    def find(self) -> Iterator[_Silent]:
        for function in _of_the_program(self._capture_file, self._nodes):
            if function.name in self._copies:
                continue
            for instance in function.instances:
                yield from self._in_instance(function, instance)

    def _in_instance(self, function: Function, instance: Instance) -> Iterator[_Silent]:
        label = self._label_of.get(function.name)
        is_outside = label is None and not self._events.get(function.name)
        if label is None and not is_session(function.name):
            label = base_and_counter(function.name)[0]
        silent = [
            (name, op, part.device)
            for part in instance.partitions
            if _CPU in part.device
            for name, op in zip(part.names, part.ops, strict=True)
            if role_of_type(op) == Role.COMPUTE
            and instance.input.index(name) != UNKNOWN  # otherwise an optimizer made it
            and (label, name, op) not in self._seen
            and (name, op) not in self._unmatched
        ]
        has_run = self._has_run(function, instance) if silent else set()
        for name, op, device in silent:
            record = self._nodes.find(function.name, name, op)
            if record is not None and (label, name, op) not in self._seen:
                self._seen.add((label, name, op))
                why = self._why(op, has_run=name in has_run, is_outside=is_outside)
                device_only = replace(record, device=device, devices=(), no_event=why)
                yield _Silent(label, op, device_only)

    def _why(self, op: str, *, has_run: bool, is_outside: bool) -> str:
        """Return why an op has no event; see `ops` in `schema.toml`."""
        facts, version = self._facts, self._capture_file.tensorflow_version or ""
        is_fine = facts.host_level >= EVERY_OP_LEVEL
        known = (
            ("no_trace", not facts.has_host_plane),
            ("tracer_level", facts.host_level < _OP_LEVEL),
            ("not_recorded", is_outside),
            ("unknown", not has_run or (is_fine and op not in _TYPES["constants"])),
            ("untraced", not version.startswith(_VERSION)),
            ("asynchronous", op in _TYPES["asynchronous"]),
            ("never", op in NO_WORK | _TYPES["inexpensive"]),
        )
        return next((why for why, applies in known if applies), "short")

    def _has_run(self, function: Function, instance: Instance) -> set[str]:
        """Return the names of the nodes that must have run because the trace shows their branch."""
        events = self._events.get(function.name, set())
        is_called = function.name in self._called and not self._capture_file.errors
        if not (is_called or events) or not _is_instance_of(events, instance, function):
            return set()
        graph = instance.input
        guards = _guards(graph)
        taken = {guards[at] for name in events if (at := graph.index(name)) != UNKNOWN}
        return {
            name
            for at, name in enumerate(graph.names)
            if not guards[at] or any(guards[at] <= each for each in taken)
        }


def _of_the_program(capture_file: CaptureFile, nodes: GraphNodes) -> Iterator[Function]:
    pipelines = functions_of_datasets(capture_file) - functions_of_steps(capture_file)
    inner = {called for function in pipelines for called in nodes.called_by(function)}
    others = [f for f in capture_file.functions if f.name not in pipelines]
    shared = {c for f in others if f.name not in inner for c in (f.name, *nodes.called_by(f.name))}
    yield from (f for f in others if f.name not in inner or f.name in shared)


def _is_instance_of(events: set[str], instance: Instance, function: Function) -> bool:
    """Return whether events show that this instance of a function ran, and not another one."""
    if len(function.instances) == 1:
        return True
    others = [each for each in function.instances if each is not instance]
    return any(
        _holds(instance, name) and not any(_holds(other, name) for other in others)
        for name in events
    )


def _holds(instance: Instance, name: str) -> bool:
    return any(part.index(name) != UNKNOWN for part in instance.partitions)


def _guards(graph: Graph) -> Mapping[int, _Guards]:
    """Return the branches that each node of a graph depends on (lower_if_op.cc, lower_while_op.cc).

    A loop's body depends on the loop's condition. Ignore edges from one iteration to the next.
    """
    none: _Guards = frozenset()
    if _SWITCHES.isdisjoint(graph.ops):
        return dict.fromkeys(range(len(graph)), none)
    found: dict[int, _Guards] = {}
    begun: set[int] = set()
    for start in range(len(graph)):
        stack = [start]
        while stack:
            at = stack[-1]
            sources = []
            for text in graph.inputs[at]:
                source = graph.index(split_input(text.lstrip("^"))[0])
                if source != UNKNOWN and graph.ops[source] not in _BACK:
                    sources.append((source, text))
            missing = [s for s, _ in sources if s not in found and s not in begun]
            if at not in found and missing:
                begun.add(at)
                stack += missing
                continue
            stack.pop()
            if at in found:
                continue
            each = [found.get(s, none) | _of_edge(graph, s, t, graph.ops[at]) for s, t in sources]
            is_merge = graph.ops[at] in _MERGES and bool(each)
            found[at] = frozenset.intersection(*each) if is_merge else none.union(*each)
    return found


def _of_edge(graph: Graph, source: int, text: str, into: str) -> _Guards:
    is_branch = graph.ops[source] in _SWITCHES and not text.startswith("^") and into not in _EXITS
    if not is_branch or len(graph.inputs[source]) < 2:  # noqa: PLR2004 - a value and a predicate
        return frozenset()
    return frozenset({(graph.inputs[source][1], split_input(text)[1])})


def _of_eager_code(
    occurrences: OpOccurrences,
    joined: Joined,
    capture_file: CaptureFile,
    facts: TracerFacts,
    session: int | None,
) -> Iterator[_Silent]:
    rows = occurrences.rows
    known = {number for record in joined.records if record for number in record.signatures}
    unmatched = {
        op
        for op, is_eager, record in zip(rows["type"], rows["is_eager"], joined.records, strict=True)
        if is_eager and record is None
    }
    ran: set[int] = set()
    for sequence in capture_file.sequences:
        if session is None or sequence.session == session:
            ran.update(np.unique(sequence.signatures).tolist())
    silent = [
        number
        for number, signature in enumerate(capture_file.signatures)
        if number not in known and not signature.is_function
        if role_of_type(signature.op) == Role.COMPUTE
        or (signature.op in OPTIONALS and joined.has_own_optionals)
        if not facts.has_host_plane or (number in ran and signature.op not in unmatched)
    ]
    records, _ = distinct_records(capture_file, np.array(silent, np.int64))
    for record in records:
        if record.device is None or _CPU not in record.device or record.is_on_host:
            continue
        op = capture_file.signatures[record.signatures[0]].op
        why = "lost" if facts.has_host_plane else "no_trace"
        yield _Silent(None, op, replace(record, no_event=why))
