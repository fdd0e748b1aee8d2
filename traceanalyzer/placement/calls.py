"""Finds the calls of a program's functions and the devices that affect their placement."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json
from traceanalyzer.capture_file.function_records import Function, Graph, Instance, split_input
from traceanalyzer.placement.devices import DeviceNameError, Machine, parse_device
from traceanalyzer.placement.kernel_tables import AttributesError, OpDefinition
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS, is_dataset

# Ops that pass their inputs to the function they call, with the number of inputs that they skip.
FORWARDED: Final = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile"), 0),
    **dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), 1),
}


class Call(NamedTuple):
    """A call of a function, with the devices that affect the placement of its graph."""

    #: The device of the call; "" for a session, which has no default device.
    default_device: str
    #: The device of each argument, by index; "" or missing if unknown.
    arguments: tuple[str, ...] = ()
    guessed: frozenset[int] = frozenset()  #: indices of the arguments whose device is a guess
    #: The signature in the capture file that calls it; None for a call by a function.
    signature: int | None = None
    doubt: str = ""  #: why something about it is unknown, or ""
    #: For a call by a dataset, its device, where elements and results are; "" for other calls.
    results: str = ""


def calls_of(
    graph: Graph, attributes: Sequence[Attributes]
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each node that calls functions, with the names of those functions."""
    by_set: dict[int, tuple[str, ...]] = {-1: ()}
    for node, at in enumerate(graph.attributes):
        if at not in by_set:
            by_set[at] = tuple(called_in(attributes[at].values()))
        if by_set[at]:
            yield node, by_set[at]


def called_in(values: Iterable[Json]) -> Iterator[str]:
    """Yield the function names in attribute values."""
    for value in values:
        if isinstance(value, list):
            yield from called_in(value)
        elif isinstance(value, dict) and isinstance(name := value.get("func"), str):
            yield name


def resources_into(
    graph: Graph, node: int, attributes: Sequence[Attributes], devices: Mapping[int, str]
) -> tuple[str, ...]:
    """Return the device of each data input of a node, or "" if the input is not a resource."""
    found = []
    for text in graph.inputs[node]:
        if not text.startswith("^"):
            source = graph.index(split_input(text)[0])
            at = graph.attributes[source] if source >= 0 else -1
            known = attributes[at] if at >= 0 else {}
            types = (known.get("T"), known.get("dtype"))  # a list of types can be among them
            is_maker = source >= 0 and graph.ops[source] == "VarHandleOp"
            found.append(devices[source] if is_maker or "resource" in types else "")
    return tuple(found)


def called_as(function: str) -> str:
    """Return a function's name without the suffix that Grappler adds to its specialized copies."""
    # UniqueSpecializedFunctionName of function_optimizer.cc appends the call's node and function.
    return function.partition("_specialized_for_")[0]


def callers_first(capture_file: CaptureFile) -> list[Function]:
    """Return a program's functions, sorted so that callers come before callees."""
    by_name = {f.name: f for f in capture_file.functions}
    made_of: dict[str, list[str]] = defaultdict(list)
    for name in by_name:
        made_of[called_as(name)].append(name)
    order: list[Function] = []
    seen: set[str] = set()
    stack = [(start, False) for start in reversed(by_name)]
    while stack:
        name, is_done = stack.pop()
        if is_done:
            order.append(by_name[name])
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            graphs = (instance.input for instance in by_name[name].instances)
            found = (calls_of(graph, capture_file.attributes) for graph in graphs)
            inner = {c for calls in found for _, names in calls for c in names}
            named = {name for c in inner for name in (c, *made_of[c])}
            stack += [(c, False) for c in sorted(named & by_name.keys()) if c not in seen]
    return order[::-1]


# --- Devices of arguments and results, before a function's graph is placed ---------------------
#
# See `GetDeviceForInput` (core/common_runtime/eager/execute.cc) and `PinArgsAndRets`
# (core/common_runtime/process_function_library_runtime.cc).

# `MTypeFromDType` in core/framework/types.h: tensors of these types are always in host memory.
ON_HOST: Final = frozenset({"int32", "string"})


