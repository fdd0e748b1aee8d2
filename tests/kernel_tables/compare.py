"""Compares the tables, as `Registry` reads them, with TensorFlow's own protocol buffers.

Both are reduced to one value for each constrained attribute, whatever kernels were merged.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product

from tests.kernel_tables.lines import Combination, combinations, definition_of
from tests.kernel_tables.tables import Extraction
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
        defined, wanted = registry.definition(name), definition_of(there[name])
        # As text too: True is 1 to Python, and not to TensorFlow.
        if defined != wanted or repr(defined.attributes) != repr(wanted.attributes):
            found.append(f"defined differently: {name}: {defined}, not {wanted}")
    if registry.colocation_exempt != {*extraction.exempt}:
        found.append(f"exempt from colocation: {registry.colocation_exempt ^ {*extraction.exempt}}")
    return sorted(found)


def _combinations_of_tables(registry: Registry) -> Iterator[Combination]:
    for op in registry.ops:
        for kernel in registry.kernels(op):
            yield from _single(op, kernel)


def _single(op: str, kernel: Kernel) -> Iterator[Combination]:
    names = sorted(kernel.constraints)
    for values in product(*(kernel.constraints[name] for name in names)):
        yield Combination(
            op=op,
            device_type=kernel.device_type,
            values=tuple(zip(names, values, strict=True)),
            host_memory_args=kernel.host_memory_args,
            priority=kernel.priority,
            label=kernel.label,
        )
