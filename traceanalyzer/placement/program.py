"""Replays the placement of a whole program from its capture file, on its own machine or on another.

Eager ops come first, because they decide where resources are. Then come the functions that the
program calls, each with the devices of its arguments; then the functions that those call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.placement import calls
from traceanalyzer.placement.calls import Call
from traceanalyzer.placement.devices import machine_of
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerPlacement,
    EagerSetting,
    pins_small,
    place_eager,
)
from traceanalyzer.placement.nodes import Nodes, describe, is_dataset
from traceanalyzer.placement.placer import Placement, Setting
from traceanalyzer.placement.registry import registry_of
from traceanalyzer.placement.scopes import ReadDevices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Signature, Tensor
    from traceanalyzer.capture_file.function_records import Function
    from traceanalyzer.placement.devices import Machine

_CALL_NOT_RECORDED: Final = "the call of its function was not recorded"
_ARGUMENT_NOT_RECORDED: Final = "the device of this argument was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionPlacement:
    """A placed graph of a function."""

    function: str
    instance: int  #: the recorded instantiation that the graph belongs to
    call: int | None  #: the signature that calls it; None for a function or an unknown call
    placement: Placement
    doubt: str  #: why something about its call is unknown, or ""
    #: If a session's graph grew, the nodes that keep their device, each with the earlier placement
    #: that gave it the device and its node in that placement.
    kept: Mapping[int, tuple[FunctionPlacement, int]] = field(default_factory=dict)


class ProgramPlacement:
    """A placed program: resources come before functions, callers before the called functions."""

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine | None = None,
        *,
        unsure_as_recorded: bool = False,
    ) -> None:
        """Place a program.

        Args:
            machine: The devices to place it on; None for its own devices, with the arguments of
                functions where they were recorded.
            unsure_as_recorded: Whether to assume the recorded device for uncertain requests.
        """
        self._capture_file = capture_file
        self._attributes = capture_file.attributes
        self._own_machine = machine_of(capture_file)
        self._is_own = machine is None
        self.machine = machine or self._own_machine
        #: The registry that was used, and whether it matches the program's TensorFlow.
        self.kernels = registry_of(capture_file)
        functions = {f.name for f in capture_file.functions}
        functions |= {d.name for d in capture_file.definitions}
        functions |= {s.op for s in capture_file.signatures if s.is_function}
        self.eager_setting = EagerSetting(
            machine=self.machine,
            registry=self.kernels.registry,
            soft=(capture_file.devices or {}).get("soft_device_placement") is not False,
            pins_small=pins_small(capture_file),
            functions=functions,
        )
        #: The device of each resource in the capture file; "" if unknown.
        self.resources = [""] * len(capture_file.resources)
        self._read_devices = ReadDevices(
            capture_file,
            self.machine,
            self.resources,
            lambda maker: place_eager(self._op(maker), self.eager_setting).device,
            unsure_as_recorded=unsure_as_recorded,
        )
        # Elements of datasets, which are on the host.
        self._read = {
            (output.dtype, output.shape)
            for signature in capture_file.signatures
            if signature.op == "IteratorGetNext"
            for output in signature.outputs
        }
        self._described: dict[tuple[str, int], Nodes] = {}
        for at, resource in enumerate(capture_file.resources):
            if self._is_own:
                self.resources[at] = resource.device
            elif resource.signature >= 0:  # a resource made from others comes after them
                maker = self._op(capture_file.signatures[resource.signature])
                self.resources[at] = place_eager(maker, self.eager_setting).device
        #: The placed op of each signature in the capture file.
        self.eager_ops = [self._op(signature) for signature in capture_file.signatures]
        self.eager = [place_eager(op, self.eager_setting) for op in self.eager_ops]
        #: By name, each instance of a function.
        self.functions = self._place_functions()

    def _op(self, signature: Signature) -> EagerOp:
        return EagerOp(
            signature.op,
            self._capture_file.attribute_set(signature.attributes),
            [self._input(tensor) for tensor in signature.inputs],
            signature.scope if self._is_own else self._read_devices.of_eager(signature),
        )

    def _input(self, tensor: Tensor) -> EagerInput:
        device = tensor.device
        if tensor.dtype == "resource" and not self._is_own:
            device = "" if tensor.resource is None else self.resources[tensor.resource]
        is_known = tensor.shape is not None and all(size >= 0 for size in tensor.shape)
        return EagerInput(tensor.dtype, device, prod(tensor.shape or ()) if is_known else None)

    def _place_functions(self) -> dict[str, tuple[FunctionPlacement, ...]]:
        known: dict[str, dict[tuple[str, tuple[str, ...]], Call]] = {}

        def add(found: Iterable[tuple[str, Call]]) -> None:
            for function, call in found:
                alike = known.setdefault(function, {})
                alike.setdefault((call.default_device, call.arguments), call)

        signatures = self._capture_file.signatures
        for at, (signature, where) in enumerate(zip(signatures, self.eager, strict=True)):
            add(self._calls_by_signature(at, signature, where))
        placed: dict[str, tuple[FunctionPlacement, ...]] = {}
        for function in calls.callers_first(self._capture_file):
            called = known.get(function.name) or known.get(calls.called_as(function.name), {})
            of_function = tuple(called.values()) or self._unknown(function)
            placed[function.name] = tuple(self._instances(function, of_function))
            for each in placed[function.name]:
                add(self._calls_within(each))
        return placed

    def _calls_by_signature(
        self, at: int, signature: Signature, where: EagerPlacement
    ) -> Iterator[tuple[str, Call]]:
        if signature.is_function:
            yield signature.op, self._call_of(at, signature, where)
        elif is_dataset(signature.op):
            given = map(self._input, signature.inputs)
            inputs = [each.device if each.dtype == "resource" else "" for each in given]
            attributes = self._capture_file.attribute_set(signature.attributes)
            yield from self._by_dataset(signature.op, attributes, inputs, where.device)

    def _call_of(self, at: int, signature: Signature, where: EagerPlacement) -> Call:
        """Return the program's call of a function, with the devices of its arguments.

        See `GetDeviceForInput` (core/common_runtime/eager/execute.cc): an argument is where its
        resource or tensor is. Tensors that must be in host memory are on the host.
        """
        devices, guessed = [], set()
        for index, tensor in enumerate(signature.inputs):
            device = self._input(tensor).device
            if tensor.dtype in calls.ON_HOST:
                device = self.machine.host
            elif tensor.dtype != "resource" and not self._is_own:
                guessed.add(index)
                is_read = (tensor.dtype, tensor.shape) in self._read
                is_on_host = tensor.dtype == "variant" or is_read  # usually a dataset
                device = self.machine.host if is_on_host else self.machine.devices[0]
            if not device:
                guessed.add(index)
            devices.append(device)
        return Call(where.device, tuple(devices), frozenset(guessed), at, where.doubt)

    def _by_dataset(
        self, op: str, attributes: Attributes, inputs: Sequence[str], device: str
    ) -> Iterator[tuple[str, Call]]:
        definition = self.kernels.registry.definition(op)
        if definition is None:
            return
        for callee, call in calls.dataset_calls(definition, attributes, inputs, device):
            function = self._capture_file.function(callee)
            if function is not None and function.instances:
                arguments = calls.argument_nodes(function.instances[0].input, self._attributes)
                elements = ("",) * (max(arguments, default=-1) + 1 - len(call.arguments))
                yield callee, call._replace(arguments=(*elements, *call.arguments))

    def _calls_within(self, caller: FunctionPlacement) -> Iterator[tuple[str, Call]]:
        """Walk the calls that a placed function makes.

        See `PartitionedCallOp` (core/kernels/partitioned_function_ops.cc): the op's device is the
        default device and the device of its arguments, except for those in host memory.
        """
        graph, devices = caller.placement.nodes.graph, caller.placement.devices
        datasets: set[int] = set()
        for node, callee in calls.calls_of(graph, self._attributes):
            op, device = graph.ops[node], devices[node]
            if not is_dataset(op):
                arguments: tuple[str, ...] = ()
                if op in calls.FORWARDED:
                    inputs = calls.resources_into(graph, node, self._attributes, devices)
                    arguments = inputs[calls.FORWARDED[op] :]
                yield callee, Call(device, arguments, doubt=caller.doubt)
            elif node not in datasets:
                datasets.add(node)
                attributes = self._capture_file.attribute_set(graph.attributes[node])
                inputs = calls.resources_into(graph, node, self._attributes, devices)
                for called, call in self._by_dataset(op, attributes, inputs, device):
                    yield called, call._replace(doubt=caller.doubt)

    def _unknown(self, function: Function) -> tuple[Call, ...]:
        """Return the calls that are possible if none was recorded; the usual one first."""
        if is_session(function.name):
            return (Call(""),)
        if calls.is_of_dataset(function.name):
            return (Call(self.machine.host),)
        devices = (self.machine.devices[0], self.machine.host)[: 2 if self._is_own else 1]
        return tuple(Call(d, doubt=_CALL_NOT_RECORDED) for d in dict.fromkeys(devices))

    def _instances(self, function: Function, made: Sequence[Call]) -> Iterator[FunctionPlacement]:
        """Place a function once for each different call.

        A function is instantiated again for arguments on other devices. These devices show which
        recorded graph belongs to a call; among several, the placed graph decides.
        """
        if is_session(function.name):
            yield from self._of_session(function, made[0])
        elif not self._is_own:
            for call in made if function.instances else ():
                yield self._placed(function, self._recorded_instance(function, call), call)
        else:
            for at, instance in enumerate(function.instances):
                best, fewest = None, len(instance.assigned) + 1
                for call in made:
                    placed = self._placed(function, at, call)
                    pairs = zip(placed.placement.devices.values(), instance.assigned, strict=False)
                    others = sum(theirs not in {"", mine} for mine, theirs in pairs)
                    if others < fewest:
                        best, fewest = placed, others
                    if not fewest:
                        break
                if best is not None:
                    yield best

    def _of_session(self, function: Function, call: Call) -> list[FunctionPlacement]:
        """Place the graphs of sessions in order; a grown graph keeps its earlier placement.

        On the program's own machine, the kept devices were recorded; on another, they are replayed.
        """
        found: list[FunctionPlacement] = []
        requesting = replace(function, instances=calls.with_requests(function.instances))
        for at, first_placed in enumerate(calls.kept_nodes(function.instances)):
            placed = self._placed(requesting, at, call)
            kept = {node: (found[f.instance], f.node) for node, f in first_placed.items()}
            if kept:
                setting, nodes = placed.placement.setting, placed.placement.nodes
                assigned, guessed = dict(setting.assigned), dict(setting.guessed)
                requests = {node: nodes.graph.devices[node] for node in kept}
                for node, (earlier, its) in kept.items():
                    device = earlier.placement.devices[its]
                    if self._is_own:
                        device = function.instances[at].input.devices[node]
                    if device:
                        assigned[node] = device
                    if its in earlier.placement.doubts:
                        guessed[node] = earlier.placement.doubts[its]
                setting = replace(setting, assigned=assigned, guessed=guessed, requests=requests)
                placed = replace(placed, placement=Placement(nodes, setting), kept=kept)
            found.append(placed)
        return found

    def _recorded_instance(self, function: Function, call: Call) -> int:
        if len(function.instances) == 1 or call.signature is None:
            return 0
        bound = [t.device for t in self._capture_file.signatures[call.signature].inputs]
        for at, instance in enumerate(function.instances):
            arguments = calls.argument_nodes(instance.input, self._attributes)
            if all(
                index < len(bound) and instance.input.devices[node] in {bound[index], ""}
                for index, node in arguments.items()
            ):
                return at
        return 0

    def _placed(self, function: Function, at: int, call: Call) -> FunctionPlacement:
        graph = function.instances[at].input
        bound = (
            calls.as_recorded(graph, self._attributes)
            if self._is_own
            else calls.as_bound(graph, self._attributes, call, self.machine)
        )
        # One session with soft placement is enough: graphs that cannot do without it did not run.
        configs = self._capture_file.session_configs if is_session(function.name) else ()
        setting = Setting(
            machine=self.machine,
            default_device=call.default_device,
            soft=any(c.soft_placement for c in configs) if configs else self.eager_setting.soft,
            assigned=bound.devices,
            guessed=dict.fromkeys(bound.guessed, _ARGUMENT_NOT_RECORDED),
        )
        return FunctionPlacement(
            function=function.name,
            instance=at,
            call=call.signature,
            placement=Placement(self._nodes(function, at), setting),
            doubt=call.doubt,
        )

    def _nodes(self, function: Function, at: int) -> Nodes:
        if (function.name, at) not in self._described:
            graph = function.instances[at].input
            if not self._is_own:
                host = self._own_machine.host
                graph = self._read_devices.of_graph(function.name, graph, host)
            self._described[function.name, at] = describe(
                graph, self._attributes, self.kernels.registry, self.eager_setting.functions
            )
        return self._described[function.name, at]
