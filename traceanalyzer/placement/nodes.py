"""Collects the facts that the placer needs about each node: types, neighbors, and kernels.

These facts do not depend on requests or the machine, so all placements of a graph share them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes
from traceanalyzer.capture_file.function_records import Graph, split_input
from traceanalyzer.placement.kernel_tables import AttributesError, minor_of, op_types
from traceanalyzer.placement.registry import ALWAYS_ON_HOST, Registry, SupportedTypes

ARGUMENTS: Final = frozenset({"_Arg", "_DeviceArg"})
RESULTS: Final = frozenset({"_Retval", "_DeviceRetval"})
# `Node::IsMetadata` and `Node::IsIdentity` (core/graph/graph.cc).
# Without `ShapeN`, which TensorFlow does not count as metadata.
METADATA: Final = frozenset({"Rank", "Shape", "Size"})
_IDENTITY: Final = frozenset({"Identity", "RefIdentity"})
# The version that added `MatchIdentityOperation`: the placer of 2.12 to 2.16 has no such rule.
_IDENTITY_FOLLOWS_SINCE: Final = (2, 17)
_GROUP_PREFIX: Final = "loc:@"
_CALLS: Final = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_LIST_OPS: Final = op_types("of_lists")


class Edge(NamedTuple):
    """An edge that carries a resource, reference, or dataset, so its ends must share a device."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """The nodes of a graph as the placer sees them, with one entry per node in each column."""

    graph: Graph
    support: Sequence[SupportedTypes]  #: which types of devices have a kernel
    classes: Mapping[int, tuple[str, ...]]  #: the colocation groups that `_class` puts it in
    bound: Sequence[Edge]  #: edges that bind two nodes to one device, in order of their targets
    #: Nodes without inputs that have one output: placed with their consumers.
    generators: frozenset[int]
    #: By node, the node that it follows: for metadata ops, and Identity ops between two nodes.
    followers: Mapping[int, int]
    #: Nodes without inputs that make a resource or a reference: their request binds its users.
    resource_makers: frozenset[int]
    #: Nodes that take a list of strings or resources, which keeps them on the CPU.
    host_lists: frozenset[int]
    #: The nodes that use outputs of generators and followers, control edges included.
    consumers: Mapping[int, Sequence[int]]
    doubts: Mapping[int, str]  #: by node, decisions of TensorFlow that are not replayed

    def __len__(self) -> int:
        return len(self.graph)


def is_dataset(op: str, outputs: Sequence[str] = ("variant",)) -> bool:
    """Return whether an op makes a dataset (`DatasetOpKernel::IsDatasetOp`)."""
    stem = op.rstrip("0123456789")
    return tuple(outputs) == ("variant",) and (
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
    """Return the facts that the placer needs about each node of a graph."""
    kinds: dict[tuple[str, int], _Kind] = {}  # a graph has few of them
    for key in set(zip(graph.ops, graph.attributes, strict=True)):
        op, at = key
        kinds[key] = _kind(op, attributes[at] if at >= 0 else None, registry, functions)
    described = [kinds[key] for key in zip(graph.ops, graph.attributes, strict=True)]
    position = {name: at for at, name in enumerate(graph.names)}
    has_identities = minor_of(registry.version) >= _IDENTITY_FOLLOWS_SINCE
    following = METADATA | _IDENTITY if has_identities else METADATA
    # See `IsGeneratorNode` (core/common_runtime/placer.cc).
    made_alone = {at: kind.made for at, kind in enumerate(described) if kind.made}
    generators = frozenset(at for at, dtype in made_alone.items() if not dtype.endswith("_ref"))
    watched = generators | {at for at, op in enumerate(graph.ops) if op in following}
    consumers: dict[int, list[int]] = {at: [] for at in watched}
    sources: dict[int, list[int]] = {at: [] for at in watched}
    variants: dict[int, list[int]] = {}
    bound: list[Edge] = []
    doubts = {at: kind.doubt for at, kind in enumerate(described) if kind.doubt}
    for target, (kind, inputs) in enumerate(zip(described, graph.inputs, strict=True)):
        known = kind.inputs or ()
        for slot, text in enumerate(inputs):
            name, number = split_input(text.lstrip("^"))
            source = position.get(name)
            if source is None:
                doubts[target] = f"its input {name} is not in the graph"
                continue
            if source in watched:
                consumers[source].append(target)
            if target in watched:
                sources[target].append(source)
            if text.startswith("^"):
                continue
            maker = described[source]
            made = maker.outputs[number] if number < len(maker.outputs) else ""
            if made == "variant":
                variants.setdefault(target, []).append(source)
            dtype = known[slot] if slot < len(known) else made
            # See `ColocateResourceAndRefEdges`.
            is_of_datasets = dtype == "variant" and maker.is_dataset and kind.is_dataset
            if is_of_datasets or (_is_held(dtype) and not kind.is_exempt):
                bound.append(Edge(source, target))
    elements = {at: kind.element for at, kind in enumerate(described) if kind.element}
    return Nodes(
        graph=graph,
        support=[kind.support for kind in described],
        classes={at: kind.classes for at, kind in enumerate(described) if kind.classes},
        bound=bound,
        generators=generators,
        followers={
            at: sources[at][0]
            for at in sorted(watched)
            if sources[at] and graph.ops[at] in following
            if graph.ops[at] in METADATA or (len(sources[at]) == 1 and len(consumers[at]) <= 1)
        },
        resource_makers=frozenset(at for at, dtype in made_alone.items() if _is_held(dtype)),
        host_lists=frozenset(_of_host_elements(variants, elements)),
        consumers=consumers,
        doubts=doubts,
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """The properties shared by all nodes with the same op type and attributes."""

    support: SupportedTypes
    classes: tuple[str, ...]
    inputs: tuple[str, ...] | None = None  # None: unknown
    outputs: tuple[str, ...] = ()
    is_exempt: bool = False
    is_dataset: bool = False
    element: str = ""  # the type of its list's elements, "" for none
    doubt: str = ""

    @property
    def made(self) -> str:
        return self.outputs[0] if self.inputs == () and len(self.outputs) == 1 else ""


def _is_held(dtype: str) -> bool:
    """Return whether a dtype is a resource or a reference (`IsRefOrResourceGeneratorNode`)."""
    return dtype == "resource" or dtype.endswith("_ref")


def _kind(
    op: str, attributes: Attributes | None, registry: Registry, functions: Collection[str]
) -> _Kind:
    definition = registry.definition(op)
    if definition is None:
        support = registry.supported_types(op, attributes, functions)
        return _Kind(support=support, classes=classes_of(attributes))
    complete = definition.complete(attributes or {})
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ()
    with suppress(AttributesError):  # attributes were not recorded
        inputs, outputs = definition.input_types(complete), definition.output_types(complete)
    doubt = ""
    if op in _CALLS and "resource" in outputs:
        doubt = "it returns a resource whose device depends on the function that it calls"
    # For a list of lists, the elements of the inner lists count.
    element = complete.get("element_dtype") if op in _LIST_OPS else None
    return _Kind(
        support=registry.supported_types(op, None if attributes is None else complete),
        inputs=inputs,
        outputs=outputs,
        classes=classes_of(attributes),
        is_exempt=op in registry.colocation_exempt,
        is_dataset=is_dataset(op, outputs),
        element=element if isinstance(element, str) and element != "variant" else "",
        doubt=doubt,
    )


def classes_of(attributes: Attributes | None) -> tuple[str, ...]:
    """Return the colocation groups in a node's `_class` attribute."""
    listed = (attributes or {}).get("_class")
    if not isinstance(listed, list):
        return ()
    texts = (each.get("s") for each in listed if isinstance(each, dict))
    groups = (t for t in texts if isinstance(t, str) and t.startswith(_GROUP_PREFIX))
    return tuple(text.removeprefix(_GROUP_PREFIX) for text in groups)


def _of_host_elements(
    sources: Mapping[int, Sequence[int]], elements: Mapping[int, str]
) -> Iterator[int]:
    """Yield the nodes that take a list whose elements are always in host memory.

    `sources` has the nodes that make each node's variant inputs. As in TensorFlow, a search visits
    the last input first, queues no nodes after it finds a type, and uses the last type found.
    """
    for node in sources if not ALWAYS_ON_HOST.isdisjoint(elements.values()) else ():
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
        if found in ALWAYS_ON_HOST:
            yield node
