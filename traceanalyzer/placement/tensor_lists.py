"""Lists of tensors that are always in host memory: what works on them stays on the CPU.

A list's handle is a variant, which has kernels everywhere; it does not show the elements' type.
See `AddHostOnlyDataTypesConstraints` (core/common_runtime/colocation_graph.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes

_ELEMENT_TYPE: Final = "element_dtype"
_LIST_OPS: Final = frozenset(
    {
        "EmptyTensorList",
        "TensorListConcat",
        "TensorListConcatLists",
        "TensorListConcatV2",
        "TensorListFromTensor",
        "TensorListGather",
        "TensorListGetItem",
        "TensorListPopBack",
        "TensorListPushBack",
        "TensorListPushBackBatch",
        "TensorListReserve",
        "TensorListScatter",
        "TensorListScatterIntoExistingList",
        "TensorListScatterV2",
        "TensorListSetItem",
        "TensorListSplit",
        "TensorListStack",
    }
)
_ALWAYS_ON_HOST: Final = frozenset({"resource", "string", "string_ref"})  # `DataTypeAlwaysOnHost`


def element_type(op: str, attributes: Attributes) -> str:
    """Return the type of the elements of an op's list; "" if unknown.

    That of a list of lists is: the elements of the inner lists count.
    """
    found = attributes.get(_ELEMENT_TYPE) if op in _LIST_OPS else None
    return found if isinstance(found, str) and found != "variant" else ""


def of_host_elements(
    sources: Mapping[int, Sequence[int]], elements: Mapping[int, str]
) -> frozenset[int]:
    """Return the nodes that take a list whose elements are always in host memory.

    Args:
        sources: By node, where its variant inputs come from, in the order of the inputs.
        elements: By node, the type of the elements of its list, if known.
    """
    if not any(dtype in _ALWAYS_ON_HOST for dtype in elements.values()):
        return frozenset()
    consumers: dict[int, list[int]] = {}
    for node, makers in sources.items():
        for maker in makers:
            consumers.setdefault(maker, []).append(node)
    on_host = {node for node, dtype in elements.items() if dtype in _ALWAYS_ON_HOST}
    others = elements.keys() - on_host
    taking = _reached(on_host, consumers, elements)
    unclear = taking & _reached(others, consumers, elements)
    known = {node for node in unclear if _nearest(node, sources, elements) in _ALWAYS_ON_HOST}
    return frozenset((taking - unclear) | known | (on_host & sources.keys()))


def _reached(
    start: Collection[int], consumers: Mapping[int, Sequence[int]], elements: Mapping[int, str]
) -> set[int]:
    """Return what a list's handle reaches, up to the next nodes whose lists' elements are known."""
    reached: set[int] = set()
    left = list(start)
    while left:
        for node in consumers.get(left.pop(), ()):
            if node not in reached and node not in elements:
                reached.add(node)
                left.append(node)
    return reached


def _nearest(node: int, sources: Mapping[int, Sequence[int]], elements: Mapping[int, str]) -> str:
    """Return the element type that TensorFlow finds for a node that takes lists of several.

    It looks at the makers of the last input first and keeps the last that it finds; having found
    one it looks at those that wait, and no further.
    """
    found = ""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        found = elements.get(at, found)
        if not found:
            waiting += sources.get(at, ())
    return found
