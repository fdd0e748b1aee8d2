"""Finds the captured graph node of each op in a trace, with its device, types, and source line.

A trace names the nodes that ran, after Grappler. Each is traced back to its node in the placer's
input (for the requested device), its function before inlining, and the source line that created
it. If a function was placed several times, or several functions are possible, only the facts that
they share are used.

Types come from the attributes of the node that ran, and are unknown if these were not recorded (as
in TensorFlow 2.12) or if the known OpDef may differ from that of the program's TensorFlow version.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import SESSION, CaptureFile, Frame, is_session
from traceanalyzer.capture_file.function_records import UNKNOWN, Graph, Instance, Partition
from traceanalyzer.placement.calls import called_in, functions_of_steps, with_requests
from traceanalyzer.placement.kernel_tables import AttributesError
from traceanalyzer.placement.registry import nearest
from traceanalyzer.tables.vocabulary import Role, role_of_type

_CPU: Final = "/device:CPU:"
_LONGEST_LIST: Final = 1000  # list entries kept in a capture file (capture_file/attributes.py)
_THIS_PROCESS: Final = "/job:localhost/replica:0/task:0"

# How TensorFlow derives a node's name from another's; the groups match the original name.
_MADE_FROM: Final = (
    # unary_ops_composition: arithmetic_optimizer.cc names the fused op after the last of the chain.
    re.compile(r"(.+)/unary_ops_composition"),
    # constant_folding.cc, OptimizedNodeName: ConstantFolding/SCOPE/NAME, and a suffix.
    re.compile(r"ConstantFolding/(.+?)(?:-[^/]*|_recip|_partial_split_\d+)?"),
    # generic_layout_optimizer_transposer.cc, auto_mixed_precision.cc: NAME-0-0-WHAT-OPTIMIZER.
    re.compile(r"(.+?)(?:-\d+)+-\w+-(?:LayoutOptimizer|AutoMixedPrecision)"),
)
# graph_optimizer_stage.h, MakeOptimizedNodeName: SCOPE/ArithmeticOptimizer/STAGE_NAME; both the
# stage and the name can contain underscores.
_ARITHMETIC: Final = re.compile(r"(?:(.+)/)?ArithmeticOptimizer/(.+)")
# inline_function_utils.cc, lower_while_op.cc, lower_if_op.cc: nodes that replace a call or loop.
_STAND_IN: Final = re.compile(r"(?:Func/)?(.+)/_\d+")


@dataclass(frozen=True, kw_only=True)
class OpRecord:
    """A capture file's record of one row of the op table. Unknown fields are None."""

    frame: Frame | None  #: the user's line that created it
    requested_device: str | None  #: without job and task of this process; "" for none
    input_types: str | None = None  #: `float;int32`
    output_types: str | None = None
    device: str | None = None  #: of the partition that ran it, or of its results; full string
    #: The devices, if calls placed it differently; "" for an unknown one.
    devices: tuple[str, ...] = ()
    is_device_certain: bool = True  #: whether the device is proved
    is_on_host: bool = False  #: whether its device is no CPU but all results were in host memory
    has_host_inputs: bool = False  #: whether, in that case, all its inputs were in host memory too
    witness: str = "capture_file"  #: or `graph`, if the record is from a graph of the program
    function: str = ""  #: the instantiated function; "" for an eager op
    node: str = ""  #: node of the placer's input or, if not recorded, of the definition
    signatures: tuple[int, ...] = ()  #: of an eager op; empty for a graph op
    input_shapes: str | None = None  #: of an eager op: `[64,64];[]`; None also if they change
    no_event: str = ""  #: why the trace has no event of it, as in the op table; "" if it has


def as_typed(device: str | None) -> str | None:
    """Return a requested device without the job and task that TensorFlow added, or "" for none.

    It is also "" for `tf.py_function`, which requests only a job and a task.
    """
    return None if device is None else device.removeprefix(_THIS_PROCESS)


class TensorTypes(NamedTuple):
    """The types of a node's tensors, such as `float;int32`: "" for no tensors, None if unknown."""

    inputs: str | None  #: `resource` for a handle, `float_ref` for a reference
    outputs: str | None


NOT_KNOWN: Final = TensorTypes(inputs=None, outputs=None)


