"""Where a function's arguments and results are before its graph is placed.

See `GetDeviceForInput` (core/common_runtime/eager/execute.cc) and `PinArgsAndRets`
(core/common_runtime/process_function_library_runtime.cc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.devices import DeviceNameError, parse_device
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, Graph
    from traceanalyzer.placement.calls import Call
    from traceanalyzer.placement.devices import Machine

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

    In a dump the device that a node is assigned to stands in the place of a request.
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

    It is what that node is assigned to or asks for: "" if neither, None if no device is such.
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
                asked = parse_device(graph.devices[source])
            except DeviceNameError:
                return ""  # the placer refuses that node
            matching = machine.matching(asked)
            return matching[0] if matching else None
        if graph.ops[source] != "Identity":
            return ""
        node = source
    return ""