def argument_nodes(graph: Graph, attributes: Sequence[Attributes]) -> dict[int, int]:
    """Return a function's argument nodes, keyed by argument index."""
    found = {}
    for node, op in enumerate(graph.ops):
        if op in ARGUMENTS and graph.attributes[node] >= 0:
            index = attributes[graph.attributes[node]].get("index")
            if isinstance(index, int):
                found[index] = node
    return found


def bound_nodes(graph: Graph) -> set[int]:
    """Return a function's argument and result nodes."""
    return {at for at, op in enumerate(graph.ops) if op in ARGUMENTS or op in RESULTS}


def as_recorded(graph: Graph) -> tuple[dict[int, str], list[int]]:
    """Return the recorded devices of arguments and results, and the arguments without a device.

    A graph dump shows a node's assigned device, if it has one, instead of its requested device.
    """
    devices = {at: graph.devices[at] for at in sorted(bound_nodes(graph))}
    unknown = [at for at, device in devices.items() if not device and graph.ops[at] in ARGUMENTS]
    return {at: device for at, device in devices.items() if device}, unknown


def as_bound(
    graph: Graph, attributes: Sequence[Attributes], call: Call, machine: Machine
) -> tuple[dict[int, str], list[int]]:
    """Return the devices of arguments and results, and the arguments whose device is a guess.

    A resource whose device is unknown gets no device: the ops that use it decide. Any other
    argument whose device is unknown is assumed to be on the host if its type always is. Otherwise,
    it is assumed to be on the calling dataset's device or on the default device.
    """
    elsewhere = call.results or call.default_device or machine.host
    found: dict[int, str] = {}
    guessed = []
    for index, node in argument_nodes(graph, attributes).items():
        device = call.arguments[index] if index < len(call.arguments) else ""
        dtype = attributes[graph.attributes[node]].get("T")
        is_open = dtype == "resource" and not device
        if index in call.guessed or is_open:
            guessed.append(node)
        if not is_open:
            found[node] = device or (machine.host if dtype in ON_HOST else elsewhere)
    for node, op in enumerate(graph.ops):
        if op in RESULTS and graph.devices[node]:
            made = call.results or _maker(graph, node, found, machine)
            if made != "":
                found[node] = made or elsewhere
    return found, guessed


def _maker(graph: Graph, node: int, assigned: Mapping[int, str], machine: Machine) -> str | None:
    """Return the assigned or requested device of the node that computes a result.

    Return "" if the device is unknown, and None if the machine has no such device.
    """
    for _ in range(len(graph)):
        source, _ = next(graph.sources(node), (-1, 0))
        if source in assigned:
            return assigned[source]
        if source >= 0 and graph.ops[source] in ARGUMENTS:
            return ""
        if source >= 0 and graph.devices[source]:
            try:
                matching = machine.matching(parse_device(graph.devices[source]))
            except DeviceNameError:
                return ""  # the placer refuses that node
            return matching[0] if matching else None
        if source < 0 or graph.ops[source] != "Identity":
            return ""
        node = source
    return ""


# --- Functions of datasets ------------------------------------------------------------------------
#
# See `CapturedFunction::Instantiate` (core/data/captured_function.cc): a function that a dataset
# calls is a multi-device function like any other. Its elements and captured tensors are on the
# dataset's device; a captured resource stays on its own device. The dataset's device, usually a
# CPU, is the function's default device. Two kinds of functions have no default device, so their ops
# prefer a GPU: those that reduce a dataset (data/reduce_dataset_op.cc), and those of the scan that
# AutoGraph makes of `for x in dataset` in a `tf.function` (`use_default_device` of ScanDataset).

# `StructuredFunctionWrapper` names functions after the method (data/ops/structured_function.py).
_OF_DATASETS: Final = "__inference_Dataset_"
_REDUCES: Final = "ReduceDataset"
_PREFETCHES: Final = "PrefetchDataset"
_CAPTURED: Final = ("other_arguments", "other_args")
_READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})
_FLOATS: Final = frozenset({"half", "bfloat16", "float", "double"})


