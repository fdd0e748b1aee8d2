"""Replays the placement of a whole program from its capture file, on its own machine or on another.

Eager ops first: they fix where resources live. Then the functions that the program calls, each with
the devices that its arguments are bound to; then the functions that those call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import is_session, split_input
from traceanalyzer.placement.arguments import ON_HOST, argument_nodes, as_bound, as_recorded
from traceanalyzer.placement.calls import (
    FORWARDED,
    Call,
    called_as,
    callers_first,
    calls_of,
)
from traceanalyzer.placement.dataset_calls import dataset_calls, is_of_dataset
from traceanalyzer.placement.devices import CPU, GPU, DeviceNameError, Machine, parse_device
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerPlacement,
    EagerSetting,
    place_eager,
)
from traceanalyzer.placement.grown_graphs import kept_nodes, with_kept, with_requests
from traceanalyzer.placement.kernels import DEFAULT, Kernel
from traceanalyzer.placement.nodes import Nodes, describe, is_dataset
from traceanalyzer.placement.placer import Placement, Setting, place
from traceanalyzer.placement.read_devices import ReadDevices
from traceanalyzer.placement.registry import Nearest, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import (
        Attributes,
        CaptureFile,
        Function,
        Graph,
        Instance,
        Signature,
        Tensor,
    )

_PINS_SMALL: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"
_LOCAL: Final = "/job:localhost/replica:0/task:0"
_CALL_NOT_RECORDED: Final = "the call of its function was not recorded"
_ARGUMENT_NOT_RECORDED: Final = "where this argument is was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionPlacement:
    """A function's graph, placed."""

    function: str
    instance: int  #: which of the recorded instantiations the graph is of
    #: The signature that calls it, or None: a function calls it, or nothing recorded does.
    call: int | None
    placement: Placement
    doubt: str  #: what is not known about its call, or ""
    #: Of a session's graph that grew, the nodes that keep their device: each with the earlier
    #: placement that gave it, and its node there.
    kept: Mapping[int, tuple[FunctionPlacement, int]] = field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramPlacement:
    """A program, placed."""

    machine: Machine  #: the devices it was placed on
    #: The registry that was used, and whether it is that of the program's TensorFlow.
    kernels: Nearest
    eager_setting: EagerSetting  #: what eager ops are placed under
    eager_ops: Sequence[EagerOp]  #: the op of each signature of the capture file, as it is placed
    eager: Sequence[EagerPlacement]
    #: Where each resource of the capture file lives; "" where that is not known.
    resources: Sequence[str]
    #: By name, each way in which a function is placed.
    functions: Mapping[str, tuple[FunctionPlacement, ...]]


