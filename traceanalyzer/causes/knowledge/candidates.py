"""Possible causes of an op that nothing explains, the most likely first.

The order:

1. What the trace shows about this op: the name scope of library code that requests the CPU
   (`library_scopes`); a replica's scope, which only strategies open; a gradient of `tf.gradients`
   on the CPU, with which the op is colocated; a common dtype, or an attribute value, for which it
   has no GPU kernel; a CPU kernel of higher priority; and that it follows its neighbors.
2. What programs do: a scope around the op, or around the call of its function. A call on the CPU
   puts all its ops without a request there, so it is unlikely if ops beside it are on a GPU.
3. What its kernels allow but few programs have: dtypes such as complex numbers, and labels; for an
   unknown version, that its GPU kernel came with a later one.
4. What leaves no mark in a trace: `pin_to_host_optimization`, if ops beside it are on a GPU; a
   strategy; that optimizer, if the graph sends something to another device; a colocation; a library
   whose scope has another name; a setting for small integers.
5. That it has no GPU kernel, if TensorFlow is older than all versions whose kernels are known, and
   each of these has one. For an unknown version this is left out: kernels are hardly ever removed,
   and few come that late.

An op that takes a resource or a reference is where that is, whatever a scope requests
(`ColocateResourceOrRefEdge`, colocation_graph.cc; `MaybePinToResourceDevice`, placement_utils.cc):
scopes around it are not causes; the question is what puts variables on the CPU.

Three causes are never candidates. `memory_pressure` and `remote_host` are reported only with proof.
Ops computed on the host although placed on a GPU (`host_memory_kernel`) are not ops on the CPU.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.devices import CPU, GPU, asks_for_cpu
from traceanalyzer.placement.kernel_tables import DEFAULT
from traceanalyzer.placement.registry import nearest, registries, supported
from traceanalyzer.placement.rewrites import MOVED_IF_SMALL, pins_nothing
from traceanalyzer.placement.scopes import habit_of, last_minor
from traceanalyzer.tables.functions import is_session_graph
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.op_definitions import OpDefinition
    from traceanalyzer.placement.registry import Registry
    from traceanalyzer.run import Run

# How to decide among the candidates if only a trace was recorded.
SETTLED_BY: Final = (
    "Run `traceanalyzer capture script.py` to get a definite answer: it records dtypes and "
    "requested devices."
)
_MOST_NAMED: Final = 4
# Common dtypes; few programs use others.
_USUAL: Final = frozenset(
    {
        *("bfloat16", "bool", "double", "float", "half", "string"),
        *("int8", "int16", "int32", "int64", "uint8"),
    }
)
_SMALL_INTEGERS: Final = frozenset({"int32", "int64"})  # that can be kept on the CPU
# Ops that use the shape of a tensor, not its values (`IsMetadata`, graph.h).
_METADATA: Final = frozenset({"Rank", "Shape", "Size"})

# They send tensors to another device's part of the graph (graph_partition.cc).
_SENDS: Final = frozenset({"_HostSend", "_Send"})

# `mirrored_run.py` of python/distribute, for all replicas but the first.
_REPLICA: Final = re.compile(r"(?:^|/)replica_[1-9]\d*/")
# `_GradientsHelper`, python/ops/gradients_util.py: a scope for the gradient of each op, by name,
# inside one for all of them, which a program can rename.
_GRADIENT: Final = re.compile(r"(?:^|/)gradients(?:_\d+)?/(?P<of>.+)_grad/")
_GRADIENTS: Final = re.compile(r"(?:^|/)gradients(?:_\d+)?/|_grad/")
# The scope of a function that was inlined in place of its call (inline_function_utils.cc).
_INLINED: Final = re.compile(r"(?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/")


class _Function(NamedTuple):
    """A function of a host; `call` is the scope of an inlined call in it, or ""."""

    host: str
    name: str
    call: str = ""


class Candidates:
    """Names the causes that are not excluded for the ops of a run."""

    def __init__(self, run: Run) -> None:
        self._version = None if run.version is None else run.version.value
        self._kernels = nearest(self._version)
        self._not_pinning = {
            host.name
            for host in run.hosts
            if host.capture_file is not None and pins_nothing(host.capture_file)
        }
        self._with_replicas: set[_Function] = set()
        self._with_gradients: set[_Function] = set()
        self._gradients_on_cpu: set[tuple[_Function, str]] = set()
        self._with_gpu: set[_Function] = set()
        ops = run.ops
        self._types = dict(zip(ops["op_id"], ops["input_types"], strict=True))
        sends = ops[ops["type"].isin(_SENDS) & (ops["placement"] == "cpu")]
        self._sending = {
            _function(host, function)
            for host, function in zip(sends["host"], sends["function"], strict=True)
        }
        ops = ops[~ops["is_eager"] & (ops["role"] == Role.COMPUTE)]
        columns = ("host", "function", "name", "type", "placement")
        for host, function, name, op_type, placement in zip(
            *(ops[c] for c in columns), strict=True
        ):
            self._look_at(_function(host, function), str(name), str(op_type), str(placement))

    def _look_at(self, function: _Function, name: str, op_type: str, placement: str) -> None:
        if _REPLICA.search(name):
            self._with_replicas.add(function)
        if _GRADIENTS.search(name):
            self._with_gradients.add(function)
        if placement == "cpu" and (gradient := _GRADIENT.search(name)):
            self._gradients_on_cpu.add((function, gradient["of"]))
        if placement.startswith("gpu"):
            # An op that reads a variable is where that is, wherever its function was called.
            definition = self._kernels.registry.definition(op_type)
            if definition is None or not _takes_resource(self._kernels.registry, definition):
                self._with_gpu.add(function._replace(call=_call(name)))

    def of(self, cpu_op: CpuOp | None) -> tuple[str, ...]:
        """Return the possible causes of an op on the CPU, the most likely first; four at most.

        None stands for an op about which nothing is known.
        """
        if cpu_op is None or cpu_op.explanation.contradiction:
            return ()
        definition = self._kernels.registry.definition(cpu_op.explanation.type)
        if definition is None:
            return ("custom_op",)
        excluded = frozenset(self._excluded(cpu_op))
        left = dict.fromkeys(c for c in self._ranked(cpu_op, definition) if c not in excluded)
        return tuple(left)[:_MOST_NAMED]

    def _excluded(self, cpu_op: CpuOp) -> Iterator[str]:
        """Walk the causes that are excluded by what is known about an op."""
        requested = cpu_op.requested_device
        if requested is not None and not asks_for_cpu(requested):
            yield from ("explicit_cpu_placement", "library_cpu_placement")
        if cpu_op.explanation.kernels is not None and GPU in cpu_op.explanation.kernels:
            yield from ("dtype_unsupported", "attr_unsupported", "no_gpu_kernel")
        if self._kernels.exact:
            yield "no_gpu_kernel"
        if cpu_op.host in self._not_pinning:
            yield "grappler_pin_to_host"
        if cpu_op.is_eager:
            yield from ("caller_device_scope_cpu", "colocation_group", "follows_neighbour")

    def _ranked(self, cpu_op: CpuOp, definition: OpDefinition) -> Iterator[str]:
        """Walk the causes in the order that the module explains."""
        if _takes_resource(self._kernels.registry, definition):
            yield from self._of_resource(cpu_op)
            yield from self._young(cpu_op)
        else:
            yield from self._seen(cpu_op, definition)
            yield from self._written(cpu_op)
            yield from self._allowed(cpu_op)
            yield from self._without_mark(cpu_op, definition)
        if self._is_old():
            yield "no_gpu_kernel"

    def _young(self, cpu_op: CpuOp) -> Iterator[str]:
        """Walk the cause of an op whose GPU kernel may be newer than the program's version."""
        if self._version is None and not _had_gpu_kernel_always(cpu_op.explanation.type):
            yield "no_gpu_kernel"

    def _is_old(self) -> bool:
        """Return whether TensorFlow is older than the oldest kernel table."""
        if self._version is None:
            return False
        return last_minor(self._version) < kernel_tables.minor_of(supported()[0])

    def _of_resource(self, cpu_op: CpuOp) -> Iterator[str]:
        """Walk the causes of an op that takes a resource."""
        if _function(cpu_op.host, cpu_op.function) in self._with_replicas:
            yield "distribution_strategy_cpu"
        yield "resource_on_cpu"
        if self._library(cpu_op):
            yield "library_cpu_placement"
        if _USUAL & {*cpu_op.explanation.types_missing}:
            yield "dtype_unsupported"
        yield "distribution_strategy_cpu"
        if cpu_op.explanation.types_missing:
            yield "dtype_unsupported"
        if self._is_colocating(cpu_op):
            yield "colocation_group"

    def _seen(self, cpu_op: CpuOp, definition: OpDefinition) -> Iterator[str]:
        """Walk the causes that the trace suggests for this op."""
        function = _function(cpu_op.host, cpu_op.function)
        if self._library(cpu_op):
            yield "library_cpu_placement"
        if function in self._with_replicas:
            yield "distribution_strategy_cpu"
        if (function, cpu_op.name) in self._gradients_on_cpu:
            yield "colocation_group"
        # A list of strings stays on the host, wherever its handle is; see `placement/nodes.py`.
        if _USUAL & {*cpu_op.explanation.types_missing} or "TensorList" in cpu_op.explanation.type:
            yield "dtype_unsupported"
        if _has_values_without_gpu_kernel(self._kernels.registry, cpu_op.explanation.type):
            yield "attr_unsupported"
        # In a function, the default device takes precedence over the priority of kernels.
        if not _is_in_function(cpu_op) and _prefers_cpu(
            self._kernels.registry, cpu_op.explanation.type
        ):
            yield "kernel_priority"
        if _follows_others(definition):
            yield "follows_neighbour"

    def _written(self, cpu_op: CpuOp) -> Iterator[str]:
        """Walk the causes in a program's own code."""
        yield "explicit_cpu_placement"
        is_called = _is_in_function(cpu_op) or bool(_call(cpu_op.name))
        if is_called and not self._is_beside_gpu(cpu_op):
            yield "caller_device_scope_cpu"
        if self._is_colocating(cpu_op):
            yield "colocation_group"

    def _is_beside_gpu(self, cpu_op: CpuOp) -> bool:
        """Return whether ops of the same call are on a GPU."""
        function = _function(cpu_op.host, cpu_op.function)
        return function._replace(call=_call(cpu_op.name)) in self._with_gpu

    def _may_be_small(self, cpu_op: CpuOp, definition: OpDefinition) -> bool:
        """Return whether `pin_to_host_optimization` may move an op, by its input dtypes."""
        types = self._types.get(cpu_op.op_id)
        known = {*types.split(";")} - {"", UNKNOWN_TYPE} if isinstance(types, str) else frozenset()
        return known <= MOVED_IF_SMALL and _takes(definition, MOVED_IF_SMALL)

    def _is_colocating(self, cpu_op: CpuOp) -> bool:
        """Return whether the code that made an op's graph colocates ops.

        TensorFlow 1 code, which makes a session's graph, does in optimizers and gradients;
        `tf.gradients` does in functions, too.
        """
        function = _function(cpu_op.host, cpu_op.function)
        return not _is_in_function(cpu_op) or function in self._with_gradients

    def _allowed(self, cpu_op: CpuOp) -> Iterator[str]:
        """Walk the causes that the op's kernels allow but few programs have."""
        if cpu_op.explanation.types_missing:
            yield "dtype_unsupported"
        yield from self._young(cpu_op)
        if _has_labels_without_gpu_kernel(self._kernels.registry, cpu_op.explanation.type):
            yield "attr_unsupported"
        if _prefers_cpu(self._kernels.registry, cpu_op.explanation.type):
            yield "kernel_priority"

    def _without_mark(self, cpu_op: CpuOp, definition: OpDefinition) -> Iterator[str]:
        """Walk the causes that leave no mark in a trace."""
        may_be_pinned = not cpu_op.is_eager and self._may_be_small(cpu_op, definition)
        if may_be_pinned and self._is_beside_gpu(cpu_op):
            yield "grappler_pin_to_host"
        yield "distribution_strategy_cpu"
        if may_be_pinned and _function(cpu_op.host, cpu_op.function) in self._sending:
            yield "grappler_pin_to_host"
        if not cpu_op.is_eager:
            # Known library code would show in the names of a graph.
            yield from ("caller_device_scope_cpu", "colocation_group")
        yield "library_cpu_placement"
        if cpu_op.is_eager and _takes_small_integers(definition):
            yield "small_int_pinning"

    def _library(self, cpu_op: CpuOp) -> bool:
        return not cpu_op.is_eager and bool(habit_of(cpu_op.name, self._version))


