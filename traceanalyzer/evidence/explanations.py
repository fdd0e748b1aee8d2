"""The cases: each op that is on the CPU, and what is known to keep it from a GPU.

With a capture the placement is replayed, and what holds an op is found by trying what would happen
without. From a trace alone the kernel registry answers, as far as the types of the op are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.evidence.recorded_blockers import BlockerRecords, RecordedBlocker
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder
from traceanalyzer.placement.devices import CPU, GPU, parse_device
from traceanalyzer.placement.eager_blockers import eager_blockers
from traceanalyzer.placement.grown_graphs import newest
from traceanalyzer.placement.kernels import DEFAULT
from traceanalyzer.placement.op_definitions import InputTypesError
from traceanalyzer.placement.pinning import pinned_of
from traceanalyzer.placement.program import place_program
from traceanalyzer.placement.reasons import Reasons
from traceanalyzer.placement.registry import nearest
from traceanalyzer.placement.rewrites import RUNTIMES_OWN, original
from traceanalyzer.placement.support import support_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.model import Certainty
    from traceanalyzer.placement.devices import Machine
    from traceanalyzer.placement.kernels import Kernel
    from traceanalyzer.placement.program import FunctionPlacement, ProgramPlacement
    from traceanalyzer.placement.registry import Nearest, Registry
    from traceanalyzer.placement.supported_types import SupportedTypes
    from traceanalyzer.tables.joined import OpRecord

__all__ = [
    "Basis",
    "PlacementExplanation",
    "ReplayedExplanations",
    "doubted",
    "explanation_by_registry",
    "without_copies",
]

_BY_REQUEST: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE})
# See `InlineFunctionBody` (core/common_runtime/inline_function_utils.cc).
_END: Final = re.compile(r"Func/.*/(?:input|output)/_\d+$")
_DISAGREES: Final = "a replay on its own machine does not give what was recorded"
_CALLS_DIFFER: Final = "calls of it are not all held alike"
_OTHER_OPTIMIZERS: Final = "other optimizers may change the graph before, which are not replayed"
_SIZES_MISSING: Final = (
    "that depends on shapes which are not known from the capture: TensorFlow may move it there"
)
# What a case rests on: a replay of the placement; the kernel registry; nothing.
Basis: TypeAlias = Literal["replay", "registry", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementExplanation:
    """What is known to keep an op from a GPU.

    Attributes:
        type: The op type as the program has it: what rewrites stand for is found again.
        blockers: What keeps it on the CPU, the first to bite first. Each alone keeps it. Empty if
            nothing known does.
        follows: Names of the nodes that it follows, the next one first.
        basis: What that rests on.
        certainty: How sure it is.
        doubt: Why it is not certain, or "".
        contradiction: What the replay says against what was seen, or "".
        types_missing: Types of data with which the op has no GPU kernel, where those of the op are
            not known: each a possible cause.
        is_complete: Whether a replay puts the op on a GPU without what keeps it: nothing else does.
        kernels: The types of devices that have a kernel for the op with its attributes; None where
            no replay tells.
        library: The line of a library that made the op; None where the program's own code did, or
            it was not recorded.
    """

    type: str
    blockers: tuple[RecordedBlocker, ...] = ()
    follows: tuple[str, ...] = ()
    basis: Basis = "none"
    certainty: Certainty = "possible"
    doubt: str = ""
    contradiction: str = ""
    types_missing: tuple[str, ...] = ()
    is_complete: bool = False
    kernels: tuple[str, ...] | None = None
    library: Frame | None = None


class _Blocking(NamedTuple):
    """What holds a node of a graph.

    Attributes:
        blockers: What does, in the order in which it bites.
        follows: The nodes that it follows.
        is_complete: Whether the node moves without all that.
        doubt: What is not sure about an earlier graph that placed a part of this one, or "".
    """

    blockers: tuple[RecordedBlocker, ...]
    follows: tuple[str, ...]
    is_complete: bool
    doubt: str


class ReplayedExplanations:
    """Finds cases in a replayed program.

    Attributes:
        program: The program, on the machine in question.
    """

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine | None = None,
        *,
        unsure_as_recorded: bool = False,
    ) -> None:
        """Replay a program.

        Args:
            capture_file: What was captured of it.
            machine: The machine in question; None for its own, where the replay must give what was
                recorded.
            unsure_as_recorded: See `place_program`.
        """
        self._capture_file = capture_file
        self._is_own = machine is None
        self.program: ProgramPlacement = place_program(
            capture_file, machine, unsure_as_recorded=unsure_as_recorded
        )
        self._recorded = self.program if self._is_own else place_program(capture_file)
        self._blockers = BlockerRecords(capture_file, self.program.kernels.registry)
        self._finders: dict[int, tuple[BlockerFinder, Reasons]] = {}
        self._pinned: dict[int, Mapping[int, bool]] = {}
        self._ways: dict[str, list[FunctionPlacement]] = {}

    def of(self, op_type: str, record: OpRecord) -> PlacementExplanation | None:
        """Return the case of an op, or None where the replay does not put it on the CPU.

        An op that calls placed differently is on the CPU if any of them puts it there; where they
        do not all hold it alike, what holds it in one of them is not certain for the op.

        Args:
            op_type: Its type, as the trace has it.
            record: Its record in the capture file.
        """
        if record.signatures:
            found = [self._of_signature(number) for number in record.signatures]
        else:
            ways = self._ways_of(record)
            found = [self._of_node(way, record.node) for way in ways]
            if self.program.functions.get(record.function) and not ways:
                return PlacementExplanation(
                    type=op_type, doubt="its node is not in the graph that was recorded"
                )
        on_cpu = [explanation for explanation in found if explanation is not None]
        if on_cpu:
            most = max(on_cpu, key=lambda explanation: len(explanation.blockers))
            is_one = all(
                explanation is not None and explanation.blockers == most.blockers
                for explanation in found
            )
            return most if is_one else doubted(most, _CALLS_DIFFER)
        if not found:
            return PlacementExplanation(type=op_type, doubt="the graph it is in was not recorded")
        return None

    def on_host(self, record: OpRecord) -> PlacementExplanation | None:
        """Return the case of an op that is on a GPU and computed on the host, in each of its calls.

        Args:
            record: Its record in the capture file.

        Returns:
            None for any other op.
        """
        if record.signatures:
            found = [self._signature_on_host(number) for number in record.signatures]
        else:
            found = [self._node_on_host(way, record.node) for way in self._ways_of(record)]
        explanations = [explanation for explanation in found if explanation is not None]
        if not explanations or len(explanations) < len(found):
            return None
        return max(explanations, key=lambda explanation: bool(explanation.doubt))

    def _ways_of(self, record: OpRecord) -> list[FunctionPlacement]:
        """Return the placements of the graphs that hold a node.

        Of a session's graph that grew, only the newest counts.
        """
        function = record.function
        if function not in self._ways:
            ways = self.program.functions.get(function, ())
            graphs = [way.placement.nodes.graph for way in ways]
            left = newest(graphs) if is_session(function) else range(len(ways))
            self._ways[function] = [ways[at] for at in left]
        return [
            way for way in self._ways[function] if way.placement.nodes.graph.index(record.node) >= 0
        ]

    def _signature_on_host(self, number: int) -> PlacementExplanation | None:
        placed = self.program.eager[number]
        if not placed.device or parse_device(placed.device).type != GPU:
            return None
        signature = self._capture_file.signatures[number]
        held = self._blockers.in_host_memory_eager(signature, placed.device)
        return None if held is None else self._on_host(held, placed.support, placed.doubt)

    def _node_on_host(self, way: FunctionPlacement, name: str) -> PlacementExplanation | None:
        placement = way.placement
        node = placement.nodes.graph.index(name)
        if node < 0 or not placement.devices[node]:
            return None
        if parse_device(placement.devices[node]).type != GPU:
            return None
        held = self._blockers.in_host_memory(way, node)
        if held is None:
            return None
        _, reasons = self._tools(way)
        doubt = reasons.doubt(node) or way.doubt or self._disagreement(way, node)
        return self._on_host(held, placement.nodes.support[node], doubt)

    def _on_host(
        self, held: RecordedBlocker, support: SupportedTypes, doubt: str
    ) -> PlacementExplanation:
        return PlacementExplanation(
            type=held.type,
            blockers=(held,),
            basis="replay",
            certainty=self._certainty(doubt, is_complete=True),
            doubt=doubt,
            kernels=tuple(kind for kind, _ in support.types),
        )

    def _of_signature(self, number: int) -> PlacementExplanation | None:
        placed = self.program.eager[number]
        signature = self._capture_file.signatures[number]
        if not placed.device or parse_device(placed.device).type != CPU:
            return None
        blocking = eager_blockers(self.program.eager_ops[number], self.program.eager_setting)
        seen = {t.device for t in signature.outputs} or {placed.device}
        contradiction = ""
        if self._is_own and placed.device not in seen:
            contradiction = f"a replay puts it on {placed.device}, it ran on {', '.join(seen)}"
        return PlacementExplanation(
            type=signature.op,
            blockers=tuple(
                h for b in blocking.found for h in self._blockers.of_eager(signature, b)
            ),
            basis="replay",
            certainty=self._certainty(placed.doubt, is_complete=blocking.is_complete),
            doubt=placed.doubt,
            contradiction=contradiction,
            is_complete=blocking.is_complete,
            kernels=tuple(kind for kind, _ in placed.support.types),
            library=self._capture_file.frame(signature.library),
        )

    def _of_node(self, way: FunctionPlacement, name: str) -> PlacementExplanation | None:
        placement = way.placement
        node = placement.nodes.graph.index(name)
        if not placement.devices[node] or parse_device(placement.devices[node]).type != CPU:
            return None if self._is_own else self._of_pinned(way, node)
        _, reasons = self._tools(way)
        blocking = self._blocking(way, node)
        disagreement = self._disagreement(way, node)
        doubt = reasons.doubt(node) or way.doubt or disagreement or blocking.doubt
        return PlacementExplanation(
            type=placement.nodes.graph.ops[node],
            blockers=without_copies(blocking.blockers),
            follows=blocking.follows,
            basis="replay",
            certainty=self._certainty(doubt, is_complete=blocking.is_complete),
            doubt=doubt,
            contradiction=disagreement if self._is_own and disagreement == _DISAGREES else "",
            is_complete=blocking.is_complete,
            kernels=tuple(kind for kind, _ in placement.nodes.support[node].types),
            library=self._blockers.library_of(way, node),
        )

    def _blocking(self, way: FunctionPlacement, node: int) -> _Blocking:
        """Find what holds a node; for a device kept from an earlier graph, what held it there."""
        finder, _ = self._tools(way)
        own = finder.of(node)
        held: list[RecordedBlocker] = []
        follows = [way.placement.nodes.graph.names[f] for f in own.follows]
        is_complete, doubt = own.is_complete, ""
        for blocker in own.found:
            if blocker.kind is not BlockerKind.ASSIGNED or blocker.node not in way.kept:
                held += self._blockers.of_node(way, node, blocker)
                continue
            earlier, at = way.kept[blocker.node]
            before = self._blocking(earlier, at)
            link = self._blockers.link(way, node, blocker.node)
            held += (
                before.blockers
                if link == "own"
                else [replace(h, link=link) for h in before.blockers]
            )
            follows += before.follows
            is_complete &= before.is_complete
            doubt = doubt or self._disagreement(earlier, at) or before.doubt
        return _Blocking(tuple(held), tuple(follows), is_complete, doubt)

    def _of_pinned(self, way: FunctionPlacement, node: int) -> PlacementExplanation | None:
        """Return the case of a node that an optimizer of the graph takes to the host afterwards.

        On the program's own machine that was seen, and need not be foretold.
        """
        if id(way) not in self._pinned:
            registry = self.program.kernels.registry
            self._pinned[id(way)] = pinned_of(self._capture_file, way, registry)
        is_known = self._pinned[id(way)].get(node)
        if is_known is None:
            return None
        nodes = way.placement.nodes
        return PlacementExplanation(
            type=nodes.graph.ops[node],
            blockers=tuple(
                self._blockers.of_node(way, node, Blocker(kind=BlockerKind.OPTIMIZER, node=node)),
            ),
            basis="replay",
            certainty="likely" if is_known else "possible",
            doubt=_OTHER_OPTIMIZERS if is_known else _SIZES_MISSING,
            is_complete=True,
            kernels=tuple(kind for kind, _ in nodes.support[node].types),
            library=self._blockers.library_of(way, node),
        )

    def _disagreement(self, way: FunctionPlacement, node: int) -> str:
        """Return where the replay on the program's own machine is not what was recorded."""
        function = self._capture_file.function(way.function)
        recorded = self._recorded.functions.get(way.function, ())
        own = next((w for w in recorded if w.instance == way.instance), None)
        if function is None or own is None:
            return "its placement was not recorded"
        assigned = function.instances[way.instance].assigned
        if not assigned or own.placement.devices[node] != assigned[node]:
            return _DISAGREES
        return ""

    def _certainty(self, doubt: str, *, is_complete: bool) -> Certainty:
        is_sure = is_complete and not doubt and self.program.kernels.exact
        return "certain" if is_sure else "likely"

    def _tools(self, way: FunctionPlacement) -> tuple[BlockerFinder, Reasons]:
        key = id(way)
        if key not in self._finders:
            self._finders[key] = (BlockerFinder(way.placement, GPU), Reasons(way.placement))
        return self._finders[key]