def machine_of(capture_file: CaptureFile) -> Machine:
    """Return the devices that the captured program had.

    A program of TensorFlow 1 that never makes an eager context lists none. Its session has devices
    all the same: those that its nodes were put on are known.
    """
    logical = (capture_file.devices or {}).get("logical")
    names = [
        each["name"]
        for each in (logical if isinstance(logical, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
    full = [n if n.startswith("/job:") else _LOCAL + n for n in map(str, names)]
    machine = Machine.of(n for n in full if _is_device(n))
    if CPU in machine.types:
        return machine
    machine = Machine.of(sorted(_devices_of_session(capture_file)))
    return machine if CPU in machine.types else Machine.local()


def _devices_of_session(capture_file: CaptureFile) -> set[str]:
    """Return the GPUs that nodes of sessions were put on, and the CPU."""
    instances = [each for graph in capture_file.session_graphs() for each in graph.instances]
    names = {name for instance in instances for name in instance.assigned if _is_device(name)}
    used = {name for name in names if parse_device(name).type in {CPU, GPU}}
    return used | {f"{name.rpartition('/device:')[0]}/device:CPU:0" for name in used}


def _is_device(text: str) -> bool:
    try:
        parse_device(text)
    except DeviceNameError:
        return False
    return True


def with_gpus(machine: Machine, count: int = 1) -> Machine:
    """Return a machine with GPUs in place of those it has."""
    address = parse_device(machine.host)
    base = f"/job:{address.job}/replica:{address.replica}/task:{address.task}"
    cpus = [d for d in machine.devices if parse_device(d).type == CPU]
    return Machine.of([*(f"{base}/device:GPU:{at}" for at in range(count)), *cpus])


def place_program(
    capture_file: CaptureFile, machine: Machine | None = None, *, unsure_as_recorded: bool = False
) -> ProgramPlacement:
    """Place a captured program.

    Args:
        machine: The devices to place it on; None for those that it had. On its own machine the
            arguments of functions are where they were recorded, on another where they would be.
        unsure_as_recorded: Whether requests of which nobody knows what they would be on the other
            machine are what they were, rather than what is expected.
    """
    return _Program(capture_file, machine, unsure_as_recorded).placement()


@dataclass
class _Program:
    """A program under way: resources before functions, callers before what they call."""

    capture_file: CaptureFile
    asked: Machine | None
    unsure_as_recorded: bool
    kernels: Nearest = field(init=False)
    machine: Machine = field(init=False)
    resources: list[str] = field(init=False)

    def __post_init__(self) -> None:
        capture_file = self.capture_file
        self.kernels = _kernels_of(capture_file)
        self._own_machine = machine_of(capture_file)
        self.machine = self.asked or self._own_machine
        self._soft = (capture_file.devices or {}).get("soft_device_placement") is not False
        self.resources = [""] * len(capture_file.resources)
        self._read_devices = ReadDevices(
            capture_file,
            self.machine,
            self.resources,
            lambda maker: place_eager(*self._op(maker), self._setting).device,
            unsure_as_recorded=self.unsure_as_recorded,
        )
        names = {f.name for f in capture_file.functions} | {
            d.name for d in capture_file.definitions
        }
        names |= {s.op for s in capture_file.signatures if s.is_function}
        self._functions = frozenset(names)
        self._setting = EagerSetting(
            machine=self.machine,
            registry=self.kernels.registry,
            soft=self._soft,
            pins_small=_is_set(capture_file, _PINS_SMALL),
            functions=self._functions,
        )
        self._described: dict[tuple[str, int], Nodes] = {}

    def placement(self) -> ProgramPlacement:
        """Place it."""
        self._place_resources()
        ops = [self._op(signature) for signature in self.capture_file.signatures]
        eager = [place_eager(*op, self._setting) for op in ops]
        placed = self._place_functions(eager)
        return ProgramPlacement(
            machine=self.machine,
            kernels=self.kernels,
            eager_setting=self._setting,
            eager_ops=ops,
            eager=eager,
            resources=self.resources,
            functions=placed,
        )

    def _place_resources(self) -> None:
        """Place what makes each resource; one made from others comes after them."""
        for at, resource in enumerate(self.capture_file.resources):
            if self.asked is None:
                self.resources[at] = resource.device
            elif resource.signature >= 0:
                signature = self.capture_file.signatures[resource.signature]
                self.resources[at] = place_eager(*self._op(signature), self._setting).device

    def _op(self, signature: Signature) -> EagerOp:
        return EagerOp(
            signature.op,
            self.capture_file.attribute_set(signature.attributes),
            [self._input(tensor) for tensor in signature.inputs],
            signature.scope if self.asked is None else self._read_devices.of_eager(signature),
        )

    def _input(self, tensor: Tensor) -> EagerInput:
        device = tensor.device
        if tensor.dtype == "resource" and self.asked is not None:
            device = "" if tensor.resource is None else self.resources[tensor.resource]
        elements: int | None = None
        if tensor.shape is not None and all(size >= 0 for size in tensor.shape):
            elements = 1
            for size in tensor.shape:
                elements *= size
        return EagerInput(tensor.dtype, device, elements)

    def _place_functions(
        self, eager: Sequence[EagerPlacement]
    ) -> dict[str, tuple[FunctionPlacement, ...]]:
        calls: dict[str, dict[tuple[str, tuple[str, ...]], Call]] = {}
        for at, (signature, where) in enumerate(
            zip(self.capture_file.signatures, eager, strict=True)
        ):
            if signature.is_function:
                _add(calls, signature.op, self._call_of(at, signature, where))
            elif is_dataset(signature.op):
                devices = [self._resource_device(tensor) for tensor in signature.inputs]
                attributes = self.capture_file.attribute_set(signature.attributes)
                for callee, call in self._by_dataset(
                    signature.op, attributes, devices, where.device
                ):
                    _add(calls, callee, call)
        placed: dict[str, tuple[FunctionPlacement, ...]] = {}
        for function in callers_first(self.capture_file):
            known = calls.get(function.name) or calls.get(called_as(function.name), {})
            of_function = tuple(known.values())
            found = tuple(self._ways(function, of_function or (self._unknown(function),)))
            placed[function.name] = found
            for each in found:
                for callee, call in self._calls_within(each):
                    _add(calls, callee, call)
        return placed

    def _call_of(self, at: int, signature: Signature, where: EagerPlacement) -> Call:
        """Return what a call by the program places a function under.

        See `GetDeviceForInput` (core/common_runtime/eager/execute.cc): an argument is where its
        resource or tensor is; what must be in host memory is on the host.
        """
        devices, guessed = [], set()
        for index, tensor in enumerate(signature.inputs):
            device = self._input(tensor).device
            if tensor.dtype in ON_HOST:
                device = self.machine.host
            elif tensor.dtype != "resource" and self.asked is not None:
                guessed.add(index)
                is_on_host = tensor.dtype == "variant" or self._is_read(tensor)  # a dataset, mostly
                device = self.machine.host if is_on_host else self.machine.devices[0]
            if not device:
                guessed.add(index)
            devices.append(device)
        return Call(where.device, tuple(devices), frozenset(guessed), at, where.doubt)

    def _resource_device(self, tensor: Tensor) -> str:
        return self._input(tensor).device if tensor.dtype == "resource" else ""

    def _by_dataset(
        self, op: str, attributes: Attributes, inputs: Sequence[str], device: str
    ) -> Iterator[tuple[str, Call]]:
        """Walk the calls of a dataset's functions; the arguments of each are all it has."""
        definition = self.kernels.registry.definition(op)
        if definition is None:
            return
        for callee, call in dataset_calls(definition, attributes, inputs, device):
            function = self.capture_file.function(callee)
            if function is None or not function.instances:
                continue
            count = max(
                argument_nodes(function.instances[0].input, self.capture_file.attributes),
                default=-1,
            )
            elements = ("",) * (count + 1 - len(call.arguments))
            yield callee, call._replace(arguments=(*elements, *call.arguments))

    def _is_read(self, tensor: Tensor) -> bool:
        """Return whether a tensor may come from a dataset, whose elements are on the host."""
        return (tensor.dtype, tensor.shape) in {
            (output.dtype, output.shape)
            for signature in self.capture_file.signatures
            if signature.op == "IteratorGetNext"
            for output in signature.outputs
        }

    def _calls_within(self, caller: FunctionPlacement) -> Iterator[tuple[str, Call]]:
        """Walk the calls that a placed function makes.

        See `PartitionedCallOp` (core/kernels/partitioned_function_ops.cc): the op's device is the
        default device, and where its arguments are, but for those in host memory.
        """
        placement = caller.placement
        graph = placement.nodes.graph
        position: dict[str, int] = {}
        datasets: set[int] = set()
        for node, callee in calls_of(graph, self.capture_file.attributes):
            default = placement.devices[node]
            if is_dataset(graph.ops[node]):
                if node not in datasets:
                    datasets.add(node)
                    yield from self._by_dataset_node(graph, node, placement.devices, caller.doubt)
                continue
            position = position or {name: at for at, name in enumerate(graph.names)}
            skipped = FORWARDED.get(graph.ops[node])
            if skipped is None:
                yield callee, Call(default, (), frozenset(), None, caller.doubt)
                continue
            data = [text for text in graph.inputs[node] if not text.startswith("^")]
            sources = [position.get(t.partition(":")[0]) for t in data[skipped:]]
            makers = [
                placement.devices[s] if s is not None and self._is_resource(graph, s) else ""
                for s in sources
            ]
            yield callee, Call(default, tuple(makers), frozenset(), None, caller.doubt)

    def _by_dataset_node(
        self, graph: Graph, node: int, devices: Sequence[str], doubt: str
    ) -> Iterator[tuple[str, Call]]:
        inputs = [
            devices[at] if at >= 0 and self._is_resource(graph, at) else ""
            for at in (graph.index(split_input(text)[0]) for text in graph.inputs[node])
        ]
        attributes = self.capture_file.attribute_set(graph.attributes[node])
        for callee, call in self._by_dataset(graph.ops[node], attributes, inputs, devices[node]):
            yield callee, call._replace(doubt=doubt)

    def _is_resource(self, graph: Graph, node: int) -> bool:
        attributes = self.capture_file.attribute_set(graph.attributes[node])
        types = (attributes.get("T"), attributes.get("dtype"))  # a list of types can be among them
        return "resource" in types or graph.ops[node] == "VarHandleOp"

    def _unknown(self, function: Function) -> Call:
        if is_session(function.name):
            return Call("", (), frozenset())
        if is_of_dataset(function.name):
            return Call(self.machine.host, (), frozenset())
        return Call(self.machine.devices[0], (), frozenset(), None, _CALL_NOT_RECORDED)

    def _ways(self, function: Function, calls: Sequence[Call]) -> Iterator[FunctionPlacement]:
        """Place a function in each way in which it is called.

        A function is instantiated anew where its arguments are elsewhere. Which recorded graph
        belongs to a call is told by where they were; if that leaves several, by what TensorFlow
        made of them.
        """
        if is_session(function.name):
            yield from self._of_session(function, calls[0])
            return
        if self.asked is not None:
            for call in calls if function.instances else ():
                at = self._instance_of(function, call)
                yield self._placed(function, at, call)
            return
        for at, instance in enumerate(function.instances):
            tried = (self._placed(function, at, call) for call in calls)
            best: FunctionPlacement | None = None
            for each in tried:
                best = best or each
                if tuple(each.placement.devices) == instance.assigned:
                    best = each
                    break
            if best is not None:
                yield best

    def _of_session(self, function: Function, call: Call) -> list[FunctionPlacement]:
        """Place the graphs of sessions in order: one that grew keeps what was placed before.

        On the program's own machine what was kept is known, on another the replay gave it.
        """
        ways: list[FunctionPlacement] = []
        asking = replace(function, instances=with_requests(function.instances))
        for at, first_placed in enumerate(kept_nodes(function.instances)):
            way = self._placed(asking, at, call)
            kept = {node: (ways[f.instance], f.node) for node, f in first_placed.items()}
            if kept:
                recorded = function.instances[at].input.devices if self.asked is None else ()
                placement = way.placement
                setting = with_kept(
                    placement.setting,
                    {node: (earlier.placement, its) for node, (earlier, its) in kept.items()},
                    recorded,
                )
                way = replace(way, placement=place(placement.nodes, setting), kept=kept)
            ways.append(way)
        return ways

    def _instance_of(self, function: Function, call: Call) -> int:
        if len(function.instances) == 1 or call.signature is None:
            return 0
        bound = [t.device for t in self.capture_file.signatures[call.signature].inputs]
        for at, instance in enumerate(function.instances):
            arguments = argument_nodes(instance.input, self.capture_file.attributes)
            if all(
                index < len(bound) and instance.input.devices[node] in {bound[index], ""}
                for index, node in arguments.items()
            ):
                return at
        return 0

    def _placed(self, function: Function, at: int, call: Call) -> FunctionPlacement:
        instance = function.instances[at]
        nodes = self._nodes(function.name, at, instance)
        setting = Setting(
            machine=self.machine,
            default_device=call.default_device,
            soft=self._is_soft(function.name),
            assigned=(
                as_recorded(instance.input)
                if self.asked is None
                else as_bound(instance.input, self.capture_file.attributes, call, self.machine)
            ),
            guessed=self._guessed(instance.input, call),
        )
        return FunctionPlacement(
            function=function.name,
            instance=at,
            call=call.signature,
            placement=place(nodes, setting),
            doubt=call.doubt,
        )

    def _is_soft(self, function: str) -> bool:
        """Return whether soft placement is on for a function's graph.

        For a session it is as that was configured. Which configuration is whose is not known: one
        session that has it on is enough, since what cannot be placed without it did not run.
        """
        configs = self.capture_file.session_configs if is_session(function) else ()
        return any(config.soft_placement for config in configs) if configs else self._soft

    def _nodes(self, name: str, at: int, instance: Instance) -> Nodes:
        if (name, at) not in self._described:
            graph = instance.input
            if self.asked is not None:
                graph = self._read_devices.of_graph(name, graph, self._own_machine.host)
            self._described[name, at] = describe(
                graph, self.capture_file.attributes, self.kernels.registry, self._functions
            )
        return self._described[name, at]

    def _guessed(self, graph: Graph, call: Call) -> Mapping[int, str]:
        """Return the arguments whose place is a guess.

        On the program's own machine those are that were not recorded; on another also resources of
        which nobody knows where they are.
        """
        attributes = self.capture_file.attributes
        guessed = []
        for index, node in argument_nodes(graph, attributes).items():
            if self.asked is None:
                is_guess = not graph.devices[node]
            else:
                is_known = index < len(call.arguments) and bool(call.arguments[index])
                is_resource = attributes[graph.attributes[node]].get("T") == "resource"
                is_guess = index in call.guessed or (is_resource and not is_known)
            if is_guess:
                guessed.append(node)
        return dict.fromkeys(guessed, _ARGUMENT_NOT_RECORDED)


def _kernels_of(capture_file: CaptureFile) -> Nearest:
    """Return the kernels of the program's TensorFlow, and those of libraries that it loaded."""
    kernels = nearest(capture_file.tensorflow_version)
    others = [
        Kernel(
            op=each.op,
            device_type=each.device_type,
            constraints={name: frozenset(values) for name, values in each.constraints.items()},
            host_memory_args=each.host_memory_args,
            priority=each.priority,
            label=each.label,
        )
        for each in capture_file.kernels
        if each.device_type in {CPU, GPU, DEFAULT}
    ]
    return replace(kernels, registry=kernels.registry.with_others(others)) if others else kernels


def _add(
    calls: dict[str, dict[tuple[str, tuple[str, ...]], Call]], function: str, call: Call
) -> None:
    calls.setdefault(function, {}).setdefault((call.default_device, call.arguments), call)


def _is_set(capture_file: CaptureFile, variable: str) -> bool:
    """Return whether a variable of the program's environment is on (`ReadBoolFromEnvVar`)."""
    variables = (capture_file.environment or {}).get("variables")
    value = variables.get(variable) if isinstance(variables, dict) else None
    return isinstance(value, str) and value.lower() in {"1", "true"}
