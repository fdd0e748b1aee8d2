"""Explains why CPU ops of a captured program are not on a GPU, by replaying their placement.

Blockers are found by replaying the placement again without them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from traceanalyzer.capture_file.document import CaptureFile, Frame, Scope, is_session
from traceanalyzer.model import Certainty
from traceanalyzer.placement.blocker import BY_REQUEST, Blocker, BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder, Blockers, eager_blockers
from traceanalyzer.placement.calls import newest
from traceanalyzer.placement.devices import CPU, GPU, Machine, is_of_type
from traceanalyzer.placement.host_copies import HostCopies, copies_of
from traceanalyzer.placement.program import FunctionPlacement, ProgramPlacement
from traceanalyzer.placement.recorded_blockers import BlockerRecords, Site
from traceanalyzer.placement.registry import SupportedTypes

# See `InlineFunctionBody` (core/common_runtime/inline_function_utils.cc).
_END: Final = re.compile(r"Func/.*/(?:input|output)/_\d+$")
_RESOURCE_CODE: Final = "tensorflow/python/ops/resource_variable_ops.py"
_DISAGREES: Final = "a replay on the program's own machine does not match the recorded placement"
_INITIAL: Final = "/Assign"  # ends the name of that assignment in a graph
CALLS_DIFFER: Final = "its calls do not all have the same blockers"
BY_STRATEGY: Final = "a tf.distribute strategy may have requested the device"
# The basis of an explanation: a replay of the placement; the kernel registry; what other ops of
# the trace show; nothing.
Basis: TypeAlias = Literal["replay", "registry", "inference", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementExplanation:
    """The known blockers of an op, and how certain they are."""

    type: str  #: the op type as the program has it, before rewrites
    #: Blockers in the order in which they take effect; each alone keeps the op on the CPU.
    blockers: tuple[Blocker, ...] = ()
    follows: tuple[str, ...] = ()  #: names of the nodes that it follows, the next one first
    basis: Basis = "none"
    certainty: Certainty = "possible"
    doubt: str = ""  #: why it is not certain, or ""
    inferred_from: str = ""  #: what in the trace shows it, if it is an inference
    habit: str = ""  #: id of library code that is known to do this; see `scopes.habit_of`
    contradiction: str = ""  #: how the replay contradicts what was recorded, or ""
    #: If the op's types are unknown: the data types for which it has no GPU kernel.
    types_missing: tuple[str, ...] = ()
    #: Whether a replay puts the op on a GPU without the blockers: nothing else keeps it off.
    is_complete: bool = False
    kernels: tuple[str, ...] | None = None  #: types of devices with a kernel; None if unknown
    library: Frame | None = None  #: the library line that created it; None for the program's code


class RecordedOp(Protocol):
    """An op's record in a capture file: an eager op's signatures, or a function and a node."""

    @property
    def signatures(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def function(self) -> str: ...  # noqa: D102
    @property
    def node(self) -> str: ...  # noqa: D102


class _ReplayedCall(NamedTuple):
    """One replayed call of an op, either an eager op or a node of a placed graph."""

    site: Site
    device: str
    support: SupportedTypes
    doubt: str
    contradiction: str
    blockers: Callable[[], Blockers]


class ReplayedExplanations:
    """Explains ops by replaying their placement, by default on the program's own machine."""

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine | None = None,
        as_recorded: frozenset[Scope] = frozenset(),
    ) -> None:
        self._capture_file = capture_file
        self._is_own = machine is None
        self.program = ProgramPlacement(capture_file, machine, as_recorded)
        self._recorded = self.program if self._is_own else ProgramPlacement(capture_file)
        self._records = BlockerRecords(capture_file, self.program.kernels.registry)
        self._finders: dict[int, BlockerFinder] = {}
        self._instances: dict[str, list[FunctionPlacement]] = {}
        self._borders: dict[int, frozenset[int]] = {}

    def of(self, op_type: str, record: RecordedOp) -> PlacementExplanation | None:
        """Explain an op, or return None if the replay does not put it on the CPU.

        The op counts as on the CPU if any of its calls is. Its blockers are certain only if all
        calls have the same blockers.
        """
        calls = self._calls(record)
        if not calls:
            is_known = bool(self.program.functions.get(record.function))
            doubt = "its node is not in the recorded graph"
            doubt = doubt if is_known else "its graph was not recorded"
            return PlacementExplanation(type=op_type, doubt=doubt)
        on_cpu = [
            self._explained(call, call.blockers()) for call in calls if is_of_type(call.device, CPU)
        ]
        if not on_cpu:
            return None
        most = max(on_cpu, key=lambda explanation: len(explanation.blockers))
        is_one = len(on_cpu) == len(calls) and {each.blockers for each in on_cpu} == {most.blockers}
        return most if is_one else doubted(most, CALLS_DIFFER)

    def is_at_border(self, record: RecordedOp) -> bool:
        """Return whether a node exchanges values with a node on another device."""
        self._calls(record)
        for placed in self._instances.get(record.function, ()):
            placement = placed.placement
            graph, devices = placement.nodes.graph, placement.devices
            if id(placed) not in self._borders:
                edges = (
                    (at, source) for at in range(len(graph)) for source, _ in graph.sources(at)
                )
                across = (edge for edge in edges if devices[edge[0]] != devices[edge[1]])
                self._borders[id(placed)] = frozenset(node for edge in across for node in edge)
            if graph.index(record.node) in self._borders[id(placed)]:
                return True
        return False

    def on_host(self, record: RecordedOp) -> PlacementExplanation | None:
        """Explain an op that is placed on a GPU in all its calls but computed on the host."""
        calls = self._calls(record)
        found = []
        for call in calls:
            is_on_gpu = is_of_type(call.device, GPU)
            if is_on_gpu and (blocker := self._records.in_host_memory(call.site, call.device)):
                only = Blockers(found=(blocker,), is_complete=True)
                found.append(replace(self._explained(call, only), library=None))
        is_every = bool(found) and len(found) == len(calls)
        return max(found, key=lambda each: bool(each.doubt)) if is_every else None

    def copies(self) -> Iterator[HostCopies]:
        """Yield the copies between GPU and host memory that each function makes in each call."""
        capture_file, registry = self._capture_file, self.program.kernels.registry
        for name, every in self.program.functions.items():
            function = capture_file.function(name)
            for placed in every if function is not None and not is_session(name) else ():
                own = function.instances[placed.instance] if function and self._is_own else None
                partitions = () if own is None else own.partitions
                found = copies_of(placed, capture_file.attributes, registry, partitions)
                if found is None:
                    continue
                graph = placed.placement.nodes.graph
                sites = [
                    self._records.node_site(placed, graph.index(n)) for n in sorted(found.nodes)
                ]
                frames = dict.fromkeys(site.frame for site in sites if site.frame is not None)
                inexact = "" if self.program.kernels.exact else "its kernels are not known exactly"
                yield replace(
                    found,
                    frames=tuple(sorted(frames, key=lambda frame: (frame.file, frame.line))),
                    is_of_library=any(site.library is not None for site in sites),
                    doubt=found.doubt or inexact,
                )
                break  # other calls of the function differ little

    def _explained(self, call: _ReplayedCall, found: Blockers) -> PlacementExplanation:
        # Wherever it was called, an op without any GPU kernel is on the CPU.
        kinds = {(blocker.kind, blocker.link) for blocker in found.found}
        is_certain = kinds == {(BlockerKind.NO_KERNEL, "own")} and not call.contradiction
        doubt = "" if is_certain and found.is_complete else call.doubt
        is_sure = found.is_complete and not doubt and self.program.kernels.exact
        return PlacementExplanation(
            type=call.site.type,
            blockers=found.found,
            follows=found.follows,
            is_complete=found.is_complete,
            basis="replay",
            certainty="certain" if is_sure else "likely",
            doubt=doubt,
            contradiction=call.contradiction,
            kernels=call.support.names,
            library=call.site.library,
        )

    def _calls(self, record: RecordedOp) -> list[_ReplayedCall]:
        """Return the calls of an eager op, or of a node in all instances of its function.

        If a session's graph grew, only the newest graph counts.
        """
        if record.signatures:
            return [self._eager_call(number) for number in record.signatures]
        function = record.function
        if function not in self._instances:
            placed = self.program.functions.get(function, ())
            graphs = [each.placement.nodes.graph for each in placed]
            left = newest(graphs) if is_session(function) else range(len(placed))
            self._instances[function] = [placed[at] for at in left]
        found = [(p, p.placement.nodes.graph.index(record.node)) for p in self._instances[function]]
        return [self._node_call(placed, node) for placed, node in found if node >= 0]

    def _eager_call(self, number: int) -> _ReplayedCall:
        placed, program = self.program.eager[number], self.program
        signature = self._capture_file.signatures[number]
        seen = {tensor.device for tensor in signature.outputs} or {placed.device}
        differs = f"a replay puts it on {placed.device}, but it ran on {' and '.join(seen)}"

        def blockers() -> Blockers:
            found = eager_blockers(program.eager_ops[number], program.eager_setting)
            recorded = (r for b in found.found for r in self._records.of_eager(signature, b))
            return replace(found, found=tuple(recorded))

        return _ReplayedCall(
            site=self._records.eager_site(signature),
            device=placed.device,
            support=placed.support,
            doubt=placed.doubt,
            contradiction=differs if self._is_own and placed.device not in seen else "",
            blockers=blockers,
        )

    def _node_call(self, placed: FunctionPlacement, node: int) -> _ReplayedCall:
        placement, disagreement = placed.placement, self._disagreement(placed, node)

        def blockers() -> Blockers:
            if id(placed) not in self._finders:
                self._finders[id(placed)] = BlockerFinder(placement)
            found = self._finders[id(placed)].of(node)
            recorded = (r for b in found.found for r in self._records.of_node(placed, node, b))
            return replace(found, found=without_copies(tuple(recorded)))

        return _ReplayedCall(
            site=self._records.node_site(placed, node),
            device=placement.devices[node],
            support=placement.nodes.support[node],
            doubt=placement.doubts.get(node) or placed.doubt or disagreement,
            contradiction=disagreement if self._is_own and disagreement == _DISAGREES else "",
            blockers=blockers,
        )

    def _disagreement(self, placed: FunctionPlacement, node: int) -> str:
        """Return how a replay on the program's own machine contradicts the recording, or ""."""
        function = self._capture_file.function(placed.function)
        recorded = self._recorded.functions.get(placed.function, ())
        own = next((each for each in recorded if each.instance == placed.instance), None)
        if function is None or own is None:
            return "its placement was not recorded"
        assigned = function.instances[placed.instance].assigned
        if assigned and not assigned[node]:
            return "its placement was not recorded"
        return "" if assigned and own.placement.devices[node] == assigned[node] else _DISAGREES


