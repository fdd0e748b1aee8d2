"""Infers from a trace alone why ops are on the CPU, using the other ops that ran.

An op that takes a resource runs where the resource is. Any other op with a GPU kernel for all
possible inputs is on the CPU because a scope requests it. The scope is around the op if the op's
function also has ops on a GPU; otherwise, it is around the call of the function.

This is no proof: a `tf.distribute` strategy, `colocate_with`, and Grappler options can have the
same effect. Ops that may be on the CPU for one of these reasons stay unexplained.
`tests/labelled/calibration.py` measures how many of the other answers are right.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Resource
from traceanalyzer.format import series
from traceanalyzer.model import Certainty
from traceanalyzer.placement.blocker import Blocker, BlockerKind, Link
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.explanations import PlacementExplanation, doubted
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS
from traceanalyzer.placement.program import ProgramPlacement
from traceanalyzer.placement.registry import Registry, nearest
from traceanalyzer.placement.scopes import habit_of

# Common dtypes; few programs use others.
USUAL: Final = frozenset(
    {
        *("bfloat16", "bool", "double", "float", "half", "string"),
        *("int8", "int16", "int32", "int64", "uint8"),
    }
)
# `mirrored_run.py` of python/distribute, for all replicas but the first.
REPLICA: Final = re.compile(r"(?:^|/)replica_[1-9]\d*/")
# `_GradientsHelper`, python/ops/gradients_util.py: a scope for the gradient of each op, by name,
# inside one for all of them, which a program can rename. Both ops are colocated.
GRADIENT: Final = re.compile(r"(?:^|/)gradients(?:_\d+)?/(?P<of>.+)_grad/")
# Up to Keras 2.10, an optimizer updates each variable in such a scope, colocated with it
# (`_distributed_apply`, optimizer_v2.py).
UPDATE: Final = re.compile(r"(?:^|/)(?P<update>(?P<optimizer>[A-Z]\w*)/(?:\w+/)*?update\w*)/")

# What Keras' optimizers compute once per device and step for all updates there: learning rates and
# powers of betas (`_prepare_local`, in `device(var.device)`, optimizer_v2.py).
_PREPARATION: Final = re.compile(r"(?:[a-z]\w*/)*(?P<optimizer>[A-Z]\w*)/(?!(?:\w+/)*update)")

_CPU_0: Final = "/device:CPU:0"
# The scope of a function that was inlined in place of its call (inline_function_utils.cc).
_INLINED: Final = re.compile(r"(?:.*/)?(?:Stateful)?PartitionedCall(?:_\d+)?/")
_CALLS: Final = frozenset({"StatefulPartitionedCall", "PartitionedCall", "gradient_tape"})
_FLOW: Final = frozenset({"while", "cond", "body", "case"})
_LAYER: Final = re.compile(r"[a-z][a-z0-9_]*")  # names that programs and layers give
_LOOKUP: Final = re.compile(r"/embedding_lookup(?:_\d+)?(?:/.*)?$")
_INITIALIZER: Final = re.compile(r"(?P<variable>.+)/Initializer/")  # colocated with `Assign`
_NUMBER: Final = re.compile(r"_\d+$")
_RESULT: Final = re.compile(r"(?:.*/)?Identity(?:_\d+)?")  # a function's result
# Programs compute sizes with these: `pin_to_host_optimization` moves them.
_OF_SIZES: Final = frozenset(
    {
        *("Add", "AddV2", "Cast", "ConcatV2", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Mul"),
        *("Pack", "Range", "Reshape", "StridedSlice", "Sub"),
    }
)
_FLOATS: Final = frozenset({"double", "float", "half"})
_INTEGERS: Final = frozenset({"int16", "int32", "int64"})
# Code that runs these requests the CPU for other ops, too: python/checkpoint/functional_saver.py,
# and `write` of python/ops/summary_ops_v2.py, where `tf.summary.histogram` computes its value.
_BESIDE_LIBRARY_SCOPES: Final = frozenset({"RestoreV2", "SaveV2", "WriteSummary"})
_EMBEDDING: Final = "embedding"  # a habit: its ops use a variable on the CPU


class OpenOp(NamedTuple):
    """A CPU op whose placement is not explained by a missing GPU kernel."""

    op_id: str
    name: str
    function: str  #: the function it ran in; "" for none, or a session
    is_eager: bool
    types: tuple[str, ...]  #: of its inputs, as far as they are known
    explanation: PlacementExplanation

    @property
    def type(self) -> str:
        """The op type in the program, before TensorFlow's rewrites."""
        return self.explanation.type


