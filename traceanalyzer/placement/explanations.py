"""Explains each op on the CPU: what keeps it off a GPU.

With a capture the placement is replayed, and blockers are found by trying what would happen without
them. From a trace alone the kernel registry answers, as far as the op's types are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder, Blockers, eager_blockers
from traceanalyzer.placement.devices import CPU, GPU, is_of_type
from traceanalyzer.placement.grown_graphs import newest
from traceanalyzer.placement.program import place_program
from traceanalyzer.placement.recorded_blockers import BlockerRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.model import Certainty
    from traceanalyzer.placement.devices import Machine
    from traceanalyzer.placement.program import FunctionPlacement, ProgramPlacement
    from traceanalyzer.placement.registry import SupportedTypes

_BY_REQUEST: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE})
# See `InlineFunctionBody` (core/common_runtime/inline_function_utils.cc).
_END: Final = re.compile(r"Func/.*/(?:input|output)/_\d+$")
_DISAGREES: Final = "a replay on its own machine does not give what was recorded"
_CALLS_DIFFER: Final = "its calls are not all blocked by the same things"
# What an explanation rests on: a replay of the placement; the kernel registry; nothing.
Basis: TypeAlias = Literal["replay", "registry", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementExplanation:
    """The known blockers of an op."""

    #: The op type as the program has it, before rewrites.
    type: str
    #: In the order in which they take effect; each alone keeps the op on the CPU.
    blockers: tuple[Blocker, ...] = ()
    #: Names of the nodes that it follows, the next one first.
    follows: tuple[str, ...] = ()
    basis: Basis = "none"
    certainty: Certainty = "possible"
    #: Why it is not certain, or "".
    doubt: str = ""
    #: How the replay contradicts what was recorded, or "".
    contradiction: str = ""
    #: If the op's types are unknown: the types of data with which it has no GPU kernel.
    types_missing: tuple[str, ...] = ()
    #: Whether a replay puts the op on a GPU without the blockers: nothing else keeps it off.
    is_complete: bool = False
    #: The types of devices that have a kernel for the op; None without a replay.
    kernels: tuple[str, ...] | None = None
    #: The line of a library that made the op; None if the program's own code did.
    library: Frame | None = None


class RecordedOp(Protocol):
    """What a capture file recorded of an op: signatures of an eager op, or function and node."""

    @property
    def signatures(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def function(self) -> str: ...  # noqa: D102
    @property
    def node(self) -> str: ...  # noqa: D102


class ReplayedExplanations:
    """Explains the ops of a replayed program.

    Without a machine the program is replayed on its own, where the replay must give what was
    recorded.
    """

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine | None = None,
        *,
        unsure_as_recorded: bool = False,
    ) -> None:
        self._capture_file = capture_file
        self._is_own = machine is None
        self.program: ProgramPlacement = place_program(
            capture_file, machine, unsure_as_recorded=unsure_as_recorded
        )
        self._recorded = self.program if self._is_own else place_program(capture_file)
        self._records = BlockerRecords(capture_file, self.program.kernels.registry)
        self._finders: dict[int, BlockerFinder] = {}
        self._instances: dict[str, list[FunctionPlacement]] = {}

    def of(self, op_type: str, record: RecordedOp) -> PlacementExplanation | None:
        """Explain an op, or return None if the replay does not put it on the CPU.

        An op whose calls are placed differently is on the CPU if any of them puts it there; unless
        all are blocked by the same things, what blocks one of them is not certain for the op.
        """
        if record.signatures:
            found = [self._of_signature(number) for number in record.signatures]
        else:
            instances = self._instances_with(record)
            found = [self._of_node(placed, record.node) for placed in instances]
            if self.program.functions.get(record.function) and not instances:
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

    def on_host(self, record: RecordedOp) -> PlacementExplanation | None:
        """Explain an op that is on a GPU but computed on the host, in each of its calls."""
        if record.signatures:
            found = [self._signature_on_host(number) for number in record.signatures]
        else:
            instances = self._instances_with(record)
            found = [self._node_on_host(placed, record.node) for placed in instances]
        explanations = [explanation for explanation in found if explanation is not None]
        if not explanations or len(explanations) < len(found):
            return None
        return max(explanations, key=lambda explanation: bool(explanation.doubt))

    def _instances_with(self, record: RecordedOp) -> list[FunctionPlacement]:
        """Return the instances of a function whose graphs have a node.

        Of a session's graph that grew, only the newest counts.
        """
        function = record.function
        if function not in self._instances:
            placed = self.program.functions.get(function, ())
            graphs = [each.placement.nodes.graph for each in placed]
            left = newest(graphs) if is_session(function) else range(len(placed))
            self._instances[function] = [placed[at] for at in left]
        return [
            each
            for each in self._instances[function]
            if each.placement.nodes.graph.index(record.node) >= 0
        ]

    def _signature_on_host(self, number: int) -> PlacementExplanation | None:
        placed = self.program.eager[number]
        if not is_of_type(placed.device, GPU):
            return None
        signature = self._capture_file.signatures[number]
        blocker = self._records.in_host_memory_eager(signature, placed.device)
        return None if blocker is None else self._on_host(blocker, placed.support, placed.doubt)

    def _node_on_host(self, placed: FunctionPlacement, name: str) -> PlacementExplanation | None:
        placement = placed.placement
        node = placement.nodes.graph.index(name)
        if not is_of_type(placement.devices[node], GPU):
            return None
        blocker = self._records.in_host_memory(placed, node)
        if blocker is None:
            return None
        doubt = placement.doubts.get(node) or placed.doubt or self._disagreement(placed, node)
        return self._on_host(blocker, placement.nodes.support[node], doubt)

    def _on_host(
        self, blocker: Blocker, support: SupportedTypes, doubt: str
    ) -> PlacementExplanation:
        return PlacementExplanation(
            type=blocker.type,
            blockers=(blocker,),
            basis="replay",
            certainty=self._certainty(doubt, is_complete=True),
            doubt=doubt,
            kernels=tuple(kind for kind, _ in support.types),
        )

    def _of_signature(self, number: int) -> PlacementExplanation | None:
        placed = self.program.eager[number]
        signature = self._capture_file.signatures[number]
        if not is_of_type(placed.device, CPU):
            return None
        found = eager_blockers(self.program.eager_ops[number], self.program.eager_setting)
        seen = {t.device for t in signature.outputs} or {placed.device}
        contradiction = ""
        if self._is_own and placed.device not in seen:
            contradiction = f"a replay puts it on {placed.device}, it ran on {', '.join(seen)}"
        return PlacementExplanation(
            type=signature.op,
            blockers=tuple(r for b in found.found for r in self._records.of_eager(signature, b)),
            basis="replay",
            certainty=self._certainty(placed.doubt, is_complete=found.is_complete),
            doubt=placed.doubt,
            contradiction=contradiction,
            is_complete=found.is_complete,
            kernels=tuple(kind for kind, _ in placed.support.types),
            library=self._capture_file.frame(signature.library),
        )

    def _of_node(self, placed: FunctionPlacement, name: str) -> PlacementExplanation | None:
        placement = placed.placement
        node = placement.nodes.graph.index(name)
        if not is_of_type(placement.devices[node], CPU):
            return None
        found, follows, earlier_doubt = self._blockers(placed, node)
        disagreement = self._disagreement(placed, node)
        doubt = placement.doubts.get(node) or placed.doubt or disagreement or earlier_doubt
        return PlacementExplanation(
            type=placement.nodes.graph.ops[node],
            blockers=without_copies(found.found),
            follows=follows,
            basis="replay",
            certainty=self._certainty(doubt, is_complete=found.is_complete),
            doubt=doubt,
            contradiction=disagreement if self._is_own and disagreement == _DISAGREES else "",
            is_complete=found.is_complete,
            kernels=tuple(kind for kind, _ in placement.nodes.support[node].types),
            library=self._records.library_of(placed, node),
        )

    def _blockers(
        self, placed: FunctionPlacement, node: int
    ) -> tuple[Blockers, tuple[str, ...], str]:
        """Return what blocks a node, as recorded; the nodes it follows; and a doubt about that.

        For a device kept from an earlier graph, these are what blocked it there.
        """
        if id(placed) not in self._finders:
            self._finders[id(placed)] = BlockerFinder(placed.placement)
        own = self._finders[id(placed)].of(node)
        found: list[Blocker] = []
        follows = tuple(placed.placement.nodes.graph.names[f] for f in own.follows)
        is_complete, doubt = own.is_complete, ""
        for blocker in own.found:
            if blocker.kind is not BlockerKind.ASSIGNED or blocker.node not in placed.kept:
                found += self._records.of_node(placed, node, blocker)
                continue
            earlier, at = placed.kept[blocker.node]
            before, followed, doubt_before = self._blockers(earlier, at)
            link = self._records.link(placed, node, blocker.node)
            found += (
                before.found
                if link == "own"
                else [replace(each, link=link) for each in before.found]
            )
            follows += followed
            is_complete &= before.is_complete
            doubt = doubt or self._disagreement(earlier, at) or doubt_before
        return Blockers(found=tuple(found), is_complete=is_complete), follows, doubt

    def _disagreement(self, placed: FunctionPlacement, node: int) -> str:
        """Return whether the replay on the program's own machine differs from the recording."""
        function = self._capture_file.function(placed.function)
        recorded = self._recorded.functions.get(placed.function, ())
        own = next((each for each in recorded if each.instance == placed.instance), None)
        if function is None or own is None:
            return "its placement was not recorded"
        assigned = function.instances[placed.instance].assigned
        if not assigned or own.placement.devices[node] != assigned[node]:
            return _DISAGREES
        return ""

    def _certainty(self, doubt: str, *, is_complete: bool) -> Certainty:
        is_sure = is_complete and not doubt and self.program.kernels.exact
        return "certain" if is_sure else "likely"


