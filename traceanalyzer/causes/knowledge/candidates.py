"""Finds possible causes of an unexplained op, the most likely first.

The order is: causes that the trace shows, causes that are common, causes that the op's kernels
allow, and causes that leave no mark in a trace. If the version of TensorFlow is unknown, it may be
too old to have an op's GPU kernel.

An op that uses a resource or a reference runs on the device of its data, whatever a scope requests
(`ColocateResourceOrRefEdge`, colocation_graph.cc; `MaybePinToResourceDevice`, placement_utils.cc).

Some causes are never candidates. `memory_pressure` and `remote_host` are reported only with proof,
and `small_int_pinning` needs a variable that hardly anybody sets. Ops computed on the host although
placed on a GPU (`host_memory_kernel`) are not ops on the CPU.
"""

import re
from collections.abc import Iterator
from typing import Final

from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.placement.devices import GPU, asks_for_cpu
from traceanalyzer.placement.inference import (
    GRADIENT,
    REPLICA,
    USUAL,
    InlinedCall,
    call_of,
)
from traceanalyzer.placement.kernel_tables import OpDefinition
from traceanalyzer.placement.on_a_gpu import MOVED_IF_SMALL, pins_nothing
from traceanalyzer.placement.registry import nearest, registries
from traceanalyzer.placement.scopes import habit_of
from traceanalyzer.run import Run
from traceanalyzer.tables.functions import is_session_graph
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.vocabulary import Role

# How to decide among the candidates if only a trace was recorded.
SETTLED_BY: Final = (
    "Run `traceanalyzer capture script.py` to get a definite answer: it records dtypes and "
    "requested devices."
)
_MOST_NAMED: Final = 4
# They send tensors to another device's part of the graph (graph_partition.cc).
_SENDS: Final = frozenset({"_HostSend", "_Send"})
_GRADIENTS: Final = re.compile(r"(?:^|/)gradients(?:_\d+)?/|_grad/")