def dataset_calls(
    capture_file: CaptureFile,
    definition: OpDefinition | None,
    attributes: Attributes,
    inputs: Sequence[str],
    device: str,
) -> Iterator[tuple[str, Call]]:
    """Yield the name and the call of each function that a dataset calls.

    `inputs` has the device of each resource input, and "" for other inputs. A function's last
    arguments are the tensors that it captured.
    """
    if definition is None:
        return
    has_none = definition.name == _REDUCES or attributes.get("use_default_device") is False
    default = "" if has_none else device
    by_argument: dict[str, Sequence[str]] = {}
    at = 0
    for argument in definition.inputs:
        try:
            count = len(definition.types_of(argument, attributes))
        except AttributesError:
            count = 1
        by_argument[argument.name] = inputs[at : at + count]
        at += count
    functions = (name for name, known in definition.attributes.items() if known.type == "func")
    for name in functions:
        own = {f"{name}_{words}" for words in _CAPTURED} & by_argument.keys()
        lists = own or {*_CAPTURED} & by_argument.keys()
        captured = [each for name, known in by_argument.items() if name in lists for each in known]
        for callee in called_in([attributes.get(name)]):
            function = capture_file.function(callee)
            if function is not None and function.instances:
                nodes = argument_nodes(function.instances[0].input, capture_file.attributes)
                elements = ("",) * (max(nodes, default=-1) + 1 - len(captured))
                yield (
                    callee,
                    Call(default, (*elements, *captured), results=device),
                )


def is_of_dataset(function: str) -> bool:
    """Return whether tf.data created a function for `map` or a similar method."""
    return function.startswith(_OF_DATASETS)


def functions_of_datasets(capture_file: CaptureFile) -> frozenset[str]:
    """Return the functions that a program's datasets call, judging by recorded calls and names."""
    graphs = [instance.input for f in capture_file.functions for instance in f.instances]
    kinds = {(signature.op, signature.attributes) for signature in capture_file.signatures}
    kinds.update(*(zip(graph.ops, graph.attributes, strict=True) for graph in graphs))
    sets = [capture_file.attribute_set(at) for op, at in kinds if is_dataset(op)]
    found = {name for attributes in sets for name in called_in(attributes.values())}
    return frozenset(found | {f.name for f in capture_file.functions if is_of_dataset(f.name)})


def functions_of_steps(capture_file: CaptureFile) -> frozenset[str]:
    """Return the dataset functions that do a step's work instead of preparing its input.

    Such a function reduces a dataset, is the body of a loop over one, or belongs to a stage that
    takes a value from the enclosing function. Stages before a prefetch prepare input.
    """
    reducing = (each.attributes for each in capture_file.signatures if each.op == _REDUCES)
    sets = map(capture_file.attribute_set, reducing)
    found = {name for attributes in sets for name in called_in(attributes.values())}
    of_datasets = functions_of_datasets(capture_file)
    left = [f.name for f in capture_file.functions if f.name not in of_datasets] + sorted(found)
    while left:
        function = capture_file.function(left.pop())
        for instance in () if function is None else function.instances:
            new = set(_computing(instance.input, capture_file)) - found
            found |= new
            left += sorted(new)
    return frozenset(found)


def nodes_of_models(capture_file: CaptureFile) -> dict[str, frozenset[str]]:
    """Return the nodes that compute with a variable in input pipelines, by function.

    A function of a dataset that reads a floating-point variable is a part of a model. Its other
    nodes, which the variable does not reach, prepare input.
    """
    found = {}
    for name in functions_of_datasets(capture_file) - functions_of_steps(capture_file):
        function = capture_file.function(name)
        graphs = [] if function is None else [each.input for each in function.instances]
        if nodes := {node for graph in graphs for node in _with_variables(graph, capture_file)}:
            found[name] = frozenset(nodes)
    return found


