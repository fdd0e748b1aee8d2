"""Which node of a captured graph an op of a trace is, and what the capture file says about it.

A trace names the nodes of the partition that ran, after grappler. From there a node is traced back
to the placer's input, which has the requested device, to the function it was inlined from, and to
the line of the definition that made it. Where one function was placed several times, or several
functions are possible, only what is the same for all of them counts.

Types are those of the node that ran, by its attributes. Where these were not recorded (as in
TensorFlow 2.12), they are those that a node of the same name in the placer's input must have kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import SESSION, is_session
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.calls import called_in, functions_of_steps, with_requests
from traceanalyzer.tables.node_types import NOT_KNOWN, NodeTypes, Types
from traceanalyzer.tables.vocabulary import Role, role_of_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.capture_file.function_records import Graph, Instance, Partition


_CPU: Final = "/device:CPU:"

# unary_ops_composition: arithmetic_optimizer.cc names the fused op after the last of the chain.
_COMPOSITION: Final = re.compile(r"(.+)/unary_ops_composition")
# graph_optimizer_stage.h, MakeOptimizedNodeName: SCOPE/ArithmeticOptimizer/STAGE_NAME; the stage's
# own words may hold underscores, and so may the name.
_ARITHMETIC: Final = re.compile(r"(?:(.+)/)?ArithmeticOptimizer/(.+)")
# constant_folding.cc, OptimizedNodeName: ConstantFolding/SCOPE/NAME, and words after it.
_FOLDED: Final = re.compile(r"ConstantFolding/(.+?)(?:-[^/]*|_recip|_partial_split_\d+)?")
# generic_layout_optimizer_transposer.cc, auto_mixed_precision.cc: NAME-0-0-WHAT-OPTIMIZER.
_CONVERSION: Final = re.compile(r"(.+?)(?:-\d+)+-\w+-(?:LayoutOptimizer|AutoMixedPrecision)")
# inline_function_utils.cc, lower_while_op.cc, lower_if_op.cc: what replaces a call or a loop.
_STAND_IN: Final = re.compile(r"(?:Func/)?(.+)/_\d+")


@dataclass(frozen=True, kw_only=True)
class Node:
    """What a capture file says about an op of a graph; None where that is unknown."""

    #: The user's line that made it.
    frame: Frame | None
    #: The requested device, "" for none.
    requested_device: str | None
    #: The device of the partition that ran it.
    device: str | None
    #: The function that was instantiated.
    function: str
    #: The node of the placer's input, or of the definition where that was not recorded.
    node: str
    #: Where calls of the function were placed differently: on which devices, "" for an unknown one.
    devices: tuple[str, ...] = ()
    types: Types = NOT_KNOWN


class GraphNodes:
    """Finds the nodes of one capture file."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        called_eagerly = {s.op for s in capture_file.signatures if s.is_function}
        self._not_of_pipelines = called_eagerly | functions_of_steps(capture_file)
        self._lacks_functions = any("function" in what for what in capture_file.omitted)
        self._reached: dict[str, tuple[str, ...]] = {}
        self._types = NodeTypes(capture_file)
        self._of_sessions = {
            f.name: with_requests(f.instances) for f in capture_file.session_graphs()
        }

    def find(self, function: str, name: str, op_type: str) -> Node | None:
        """Return the node of an op that ran in a function, or in one that it calls."""
        if role_of_type(op_type) == Role.TRANSFER:
            return None  # made where a graph is cut into partitions
        own = self._in_function(function, name, op_type, is_its_own=True)
        if own is not None:
            return own
        return _agreed(
            self._in_function(called, name, op_type) for called in self._called_by(function)
        )

    def find_in_datasets(self, name: str, op_type: str) -> Node | None:
        """Return the node of an op that tf.data called, if all functions that have it agree."""
        if self._lacks_functions:
            return None  # the one that it is of may be missing
        return self._find_anywhere(name, op_type, lambda f: f not in self._not_of_pipelines)

    def find_in_any(self, name: str, op_type: str) -> Node | None:
        """Return the node of an op of unknown function: a session's, or one that all agree on.

        TensorFlow also runs ops outside of any function, on the CPU, to learn shapes while Python
        makes a graph (eval_const_tensor.cc, graph_runner.cc). So a node that was placed elsewhere
        has no known device, and one that no instantiated graph needs is found in a definition.
        Where there are both, the line is the graph's, and the types are those that both share.
        """
        if role_of_type(op_type) == Role.TRANSFER or self._lacks_functions:
            return None
        found = self._find_anywhere(name, op_type, lambda _: True)
        defined = [n for d in self._defined(name) if (n := self._in_inlined(d, name, op_type))]
        if found is None:
            return _agreed(defined)
        if not is_session(found.function) or defined:
            on_cpu = found.device is not None and _CPU in found.device
            found = replace(found, device=found.device if on_cpu else None, devices=())
        return replace(found, types=_agreed_types([n.types for n in (found, *defined)]))

    def _find_anywhere(self, name: str, op_type: str, may_be: Callable[[str], bool]) -> Node | None:
        names = [name, *base_names(name)]
        holders = dict.fromkeys(f for n in names for f in self._holders.get(n, ()) if may_be(f))
        return _agreed(self._in_function(f, name, op_type) for f in holders)

    def _defined(self, name: str) -> list[str]:
        """Return the definitions that hold a node which no graph of theirs does."""
        holders = self._holders.get(name, {})
        return [d for d in self._definers.get(name, ()) if d not in holders]

    @cached_property
    def _holders(self) -> dict[str, dict[str, None]]:
        """The functions whose graphs hold a node of each name, in order."""
        holders: dict[str, dict[str, None]] = {}

        def add(names: Iterable[str], function: str) -> None:
            for name in names:
                holders.setdefault(name, {})[function] = None

        for function in self._capture_file.functions:
            for instance in function.instances:
                add(instance.input.names, function.name)
                for partition in instance.partitions:
                    add(partition.names, function.name)
        for definition in self._capture_file.definitions:
            if is_session(definition.name or SESSION):
                add(definition.nodes, definition.name or SESSION)
        return holders

    @cached_property
    def _definers(self) -> dict[str, list[str]]:
        """The definitions that hold a node of each name."""
        definers: dict[str, list[str]] = {}
        for definition in self._capture_file.definitions:
            for node in definition.nodes:
                definers.setdefault(node, []).append(definition.name or SESSION)
        return definers

    @cached_property
    def _inlined(self) -> dict[tuple[str, str], set[tuple[str, int]]]:
        """Op types and attribute sets of the nodes that were inlined from each definition's."""
        inlined: dict[tuple[str, str], set[tuple[str, int]]] = {}
        for function in self._capture_file.functions:
            for instance in function.instances:
                graph = instance.input
                for at in range(len(graph)):
                    origin = _origin(graph, at)
                    if origin is not None:
                        inlined.setdefault(origin, set()).add((graph.ops[at], graph.attributes[at]))
        return inlined

    def _in_inlined(self, definition: str, name: str, op_type: str) -> Node | None:
        """Look a node up in a definition, and its type where graphs hold it inlined."""
        copies = self._inlined.get((definition, name))
        if copies is None:
            return self._in_definition(definition, name)
        types = [self._types.that_was_placed(op, at) for op, at in copies if op == op_type]
        node = self._in_definition(definition, name) if types else None
        return node and replace(node, types=_agreed_types(types))

    def _called_by(self, function: str) -> tuple[str, ...]:
        """Return the functions that a function calls, directly or not, by its nodes' attributes."""
        if function not in self._reached:
            reached: dict[str, None] = {}
            waiting = [function]
            while waiting:
                for called in _called(self._capture_file, waiting.pop()):
                    if called != function and called not in reached:
                        reached[called] = None
                        waiting.append(called)
            self._reached[function] = tuple(reached)
        return self._reached[function]

    def _in_function(
        self, function: str, name: str, op_type: str, *, is_its_own: bool = False
    ) -> Node | None:
        """Look an op up in a function; `is_its_own`: the op is known to have run there."""
        instantiated = self._capture_file.function(function)
        instances = () if instantiated is None else instantiated.instances
        instances = self._of_sessions.get(function, instances)
        if not instances:
            return self._in_definition(function, name)
        return _agreed(
            self._in_instance(function, instance, name, op_type, is_its_own=is_its_own)
            for instance in instances
        )

    def _in_definition(self, function: str, name: str) -> Node | None:
        """Look a node up under its own name, where no graph of its function was recorded."""
        definition = self._capture_file.definition(function)
        if definition is None:
            return None
        for known in (name, *base_names(name)):
            if definition.index(known) != UNKNOWN:
                return Node(
                    frame=self._capture_file.frame_of_node(function, known),
                    requested_device=None,
                    device=None,
                    function=function,
                    node=known,
                )
        return None

    def _in_instance(
        self, function: str, instance: Instance, name: str, op_type: str, *, is_its_own: bool
    ) -> Node | None:
        graph = instance.input
        ran = [
            (p, at)
            for p in instance.partitions
            if (at := p.index(name)) != UNKNOWN and p.ops[at] == op_type
        ]
        place = _place(graph, name)
        # TensorFlow 2.12 does not record what ran. Where the function is sure, so is the name:
        # Grappler keeps it when it turns a node into another op (`RealDiv` into `Mul`).
        is_named = is_its_own and place != UNKNOWN and not instance.partitions
        if not ran and not is_named and not _is_of_type(graph, place, op_type):
            return None
        origin = next((o for p, at in ran if (o := _origin(p, at))), None)
        if place != UNKNOWN:
            origin = origin or _origin(graph, place) or (function, graph.names[place])
        devices = {p.device for p, _ in ran}
        is_argument = place != UNKNOWN and graph.ops[place] == "_Arg"
        return Node(
            frame=self._frame(*(origin or (function, name))),
            requested_device=None if place == UNKNOWN or is_argument else graph.devices[place],
            device=devices.pop() if len(devices) == 1 else None,
            function=function,
            node=name if place == UNKNOWN else graph.names[place],
            types=self._types_of(graph, name, op_type, ran),
        )

    def _types_of(
        self, graph: Graph, name: str, op_type: str, ran: list[tuple[Partition, int]]
    ) -> Types:
        known = [self._types.that_ran(op_type, p.attributes[at]) for p, at in ran]
        if known and NOT_KNOWN not in known:
            return _agreed_types(known)
        at = graph.index(name)
        if at == UNKNOWN:
            return NOT_KNOWN
        return self._types.that_became(op_type, graph.ops[at], graph.attributes[at])

    def _frame(self, function: str, node: str) -> Frame | None:
        definition = self._capture_file.definition(function)
        if definition is None:
            return None
        known = next((n for n in (node, *base_names(node)) if definition.index(n) != UNKNOWN), node)
        return self._capture_file.frame_of_node(function, known)


