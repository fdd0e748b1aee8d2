"""Replays the placement of a captured program, on its own machine or on another.

Eager ops are placed first, because they decide where resources are. Then come the functions that
the program calls, each with the devices of its arguments, and last the functions that those call.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, Scope, Signature, Tensor, is_session
from traceanalyzer.capture_file.function_records import Function
from traceanalyzer.placement import calls
from traceanalyzer.placement.calls import Call
from traceanalyzer.placement.devices import Machine, machine_of
from traceanalyzer.placement.eager import (
    EagerInput,
    EagerOp,
    EagerSetting,
    pins_small,
    place_eager,
)
from traceanalyzer.placement.nodes import Nodes, describe, is_dataset
from traceanalyzer.placement.placer import Placement, Setting
from traceanalyzer.placement.registry import registry_of
from traceanalyzer.placement.scopes import ReadDevices

_CALL_NOT_RECORDED: Final = "the call of its function was not recorded"
_ARGUMENT_NOT_RECORDED: Final = "the device of this argument was not recorded"
_KEPT_ELSEWHERE: Final = "an earlier run of the session placed it elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionPlacement:
    """The placement of one graph of a function."""

    function: str
    instance: int  #: the recorded instantiation that the graph belongs to
    call: int | None  #: the signature that calls it; None for a function or an unknown call
    placement: Placement
    doubt: str  #: why something about its call is unknown, or ""


class ProgramPlacement:
    """The placement of a program: resources are placed before functions, callers before callees."""

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine | None = None,
        as_recorded: frozenset[Scope] = frozenset(),
    ) -> None:
        """Place a program, by default on its own machine, with some requests as recorded."""
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
            capture_file=capture_file,
            machine=self.machine,
            resources=self.resources,
            place=lambda maker: place_eager(self._op(maker), self.eager_setting).device,
            as_recorded=as_recorded,
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

        for at, signature in enumerate(self._capture_file.signatures):
            if signature.is_function:
                add([(signature.op, self._call_of(at, signature))])
            elif is_dataset(signature.op):
                given = self.eager_ops[at].inputs
                inputs = [each.device if each.dtype == "resource" else "" for each in given]
                device = self.eager[at].device
                add(self._by_dataset(signature.op, signature.attributes, inputs, device))
        placed: dict[str, tuple[FunctionPlacement, ...]] = {}
        for function in calls.callers_first(self._capture_file):
            called = known.get(function.name) or known.get(calls.called_as(function.name), {})
            of_function = tuple(called.values()) or self._unknown(function)
            placed[function.name] = tuple(self._instances(function, of_function))
            for each in placed[function.name]:
                add(self._calls_within(each))
        return placed

    def _call_of(self, at: int, signature: Signature) -> Call:
        """Return the program's call of a function, with the devices of the arguments.

        An argument is where its resource or tensor is, or on the host if it must be in host memory.
        See `GetDeviceForInput` (core/common_runtime/eager/execute.cc).
        """
        devices, guessed = [], set()
        given = self.eager_ops[at].inputs
        for index, (tensor, known) in enumerate(zip(signature.inputs, given, strict=True)):
            device = known.device
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
        where = self.eager[at]
        return Call(where.device, tuple(devices), frozenset(guessed), at, where.doubt)

    def _by_dataset(
        self, op: str, attributes: int, inputs: Sequence[str], device: str
    ) -> Iterator[tuple[str, Call]]:
        file, definition = self._capture_file, self.kernels.registry.definition(op)
        known = file.attribute_set(attributes)
        return calls.dataset_calls(file, definition, known, inputs, device)

    def _calls_within(self, caller: FunctionPlacement) -> Iterator[tuple[str, Call]]:
        """Yield the name and the call of each function that a placed function calls.

        The calling op's device is the call's default device, and the device of arguments outside
        host memory. See `PartitionedCallOp` (core/kernels/partitioned_function_ops.cc).
        """
        graph, devices = caller.placement.nodes.graph, caller.placement.devices
        for node, callees in calls.calls_of(graph, self._attributes):
            op, device = graph.ops[node], devices[node]
            inputs = calls.resources_into(graph, node, self._attributes, devices)
            if is_dataset(op):
                found = self._by_dataset(op, graph.attributes[node], inputs, device)
            else:
                arguments = inputs[calls.FORWARDED[op] :] if op in calls.FORWARDED else ()
                found = ((callee, Call(device, arguments)) for callee in callees)
            yield from ((callee, call._replace(doubt=caller.doubt)) for callee, call in found)

    def _unknown(self, function: Function) -> tuple[Call, ...]:
        """Return the possible calls of a function without a recorded call, most common first."""
        if is_session(function.name):
            return (Call(""),)
        if calls.is_of_dataset(function.name):
            return (Call(self.machine.host),)
        devices = (self.machine.devices[0], self.machine.host)[: 2 if self._is_own else 1]
        return tuple(Call(d, doubt=_CALL_NOT_RECORDED) for d in dict.fromkeys(devices))

    def _instances(self, function: Function, made: Sequence[Call]) -> Iterator[FunctionPlacement]:
        """Place a function once for each distinct call.

        On the program's own machine, use the call that matches an instance's recording best.
        """
        if is_session(function.name):
            yield from self._of_session(function, made[0])
        elif not self._is_own:
            for call in made if function.instances else ():
                yield self._placed(function, 0, call)
        else:
            for at, instance in enumerate(function.instances):
                found: list[tuple[int, FunctionPlacement]] = []
                for placed in (self._placed(function, at, call) for call in made):
                    found.append((_differing(placed, instance.assigned), placed))
                    if not found[-1][0]:
                        break
                yield min(found, key=lambda each: each[0])[1]

    def _of_session(self, function: Function, call: Call) -> list[FunctionPlacement]:
        """Place a session's graphs. When a graph grows, its old nodes keep their devices."""
        found: list[FunctionPlacement] = []
        requesting = replace(function, instances=calls.with_requests(function.instances))
        for at, kept in enumerate(calls.kept_nodes(function.instances)):
            placed = self._placed(requesting, at, call)
            new = placed.placement
            moved = [
                node
                for node, (earlier, its) in kept.items()
                if found[earlier].placement.devices[its] != new.devices[node]
            ]
            if moved:
                setting = replace(new.setting, guessed=dict.fromkeys(moved, _KEPT_ELSEWHERE))
                placed = replace(placed, placement=Placement(new.nodes, setting))
            found.append(placed)
        return found

    def _placed(self, function: Function, at: int, call: Call) -> FunctionPlacement:
        name, graph, attributes = function.name, function.instances[at].input, self._attributes
        requests: dict[int, str] = {}
        if self._is_own:
            devices, guessed = calls.as_recorded(graph)
        else:
            devices, guessed = calls.as_bound(graph, attributes, call, self.machine)
            # The recorded device of an argument or result is not a request.
            requests = dict.fromkeys(calls.bound_nodes(graph) - devices.keys(), "")
        if (name, at) not in self._described:
            if not self._is_own:
                graph = self._read_devices.of_graph(name, graph, self._own_machine.host)
            registry, functions = self.kernels.registry, self.eager_setting.functions
            self._described[name, at] = describe(graph, attributes, registry, functions)
        # One session with soft placement is enough: graphs that cannot do without it did not run.
        configs = self._capture_file.session_configs if is_session(name) else ()
        setting = Setting(
            machine=self.machine,
            default_device=call.default_device,
            soft=any(c.soft_placement for c in configs) if configs else self.eager_setting.soft,
            assigned=devices,
            requests=requests,
            guessed=dict.fromkeys(guessed, _ARGUMENT_NOT_RECORDED),
        )
        return FunctionPlacement(
            function=name,
            instance=at,
            call=call.signature,
            placement=Placement(self._described[name, at], setting),
            doubt=call.doubt,
        )


def _differing(placed: FunctionPlacement, assigned: Sequence[str]) -> int:
    pairs = zip(placed.placement.devices.values(), assigned, strict=False)
    return sum(recorded not in {"", device} for device, recorded in pairs)
