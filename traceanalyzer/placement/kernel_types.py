"""Looks up an op's kernels by type, and the types for which it has a GPU kernel.

The lookup follows TensorFlow's: it tries each combination of values for the attributes that kernels
constrain. Combinations that neither a CPU nor a GPU kernel accepts are ignored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET

from traceanalyzer.capture_file.document import Attributes, Json
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.kernel_tables import Argument, OpDefinition
from traceanalyzer.placement.registry import (
    ALWAYS_ON_HOST,
    Kernel,
    Registry,
    load,
    registries,
    supported,
)

# How many of the given combinations: all, some, or none.
Extent: TypeAlias = Literal["all", "some", "none"]

_INTEGERS: Final = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
_ANYTHING: Final = (  # values of an attribute that neither kernels nor the definition constrain
    *("bfloat16", "bool", "complex128", "complex64", "double", "float", "half"),
    *(*_INTEGERS, "string", "resource", "variant"),
)
# They only need the shape of their input, which the host knows wherever the data is.
_SHAPE_OPS: Final = frozenset({"OnesLike", "Rank", "Shape", "ShapeN", "Size", "ZerosLike"})
_NO_DATA: Final = _SHAPE_OPS | {"Assert", "LinSpace"}
_HANDLES: Final = frozenset({"resource"})
_PYTHON: Final = {"float": "float32", "double": "float64", "half": "float16"}


def python_name(dtype: str) -> str:
    """Return a type's name in Python, such as `float32` for `float`."""
    return _PYTHON.get(dtype, dtype)


class Combination(NamedTuple):
    """Values of the constrained attributes, and the kernels that TensorFlow selects for them."""

    values: Mapping[str, Json]  #: as in the capture file; for a list, its one element
    cpu: Kernel | None
    gpu: Kernel | None
    on_host: bool  #: whether the GPU kernel has all data in host memory


@dataclass(frozen=True, slots=True)
class TypeSupport:
    """Whether all, some, or none of the combinations of attribute values have kernels."""

    cpu: Extent
    gpu: Extent
    on_host: Extent  #: how many of the GPU kernels have all data in host memory

    @property
    def devices(self) -> tuple[str, ...]:
        """The device types that have a kernel for some combination."""
        return tuple(d for d, how in ((CPU, self.cpu), (GPU, self.gpu)) if how != "none")


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """The kernels of an op in one version of TensorFlow."""

    definition: OpDefinition
    main: tuple[str, ...]  #: the attributes that give types of its data, not of sizes or indices
    combinations: tuple[Combination, ...]
    #: For each constrained type attribute, the types that its definition or a kernel names.
    named: Mapping[str, frozenset[Json]]

    @cached_property
    def overall(self) -> TypeSupport:
        """Whether all, some, or no combinations have kernels."""
        return extent_of(self.combinations)

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, TypeSupport]]:
        """The support of each type, by constrained type attribute."""
        return {
            name: {
                dtype: extent_of(self.of_type(dtype, name))
                for dtype in sorted({str(c.values[name]) for c in self.combinations})
            }
            for name in self.named
        }

    def of_type(self, dtype: str, attribute: str | None = None) -> tuple[Combination, ...]:
        """Return the combinations in which the data or the given attribute has type `dtype`.

        Some kernels accept any type, even types that they cannot compute (Cast on a CPU), so the
        other attributes are limited to types that a kernel or the op's definition names.
        """
        names = self.main if attribute is None else (attribute,)
        if not names:
            return self.combinations
        return tuple(
            c
            for c in self.combinations
            if any(c.values[name] == dtype for name in names)
            and all(c.values[n] == dtype or c.values[n] in named for n, named in self.named.items())
        )


def extent_of(combinations: Sequence[Combination]) -> TypeSupport:
    """Return whether all, some, or none of the combinations have kernels."""
    on_host = (c.on_host for c in combinations if c.gpu is not None)
    return TypeSupport(
        _share(c.cpu is not None for c in combinations),
        _share(c.gpu is not None for c in combinations),
        _share(on_host),
    )


def _share(answers: Iterable[bool]) -> Extent:
    given = {*answers}
    if given == {True}:
        return "all"
    return "some" if True in given else "none"