def without_copies(held: Sequence[RecordedBlocker]) -> tuple[RecordedBlocker, ...]:
    """Leave out requests that `colocate_with` copied from a node that is there with its own.

    They are gone with that one: all that an optimizer makes for a variable has the request of the
    variable, and is no further cause. Nor is what TensorFlow puts at the ends of a function that it
    inlines, which asks for what the nodes there ask for; nor what `tf.group` makes for ops of one
    device, which asks for that device (`group`, python/ops/control_flow_ops.py).
    """
    held = [h for h in held if not _groups_others(h)] or held
    asking = [h for h in held if h.kind in _BY_REQUEST and not _END.match(h.name)]
    own = {(h.function, h.name) for h in asking if not h.copied_from}
    asked = {h.requested_device for h in asking}
    has_resource = any(h.link == "resource" for h in held)
    return tuple(
        h
        for h in held
        if (h.function, h.copied_from) not in own
        and not (
            h.kind is BlockerKind.REQUEST and _END.match(h.name) and h.requested_device in asked
        )
        and not (has_resource and _reads_handle(h))
    )


def _reads_handle(blocker: RecordedBlocker) -> bool:
    """Return whether a request is for the device of a variable's handle: gone where that is.

    A variable's initial value is assigned in a scope of `handle.device`
    (python/ops/resource_variable_ops.py, `_init_from_args`).
    """
    frame = blocker.scope_frame
    return (
        blocker.kind is BlockerKind.REQUEST
        and blocker.link == "own"
        and frame is not None
        and not frame.is_user
        and frame.file.endswith("tensorflow/python/ops/resource_variable_ops.py")
    )