class InlinedCall(NamedTuple):
    """A function, or an inlined call within it."""

    function: str
    inlined: str = ""  #: the scope of the call


def _call(op: OpenOp) -> InlinedCall:
    return call_of(op.function, op.name)


def call_of(function: str, name: str) -> InlinedCall:
    """Return the innermost inlined call that an op belongs to, or its function."""
    found = _INLINED.match(name)
    return InlinedCall(function, "" if found is None else found[0])


class OtherOps(NamedTuple):
    """The other ops of a host: graph ops by function, name, and type; eager ops by type."""

    on_gpu: Sequence[tuple[str, str, str]] = ()  #: the type can be ""
    refused: Sequence[tuple[str, str, str]] = ()  #: no GPU kernel takes them, or their dtypes
    eager_types: Collection[str] = ()
    is_distributed: bool = False  #: whether the program has several tasks


def inferred(
    ops: Sequence[OpenOp], other: OtherOps, version: str | None
) -> dict[str, PlacementExplanation]:
    """Explain CPU ops of a host from the other ops that ran. Return explanations by op id.

    If library code may have created an eager op, the certainty is only "possible".
    """
    registry = nearest(version).registry
    on_cpu = [
        *((op.function, op.name) for op in ops),
        *((f, name) for f, name, _ in other.refused),
    ]
    gradients = [(function, GRADIENT.search(name)) for function, name in on_cpu]
    colocated = {(function, found["of"]) for function, found in gradients if found}
    left = [
        op
        for op in ops
        if registry.definition(op.type) is not None
        and not GRADIENT.search(op.name)
        and (op.function, op.name) not in colocated
    ]
    explained = {op.op_id: _by_name(op) for op in left if _is_of_library(op, version)}
    left = [op for op in left if op.op_id not in explained]
    variables = [op for op in left if registry.takes_resource(op.type)]
    others = [op for op in left if not registry.takes_resource(op.type)]
    # An op's name is its type by default.
    there = [
        (function, name)
        for function, name, op_type in other.on_gpu
        if not registry.takes_resource(op_type or _NUMBER.sub("", name.rpartition("/")[2]))
    ]
    names = [name for _, name in there] + [op.name for op in ops]
    if other.is_distributed or any(map(REPLICA.search, names)):
        return explained
    by_variable = _by_variables(variables, others, version)
    others = [op for op in others if op.op_id not in by_variable]
    calls = {_call(op) for op in variables}
    by_scope = _by_scopes(registry, others, there, calls, other.refused)
    if by_scope is None:
        return explained
    leads = {(op.function, user_of(op.name)): op for op in reversed(variables)}
    following = {
        op.op_id: _following(op, lead, by_variable[lead.op_id].habit)
        for op in others
        if user_of(op.name) and (lead := leads.get((op.function, user_of(op.name))))
    }
    if beside := sorted(_BESIDE_LIBRARY_SCOPES.intersection(other.eager_types)):
        doubt = f"library code that runs {series(beside, len(beside))} also requests the CPU"
        for op in ops:
            if op.is_eager and op.op_id in by_scope:
                by_scope[op.op_id] = doubted(by_scope[op.op_id], doubt, "possible")
    return {**explained, **by_variable, **following, **by_scope}


def _is_of_library(op: OpenOp, version: str | None) -> bool:
    return not op.is_eager and habit_of(op.name, version) not in {"", _EMBEDDING}


def _by_name(op: OpenOp) -> PlacementExplanation:
    return _explained(op, BlockerKind.REQUEST, "its name is typical of library ops")


def _following(op: OpenOp, lead: OpenOp, habit: str) -> PlacementExplanation:
    """Explain an op of a layer, or of its gradient, by the layer's variable on the CPU."""
    shown = f"it is in `{user_of(op.name)}`, which uses a variable on the CPU"
    found = _tied(_explained(op, BlockerKind.RESOURCE, shown), lead, "follows")
    return replace(
        found, habit=habit, certainty="possible", doubt="it may be on the CPU for another reason"
    )


