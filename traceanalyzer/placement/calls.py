"""Which functions a program's functions call, and what a call places a function under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.function_records import split_input
from traceanalyzer.placement.devices import DeviceNameError, parse_device
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json
    from traceanalyzer.capture_file.function_records import Function, Graph
    from traceanalyzer.placement.devices import Machine

# Ops whose n-th input is the n-th argument of the function they call; how many come before.
FORWARDED: Final = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}


# function_optimizer.cc, UniqueSpecializedFunctionName: behind it the call's node and function.
_SPECIALIZED: Final = "_specialized_for_"


class Call(NamedTuple):
    """A call of a function, and what its graph is placed under."""

    #: Where the call was placed; "" for a session, which has no default device.
    default_device: str
    #: Where each argument is, by index; "" or left out where that is not known. Of a call by a
    #: dataset, those of the function's last arguments.
    arguments: tuple[str, ...] = ()
    guessed: frozenset[int] = frozenset()  #: indices of the arguments whose place is a guess
    #: The signature of the capture file that calls it, None for a call by a function.
    signature: int | None = None
    doubt: str = ""  #: why something about it is unknown, or ""
    #: The dataset's device, for a call by one: elements and results are there. "" for other calls.
    results: str = ""


def calls_of(graph: Graph, attributes: Sequence[Attributes]) -> Iterator[tuple[int, str]]:
    """Walk the nodes of a graph that call functions, each with the name of one it calls."""
    by_set: dict[int, tuple[str, ...]] = {-1: ()}
    for node, at in enumerate(graph.attributes):
        if at not in by_set:
            by_set[at] = tuple(called_in(attributes[at].values()))
        for name in by_set[at]:
            yield node, name


def called_in(values: Iterable[Json]) -> Iterator[str]:
    """Walk the functions that attributes name."""
    for value in values:
        if isinstance(value, list):
            yield from called_in(value)
        elif isinstance(value, dict) and isinstance(name := value.get("func"), str):
            yield name


def resources_into(
    graph: Graph, node: int, attributes: Sequence[Attributes], devices: Mapping[int, str]
) -> tuple[str, ...]:
    """Return where each data input of a node is that is a resource, "" for others."""
    data = (split_input(text)[0] for text in graph.inputs[node] if not text.startswith("^"))
    return tuple(
        devices[source] if source >= 0 and _is_resource(graph, source, attributes) else ""
        for source in map(graph.index, data)
    )


def _is_resource(graph: Graph, node: int, attributes: Sequence[Attributes]) -> bool:
    known = attributes[graph.attributes[node]] if graph.attributes[node] >= 0 else {}
    types = (known.get("T"), known.get("dtype"))  # a list of types can be among them
    return "resource" in types or graph.ops[node] == "VarHandleOp"


def called_as(function: str) -> str:
    """Return the name by which a function is called where grappler made one for a single call."""
    return function.partition(_SPECIALIZED)[0]


def callers_first(capture_file: CaptureFile) -> list[Function]:
    """Return a program's functions, those that call others before them."""
    by_name = {f.name: f for f in capture_file.functions}
    made_of: dict[str, list[str]] = {}
    for name in by_name:
        made_of.setdefault(called_as(name), []).append(name)
    order: list[Function] = []
    seen: set[str] = set()
    for start in by_name:
        stack = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                order.append(by_name[name])
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                graphs = (instance.input for instance in by_name[name].instances)
                inner = {c for graph in graphs for _, c in calls_of(graph, capture_file.attributes)}
                named = {name for c in inner for name in (c, *made_of.get(c, ()))}
                stack += [(c, False) for c in sorted(named & by_name.keys()) if c not in seen]
    return order[::-1]


# --- Where arguments and results are, before a function's graph is placed ----------------------
#
# See `GetDeviceForInput` (core/common_runtime/eager/execute.cc) and `PinArgsAndRets`
# (core/common_runtime/process_function_library_runtime.cc).

# `MTypeFromDType` in core/framework/types.h: tensors of these types are in host memory, wherever
# they are computed.
ON_HOST: Final = frozenset({"int32", "string"})


def argument_nodes(graph: Graph, attributes: Sequence[Attributes]) -> dict[int, int]:
    """Return the node of each argument of a function, by the argument's index."""
    found = {}
    for node, op in enumerate(graph.ops):
        if op in ARGUMENTS and graph.attributes[node] >= 0:
            index = attributes[graph.attributes[node]].get("index")
            if isinstance(index, int):
                found[index] = node
    return found


def as_recorded(graph: Graph) -> dict[int, str]:
    """Return the devices of arguments and results on the machine that they were recorded on.

    A dump shows the device of an assigned node in place of its request.
    """
    return {
        node: graph.devices[node]
        for node, op in enumerate(graph.ops)
        if (op in ARGUMENTS or op in RESULTS) and graph.devices[node]
    }


def as_bound(
    graph: Graph, attributes: Sequence[Attributes], call: Call, machine: Machine
) -> dict[int, str]:
    """Return the devices of arguments and results on another machine.

    An argument whose place is not known is on the host if its type always is, else on the default
    device; for a call by a dataset it is where the dataset is.
    """
    elsewhere = call.results or call.default_device or machine.host
    found: dict[int, str] = {}
    for index, node in argument_nodes(graph, attributes).items():
        device = call.arguments[index] if index < len(call.arguments) else ""
        if not device:
            dtype = attributes[graph.attributes[node]].get("T")
            device = machine.host if dtype in (*ON_HOST, "resource") else elsewhere
        found[node] = device
    results = [at for at, op in enumerate(graph.ops) if op in RESULTS and graph.devices[at]]
    if call.results:
        return found | dict.fromkeys(results, call.results)
    position = {name: at for at, name in enumerate(graph.names)} if results else {}
    for node in results:
        made = _maker(graph, node, position, found, machine)
        if made != "":
            found[node] = elsewhere if made is None else made
    return found


def _maker(
    graph: Graph,
    node: int,
    position: Mapping[str, int],
    assigned: Mapping[int, str],
    machine: Machine,
) -> str | None:
    """Return where the node is that a result comes from, through Identity ops.

    It is assigned to that device or requests it: "" if neither, None if there is no such device.
    """
    for _ in range(len(graph)):
        data = [text for text in graph.inputs[node] if not text.startswith("^")]
        source = position.get(data[0].partition(":")[0]) if data else None
        if source is None:
            return ""
        if source in assigned:
            return assigned[source]
        if graph.devices[source]:
            try:
                requested = parse_device(graph.devices[source])
            except DeviceNameError:
                return ""  # the placer refuses that node
            matching = machine.matching(requested)
            return matching[0] if matching else None
        if graph.ops[source] != "Identity":
            return ""
        node = source
    return ""