class Candidates:
    """Finds the causes that are possible for a run's ops."""

    def __init__(self, run: Run) -> None:
        self._version = run.tensorflow_version
        self._registry = nearest(self._version).registry
        self._not_pinning = {host.name for host, file in run.captured if pins_nothing(file)}
        self._with_replicas: set[tuple[str, InlinedCall]] = set()
        self._with_gradients: set[tuple[str, InlinedCall]] = set()
        self._gradients_on_cpu: set[tuple[str, InlinedCall, str]] = set()
        self._with_gpu: set[tuple[str, InlinedCall]] = set()
        ops = run.ops
        self._types = dict(zip(ops["op_id"], ops["input_types"], strict=True))
        sends = ops[ops["type"].isin(_SENDS) & (ops["placement"] == "cpu")]
        self._sending = set(map(_in, sends["host"], sends["function"]))
        ops = ops[~ops["is_eager"] & (ops["role"] == Role.COMPUTE)]
        columns = [ops[c].astype(str) for c in ("name", "type", "placement")]
        columns = [ops["host"], ops["function"], *columns]
        for host, function, name, op_type, placement in zip(*columns, strict=True):
            at = _in(host, function)
            if REPLICA.search(name):
                self._with_replicas.add(at)
            if _GRADIENTS.search(name):
                self._with_gradients.add(at)
            if placement == "cpu" and (gradient := GRADIENT.search(name)):
                self._gradients_on_cpu.add((*at, gradient["of"]))
            # An op that reads a variable is on its device, wherever its function was called.
            if placement.startswith("gpu") and not self._registry.takes_resource(op_type):
                self._with_gpu.add(_in(host, function, name))

    def of(self, cpu_op: CpuOp | None) -> tuple[str, ...]:
        """Return up to four possible causes of an op on the CPU, the most likely first.

        The result is empty if `cpu_op` is None or if the replay contradicts the recording.
        """
        if cpu_op is None or cpu_op.explanation.contradiction:
            return ()
        definition = self._registry.definition(cpu_op.explanation.type)
        if definition is None:
            return ("custom_op",)
        excluded = set(self._excluded(cpu_op))
        ranked = [cause for cause, may_be in self._ranked(cpu_op, definition) if may_be]
        return tuple(c for c in dict.fromkeys(ranked) if c not in excluded)[:_MOST_NAMED]

    def _excluded(self, cpu_op: CpuOp) -> Iterator[str]:
        requested, kernels = cpu_op.requested_device, cpu_op.explanation.kernels
        if requested is not None and not asks_for_cpu(requested):
            yield from ("explicit_cpu_placement", "library_cpu_placement")
        if kernels is not None and GPU in kernels:
            yield from ("dtype_unsupported", "attr_unsupported", "no_gpu_kernel")
        if cpu_op.host in self._not_pinning:
            yield "grappler_pin_to_host"
        if cpu_op.is_eager:
            yield from ("caller_device_scope_cpu", "colocation_group", "follows_neighbour")

    def _ranked(self, cpu_op: CpuOp, definition: OpDefinition) -> list[tuple[str, bool]]:
        """Return causes, the most likely first, and whether each is possible."""
        op_type, registry = definition.name, self._registry
        missing = cpu_op.explanation.types_missing
        function = _in(cpu_op.host, cpu_op.function)
        called = _in(cpu_op.host, cpu_op.function, cpu_op.name)
        is_in_graph, is_beside_gpu = not cpu_op.is_eager, called in self._with_gpu
        is_in_function = bool(cpu_op.function) and not is_session_graph(cpu_op.function)
        is_in_library = is_in_graph and bool(habit_of(cpu_op.name, self._version))
        # TensorFlow 1 code, which makes a session's graph, colocates ops in optimizers and
        # gradients; `tf.gradients` does in functions, too.
        is_colocating = not is_in_function or function in self._with_gradients
        # A GPU kernel may be newer than the program's unknown version.
        known = [r.gpu_kernels(op_type) for r in registries() if r.definition(op_type)]
        may_be_young = self._version is None and not all(known)
        if registry.takes_resource(op_type):
            return [
                ("distribution_strategy_cpu", function in self._with_replicas),
                ("resource_on_cpu", True),
                ("library_cpu_placement", is_in_library),
                ("dtype_unsupported", not USUAL.isdisjoint(missing)),
                ("distribution_strategy_cpu", True),
                ("dtype_unsupported", bool(missing)),
                ("colocation_group", is_colocating),
                ("no_gpu_kernel", may_be_young),
            ]
        is_cpu_preferred = registry.prefers_cpu(op_type)
        # A list of strings stays on the host, wherever its handle is; see `placement/nodes.py`.
        may_miss_dtype = not USUAL.isdisjoint(missing) or "TensorList" in op_type
        types = self._types.get(cpu_op.op_id)
        given = {*types.split(";")} - {"", UNKNOWN_TYPE} if isinstance(types, str) else set()
        may_be_pinned = is_in_graph and given <= MOVED_IF_SMALL and _may_be_small(definition)
        may_be_called = (is_in_function or bool(called[1].inlined)) and not is_beside_gpu
        return [
            # Causes that the trace shows. The default device of a function outweighs priorities.
            ("library_cpu_placement", is_in_library),
            ("distribution_strategy_cpu", function in self._with_replicas),
            ("colocation_group", (*function, cpu_op.name) in self._gradients_on_cpu),
            ("dtype_unsupported", may_miss_dtype),
            ("attr_unsupported", registry.has_values_without_gpu_kernel(op_type)),
            ("kernel_priority", is_cpu_preferred and not is_in_function),
            ("follows_neighbour", registry.follows_others(op_type)),
            # Causes in the program.
            ("explicit_cpu_placement", True),
            ("caller_device_scope_cpu", may_be_called),
            ("colocation_group", is_colocating),
            # Causes that the op's kernels allow but that few programs have.
            ("dtype_unsupported", bool(missing)),
            ("no_gpu_kernel", may_be_young),
            ("attr_unsupported", registry.has_labels_without_gpu_kernel(op_type)),
            ("kernel_priority", is_cpu_preferred),
            # Causes that a trace never shows.
            ("grappler_pin_to_host", may_be_pinned and is_beside_gpu),
            ("distribution_strategy_cpu", True),
            ("grappler_pin_to_host", may_be_pinned and function in self._sending),
            ("caller_device_scope_cpu", is_in_graph),
            ("colocation_group", is_in_graph),
            ("library_cpu_placement", True),
        ]


def _in(host: object, function: object, name: str = "") -> tuple[str, InlinedCall]:
    return str(host), call_of(function if isinstance(function, str) else "", name)


def _may_be_small(definition: OpDefinition) -> bool:
    """Return whether each input of an op accepts a dtype that the optimizer moves."""
    for argument in definition.inputs:
        attribute = definition.attributes.get(argument.type_attr)
        allowed = None if attribute is None else attribute.allowed
        known = {argument.type} if argument.type else allowed
        if known is not None and MOVED_IF_SMALL.isdisjoint(known):
            return False
    return True