def _by_scopes(
    registry: Registry,
    ops: Sequence[OpenOp],
    there: Collection[tuple[str, str]],
    with_variable: Collection[InlinedCall],
    refused: Sequence[tuple[str, str, str]],
) -> dict[str, PlacementExplanation] | None:
    """Explain ops by a scope around them or their call. Return None if a strategy may be the cause.

    A strategy puts a whole function and its variables on the CPU, but not the function's results.
    An op without any GPU kernel can keep its consumers on the CPU, through `colocate_with` or
    `pin_to_host_optimization`. This leaves the same trace as a scope around all of these ops.
    """
    beside = {
        call_of(function, name): op
        for function, name, op in refused
        if registry.makes_numbers(op) and not registry.gpu_kernels(op)
    }
    calls: dict[InlinedCall, list[OpenOp]] = defaultdict(list)
    explained = {}
    for op in ops:
        if not op.is_eager and not _may_follow(registry, op.type):
            calls[_call(op)].append(op)
        elif op.is_eager and _is_free(registry, op):
            has = "it has GPU kernels for all common dtypes"
            explained[op.op_id] = _explained(op, BlockerKind.REQUEST, has)
    reach_gpu = {call_of(function, name) for function, name in there}
    beside_gpu = {call_of(f, name) for f, name in there if not _RESULT.fullmatch(name)}
    for call, members in calls.items():
        if call.function and call in with_variable and call in reach_gpu - beside_gpu:
            return None
        is_whole = bool(call.function) and call not in reach_gpu
        for op in _under_scope(registry, members, is_whole=is_whole):
            found = _by_scope(op, call, is_whole=is_whole)
            is_beside = call in beside and not is_whole
            doubt = f"{beside.get(call)}, which has no GPU kernel, may keep the op on the CPU"
            explained[op.op_id] = doubted(found, doubt if is_beside else "", "possible")
    return explained


def _under_scope(registry: Registry, ops: Sequence[OpenOp], *, is_whole: bool) -> list[OpenOp]:
    """Return the ops of a call that are on the CPU because of a scope.

    If this is certain for one op, it applies to all others with GPU kernels for common floats.
    """
    types = {op.type for op in ops}
    usual = [op for op in ops if _FLOATS.isdisjoint(op.explanation.types_missing)]
    is_sure = any(_is_free(registry, op) for op in ops)
    is_sure |= is_whole and len(types) > 1 and len(usual) == len(ops)
    if not is_sure or types <= _OF_SIZES:
        return []
    return [*ops] if is_whole else usual


def _by_scope(op: OpenOp, call: InlinedCall, *, is_whole: bool) -> PlacementExplanation:
    where = f"`{call.function}`" if call.function else "the graph"
    if not is_whole:
        shown = f"some ops of {where} ran on the CPU despite GPU kernels for all common dtypes"
        return _explained(op, BlockerKind.REQUEST, shown)
    shown = f"no op of {where} is known to be on a GPU, not even ops with GPU kernels"
    called = call.inlined.rstrip("/")
    return _explained(op, BlockerKind.DEFAULT_DEVICE, shown, called_in=called)


def _by_variables(
    variables: Sequence[OpenOp], others: Sequence[OpenOp], version: str | None
) -> dict[str, PlacementExplanation]:
    """Explain the ops that use variables, and the other ops that update these variables.

    The name of an update usually does not contain the variable's name. If only one scope of a
    function uses variables on the CPU, the function's updates are attributed to that scope.
    """
    users: dict[str, set[str]] = defaultdict(set)
    for op in variables:
        if not _update(op.name):
            users[op.function].add(user_of(op.name))
    found = {}
    for op in variables:
        owner = _owner(op, users[op.function])
        shown = f"{op.type} ran on the CPU, and it runs where its variable is"
        explained = _explained(op, BlockerKind.RESOURCE, shown, owner=owner)
        found[op.op_id] = replace(explained, habit=habit_of(f"{owner}/", version))
    named = {(op.function, op.name): op for op in variables}
    updates = {(op.function, _update(op.name)): op for op in variables if _update(op.name)}
    by_optimizer = {
        (function, update.partition("/")[0]): op for (function, update), op in updates.items()
    }
    for op in others:
        lead = updates.get((op.function, _update(op.name)))
        if lead is None and (prepared := _PREPARATION.match(op.name)):
            lead = by_optimizer.get((op.function, prepared["optimizer"]))
        if initializer := _INITIALIZER.match(op.name):
            lead = named.get((op.function, f"{initializer['variable']}/Assign"))
        if lead is not None:
            shown = f"it belongs to {lead.name}, which uses a variable on the CPU"
            explained = _tied(_explained(op, BlockerKind.RESOURCE, shown), lead, "class")
            found[op.op_id] = replace(explained, habit=found[lead.op_id].habit)
    return found