class NodeTypes:
    """The types of the nodes in a capture file."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        self._nearest = nearest(capture_file.tensorflow_version)
        self.of = cache(self._find)

    def _find(self, op: str, index: int) -> TensorTypes:
        """Return a node's types. `index` is its attribute set's index, or -1 if not recorded."""
        definition = None if index == UNKNOWN else self._nearest.registry.definition(op)
        if definition is None:  # an op from a custom op library
            return NOT_KNOWN
        attributes = self._capture_file.attribute_set(index)
        is_cut = any(isinstance(v, list) and len(v) >= _LONGEST_LIST for v in attributes.values())
        # A public op's types change between versions only if its attributes change, too
        # (op_def_util.cc, OpDefCompatible): a definition with exactly the node's attributes fits.
        own = {name for name in attributes if not name.startswith("_")}
        is_its_own = not op.startswith("_") and own == {*definition.attributes}
        if is_cut or not (self._nearest.exact or is_its_own):
            return NOT_KNOWN
        try:
            types = definition.input_types(attributes), definition.output_types(attributes)
        except AttributesError:
            return NOT_KNOWN
        return TensorTypes(*map(";".join, types))


class GraphNodes:
    """Finds the graph nodes of ops in a capture file."""

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

    def find(self, function: str, name: str, op_type: str) -> OpRecord | None:
        """Return the record of an op that ran in a function or in one that it calls."""
        if role_of_type(op_type) == Role.TRANSFER:
            return None  # created by graph partitioning
        own = self._in_function(function, name, op_type, is_its_own=True)
        return own or _agreed(
            self._in_function(called, name, op_type) for called in self.called_by(function)
        )

    def find_in_datasets(self, name: str, op_type: str) -> OpRecord | None:
        """Return the record of an op that tf.data ran, if all dataset functions agree on it."""
        return self._find_anywhere(name, op_type, lambda f: f not in self._not_of_pipelines)

    def find_in_any(self, name: str, op_type: str) -> OpRecord | None:
        """Return the record of an op whose function is unknown, if all functions agree on it.

        TensorFlow also runs ops outside of functions, on the CPU, to infer shapes while Python
        builds a graph (eval_const_tensor.cc, graph_runner.cc). So a recorded GPU does not count as
        the op's device, and nodes that are in no graph are looked up in the definitions. A node
        found in both has unknown types.
        """
        if role_of_type(op_type) == Role.TRANSFER or self._lacks_functions:
            return None
        found = self._find_anywhere(name, op_type, lambda _: True)
        # The definitions that have the node although none of their graphs does.
        names = [
            d.name or SESSION for d in self._capture_file.definitions if d.index(name) != UNKNOWN
        ]
        defined = [
            self._in_definition(n, name) for n in names if n not in self._holders.get(name, ())
        ]
        if found is None or (is_session(found.function) and not any(defined)):
            return found or _agreed(defined)
        on_cpu = found.device is not None and _CPU in found.device
        found = replace(found, device=found.device if on_cpu else None, devices=())
        return replace(found, input_types=None, output_types=None) if any(defined) else found

    def _find_anywhere(
        self, name: str, op_type: str, may_be: Callable[[str], bool]
    ) -> OpRecord | None:
        if self._lacks_functions:
            return None  # the op's function may be missing
        names = (name, *base_names(name))
        holders = dict.fromkeys(f for n in names for f in self._holders.get(n, ()) if may_be(f))
        return _agreed(self._in_function(f, name, op_type) for f in holders)

    @cached_property
    def _holders(self) -> dict[str, dict[str, None]]:
        """The functions whose graphs contain each node, by node name, in recorded order."""
        graphs = [
            (graph.names, function.name)
            for function in self._capture_file.functions
            for instance in function.instances
            for graph in (instance.input, *instance.partitions)
        ]
        sessions = [d for d in self._capture_file.definitions if is_session(d.name or SESSION)]
        holders: dict[str, dict[str, None]] = {}
        for names, function in (*graphs, *((d.nodes, d.name or SESSION) for d in sessions)):
            for name in names:
                holders.setdefault(name, {})[function] = None
        return holders

    def called_by(self, function: str) -> tuple[str, ...]:
        """Return the functions that a function calls directly or indirectly."""
        if function not in self._reached:
            reached, order = {function}, [function]
            for caller in order:  # grows
                called = dict.fromkeys(_called(self._capture_file, caller))
                order += [f for f in called if f not in reached]
                reached.update(called)
            self._reached[function] = tuple(order[1:])
        return self._reached[function]

    def _in_function(
        self, function: str, name: str, op_type: str, *, is_its_own: bool = False
    ) -> OpRecord | None:
        """Look up an op in a function. `is_its_own`: whether the op is known to have run there."""
        instantiated = self._capture_file.function(function)
        instances = () if instantiated is None else instantiated.instances
        instances = self._of_sessions.get(function, instances)
        if not instances:
            return self._in_definition(function, name)
        return _agreed(
            self._in_instance(function, instance, name, op_type, is_its_own=is_its_own)
            for instance in instances
        )

    def _in_definition(self, function: str, name: str) -> OpRecord | None:
        known = self._defined_as(function, name)
        if known is None:
            return None
        frame = self._capture_file.frame_of_node(function, known)
        return OpRecord(frame=frame, requested_device=None, function=function, node=known)

    def _defined_as(self, function: str, name: str) -> str | None:
        definition = self._capture_file.definition(function)
        names = () if definition is None else (name, *base_names(name))
        return next((n for n in names if definition and definition.index(n) != UNKNOWN), None)

    def _in_instance(
        self, function: str, instance: Instance, name: str, op_type: str, *, is_its_own: bool
    ) -> OpRecord | None:
        graph = instance.input
        ran = [
            (p, at)
            for p in instance.partitions
            if (at := p.index(name)) != UNKNOWN and p.ops[at] == op_type
        ]
        names = (name, *base_names(name))
        place = next((k for n in names if (k := graph.index(n)) != UNKNOWN), UNKNOWN)
        if not ran:
            if place == UNKNOWN:
                return None
            # TensorFlow 2.12 does not record the nodes that ran. In a function that is certain, the
            # name is enough: Grappler keeps it when it changes the type (`RealDiv` to `Mul`). Fused
            # ops, whose types begin with an underscore, have the name of the node whose value they
            # compute.
            is_named = is_its_own and not instance.partitions
            if not is_named and graph.ops[place] != op_type and not op_type.startswith("_"):
                return None
        origin = next((o for p, at in ran if (o := _origin(p, at))), None)
        if place != UNKNOWN:
            origin = origin or _origin(graph, place)
        node = name if place == UNKNOWN else graph.names[place]
        maker, made = origin or (function, node)
        is_argument = place != UNKNOWN and graph.ops[place] == "_Arg"
        requested = None if place == UNKNOWN or is_argument else graph.devices[place]
        types = {self._types.of(op_type, p.attributes[at]) for p, at in ran}
        inputs, outputs = (_only({t[k] for t in types}) for k in range(2))
        return OpRecord(
            frame=self._capture_file.frame_of_node(maker, self._defined_as(maker, made) or made),
            requested_device=as_typed(requested),
            input_types=inputs,
            output_types=outputs,
            device=_only({p.device for p, _ in ran}),
            function=function,
            node=node,
        )


def base_names(name: str) -> Iterator[str]:
    """Yield the names of the nodes that a node may be derived from, most likely first."""
    for pattern in _MADE_FROM:
        if match := pattern.fullmatch(name):
            yield match[1]
    if match := _ARITHMETIC.fullmatch(name):
        scope = f"{match[1]}/" if match[1] else ""
        words = match[2].split("_")
        yield from (scope + "_".join(words[k:]) for k in range(1, len(words)))
    if match := _STAND_IN.fullmatch(name):
        path = match[1].split("/")
        yield from ("/".join(path[:k]) for k in range(len(path), 0, -1))


def _origin(graph: Graph | Partition, at: int) -> tuple[str, str] | None:
    function, node = graph.origin_functions[at], graph.origin_nodes[at]
    return (function, node) if function and node else None


def _agreed(found: Iterable[OpRecord | None]) -> OpRecord | None:
    """Merge records, without types or devices that differ. Return None if lines or requests do."""
    nodes = [node for node in found if node is not None]
    if not nodes or len({(n.frame, n.requested_device) for n in nodes}) > 1:
        return None
    devices = {n.device for n in nodes}
    return replace(
        nodes[0],
        input_types=_only({n.input_types for n in nodes}),
        output_types=_only({n.output_types for n in nodes}),
        device=_only(devices),
        devices=tuple(sorted(d or "" for d in devices)) if len(devices) > 1 else nodes[0].devices,
    )


def _only(found: set[str | None] | set[str]) -> str | None:
    return next(iter(found)) if len(found) == 1 else None


def _called(capture_file: CaptureFile, function: str) -> Iterator[str]:
    instantiated = capture_file.function(function)
    instances = () if instantiated is None else instantiated.instances
    graphs = [graph for each in instances for graph in (each.input, *each.partitions)]
    for at in sorted({at for graph in graphs for at in graph.attributes}):
        yield from called_in(capture_file.attribute_set(at).values())