@cache
def support_of(registry: Registry, op: str) -> Support | None:
    """Return an op's kernels by type in one version, or None if that version lacks the op."""
    definition, every = registry.definition(op), registry.usable_kernels(op)
    if definition is None:
        return None
    # Kernels with a label are for nodes that request it, which some ops always do.
    kernels = tuple(k for k in every if not k.label) or every
    constrained = {name for kernel in kernels for name in kernel.constraints}
    types = [n for n, a in definition.attributes.items() if a.is_type and n in constrained]
    combinations = tuple(_combinations(registry, definition, kernels, sorted(constrained)))
    # Sizes and indices are always integers (`Tidx` of Sum, `Tindices` of Gather, `out_type` of
    # Shape), while data can have other types. For an op on integers, all type attributes count.
    can_be = {name: {str(c.values[name]) for c in combinations} for name in types}
    data = tuple(name for name in types if not can_be[name] <= _INTEGERS)
    return Support(
        definition=definition,
        main=data or tuple(types),
        combinations=combinations,
        named={
            name: frozenset(v for k in every for v in k.constraints.get(name, ()))
            | frozenset(definition.attributes[name].allowed or ())
            for name in types
        },
    )


def _combinations(
    registry: Registry, definition: OpDefinition, kernels: Sequence[Kernel], names: Sequence[str]
) -> Iterator[Combination]:
    op = definition.name
    labels = sorted({kernel.label for kernel in kernels})
    for values in product(*(_choices(name, kernels, definition) for name in names)):
        plain = dict(zip(names, values, strict=True))
        attributes: dict[str, Json] = {
            name: [value] if definition.attributes[name].type == "list(type)" else value
            for name, value in plain.items()
        }
        cpu, gpu = (
            next(filter(None, (registry.find(op, device, attributes, at) for at in labels)), None)
            for device in (CPU, GPU)
        )
        if cpu is not None or gpu is not None:
            on_host = gpu is not None and all_on_host(gpu, definition, attributes)
            yield Combination(plain, cpu, gpu, on_host)


def _choices(name: str, kernels: Sequence[Kernel], definition: OpDefinition) -> list[Json]:
    """Return the values to try for an attribute; only the default for a non-type that has one."""
    attribute = definition.attributes[name]
    if not attribute.is_type and attribute.default is not UNSET:
        return [attribute.default]
    values: set[str | int | bool] = {v for k in kernels for v in k.constraints.get(name, ())}
    if attribute.is_type and any(name not in k.constraints for k in kernels):
        values |= {*(attribute.allowed or _ANYTHING)}
    is_text = not attribute.is_type
    return [{"s": v} if is_text and isinstance(v, str) else v for v in sorted(values, key=str)]


def all_on_host(kernel: Kernel, definition: OpDefinition, attributes: Attributes) -> bool:
    """Return whether a GPU kernel has all data in host memory, so that the host computes the op.

    Resource handles do not count as data, and an op that only needs a shape reads no data.
    """
    if definition.outputs and all(_is_all(a, attributes, _HANDLES) for a in definition.outputs):
        return False
    read = () if definition.name in _SHAPE_OPS else definition.inputs
    data = [a for a in (*read, *definition.outputs) if not _is_all(a, attributes, _HANDLES)]
    return bool(data) and all(
        argument.name in kernel.host_memory_args or _is_all(argument, attributes, ALWAYS_ON_HOST)
        for argument in data
    )


def _is_all(argument: Argument, attributes: Attributes, types: Collection[str]) -> bool:
    value = attributes.get(argument.type_attr or argument.type_list_attr, argument.type)
    found = value if isinstance(value, list) else [value]
    return bool(found) and all(isinstance(t, str) and t in types for t in found)


# --- In every version from 2.12 on ---------------------------------------------------------------
#
# Where versions differ, these functions return only answers that are correct for all of them.


@cache
def definition_of(op: str) -> OpDefinition | None:
    """Return an op's definition in the newest version that has the op, or None."""
    return next(filter(None, (each.definition(op) for each in reversed(registries()))), None)


def is_type(op: str, attribute: str) -> bool:
    """Return whether an attribute of an op is a type or a list of types."""
    definition = definition_of(op)
    known = {} if definition is None else definition.attributes
    return attribute in known and known[attribute].is_type


def inputs_of(op: str, attribute: str) -> tuple[str, ...]:
    """Return the names of the inputs whose type an attribute gives, in the op's order."""
    definition = definition_of(op)
    inputs = () if definition is None else definition.inputs
    return tuple(a.name for a in inputs if attribute in {a.type_attr, a.type_list_attr})