def _is_in_function(cpu_op: CpuOp) -> bool:
    return bool(cpu_op.function) and not is_session_graph(cpu_op.function)


def _function(host: object, function: object) -> _Function:
    return _Function(str(host), function if isinstance(function, str) else "")


def _call(name: str) -> str:
    """Return the scope of the innermost call that was inlined, of an op's name."""
    found = _INLINED.match(name)
    return "" if found is None else found[0]


def _takes_resource(registry: Registry, definition: OpDefinition) -> bool:
    """Return whether an op must be where one of its inputs is."""
    if definition.name in registry.colocation_exempt:
        return False
    return any(a.type == "resource" or a.is_ref for a in definition.inputs)


def _follows_others(definition: OpDefinition) -> bool:
    """Return whether the placer may put an op where its neighbors are (placer.cc).

    It does for ops with no input and one output, such as constants; ops that use only shapes; and
    identities.
    """
    if definition.name in _METADATA or definition.name == "Identity":
        return True
    outputs = definition.outputs
    is_generator = not definition.inputs and len(outputs) == 1
    return is_generator and not (outputs[0].is_ref or outputs[0].type == "resource")


def _takes_small_integers(definition: OpDefinition) -> bool:
    """Return whether all inputs may be int32 or int64, and the op draws no random numbers."""
    is_drawing = "Random" in definition.name
    return bool(definition.inputs) and not is_drawing and _takes(definition, _SMALL_INTEGERS)


