"""What the placer must know of each node of a graph: types, neighbours, which devices have kernels.

That depends on the graph and the kernel registry alone, neither on requests nor on the machine: it
is found once, and any number of placements tried on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.function_records import split_input
from traceanalyzer.placement.kernel_tables import ALWAYS_ON_HOST, minor_of
from traceanalyzer.placement.op_definitions import AttributesError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes
    from traceanalyzer.capture_file.function_records import Graph
    from traceanalyzer.placement.registry import Registry, SupportedTypes

ARGUMENTS: Final = frozenset({"_Arg", "_DeviceArg"})
RESULTS: Final = frozenset({"_Retval", "_DeviceRetval"})
# `Node::IsMetadata` and `Node::IsIdentity` (core/graph/graph.cc).
# Not `ShapeN`: TensorFlow does not count it among them.
_METADATA: Final = frozenset({"Rank", "Shape", "Size"})
_IDENTITY: Final = frozenset({"Identity", "RefIdentity"})
# `MatchIdentityOperation` came with it: the emulator's placer of 2.12 to 2.16 has no such rule.
_IDENTITY_FOLLOWS_SINCE: Final = (2, 17)
_COLOCATION: Final = "_class"
_GROUP_PREFIX: Final = "loc:@"
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})


class Edge(NamedTuple):
    """An edge whose ends must be on one device: a resource, a reference, a dataset's input."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """The nodes of a graph as the placer sees them; one entry a node in each column."""

    graph: Graph
    support: Sequence[SupportedTypes]  #: which types of devices have a kernel
    classes: Mapping[int, tuple[str, ...]]  #: the colocation groups that `_class` puts it in
    bound: Sequence[Edge]  #: edges that bind two nodes to one device, in order of their targets
    #: Nodes without inputs that have one output: placed with their consumers.
    generators: frozenset[int]
    #: Metadata ops, and Identity ops where they have one input and one consumer, with the node they
    #: follow.
    followers: Mapping[int, int]
    metadata: frozenset[int]  #: those of the followers that ask for the shape of their input alone
    #: Nodes without inputs, whose output is a resource or a reference: their request is
    #: that of all that uses it.
    resource_makers: frozenset[int]
    #: Nodes that take a list of strings or resources, which keeps them on the CPU.
    host_lists: frozenset[int]
    #: Where the outputs of generators and followers go, control edges included.
    consumers: Mapping[int, Sequence[int]]
    doubts: Mapping[int, str]  #: what TensorFlow decides here that is not replayed, by node

    def __len__(self) -> int:
        return len(self.graph)


def is_dataset(op: str, outputs: Sequence[str] = ("variant",)) -> bool:
    """Return whether an op makes a dataset (`DatasetOpKernel::IsDatasetOp`)."""
    if tuple(outputs) != ("variant",):
        return False
    stem = op.rstrip("0123456789")
    return (
        op == "DatasetFromGraph"
        or op.endswith("Dataset")
        or (stem != op and stem.endswith("DatasetV"))
    )