@cache
def is_for_cpus_alone(op: str) -> bool:
    """Return whether an op has kernels in some version, but a GPU kernel in none."""
    of_all = [load(version) for version in supported()]
    return any(r.kernels(op) for r in of_all) and not any(r.gpu_kernels(op) for r in of_all)


@cache
def is_input_in_host_memory(op: str, index: int) -> bool:
    """Return whether any GPU kernel of an op, in any version, needs an input in host memory.

    Inputs from the first list on have no fixed position, so any of them counts.
    """
    for registry in registries():
        definition = registry.definition(op)
        inputs = () if definition is None else definition.inputs
        is_list = [bool(each.number_attr or each.type_list_attr) for each in inputs]
        first_list = [*is_list, True].index(True)
        possible = inputs[index : index + 1] if index < first_list else inputs[first_list:]
        on_host = {name for k in registry.gpu_kernels(op) for name in k.host_memory_args}
        if any(each.name in on_host for each in possible):
            return True
    return False


@cache
def types_computed(op: str) -> frozenset[str]:
    """Return the data types for which a GPU computes an op in every version that has the op.

    Kernels that have all data in host memory do not count.
    """
    computed = [
        frozenset(
            dtype
            for name in support.main
            for dtype, found in support.types[name].items()
            if found.gpu == "all" and found.on_host == "none"
        )
        for support in _supports(op)
    ]
    return frozenset.intersection(*computed) if computed else frozenset()


def is_never_computed(op: str) -> bool:
    """Return whether the GPU kernels of an op have all data in host memory, in every version."""
    found = _supports(op)
    return bool(found) and all(support.overall.on_host == "all" for support in found)


def _supports(op: str) -> list[Support]:
    return [*filter(None, (support_of(registry, op) for registry in registries()))]


@cache
def is_copied_to_host(op: str) -> bool:
    """Return whether all GPU kernels of an op, such as `Qr`, compute on data copied to the host.

    Sizes, indices, and scalars (`LinSpace`) do not count as data here.
    """
    definition = definition_of(op)
    support = support_of(registries()[-1], op)
    if definition is None or support is None or op in _NO_DATA or not is_never_computed(op):
        return False
    types = {a.type_attr or a.type_list_attr for a in definition.inputs}
    return any(
        c.on_host and "float" in {v for name, v in c.values.items() if name in types}
        for c in support.combinations
    )


@cache
def casts_on_gpu(source: str, target: str) -> bool:
    """Return whether a GPU can cast one type to another in every version."""
    types = {"SrcT": source, "DstT": target}
    return all(r.find("Cast", GPU, types) is not None for r in registries())


@cache
def values_taken(op: str, attribute: str, value: str) -> tuple[str, ...]:
    """Return the sorted values of an attribute for which a GPU computes an op.

    `value` is a node's current value, which rules out its GPU kernels. Kernels with all data in
    host memory do not count, unless the attribute gives no argument's type (`VarHandleOp`).
    """
    each = (_taken_in(registry, op, attribute, value) for registry in registries())
    known = [values for values in each if values is not None]
    return tuple(sorted(frozenset.intersection(*known))) if known else ()


def _taken_in(registry: Registry, op: str, attribute: str, value: str) -> frozenset[str] | None:
    """Return `values_taken` in one version, or None if it lacks the op or may accept `value`."""
    definition = registry.definition(op)
    on_gpu = [kernel for kernel in registry.gpu_kernels(op) if not kernel.label]
    refusing = [k for k in on_gpu if value not in k.constraints.get(attribute, {value})]
    if definition is None or (on_gpu and not refusing):
        return None
    if not on_gpu:
        return frozenset()
    carried = definition.has_argument_of({attribute})
    # One of these refuses the node for this attribute alone; it is unknown which.
    by_kernel = [
        frozenset(
            other
            for k in on_gpu
            if _is_wider(k, refused, attribute)
            for other in k.constraints.get(attribute, ())
            if isinstance(other, str)
            and not (carried and all_on_host(k, definition, {attribute: other}))
        )
        for refused in refusing
    ]
    return frozenset.intersection(*by_kernel)


def _is_wider(kernel: Kernel, other: Kernel, attribute: str) -> bool:
    """Return whether a kernel accepts all nodes that `other` accepts, ignoring an attribute."""
    return all(
        name in other.constraints and other.constraints[name] <= allowed
        for name, allowed in kernel.constraints.items()
        if name != attribute
    )