def _takes(definition: OpDefinition, types: AbstractSet[str]) -> bool:
    """Return whether all inputs of an op may have one of the dtypes."""
    return all(_may_be(definition, a.type, a.type_attr, types) for a in definition.inputs)


def _may_be(definition: OpDefinition, dtype: str, attribute: str, types: AbstractSet[str]) -> bool:
    if dtype:
        return dtype in types
    found = definition.attributes.get(attribute)
    return found is None or found.allowed is None or not types.isdisjoint(found.allowed)


@cache
def _has_values_without_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether only CPU kernels accept some value of an attribute that is no dtype."""
    definition = registry.definition(op)
    kernels = [k for k in registry.usable_kernels(op) if not k.label]
    on_gpu = [k for k in registry.gpu_kernels(op) if not k.label]
    on_cpu = [k for k in kernels if k.device_type == CPU]
    if definition is None or not on_cpu:
        return False
    names = {n for k in on_gpu for n in k.constraints if not definition.attributes[n].is_type}
    return any(
        all(
            name in k.constraints
            and any(
                name not in other.constraints or other.constraints[name] - k.constraints[name]
                for other in on_cpu
            )
            for k in on_gpu
        )
        for name in names
    )


@cache
def _has_labels_without_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether a `_kernel` label has only CPU kernels."""
    return bool(_labels(registry, op, {CPU}) - _labels(registry, op, {GPU, DEFAULT}))


def _labels(registry: Registry, op: str, device_types: Iterable[str]) -> set[str]:
    kernels = registry.usable_kernels(op)
    return {k.label for k in kernels if k.label and k.device_type in device_types}


@cache
def _prefers_cpu(registry: Registry, op: str) -> bool:
    """Return whether the CPU kernel of an op has a higher priority than its GPU kernel."""
    kernels = registry.usable_kernels(op)
    cpu = [k.priority for k in kernels if k.device_type in {CPU, DEFAULT}]
    gpu = [k.priority for k in registry.gpu_kernels(op)]
    return bool(cpu and gpu) and max(cpu) > max(gpu)


@cache
def _had_gpu_kernel_always(op: str) -> bool:
    """Return whether all covered versions have a GPU kernel for an op."""
    return all(bool(r.gpu_kernels(op)) for r in registries() if r.definition(op) is not None)
