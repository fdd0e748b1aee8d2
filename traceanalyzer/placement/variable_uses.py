"""Which ops use a variable, and the types that it could have for all of them to be on a GPU."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.document import split_input
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.retyping import TARGETS, works_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Graph, Resource

_READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})
_MOST: Final = 200  # uses of one variable


class _Use(NamedTuple):
    """An op that uses a variable or its value, and the attribute that is its type there."""

    op: str
    attributes: Attributes
    name: str


class VariableUses:
    """Finds the uses of variables in a captured program."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        self._consumers: dict[int, dict[str, list[tuple[int, int]]]] = {}

    def types_of_resource(self, resource: Resource) -> tuple[str, ...] | None:
        """Return the types that a variable could have for all its uses to be on a GPU.

        Returns:
            The best first; None where no use was recorded, or too many to check each.
        """
        return _types(resource.dtype, self._of_resource(resource))

    def types_of_node(self, graph: Graph, node: int, dtype: str) -> tuple[str, ...] | None:
        """Return the same for a variable that a node of a graph makes."""
        return _types(dtype, self._of_node(graph, node, dtype))

    def _of_resource(self, resource: Resource) -> Iterator[_Use]:
        capture_file, dtype = self._capture_file, resource.dtype
        for signature in capture_file.signatures:
            bound = [
                k for k, t in enumerate(signature.inputs) if capture_file.resource_of(t) is resource
            ]
            if not bound:
                continue
            if not signature.is_function:
                yield from _use(
                    signature.op, capture_file.attribute_set(signature.attributes), dtype
                )
                continue
            function = capture_file.function(signature.op)
            for instance in () if function is None else function.instances:
                graph = instance.input
                for node, op in enumerate(graph.ops):
                    at = capture_file.attribute_set(graph.attributes[node]).get("index")
                    if op == "_Arg" and at in bound:
                        yield from self._of_node(graph, node, dtype)

    def _of_node(self, graph: Graph, node: int, dtype: str) -> Iterator[_Use]:
        """Walk what takes a handle, and what takes the values that are read by it."""
        for user, _ in self._taking(graph, node):
            op = graph.ops[user]
            yield from _use(op, self._capture_file.attribute_set(graph.attributes[user]), dtype)
            for taker, slot in self._taking(graph, user) if op in _READS else ():
                known = self._capture_file.attribute_set(graph.attributes[taker])
                name = _attribute_at(graph.ops[taker], known, slot)
                if known.get(name) == dtype:
                    yield _Use(graph.ops[taker], known, name)

    def _taking(self, graph: Graph, node: int) -> list[tuple[int, int]]:
        known = self._consumers.get(id(graph))
        if known is None:
            known = self._consumers[id(graph)] = {}
            for taker, inputs in enumerate(graph.inputs):
                for slot, text in enumerate(inputs):
                    if not text.startswith("^"):
                        known.setdefault(split_input(text)[0], []).append((taker, slot))
        return known.get(graph.names[node], [])


def _use(op: str, attributes: Attributes, dtype: str) -> Iterator[_Use]:
    name = "dtype" if "dtype" in attributes else "T"
    if attributes.get(name) == dtype:
        yield _Use(op, attributes, name)


def _attribute_at(op: str, attributes: Attributes, slot: int) -> str:
    """Return the attribute that is the type of an input, "" for none."""
    definition = definition_of(op)
    for argument in () if definition is None else definition.inputs:
        if argument.type_list_attr:
            return ""
        number = attributes.get(argument.number_attr) if argument.number_attr else 1
        if not isinstance(number, int):
            return ""
        if slot < number:
            return argument.type_attr
        slot -= number
    return ""


def _types(dtype: str, uses: Iterable[_Use]) -> tuple[str, ...] | None:
    types = [target.dtype for target in TARGETS.get(dtype, ())]
    newest = load(supported()[-1])
    found: list[set[str]] = []
    checked = list(islice(uses, _MOST + 1))
    if len(checked) > _MOST:
        return None
    for use in checked:
        if newest.kernels(use.op):
            suits = {t for t in types if works_as(use.op, use.attributes, (use.name,), t)}
            found += [suits] if suits else []
    return tuple(t for t in types if all(t in each for each in found)) if found else None