def _with_variables(graph: Graph, capture_file: CaptureFile) -> Iterator[str]:
    """Yield the nodes of a graph that read floating-point variables, or use what these read."""
    reading = [at for at, op in enumerate(graph.ops) if op in _READS]
    dtypes = (capture_file.attribute_set(graph.attributes[at]).get("dtype") for at in reading)
    left = [at for at, dtype in zip(reading, dtypes, strict=True) if dtype in _FLOATS]
    users: dict[int, list[int]] = defaultdict(list)
    for at in range(len(graph)) if left else ():
        for source, _ in graph.sources(at):
            users[source].append(at)
    seen = set(left)
    while left:
        node = left.pop()
        yield graph.names[node]
        new = set(users[node]) - seen
        seen |= new
        left += sorted(new)


def _computing(graph: Graph, capture_file: CaptureFile) -> Iterator[str]:
    """Yield the dataset functions in a graph that do a step's work."""
    left = [at for at, op in enumerate(graph.ops) if op == _REDUCES]
    seen = set(left)
    while left:
        node = left.pop()
        attributes = capture_file.attribute_set(graph.attributes[node])
        is_loop = graph.ops[node] == _REDUCES or attributes.get("use_default_device") is False
        sources = set(_sources(graph, node))
        if is_loop or any(_is_value(graph, source, capture_file) for source in sources):
            yield from called_in(attributes.values())
        before = {at for at in sources - seen if is_dataset(graph.ops[at])}
        seen |= before
        left += sorted(at for at in before if graph.ops[at] != _PREFETCHES)


def _sources(graph: Graph, node: int) -> Iterator[int]:
    for source, _ in graph.sources(node):
        if graph.ops[source] == "Identity":
            yield from _sources(graph, source)
        else:
            yield source


def _is_value(graph: Graph, node: int, capture_file: CaptureFile) -> bool:
    """Return whether a node computes a value from inputs, or is an argument that is a tensor."""
    if graph.ops[node] == "_Arg":
        attributes = capture_file.attribute_set(graph.attributes[node])
        return attributes.get("T") not in {"resource", "variant"}
    return not is_dataset(graph.ops[node]) and any(graph.sources(node))


# --- Graphs of a session that grew between its runs -----------------------------------------------
#
# When a program of TensorFlow 1 adds ops, its session places the whole graph again. Stateful ops
# keep their previous device (`RestoreStatefulNodes`, core/common_runtime/graph_execution_state.cc).
# A graph dump shows that device instead of the requested one: it must not be read as a request.


def kept_nodes(instances: Sequence[Instance]) -> list[Mapping[int, tuple[int, int]]]:
    """For each graph, map nodes that kept their device to the graph and node that first had it."""
    found: list[Mapping[int, tuple[int, int]]] = []
    latest: dict[str, tuple[int, int]] = {}
    for at, instance in enumerate(instances):
        graph = instance.input
        kept: dict[int, tuple[int, int]] = {}
        for node, (name, device) in enumerate(zip(graph.names, graph.devices, strict=True)):
            if not device or name not in latest:
                continue
            before, its = latest[name]
            earlier = instances[before]
            if (
                graph.ops[node] == earlier.input.ops[its]
                and device == earlier.assigned[its]
                and (its in found[before] or device != earlier.input.devices[its])
            ):
                kept[node] = found[before].get(its, (before, its))
        found.append(kept)
        latest.update((name, (at, node)) for node, name in enumerate(graph.names))
    return found


def with_requests(instances: Sequence[Instance]) -> tuple[Instance, ...]:
    """Return a session's graphs with the original requests of nodes that kept their devices."""
    requesting = []
    for instance, kept in zip(instances, kept_nodes(instances), strict=True):
        devices = list(instance.input.devices)
        for node, (first, its) in kept.items():
            devices[node] = instances[first].input.devices[its]
        graph = replace(instance.input, devices=tuple(devices)) if kept else instance.input
        requesting.append(replace(instance, input=graph))
    return tuple(requesting)


def newest(graphs: Sequence[Graph]) -> list[int]:
    """Return the indices of the graphs that no later graph extends."""
    found: list[int] = []
    kept: list[frozenset[tuple[str, str, str]]] = []
    for at in reversed(range(len(graphs))):
        graph = graphs[at]
        nodes = frozenset(zip(graph.names, graph.ops, graph.devices, strict=True))
        if not any(nodes <= later for later in kept):
            found.append(at)
            kept.append(nodes)
    return found[::-1]