def base_names(name: str) -> Iterator[str]:
    """Return the names that TensorFlow may have made a node's name from, the likeliest first.

    Only a name of a node of the same graph is its base.
    """
    if match := _COMPOSITION.fullmatch(name):
        yield match[1]
    if match := _ARITHMETIC.fullmatch(name):
        scope = f"{match[1]}/" if match[1] else ""
        words = match[2].split("_")
        yield from (scope + "_".join(words[k:]) for k in range(1, len(words)))
    if match := _FOLDED.fullmatch(name):
        yield match[1]
    if match := _CONVERSION.fullmatch(name):
        yield match[1]
    if match := _STAND_IN.fullmatch(name):
        path = match[1].split("/")
        yield from ("/".join(path[:k]) for k in range(len(path), 0, -1))


def _place(graph: Graph, name: str) -> int:
    """Return where a graph holds a node, or else the one that its name was made from."""
    at = graph.index(name)
    if at != UNKNOWN:
        return at
    return next((k for base in base_names(name) if (k := graph.index(base)) != UNKNOWN), UNKNOWN)


def _is_of_type(graph: Graph, place: int, op_type: str) -> bool:
    """Tell whether an op that no recorded partition holds may be a node of the placer's input.

    Grappler and oneDNN's rewrites keep the name of the node whose value they compute, and change
    its type to one that begins with an underscore.
    """
    return place != UNKNOWN and (graph.ops[place] == op_type or op_type.startswith("_"))