def without_copies(blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
    """Drop requests that TensorFlow copied from another blocker, since they disappear with it.

    TensorFlow copies a variable's request to the nodes that an optimizer creates for the variable
    (`colocate_with`) and to its initial assignment (`_init_from_args`, resource_variable_ops.py).
    It copies requests inside an inlined function to the nodes for its arguments and results, and
    the device of grouped ops to the node that `tf.group` creates (`group`, control_flow_ops.py).
    """
    blockers = [b for b in blockers if not _groups_others(b)] or blockers
    ends = [b for b in blockers if b.kind is BlockerKind.REQUEST and _END.match(b.name)]
    requests = [b for b in blockers if b.kind in BY_REQUEST and not _END.match(b.name)]
    own = {(b.function, b.name) for b in requests if not b.copied_from}
    requested = {b.requested_device for b in requests}
    has_resource = any(b.link == "resource" for b in blockers)
    lineless = {(b.requested_device, b.called_in) for b in requests if b.scope_frame is None}
    return tuple(
        b
        for b in blockers
        if (b.function, b.copied_from) not in own
        if b not in ends or b.requested_device not in requested
        if not (has_resource and _reads_handle(b))
        if not (_is_of_unknown_call(b) and (b.requested_device, "") in lineless)
    )


def _reads_handle(blocker: Blocker) -> bool:
    frame = blocker.scope_frame
    is_own_request = blocker.kind is BlockerKind.REQUEST and blocker.link == "own"
    if frame is None:
        return is_own_request and blocker.name.endswith(_INITIAL)
    return is_own_request and not frame.is_user and frame.file.endswith(_RESOURCE_CODE)


def _is_of_unknown_call(blocker: Blocker) -> bool:
    """Return whether a request comes from a scope around a call whose line was not recorded.

    The scopes around a conditional also apply in its branches, whose ops request the same device.
    """
    is_request = blocker.kind is BlockerKind.REQUEST and bool(blocker.called_in)
    return is_request and blocker.scope_frame is None


def _groups_others(blocker: Blocker) -> bool:
    by_user = blocker.scope_frame is not None and blocker.scope_frame.is_user
    return blocker.type == "NoOp" and blocker.kind is BlockerKind.REQUEST and not by_user


def doubted(
    explanation: PlacementExplanation, doubt: str, certainty: Certainty = "likely"
) -> PlacementExplanation:
    """Add a doubt to an explanation and lower its certainty, unless the doubt is ""."""
    if not doubt:
        return explanation
    if certainty == "possible" != explanation.certainty:
        return replace(explanation, certainty=certainty, doubt=doubt)
    least: Certainty = "likely" if explanation.certainty == "certain" else explanation.certainty
    return replace(explanation, certainty=least, doubt=explanation.doubt or doubt)
