"""How many elements the tensors of a graph have, as far as that is known before it runs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Graph, Json, Shape

__all__ = ["NOT_STATIC", "Sizes", "static_sizes"]

NOT_STATIC: Final = -1  # known only once the graph runs
# Of each output of a node how many elements it has, NOT_STATIC, or None: nothing was recorded.
Sizes: TypeAlias = "tuple[int | None, ...]"

_PLACEHOLDERS: Final = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
# The optimizer that goes by sizes is not given the functions (`UsesFunctionLibrary`).
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


def static_sizes(
    capture_file: CaptureFile, function: str, graph: Graph, *, is_fed: bool
) -> tuple[Sizes | None, ...]:
    """Return how many elements the outputs of each node have; None where nothing tells.

    What was recorded of the definition that a node was made in tells, and the attributes of
    constants and arguments. Of what a call returns Python knew more than grappler does, and of what
    is fed grappler takes nothing for granted: what is computed from these is left open.

    Args:
        capture_file: The evidence.
        function: The function of the graph, by name.
        graph: Its graph.
        is_fed: Whether placeholders are fed.
    """
    found = [_recorded(capture_file, function, graph, at) for at in range(len(graph))]
    for at, sizes in enumerate(found):
        if sizes is None:
            found[at] = _by_attributes(capture_file.attribute_set(graph.attributes[at]))
    hiding = _CALLS | _PLACEHOLDERS if is_fed else _CALLS
    for at in _computed_from(graph, hiding):
        known = found[at]
        if known is not None:
            is_hidden = graph.ops[at] in hiding
            found[at] = tuple(NOT_STATIC if is_hidden else _in_doubt(size) for size in known)
    return tuple(found)


def _recorded(capture_file: CaptureFile, function: str, graph: Graph, at: int) -> Sizes | None:
    """Return what Python knew of a node's outputs when it made them.

    A function that was inlined may have been made for any size, and be called with a known one.
    """
    origin = graph.origin_functions[at]
    definition = capture_file.definition(origin or function)
    if definition is None or not definition.shapes:
        return None
    node = definition.index(graph.origin_nodes[at] or graph.names[at])
    shapes = None if node < 0 else definition.shapes[node]
    if shapes is None:
        return None
    sizes = tuple(map(_elements, shapes))
    return tuple(map(_in_doubt_if_open, sizes)) if origin else sizes


def _by_attributes(attributes: Attributes) -> Sizes | None:
    constant = attributes.get("value")
    if isinstance(constant, dict) and "tensor" in constant:
        return (_of_json(constant.get("shape")),)
    listed = attributes.get("_output_shapes")
    if isinstance(listed, list) and listed:
        return tuple(_of_json(s.get("shape") if isinstance(s, dict) else None) for s in listed)
    return None


def _of_json(shape: Json) -> int:
    known = [size for size in shape if isinstance(size, int)] if isinstance(shape, list) else None
    return _elements(None if known is None else tuple(known))


def _elements(shape: Shape) -> int:
    """See `NumCoefficients` (core/grappler/utils/symbolic_shapes.cc)."""
    if shape is None or any(size < 0 for size in shape):
        return NOT_STATIC
    return prod(shape)


def _in_doubt_if_open(size: int | None) -> int | None:
    return None if size == NOT_STATIC else size


def _in_doubt(size: int | None) -> int | None:
    return size if size == NOT_STATIC else None


def _computed_from(graph: Graph, ops: Collection[str]) -> Iterable[int]:
    """Return the nodes of some ops and what is computed from them."""
    left = [at for at, op in enumerate(graph.ops) if op in ops]
    if not left:
        return ()
    consumers: dict[int, list[int]] = {}
    for at in range(len(graph)):
        for source, _ in graph.sources(at):
            consumers.setdefault(source, []).append(at)
    reached = dict.fromkeys(left)
    while left:
        for at in consumers.get(left.pop(), ()):
            if at not in reached:
                reached[at] = None
                left.append(at)
    return reached
