"""Which ops work on what the model computed: these cannot go into the input pipeline.

An op comes after the model if a value that it takes depends on a variable. Within a graph the edges
tell. For eager ops, and for what a function is given, they are not recorded: there a value is taken
to come from an op that makes values of its type and shape, if no element of a dataset is such.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from traceanalyzer.format import listed
from traceanalyzer.model import Fix
from traceanalyzer.placement.calls import argument_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from traceanalyzer.capture_file.document import (
        CaptureFile,
        Function,
        Graph,
        Shape,
        Signature,
        Tensor,
    )
    from traceanalyzer.run import Host, Run

    _Kind: TypeAlias = tuple[str, Shape]  # type and shape of a value

__all__ = ["after_the_model", "away_from_the_input"]

_READS: Final = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2", "Variable"}
)
_GET_NEXT: Final = "IteratorGetNext"
# Fixes that move an op ahead of the model.
_INTO_THE_INPUT: Final = re.compile(r"\bdataset\.map\(")
_IN_WORDS: Final = "input pipeline"
_AFTERWARDS: Final = Fix(
    text=(
        "It seems to work on what the model computed, which cannot move into the input pipeline. "
        "Do it after the step, on the results, and only as often as they are needed."
    ),
    code="results = train_step(batch)  # numbers\nif step % 100 == 0:\n    show(results)",
)
_FOUND: WeakKeyDictionary[Run, frozenset[str]] = WeakKeyDictionary()


def away_from_the_input(fixes: tuple[Fix, ...], op_ids: Iterable[str], run: Run) -> tuple[Fix, ...]:
    """Return fixes for some ops that respect the direction of the data.

    Where all of the ops come after the model, fixes that move them ahead of it are replaced; where
    some do, a fix for these is added.
    """
    if not any(map(_moves_ahead, fixes)):
        return fixes
    ids, after = set(op_ids), after_the_model(run)
    late = ids & after
    if not late:
        return fixes
    if late < ids:
        text = f"{_lines(run, late)}: {_AFTERWARDS.text[:1].lower()}{_AFTERWARDS.text[1:]}"
        return (*fixes, replace(_AFTERWARDS, text=text))
    return (*(fix for fix in fixes if not _moves_ahead(fix)), _AFTERWARDS)


def _lines(run: Run, op_ids: Collection[str]) -> str:
    """Return the lines of some ops, as the start of a sentence."""
    ops = run.ops[run.ops["op_id"].isin(op_ids)].dropna(subset=["source_file", "source_line"])
    places = zip(ops["source_file"].astype(str), ops["source_line"].astype(int), strict=True)
    lines = dict.fromkeys(f"{PurePath(file).name}:{line}" for file, line in places)
    return f"At {listed(list(lines))}" if lines else "For some of these ops"


def _moves_ahead(fix: Fix) -> bool:
    if fix.code is None:
        return _IN_WORDS in fix.text
    return _INTO_THE_INPUT.search(fix.code) is not None


def after_the_model(run: Run) -> frozenset[str]:
    """Return the op ids of the ops that work on what the model computed."""
    if run not in _FOUND:
        _FOUND[run] = frozenset(op_id for host in run.hosts for op_id in _after(host))
    return _FOUND[run]


def _after(host: Host) -> Iterator[str]:
    joined = host.tables.joined
    if host.capture_file is None or joined is None:
        return
    sources = _Sources(host.capture_file)
    for op_id, record in zip(host.tables.ops["op_id"], joined.records, strict=True):
        if record is None:
            continue
        if record.signatures:
            signatures = (host.capture_file.signatures[number] for number in record.signatures)
            if all(map(sources.feeds_eager, signatures)):
                yield op_id
        elif sources.feeds_node(record.function, record.node):
            yield op_id


class _Sources:
    """Where the values of one program come from."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        self._late: dict[str, frozenset[str]] = {}
        self._kinds: frozenset[_Kind] | None = None

    def feeds_node(self, function: str, node: str) -> bool:
        """Return whether the model feeds a node of a function."""
        if function not in self._late:
            found = self._capture_file.function(function)
            self._late[function] = frozenset(() if found is None else self._late_nodes(found))
        return node in self._late[function]

    def feeds_eager(self, signature: Signature) -> bool:
        """Return whether the model feeds an eager op, as far as types and shapes tell."""
        return any(self._is_late(tensor) for tensor in signature.inputs)

    def _late_nodes(self, function: Function) -> Iterator[str]:
        """Walk the nodes that depend on variables, or on arguments that do."""
        for instance in function.instances:
            graph = instance.input
            consumers: dict[int, list[int]] = {}
            for node in range(len(graph)):
                for source, _ in graph.sources(node):
                    consumers.setdefault(source, []).append(node)
            left = [at for at, op in enumerate(graph.ops) if op in _READS]
            left += self._late_arguments(function.name, graph)
            seen: set[int] = set()
            while left:
                for consumer in consumers.get(left.pop(), ()):
                    if consumer not in seen:
                        seen.add(consumer)
                        left.append(consumer)
            yield from (graph.names[at] for at in seen)

    def _late_arguments(self, function: str, graph: Graph) -> Iterator[int]:
        nodes = argument_nodes(graph, self._capture_file.attributes)
        calls = [s for s in self._capture_file.signatures if s.is_function and s.op == function]
        for index, node in nodes.items():
            given = [call.inputs[index] for call in calls if index < len(call.inputs)]
            if given and all(map(self._is_late, given)):
                yield node

    def _is_late(self, tensor: Tensor) -> bool:
        return tensor.shape is not None and (tensor.dtype, tensor.shape) in self._late_kinds()

    def _late_kinds(self) -> frozenset[_Kind]:
        """Return the types and shapes that values have which depend on variables, and only those.

        What a call makes that is given variables depends on them, and so does what an op makes of
        such values. What a dataset's elements are like too may come from there, and what an op
        makes of other values does.
        """
        if self._kinds is None:
            signatures = self._capture_file.signatures
            of_variables = [s for s in signatures if self._uses_variables(s)]
            others = [s for s in signatures if not self._uses_variables(s)]
            early = {
                kind
                for signature in others
                if signature.op.startswith(_GET_NEXT)
                for kind in _kinds(signature.outputs)
            }
            while True:
                late = {k for s in of_variables for k in _kinds(s.outputs)} - early
                while more := _made_of(late, others) - late - early:
                    late |= more
                made = _made_without(late, others) - early
                if not made:
                    break
                early |= made
            self._kinds = frozenset(late)
        return self._kinds

    def _uses_variables(self, signature: Signature) -> bool:
        if signature.op in _READS:
            return True
        resources = map(self._capture_file.resource_of, signature.inputs)
        return signature.is_function and any(r is not None and r.dtype for r in resources)


def _made_of(late: set[_Kind], signatures: Sequence[Signature]) -> set[_Kind]:
    """Return the types and shapes of what ops make of such values."""
    return {k for s in signatures if late & set(_kinds(s.inputs)) for k in _kinds(s.outputs)}


def _made_without(late: set[_Kind], signatures: Sequence[Signature]) -> set[_Kind]:
    """Return those of what ops make of other values."""
    return {k for s in signatures if not late & set(_kinds(s.inputs)) for k in _kinds(s.outputs)}


def _kinds(tensors: Sequence[Tensor]) -> Iterator[_Kind]:
    """Walk the types and shapes of values; a scalar is like too many others to tell."""
    return ((t.dtype, t.shape) for t in tensors if t.shape and t.dtype != "resource")