def _groups_others(blocker: RecordedBlocker) -> bool:
    """Return whether this is a request of a node that does nothing, which no user's line made."""
    by_user = blocker.scope_frame is not None and blocker.scope_frame.is_user
    return blocker.type == "NoOp" and blocker.kind is BlockerKind.REQUEST and not by_user


def doubted(
    explanation: PlacementExplanation, doubt: str, certainty: Certainty = "likely"
) -> PlacementExplanation:
    """Return a case that is at most as sure, if there is a doubt; the graver one stays."""
    if not doubt:
        return explanation
    if certainty == "possible" != explanation.certainty:
        return replace(explanation, certainty=certainty, doubt=doubt)
    least: Certainty = "likely" if explanation.certainty == "certain" else explanation.certainty
    return replace(explanation, certainty=least, doubt=explanation.doubt or doubt)


def explanation_by_registry(
    op_type: str, input_types: Sequence[str] | None, version: str | None
) -> PlacementExplanation:
    """Return what the kernel registry alone tells of an op that ran on the CPU.

    Args:
        op_type: Its type, as the trace has it.
        input_types: The types of its inputs, as the capture file names them; None where not known.
        version: TensorFlow's version, or None.
    """
    kernels = nearest(version)
    rewritten = original(op_type)
    types = rewritten.ops if rewritten is not None else (op_type,)
    if rewritten is not None and not rewritten.is_complete:
        return PlacementExplanation(type=types[0] if types else op_type)
    if len(types) != 1 or op_type in RUNTIMES_OWN:
        return PlacementExplanation(type=types[0] if types else op_type)
    if rewritten is not None:
        explanation = _by_registry(types[0], None, kernels)
        taken = _types_taken(kernels.registry, op_type)
        left = (
            tuple(t for t in explanation.types_missing if t in taken)
            if taken
            else explanation.types_missing
        )
        return replace(explanation, types_missing=left)
    return _by_registry(op_type, input_types, kernels)