def without_copies(blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
    """Leave out requests that `colocate_with` copied from a node whose own request is there.

    They are gone with that one: all that an optimizer makes for a variable has the request of the
    variable, and is no further cause. Nor are the nodes that TensorFlow puts at the ends of an
    inlined function, which request what the nodes there request; nor the node that `tf.group` makes
    for ops of one device, which requests that device (`group`, python/ops/control_flow_ops.py).
    """
    blockers = [b for b in blockers if not _groups_others(b)] or blockers
    requests = [b for b in blockers if b.kind in _BY_REQUEST and not _END.match(b.name)]
    own = {(b.function, b.name) for b in requests if not b.copied_from}
    requested = {b.requested_device for b in requests}
    has_resource = any(b.link == "resource" for b in blockers)
    return tuple(
        b
        for b in blockers
        if (b.function, b.copied_from) not in own
        and not (
            b.kind is BlockerKind.REQUEST and _END.match(b.name) and b.requested_device in requested
        )
        and not (has_resource and _reads_handle(b))
    )


def _reads_handle(blocker: Blocker) -> bool:
    """Return whether a request is for the device of a variable's handle: gone with that request.

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


def _groups_others(blocker: Blocker) -> bool:
    """Return whether this is the request of a `NoOp` that no user's line made."""
    by_user = blocker.scope_frame is not None and blocker.scope_frame.is_user
    return blocker.type == "NoOp" and blocker.kind is BlockerKind.REQUEST and not by_user


def doubted(
    explanation: PlacementExplanation, doubt: str, certainty: Certainty = "likely"
) -> PlacementExplanation:
    """Return an explanation made less certain by a doubt, if there is one; the graver stays."""
    if not doubt:
        return explanation
    if certainty == "possible" != explanation.certainty:
        return replace(explanation, certainty=certainty, doubt=doubt)
    least: Certainty = "likely" if explanation.certainty == "certain" else explanation.certainty
    return replace(explanation, certainty=least, doubt=explanation.doubt or doubt)
