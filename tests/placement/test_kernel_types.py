"""Types that would give an op a GPU kernel, checked in every version of the registry."""

from collections.abc import Iterator

import pytest

from tests.causes.examples import Example
from traceanalyzer.capture_file.document import Json
from traceanalyzer.placement.by_registry import coverage_text
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_tables import OpDefinition
from traceanalyzer.placement.kernel_types import (
    Combination,
    all_on_host,
    is_copied_to_host,
    is_never_computed,
    support_of,
    types_computed,
    values_taken,
)
from traceanalyzer.placement.registry import Registry, load, registries


@pytest.mark.parametrize(
    ("version", "step"),  # that advice is for; of each op, or of each so many
    [
        *(pytest.param(r.version, 1, marks=pytest.mark.slow) for r in registries()[::-4]),
        (registries()[-1].version, 8),
    ],
)
def test_each_type_that_is_named_gives_a_kernel_in_every_gap_of_a_version(
    version: str, step: int
) -> None:
    """Whatever the other attributes are: they are not asked for."""
    registry = load(version)
    asked, named = 0, 0

    for definition, attributes in gaps(registry, step):
        refused = registry.supported_types(definition.name, attributes).missing[GPU]
        value = attributes[refused[0]]
        if len(refused) > 1 or not isinstance(value, str):
            continue
        taken = values_taken(definition.name, refused[0], value)
        asked, named = asked + 1, named + bool(taken)
        for dtype in taken:
            kernel = registry.find(definition.name, GPU, {**attributes, refused[0]: dtype})
            assert kernel is not None, (definition.name, attributes, refused, dtype)
            assert definition.name in ARRAYS or not all_on_host(
                kernel, definition, {**attributes, refused[0]: dtype}
            )

    assert asked > 1000 / step
    assert named / asked > 0.9


# Their handles are strings, which always are in host memory.
ARRAYS = {"TensorArray", "TensorArrayV2"}


def gaps(registry: Registry, step: int) -> Iterator[tuple[OpDefinition, dict[str, Json]]]:
    """Walk what has a kernel on a CPU and none on a GPU, of ops that have some there."""
    for op in sorted(registry.ops)[::step]:
        definition, support = registry.definition(op), support_of(registry, op)
        if definition is None or support is None or not bool(registry.gpu_kernels(op)):
            continue
        if any(k.label for k in registry.kernels(op)):
            continue
        for combination in support.combinations:
            if combination.gpu is None:
                yield definition, attributes_of(definition, combination)


def attributes_of(definition: OpDefinition, combination: Combination) -> dict[str, Json]:
    return {
        name: [value] if definition.attributes[name].type == "list(type)" else value
        for name, value in combination.values.items()
    }


@pytest.mark.parametrize(
    ("op", "computed", "not_computed"),
    [
        ("AddV2", {"int64", "float"}, {"int32"}),
        ("Sum", {"int64", "float"}, {"int32"}),
        ("Shape", set(), {"int64", "float"}),
        ("MatMul", {"float"}, {"int32", "int64"}),
    ],
)
def test_the_types_that_a_gpu_computes(op: str, computed: set[str], not_computed: set[str]) -> None:
    """A kernel that has all data in host memory computes nothing on the GPU."""
    assert computed <= types_computed(op)
    assert not types_computed(op) & not_computed
    assert is_never_computed(op) is (op == "Shape")


def test_data_that_a_gpu_made_is_copied_to_the_host_for_an_op_that_it_always_computes() -> None:
    copied = {"Qr", "ParallelDynamicStitch", "AddV2", "Shape", "LinSpace", "Mod", "VarHandleOp"}
    assert {op for op in copied if is_copied_to_host(op)} == {"Qr", "ParallelDynamicStitch"}


def said(version: str | None, **times_ps: int) -> str:
    ops = tuple({"name": t, "type": t, "host_self_ps": time} for t, time in times_ps.items())
    return coverage_text(Example(title="", ops=ops).run().ops, version)


def test_what_has_a_kernel_is_counted_and_what_has_none_named() -> None:
    text = said("2.21.0", MatMul=30, Eig=60, Relu=10)

    assert text.startswith(
        "ops with a GPU kernel in TensorFlow 2.21: 2 of 3 (40 % of the host time)"
    )
    assert text.endswith("; without a GPU kernel: Eig")
