"""Whether the tables say what TensorFlow says: each difference in a line.

TensorFlow's side is its own protocol buffers, the other what `Registry` reads from the tables; both
come down to one value for each constrained attribute, whatever was merged.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.kernel_tables.lines import Combination, combinations, encoded, type_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.kernel_tables.tables import Extraction
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition
    from traceanalyzer.placement.registry import Kernel, Registry


def differences(registry: Registry, extraction: Extraction) -> list[str]:
    """Return how a registry differs from what a TensorFlow has registered; [] for not at all."""
    from tensorflow.core.framework import kernel_def_pb2, op_def_pb2  # noqa: PLC0415 - seconds

    kernels = kernel_def_pb2.KernelList.FromString(extraction.kernels).kernel
    ops = op_def_pb2.OpList.FromString(extraction.ops).op
    theirs, ours = Counter(combinations(kernels)), Counter(_combinations_of_tables(registry))
    found = [f"only in TensorFlow: {c}" for c in theirs - ours]
    found += [f"only in the tables: {c}" for c in ours - theirs]
    there = {op.name: op for op in ops}
    found += [f"op not in the tables: {name}" for name in there.keys() - {*registry.ops}]
    found += [f"op only in the tables: {name}" for name in {*registry.ops} - there.keys()]
    for name in there.keys() & {*registry.ops}:
        definition = registry.definition(name)
        if definition is None or _plain(definition) != _plain_proto(there[name]):
            found.append(f"defined differently: {name}: {definition}, not {there[name]}")
    if registry.colocation_exempt != {*extraction.exempt}:
        found.append(f"exempt from colocation: {registry.colocation_exempt ^ {*extraction.exempt}}")
    return sorted(found)


def _combinations_of_tables(registry: Registry) -> Iterator[Combination]:
    for op in registry.ops:
        for kernel in registry.kernels(op):
            yield from _single(kernel)


def _single(kernel: Kernel) -> Iterator[Combination]:
    names = sorted(kernel.constraints)
    for values in product(*(kernel.constraints[name] for name in names)):
        yield Combination(
            op=kernel.op,
            device_type=kernel.device_type,
            values=tuple(zip(names, values, strict=True)),
            host_memory_args=kernel.host_memory_args,
            priority=kernel.priority,
            label=kernel.label,
        )


def _plain(definition: OpDefinition) -> object:
    return (
        [_plain_argument(a) for a in definition.inputs],
        [_plain_argument(a) for a in definition.outputs],
        [
            (
                name,
                a.type,
                # As text: True is 1 to Python, and not to TensorFlow.
                json.dumps(a.default) if a.has_default else None,
                None if a.allowed is None else sorted(a.allowed),
                a.minimum,
            )
            for name, a in definition.attributes.items()
        ],
        definition.is_stateful,
    )


def _plain_argument(argument: Argument) -> object:
    return (
        argument.name,
        argument.type,
        argument.type_attr,
        argument.number_attr,
        argument.type_list_attr,
        argument.is_ref,
    )


def _plain_proto(op: Any) -> object:  # noqa: ANN401 - an OpDef, made at run time
    return (
        _plain_arguments(op.input_arg),
        _plain_arguments(op.output_arg),
        [
            (
                a.name,
                a.type,
                json.dumps(encoded(a.default_value)) if a.HasField("default_value") else None,
                _plain_allowed(a),
                a.minimum if a.has_minimum else None,
            )
            for a in op.attr
        ],
        op.is_stateful,
    )


def _plain_arguments(arguments: Iterable[Any]) -> object:
    return [
        (
            a.name,
            type_name(a.type) if a.type else "",
            a.type_attr,
            a.number_attr,
            a.type_list_attr,
            a.is_ref,
        )
        for a in arguments
    ]


def _plain_allowed(attribute: Any) -> object:  # noqa: ANN401
    if not attribute.HasField("allowed_values"):
        return None
    listed = attribute.allowed_values.list
    return sorted([*map(type_name, listed.type), *(s.decode() for s in listed.s)])