def _origin(graph: Graph | Partition, at: int) -> tuple[str, str] | None:
    function, node = graph.origin_functions[at], graph.origin_nodes[at]
    return (function, node) if function and node else None


def _agreed(found: Iterable[Node | None]) -> Node | None:
    """Return the node that all agree on, with the device and types that all have."""
    nodes = [node for node in found if node is not None]
    if not nodes:
        return None
    first = nodes[0]
    if any((n.frame, n.requested_device) != (first.frame, first.requested_device) for n in nodes):
        return None
    first = replace(first, types=_agreed_types([n.types for n in nodes]))
    devices = {n.device for n in nodes}
    if len(devices) > 1:
        return replace(first, device=None, devices=tuple(sorted(d or "" for d in devices)))
    return first


def _agreed_types(found: list[Types]) -> Types:
    """Return the types that all have, of inputs and of outputs."""
    inputs, outputs = {t.inputs for t in found}, {t.outputs for t in found}
    return Types(
        inputs=inputs.pop() if len(inputs) == 1 else None,
        outputs=outputs.pop() if len(outputs) == 1 else None,
    )


def _called(capture_file: CaptureFile, function: str) -> Iterator[str]:
    instantiated = capture_file.function(function)
    if instantiated is None:
        return
    sets: set[int] = set()
    for instance in instantiated.instances:
        sets.update(instance.input.attributes)
        for partition in instance.partitions:
            sets.update(partition.attributes)
    for at in sorted(sets):
        yield from called_in(capture_file.attribute_set(at).values())
