"""Ops that work on results of the model, which cannot move into the input pipeline.

An op comes after the model if one of its inputs depends on a variable. Within a graph, the edges
show it. For eager ops and arguments of functions, edges are not recorded: there a value is assumed
to come from an op that makes values of its dtype and shape, unless an element of a dataset has the
same.
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

    from traceanalyzer.capture_file.document import CaptureFile, Shape, Signature, Tensor
    from traceanalyzer.capture_file.function_records import Function, Graph
    from traceanalyzer.run import Host, Run

    _Kind: TypeAlias = tuple[str, Shape]  # dtype and shape of a value

_READS: Final = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableV2", "Variable"}
)
_GET_NEXT: Final = "IteratorGetNext"
# Fixes that move an op ahead of the model: by their code, or without code by their text.
_MAP: Final = re.compile(r"\bdataset\.map\(")
_INPUT_PIPELINE: Final = "input pipeline"
_AFTERWARDS: Final = Fix(
    text=(
        "It seems to work on results of the model, which cannot move into the input pipeline. Do "
        "it after the step, on the results, and only as often as needed."
    ),
    code="results = train_step(batch)  # numbers\nif step % 100 == 0:\n    show(results)",
)
_FOUND: WeakKeyDictionary[Run, frozenset[str]] = WeakKeyDictionary()


def away_from_the_input(fixes: tuple[Fix, ...], op_ids: Iterable[str], run: Run) -> tuple[Fix, ...]:
    """Return fixes that do not move ops ahead of the model that come after it.

    If all ops come after the model, such fixes are replaced; if some do, a fix for them is added.
    """
    if not any(map(_moves_ahead, fixes)):
        return fixes
    ids = set(op_ids)
    late = ids & after_the_model(run)
    if not late:
        return fixes
    if late < ids:
        text = f"{_lines(run, late)}: {_AFTERWARDS.text[:1].lower()}{_AFTERWARDS.text[1:]}"
        return (*fixes, replace(_AFTERWARDS, text=text))
    return (*(fix for fix in fixes if not _moves_ahead(fix)), _AFTERWARDS)


def _moves_ahead(fix: Fix) -> bool:
    if fix.code is None:
        return _INPUT_PIPELINE in fix.text
    return _MAP.search(fix.code) is not None


def _lines(run: Run, op_ids: Collection[str]) -> str:
    """Return the lines of some ops, for the start of a sentence."""
    ops = run.ops[run.ops["op_id"].isin(op_ids)].dropna(subset=["source_file", "source_line"])
    places = zip(ops["source_file"].astype(str), ops["source_line"].astype(int), strict=True)
    lines = dict.fromkeys(f"{PurePath(file).name}:{line}" for file, line in places)
    return f"At {listed(list(lines))}" if lines else "For some of these ops"


def after_the_model(run: Run) -> frozenset[str]:
    """Return the ids of the ops that work on results of the model."""
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
        """Return whether the model feeds an eager op, by dtypes and shapes."""
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
        """Return the dtypes and shapes that only values have which depend on variables.

        Outputs of calls with variables depend on them, and so do outputs of ops on such values.
        Elements of a dataset, and outputs of ops on other values, do not.
        """
        if self._kinds is None:
            signatures = self._capture_file.signatures
            of_variables = [s for s in signatures if self._uses_variables(s)]
            others = [s for s in signatures if not self._uses_variables(s)]
            elements = (s.outputs for s in others if s.op.startswith(_GET_NEXT))
            early = {kind for outputs in elements for kind in _kinds(outputs)}
            while True:
                late = {kind for s in of_variables for kind in _kinds(s.outputs)} - early
                while more := _outputs(others, late, is_late=True) - late - early:
                    late |= more
                made = _outputs(others, late, is_late=False) - early
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


def _outputs(signatures: Sequence[Signature], late: set[_Kind], *, is_late: bool) -> set[_Kind]:
    """Return the dtypes and shapes of the outputs of ops, on late values or on others."""
    chosen = (s for s in signatures if bool(late & set(_kinds(s.inputs))) is is_late)
    return {kind for s in chosen for kind in _kinds(s.outputs)}


def _kinds(tensors: Sequence[Tensor]) -> Iterator[_Kind]:
    """Walk the dtypes and shapes of values, without scalars: too many are alike."""
    return ((t.dtype, t.shape) for t in tensors if t.shape and t.dtype != "resource")
