"""Foretells which nodes an optimizer of the graph takes from a GPU to the host after placement.

See `PinToHostOptimizer::Optimize` (core/grappler/optimizers/pin_to_host_optimizer.cc), which runs
where a program has switched `pin_to_host_optimization` on. From inputs to outputs it moves each
node that the CPU has a kernel for, that has small outputs alone, and whose inputs are small and in
host memory: made by a node on the host, by one that it has moved, or by one whose GPU kernel leaves
that output there. A tensor is small if it is of strings, or if it is known before the graph runs
that it is at most 64 int32, int64 or float.

Constant folding comes before it: what is made of constants alone counts as one. Other optimizers
that come before, and a second round of all, are not replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from traceanalyzer.placement.devices import CPU, GPU, DeviceNameError, parse_device
from traceanalyzer.placement.op_definitions import AttributesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition
    from traceanalyzer.placement.placer import Placement
    from traceanalyzer.placement.registry import Registry
    from traceanalyzer.placement.static_sizes import Sizes

__all__ = ["MOVED_IF_SMALL", "pinned_to_host"]

_MOST_ELEMENTS: Final = 64
_NUMBERS: Final = frozenset({"int32", "int64", "float"})
_STRING: Final = "string"
# The types of which a tensor can be small.
MOVED_IF_SMALL: Final = frozenset({*_NUMBERS, _STRING})
_CONSTANT: Final = "Const"
# `IsDenylisted`, with `IsCollective` and `IsControlFlow` of core/grappler/op_types.cc.
_LEFT_ALONE: Final = frozenset(
    {
        *("CollectiveReduce", "CollectiveBcastSend", "CollectiveBcastRecv"),
        *("ControlTrigger", "Enter", "Exit", "LoopCond", "Merge", "_XlaMerge", "NextIteration"),
        *("Switch", "_SwitchN", "NoOp"),
    }
)
_IDENTITY: Final = frozenset({"Identity", "RefIdentity"})
_BACK: Final = "NextIteration"  # its edge closes a loop
_MOST_FOLLOWED: Final = 100  # ops that pass on what they get; in a damaged graph they may go round

Answer: TypeAlias = "bool | None"  # None: what was recorded does not tell


class _Output(NamedTuple):
    node: int
    port: int


def pinned_to_host(
    placement: Placement,
    attributes: Sequence[Attributes],
    registry: Registry,
    sizes: Sequence[Sizes | None],
    *,
    folds: bool = True,
) -> Mapping[int, bool]:
    """Return the nodes that go from a GPU to the host.

    Args:
        placement: The graph, placed.
        attributes: The pool that the graph's attribute sets are in.
        registry: The kernels of the TensorFlow that runs it.
        sizes: How many elements each output of each node has.
        folds: Whether constants are folded before.

    Returns:
        By node, True where sizes tell that it goes, False where they are missing: it may.
    """
    walk = _Walk(placement, attributes, registry, sizes, folds=folds)
    return walk.moved()


class _Walk:
    """One run over a graph: what it has decided of a node holds for those that come after."""

    def __init__(
        self,
        placement: Placement,
        attributes: Sequence[Attributes],
        registry: Registry,
        sizes: Sequence[Sizes | None],
        *,
        folds: bool,
    ) -> None:
        nodes = placement.nodes
        self._placement = placement
        self._ops = nodes.graph.ops
        self._registry = registry
        self._sizes = sizes
        self._folds = folds
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._kind_of = [
            self._kind(op, at, attributes)
            for op, at in zip(self._ops, nodes.graph.attributes, strict=True)
        ]
        self._sources = [
            [_Output(*source) for source in nodes.graph.sources(at)] for at in range(len(nodes))
        ]
        self._on_host: list[Answer] = [_is_of(device, CPU) for device in placement.devices]
        self._is_constant = [op == _CONSTANT for op in self._ops]
        self._friendly: dict[_Output, Answer] = {}

    def moved(self) -> Mapping[int, bool]:
        """Decide of each node, then whether the constants that were moved stay there."""
        found: dict[int, Answer] = {}
        for at in _inputs_first(self._sources, self._ops):
            if not self._on_host[at]:
                self._on_host[at] = found[at] = self._goes(at)
            self._is_constant[at] = self._is_constant[at] or self._is_folded(at)
            for port in range(len(self._kind_of[at].outputs or ())):
                self._friendly[_Output(at, port)] = self._is_friendly(_Output(at, port))
        for at, wishes in self._wishes().items():
            found[at] = _all((found.get(at, False), *wishes))
        return {at: bool(answer) for at, answer in found.items() if answer is not False}

    def _kind(self, op: str, at: int, attributes: Sequence[Attributes]) -> _Kind:
        found = self._kinds.get((op, at))
        if found is None:
            given = attributes[at] if at >= 0 else {}
            found = self._kinds[op, at] = _Kind.of(self._registry, op, given)
        return found

    def _goes(self, node: int) -> Answer:
        """See `IsNodeHostCandidate`, and `TryFindHostDevice`."""
        kind, device = self._kind_of[node], self._placement.devices[node]
        host = f"{device.rpartition(GPU)[0]}{CPU}:0"
        if not _is_of(device, GPU) or host not in self._placement.setting.machine.devices:
            return False
        if self._ops[node] in _LEFT_ALONE or not kind.has_cpu_kernel:
            return False
        inputs = (self._friendly.get(source) for source in self._sources[node])
        ports = range(len(kind.outputs)) if kind.outputs is not None else (0,)
        return _all((*inputs, *(self._is_small(_Output(node, port)) for port in ports)))

    def _is_folded(self, node: int) -> bool:
        kind, sources = self._kind_of[node], self._sources[node]
        return (
            self._folds
            and bool(sources)
            and kind.is_pure
            and self._ops[node] not in _LEFT_ALONE
            and all(self._is_constant[source.node] for source in sources)
        )

    def _is_small(self, output: _Output) -> Answer:
        """See `IsTensorSmall`. What an Identity passes on is as large as what it gets."""
        for _ in range(_MOST_FOLLOWED):
            types = self._kind_of[output.node].outputs
            if types is None or output.port >= len(types):
                return None
            if types[output.port] == _STRING:
                return True
            if types[output.port] not in _NUMBERS:
                return False
            sizes = self._sizes[output.node]
            size = None if sizes is None or output.port >= len(sizes) else sizes[output.port]
            if size is not None:
                return 0 <= size <= _MOST_ELEMENTS
            sources = self._sources[output.node]
            if self._ops[output.node] not in _IDENTITY or len(sources) != 1:
                return None
            output = sources[0]
        return None

    def _is_friendly(self, output: _Output) -> Answer:
        """See `IsNodeOutputPortHostFriendly`."""
        node, kind = output.node, self._kind_of[output.node]
        if self._ops[node] in _LEFT_ALONE:
            return False
        small = self._is_small(output)
        if self._ops[node] in _IDENTITY or (self._ops[node] == "IdentityN" and kind.is_single):
            return _all((small, *map(self._friendly.get, self._sources[node])))
        if kind.is_output_on_host(output.port) or self._is_constant[node]:
            return small
        return _all((small, self._on_host[node]))

    def _wishes(self) -> Mapping[int, list[Answer]]:
        """Return of each constant whether those that take it want it on the host."""
        found: dict[int, list[Answer]] = {}
        for consumer, sources in enumerate(self._sources):
            for slot, source in enumerate(sources):
                if self._ops[source.node] == _CONSTANT:
                    is_on_host = self._kind_of[consumer].is_input_on_host(slot)
                    wish = True if is_on_host else self._on_host[consumer]
                    found.setdefault(source.node, []).append(wish)
        return found


class _Kind(NamedTuple):
    """What all nodes of one op type with equal attributes have in common.

    Attributes:
        outputs: The types of its outputs; None where they are not known.
        inputs_on_host: Of each input whether its kernel wants it in host memory.
        outputs_on_host: The same of each output.
        has_cpu_kernel: Whether the CPU has a kernel for it.
        is_pure: Whether it has no state, so that it can be folded.
    """

    outputs: tuple[str, ...] | None = None
    inputs_on_host: tuple[bool, ...] = ()
    outputs_on_host: tuple[bool, ...] = ()
    has_cpu_kernel: bool = False
    is_pure: bool = False

    @classmethod
    def of(cls, registry: Registry, op: str, given: Attributes) -> _Kind:
        """Find it. The name of a function is no op: no kernel is registered for it."""
        definition = registry.definition(op)
        on_cpu = registry.find(op, CPU, given)
        if definition is None:
            return cls(has_cpu_kernel=on_cpu is not None)
        known = definition.complete(given)
        # The device's full name is asked for first, as if it were a type: it has no kernels, and so
        # one for all types of devices is found before one for GPUs.
        kernel = registry.find(op, "", known) or registry.find(op, GPU, known) or on_cpu
        on_host = frozenset(() if kernel is None else kernel.host_memory_args)
        try:
            return cls(
                outputs=definition.output_types(known),
                inputs_on_host=_on_host(definition, definition.inputs, known, on_host),
                outputs_on_host=_on_host(definition, definition.outputs, known, on_host),
                has_cpu_kernel=on_cpu is not None,
                is_pure=on_cpu is not None and not definition.is_stateful,
            )
        except AttributesError:  # attributes were not recorded
            return cls(has_cpu_kernel=on_cpu is not None)

    @property
    def is_single(self) -> bool:
        """Whether it has one output."""
        return self.outputs is not None and len(self.outputs) == 1

    def is_input_on_host(self, slot: int) -> bool:
        """See `IsNodeInputPortHostFriendly`."""
        return slot < len(self.inputs_on_host) and self.inputs_on_host[slot]

    def is_output_on_host(self, port: int) -> bool:
        """Return whether the kernel that is found leaves an output in host memory."""
        return port < len(self.outputs_on_host) and self.outputs_on_host[port]


def _on_host(
    definition: OpDefinition,
    arguments: Sequence[Argument],
    attributes: Attributes,
    names: frozenset[str],
) -> tuple[bool, ...]:
    """Return of each tensor of some arguments whether the argument is among those named."""
    return tuple(
        argument.name in names
        for argument in arguments
        for _ in definition.types_of(argument, attributes)
    )


def _is_of(device: str, kind: str) -> bool:
    try:
        return bool(device) and parse_device(device).type == kind
    except DeviceNameError:  # of which the placement tells
        return False


def _all(answers: Iterable[Answer]) -> Answer:
    """Return whether all hold: one that does not decides, one that is not known leaves it open."""
    known = tuple(answers)
    if False in known:
        return False
    return None if None in known else True


def _inputs_first(sources: Sequence[Sequence[_Output]], ops: Sequence[str]) -> list[int]:
    """Return the nodes so that each comes after its sources, but for those that close a loop."""
    order: list[int] = []
    is_seen = [False] * len(sources)
    for start in range(len(sources)):
        left = [(start, False)]
        while left:
            at, is_done = left.pop()
            if is_done:
                order.append(at)
            elif not is_seen[at]:
                is_seen[at] = True
                left.append((at, True))
                left += [(s.node, False) for s in sources[at] if ops[s.node] != _BACK]
    return order