def describe(
    graph: Graph,
    attributes: Sequence[Attributes],
    registry: Registry,
    functions: Collection[str] = frozenset(),
) -> Nodes:
    """Find what the placer must know of each node."""
    kinds = _Kinds(attributes, registry, functions)
    described = [kinds.of(op, at) for op, at in zip(graph.ops, graph.attributes, strict=True)]
    position = {name: at for at, name in enumerate(graph.names)}
    following = _following(registry)
    watched = {
        at for at, kind in enumerate(described) if kind.is_generator or graph.ops[at] in following
    }
    consumers: dict[int, list[int]] = {at: [] for at in watched}
    bound: list[Edge] = []
    first: dict[int, int] = {}
    edges_in: dict[int, int] = {}
    variants: dict[int, list[int]] = {}
    doubts: dict[int, str] = {}
    for target, (kind, inputs) in enumerate(zip(described, graph.inputs, strict=True)):
        if kind.doubt:
            doubts[target] = kind.doubt
        for slot, text in enumerate(inputs):
            is_control = text.startswith("^")
            name, number = split_input(text.lstrip("^"))
            source = position.get(name)
            if source is None:
                doubts[target] = f"its input {name} is not in the graph"
                continue
            if source in watched:
                consumers[source].append(target)
            if target in watched:
                first.setdefault(target, source)
                edges_in[target] = edges_in.get(target, 0) + 1
            if is_control:
                continue
            if described[source].gives_variant(number):
                variants.setdefault(target, []).append(source)
            if _binds(described[source], number, kind, slot):
                bound.append(Edge(source, target))
    followers = {
        at: first[at]
        for at in sorted(watched)
        if at in first
        and (
            graph.ops[at] in _METADATA
            or (graph.ops[at] in following and edges_in[at] == 1 and len(consumers[at]) <= 1)
        )
    }
    classes = {at: kind.classes for at, kind in enumerate(described) if kind.classes}
    return Nodes(
        graph=graph,
        support=[kind.support for kind in described],
        classes=classes,
        bound=bound,
        generators=frozenset(at for at, kind in enumerate(described) if kind.is_generator),
        followers=followers,
        metadata=frozenset(at for at in followers if graph.ops[at] in _METADATA),
        resource_makers=frozenset(at for at, kind in enumerate(described) if kind.makes_resource),
        host_lists=_of_host_elements(
            variants, {at: kind.element for at, kind in enumerate(described) if kind.element}
        ),
        consumers=consumers,
        doubts=doubts,
    )


def _following(registry: Registry) -> frozenset[str]:
    """Return the ops that may follow their input, which the version decides."""
    if minor_of(registry.version) < _IDENTITY_FOLLOWS_SINCE:
        return _METADATA
    return _METADATA | _IDENTITY


@dataclass(frozen=True, slots=True)
class _Kind:
    """What all nodes of one op type with equal attributes have in common."""

    support: SupportedTypes
    classes: tuple[str, ...]
    inputs: tuple[str, ...] | None = None  # None: not known
    outputs: tuple[str, ...] | None = None
    is_exempt: bool = False
    is_dataset: bool = False
    element: str = ""  # the type of its list's elements, "" for none
    doubt: str = ""

    def gives_variant(self, output: int) -> bool:
        """Return whether an output is a variant."""
        outputs = self.outputs
        return outputs is not None and output < len(outputs) and outputs[output] == "variant"

    @property
    def made(self) -> str:
        """The type of what it makes of nothing: it has no inputs and one output; "" for others."""
        outputs = self.outputs or ()
        return outputs[0] if self.inputs == () and len(outputs) == 1 else ""

    @property
    def is_generator(self) -> bool:
        """See `IsGeneratorNode` (core/common_runtime/placer.cc)."""
        return bool(self.made) and not self.made.endswith("_ref")

    @property
    def makes_resource(self) -> bool:
        """See `IsRefOrResourceGeneratorNode` (core/common_runtime/colocation_graph.cc)."""
        return _is_held(self.made)


def _is_held(dtype: str) -> bool:
    return dtype == "resource" or dtype.endswith("_ref")


def _binds(source: _Kind, output: int, target: _Kind, slot: int) -> bool:
    """Return whether an edge puts both ends on one device (`ColocateResourceAndRefEdges`)."""
    if target.inputs is not None and slot < len(target.inputs):
        dtype = target.inputs[slot]
    elif source.outputs is not None and output < len(source.outputs):
        dtype = source.outputs[output]
    else:
        return False
    if dtype == "variant":
        return source.is_dataset and target.is_dataset
    return _is_held(dtype) and not target.is_exempt