def _types_taken(registry: Registry, op_type: str) -> frozenset[str]:
    """Return the types that kernels of a rewritten op name: it was made of data of these alone.

    oneDNN and grappler rewrite what their own kernels can compute (`IsOpSupported` and the like,
    mkl_layout_pass.cc; remapper.cc).
    """
    kernels = registry.kernels(op_type)
    named = [k.constraints.get("T") for k in kernels]
    if not all(named):
        return frozenset()
    return frozenset(str(t) for types in named for t in types or ())


def _by_registry(
    op_type: str, input_types: Sequence[str] | None, kernels: Nearest
) -> PlacementExplanation:
    registered = kernels.registry.kernels(op_type)
    usable = [k for k in registered if k.device_type in {GPU, DEFAULT}]
    blocker: RecordedBlocker | None = None
    if registered and not usable:
        blocker = RecordedBlocker(kind=BlockerKind.NO_KERNEL, link="own", type=op_type)
    elif usable and input_types is not None:
        blocker = _by_types(kernels.registry, op_type, input_types, usable)
    elif usable:
        return PlacementExplanation(
            type=op_type, types_missing=tuple(_without_gpu_kernel(kernels, op_type))
        )
    if blocker is None:
        return PlacementExplanation(type=op_type)
    return PlacementExplanation(
        type=op_type, blockers=(blocker,), basis="registry", certainty=kernels.proof.certainty
    )