def _tied(explanation: PlacementExplanation, lead: OpenOp, link: Link) -> PlacementExplanation:
    (blocker,) = explanation.blockers
    blocker = replace(blocker, link=link, type=lead.type, name=lead.name)
    return replace(explanation, blockers=(blocker,), follows=(lead.name,))


def _owner(op: OpenOp, users: Collection[str]) -> str:
    update = _update(op.name)
    if not update:
        return user_of(op.name)
    named = {user for user in users if user and user.rpartition("/")[2] in update}
    owners = named if len(named) == 1 else users
    return next(iter(owners)) if len(owners) == 1 else update


def _update(name: str) -> str:
    found = UPDATE.search(name)
    return "" if found is None else found["update"]


def user_of(name: str) -> str:
    """Return the name scope, such as a layer's, of an op that uses a variable."""
    return name_scope(_LOOKUP.sub("/", name))


def name_scope(node: str) -> str:
    """Return the name scope that the program or its layers opened around a node, or ""."""
    parts = [part for part in node.split("/")[:-1] if part not in _CALLS]
    named = takewhile(lambda part: _LAYER.fullmatch(part) and part not in _FLOW, parts)
    return "/".join(named)


def _explained(
    op: OpenOp, kind: BlockerKind, shown: str, *, called_in: str = "", owner: str = ""
) -> PlacementExplanation:
    blocker = Blocker(
        kind=kind,
        type=op.type,
        name="" if op.is_eager else op.name,
        function=op.function,
        requested_device=_CPU_0,
        called_in=called_in,
        resource=Resource(name=owner) if owner else None,
    )
    return replace(
        op.explanation,
        blockers=(blocker,),
        basis="inference",
        certainty="likely",
        inferred_from=shown,
        is_complete=True,
    )


def _may_follow(registry: Registry, op: str) -> bool:
    """Return whether an op may be where its neighbors are; a resource is where its users are."""
    definition = registry.definition(op)
    return registry.follows_others(op) or (definition is not None and definition.makes_handles)


def _is_free(registry: Registry, op: OpenOp) -> bool:
    """Return whether an op could have run on a GPU, whatever its inputs were."""
    return (
        USUAL.isdisjoint(op.explanation.types_missing)
        and "TensorList" not in op.type
        and not registry.follows_others(op.type)
        and not registry.has_values_without_gpu_kernel(op.type)
        and not registry.has_labels_without_gpu_kernel(op.type)
        and not registry.prefers_cpu(op.type)
        and not (op.types and _INTEGERS.issuperset(op.types))
    )


# --- Graphs beside a trace ---


def by_strategies(
    program: ProgramPlacement, *, is_distributed: bool
) -> Iterator[tuple[str, Certainty]]:
    """Yield each function whose devices a `tf.distribute` strategy may request, and the certainty.

    A strategy marks the ops of its replicas by name (python/distribute/mirrored_run.py), and
    requests devices by full names, as `tf.device(x.device)` does. Devices of ops that use
    variables or tables do not count.
    """
    for name, placements in program.functions.items():
        for placement in (each.placement for each in placements):
            graph, bound = placement.nodes.graph, placement.bound
            resources = {bound[at] for at, op in enumerate(graph.ops) if op in ARGUMENTS}
            users = {at for at, root in bound.items() if root in resources}
            scopes = {scope for at in users if (scope := graph.names[at].rpartition("/")[0])}
            is_full = any(
                device.startswith("/job:") and asks_for_cpu(device)
                for at, device in enumerate(graph.devices)
                if at not in users and graph.names[at].rpartition("/")[0] not in scopes
                if graph.ops[at] not in RESULTS
            )
            if any(map(REPLICA.search, graph.names)):
                yield name, "likely"
            elif is_full:
                yield name, "likely" if is_distributed else "possible"