class _Kinds:
    """Finds kinds of nodes; few of them make up a graph."""

    def __init__(
        self, attributes: Sequence[Attributes], registry: Registry, functions: Collection[str]
    ) -> None:
        self._attributes = attributes
        self._registry = registry
        self._functions = functions
        self._found: dict[tuple[str, int], _Kind] = {}

    def of(self, op: str, attributes: int) -> _Kind:
        """Return the kind of the nodes of an op with a set of attributes."""
        key = (op, attributes)
        found = self._found.get(key)
        if found is None:
            known = self._attributes[attributes] if attributes >= 0 else None
            found = self._found[key] = self._find(op, known)
        return found

    def _find(self, op: str, attributes: Attributes | None) -> _Kind:
        definition = self._registry.definition(op)
        if definition is None:
            return _Kind(
                support=self._registry.supported_types(op, attributes, self._functions),
                classes=classes_of(attributes),
            )
        complete = definition.complete(attributes or {})
        try:
            inputs: tuple[str, ...] | None = definition.input_types(complete)
            outputs: tuple[str, ...] | None = definition.output_types(complete)
        except AttributesError:  # attributes were not recorded
            inputs = outputs = None
        doubt = ""
        if op in _CALLS and outputs is not None and "resource" in outputs:
            doubt = "TensorFlow looks into the function it calls, for the resource it returns"
        return _Kind(
            support=self._registry.supported_types(op, None if attributes is None else complete),
            inputs=inputs,
            outputs=outputs,
            classes=classes_of(attributes),
            is_exempt=op in self._registry.colocation_exempt,
            is_dataset=is_dataset(op, outputs or ()),
            element=_element_type(op, complete),
            doubt=doubt,
        )


def classes_of(attributes: Attributes | None) -> tuple[str, ...]:
    """Return the colocation groups that `_class` puts a node in."""
    listed = (attributes or {}).get(_COLOCATION)
    if not isinstance(listed, list):
        return ()
    texts = (each.get("s") for each in listed if isinstance(each, dict))
    return tuple(
        text.removeprefix(_GROUP_PREFIX)
        for text in texts
        if isinstance(text, str) and text.startswith(_GROUP_PREFIX)
    )


# --- Lists of tensors ---------------------------------------------------------------------------
#
# A list's handle is a variant, which has kernels everywhere; it does not show the type of its
# elements. If these are always in host memory, what works on the list stays on the CPU. See
# `AddHostOnlyDataTypesConstraints` (core/common_runtime/colocation_graph.cc).

_ELEMENT_TYPE: Final = "element_dtype"
_LIST_OPS: Final = frozenset(
    {
        *("EmptyTensorList", "TensorListConcat", "TensorListConcatLists", "TensorListConcatV2"),
        *("TensorListFromTensor", "TensorListGather", "TensorListGetItem", "TensorListPopBack"),
        *("TensorListPushBack", "TensorListPushBackBatch", "TensorListReserve"),
        *("TensorListScatter", "TensorListScatterIntoExistingList", "TensorListScatterV2"),
        *("TensorListSetItem", "TensorListSplit", "TensorListStack"),
    }
)


def _element_type(op: str, attributes: Attributes) -> str:
    """Return the type of the elements of an op's list; "" if unknown.

    That of a list of lists is: the elements of the inner lists count.
    """
    found = attributes.get(_ELEMENT_TYPE) if op in _LIST_OPS else None
    return found if isinstance(found, str) and found != "variant" else ""


def _of_host_elements(
    sources: Mapping[int, Sequence[int]], elements: Mapping[int, str]
) -> frozenset[int]:
    """Return the nodes that take a list whose elements are always in host memory.

    Args:
        sources: By node, where its variant inputs come from, in the order of the inputs.
        elements: By node, the type of the elements of its list, if known.
    """
    if not any(dtype in ALWAYS_ON_HOST for dtype in elements.values()):
        return frozenset()
    consumers: dict[int, list[int]] = {}
    for node, makers in sources.items():
        for maker in makers:
            consumers.setdefault(maker, []).append(node)
    on_host = {node for node, dtype in elements.items() if dtype in ALWAYS_ON_HOST}
    others = elements.keys() - on_host
    taking = _reached(on_host, consumers, elements)
    unclear = taking & _reached(others, consumers, elements)
    known = {
        node for node in unclear if _nearest_element(node, sources, elements) in ALWAYS_ON_HOST
    }
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


def _nearest_element(
    node: int, sources: Mapping[int, Sequence[int]], elements: Mapping[int, str]
) -> str:
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