def _by_types(
    registry: Registry, op_type: str, input_types: Sequence[str], usable: Sequence[Kernel]
) -> RecordedBlocker | None:
    """Return the types that no GPU kernel takes; other attributes may have any value."""
    definition = registry.definition(op_type)
    if definition is None:
        return None
    try:
        known = definition.attributes_of_inputs(input_types)
    except InputTypesError:
        return None
    refusals = [[name for name in k.mismatches(known) if name in known] for k in usable]
    if not all(refusals):
        return None
    refused = min(refusals, key=len)
    return RecordedBlocker(
        kind=BlockerKind.ATTRIBUTES,
        link="own",
        type=op_type,
        attributes={name: known[name] for name in refused},
    )


def _without_gpu_kernel(kernels: Nearest, op_type: str) -> Iterator[str]:
    """Walk the types of data with which an op has CPU kernels alone, each once.

    Where a kernel takes any type (Cast on a CPU), those count that are named somewhere: to be taken
    is not to be computed.
    """
    support = support_of(kernels.registry, op_type)
    if support is None:
        return
    found = {
        dtype
        for name in support.main
        for dtype, extent in support.types[name].items()
        if extent.gpu == "none" and extent.cpu != "none" and dtype in support.named[name]
    }
    yield from sorted(found)
