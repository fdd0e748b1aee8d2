"""Which kernels an op has, by type: what questions about the registry are answered from.

An op's kernels are looked at as TensorFlow would find them, for each combination of values of the
attributes that they constrain. Combinations that no kernel takes, on CPU or GPU, are no op's and
are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.kernel_tables import ALWAYS_ON_HOST
from traceanalyzer.placement.registry import load, registries, supported

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, Json
    from traceanalyzer.placement.kernel_tables import Kernel
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition
    from traceanalyzer.placement.registry import Registry

# Of the combinations in question: all of them, some, none.
Extent: TypeAlias = Literal["all", "some", "none"]

_ANYTHING: Final = (  # what an attribute may be that neither kernels nor the definition constrain
    *("bfloat16", "bool", "complex128", "complex64", "double", "float", "half"),
    *("int16", "int32", "int64", "int8", "string", "uint16", "uint32", "uint64", "uint8"),
    *("resource", "variant"),
)
# They need the shape of their input alone, which the host knows wherever the data is.
SHAPE_OPS: Final = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_HANDLES: Final = frozenset({"resource"})
_INTEGERS: Final = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Values of the constrained attributes, and the kernels that TensorFlow takes for them."""

    #: The attributes, in the capture file's encoding; of a list its one element.
    values: Mapping[str, Json]
    cpu: Kernel | None
    gpu: Kernel | None
    on_host: bool  #: whether that has all data in host memory


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeSupport:
    """How far the combinations have kernels."""

    cpu: Extent  #: those with a kernel on a CPU
    gpu: Extent  #: those with a kernel on a GPU
    #: Of the latter, those whose kernel has all data in host memory: placed on the GPU, computed on
    #: the host.
    on_host: Extent


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """The kernels of an op in a version of TensorFlow."""

    definition: OpDefinition
    #: The attributes that are the types of its data, rather than of sizes or indices.
    main: tuple[str, ...]
    combinations: tuple[Combination, ...]  #: what it can be, with the kernels
    #: For each constrained type attribute, the types that its definition or a kernel names.
    named: Mapping[str, frozenset[Json]]

    @cached_property
    def overall(self) -> TypeSupport:
        """How far all combinations have kernels."""
        return extent_of(self.combinations)

    @cached_property
    def types(self) -> Mapping[str, Mapping[str, TypeSupport]]:
        """For each constrained type attribute, how far its types have kernels."""
        return {
            name: {
                dtype: extent_of(self.of_type(dtype, name))
                for dtype in sorted({str(c.values[name]) for c in self.combinations})
            }
            for name in self.named
        }

    def of_type(self, dtype: str, attribute: str | None = None) -> tuple[Combination, ...]:
        """Return the combinations in which data are of a type.

        An op without constrained types has the same kernels for each that it takes. Where a kernel
        takes any type (Cast on a CPU), its other attributes are types that are named somewhere: to
        be taken is not to be computed.

        Args:
            attribute: The type attribute that is it; one of `main` if None.
        """
        names = self.main if attribute is None else (attribute,)
        if not names:
            return self.combinations
        return tuple(
            c
            for c in self.combinations
            if any(c.values[name] == dtype for name in names)
            and all(
                c.values[name] == dtype or c.values[name] in named
                for name, named in self.named.items()
            )
        )


@cache
def is_for_cpus_alone(op: str) -> bool:
    """Return whether an op has kernels, and in no version one that a GPU can take."""
    has_kernels = any(registry.kernels(op) for registry in registries())
    return has_kernels and not any(registry.gpu_kernels(op) for registry in registries())


@cache
def known_types() -> frozenset[str]:
    """Return the types that the newest version names, as the capture file names them."""
    registry = registries()[-1]
    found: set[str] = set()
    for definition in filter(None, map(registry.definition, registry.ops)):
        types = {name for name, a in definition.attributes.items() if a.is_type}
        found.update(a.type for a in (*definition.inputs, *definition.outputs) if a.type)
        for name in types:
            found.update(definition.attributes[name].allowed or ())
        for kernel in registry.usable_kernels(definition.name):
            found.update(str(v) for name in types for v in kernel.constraints.get(name, ()))
    return frozenset(found)


def all_on_host(kernel: Kernel, definition: OpDefinition, attributes: Attributes) -> bool:
    """Return whether a kernel on a GPU has all data of an op in host memory.

    The host then computes it. Handles of resources are not data: an op that only makes or takes
    handles (`VarHandleOp`) computes nothing. An op that needs only a shape reads no data of its
    input.
    """
    if definition.outputs and all(_is_all(a, attributes, _HANDLES) for a in definition.outputs):
        return False
    read = () if definition.name in SHAPE_OPS else definition.inputs
    data = [a for a in (*read, *definition.outputs) if not _is_all(a, attributes, _HANDLES)]
    return bool(data) and all(
        argument.name in kernel.host_memory_args or _is_all(argument, attributes, ALWAYS_ON_HOST)
        for argument in data
    )


@cache
def support_of(registry: Registry, op: str) -> Support | None:
    """Return an op's kernels in a version, by type; None for an op that it does not have."""
    definition = registry.definition(op)
    if definition is None:
        return None
    combinations = tuple(_combinations(registry, definition))
    constrained = _constrained_types(registry, definition)
    return Support(
        definition=definition,
        main=_main(constrained, combinations),
        combinations=combinations,
        named={name: _named(registry, definition, name) for name in constrained},
    )


def _named(registry: Registry, definition: OpDefinition, attribute: str) -> frozenset[Json]:
    kernels = registry.usable_kernels(definition.name)
    by_kernels = {v for k in kernels for v in k.constraints.get(attribute, ())}
    return frozenset(by_kernels.union(definition.attributes[attribute].allowed or ()))


def since(op: str, version: str, holds: Callable[[Support], bool]) -> str | None:
    """Return the oldest version from which on something holds of an op, up to a given one."""
    first = None
    versions = supported()
    for earlier in reversed(versions[: versions.index(version) + 1]):
        found = support_of(load(earlier), op)
        if found is None or not holds(found):
            break
        first = earlier
    return first


def extent_of(combinations: Sequence[Combination]) -> TypeSupport:
    """Return how far combinations have kernels."""
    on_gpu = [c for c in combinations if c.gpu is not None]
    return TypeSupport(
        cpu=_share(c.cpu is not None for c in combinations),
        gpu=_share(c.gpu is not None for c in combinations),
        on_host=_share(c.on_host for c in on_gpu),
    )


def _share(answers: Iterable[bool]) -> Extent:
    given = {*answers}
    if given == {True}:
        return "all"
    return "some" if True in given else "none"


def _combinations(registry: Registry, definition: OpDefinition) -> Iterator[Combination]:
    kernels = registry.usable_kernels(definition.name)
    # Kernels of a label are for nodes that ask for it, which some ops are always made to do.
    labels = ("",) if any(not k.label for k in kernels) else tuple({k.label for k in kernels})
    kernels = tuple(k for k in kernels if k.label in labels)
    names = sorted({name for k in kernels for name in k.constraints})
    choices = [_choices(name, kernels, definition) for name in names]
    for values in product(*choices):
        plain = dict(zip(names, values, strict=True))
        attributes = {name: _as_attribute(definition, name, v) for name, v in plain.items()}
        cpu, gpu = (_find(registry, definition.name, d, attributes, labels) for d in (CPU, GPU))
        if cpu is not None or gpu is not None:
            yield Combination(
                values=MappingProxyType(plain),
                cpu=cpu,
                gpu=gpu,
                on_host=gpu is not None and all_on_host(gpu, definition, attributes),
            )


def _find(
    registry: Registry, op: str, device: str, attributes: Attributes, labels: Iterable[str]
) -> Kernel | None:
    found = (registry.find(op, device, attributes, label) for label in sorted(labels))
    return next((kernel for kernel in found if kernel is not None), None)


def _choices(name: str, kernels: Sequence[Kernel], definition: OpDefinition) -> list[Json]:
    """Return the values of a constrained attribute that are looked at.

    An attribute that is no type is looked at as it is by default: what else it may be is no
    question of types.
    """
    attribute = definition.attributes[name]
    if not attribute.is_type and attribute.has_default:
        return [attribute.default]
    values: set[str | int | bool] = {v for k in kernels for v in k.constraints.get(name, ())}
    if attribute.is_type and any(name not in k.constraints for k in kernels):
        values |= {*(attribute.allowed or _ANYTHING)}
    ordered = sorted(values, key=str)
    if attribute.is_type:
        return list(ordered)
    return [{"s": v} if isinstance(v, str) else v for v in ordered]


def _as_attribute(definition: OpDefinition, name: str, value: Json) -> Json:
    return [value] if definition.attributes[name].type == "list(type)" else value


def _constrained_types(registry: Registry, definition: OpDefinition) -> tuple[str, ...]:
    constrained = {
        name
        for k in registry.usable_kernels(definition.name)
        if not k.label
        for name in k.constraints
    } or {name for k in registry.usable_kernels(definition.name) for name in k.constraints}
    return tuple(n for n, a in definition.attributes.items() if a.is_type and n in constrained)


def _main(constrained: tuple[str, ...], combinations: Sequence[Combination]) -> tuple[str, ...]:
    """Return those of an op's type attributes that are not of sizes or indices.

    These can be integers only, while what the op is for can be more (`Tidx` of Sum, `Tindices` of
    Gather, `out_type` of Shape). Of an op for integers, all are meant.
    """
    types = {name: {str(c.values[name]) for c in combinations} for name in constrained}
    data = tuple(name for name in constrained if not types[name] <= _INTEGERS)
    return data or constrained


def _is_all(argument: Argument, attributes: Attributes, types: Collection[str]) -> bool:
    value = attributes.get(argument.type_attr or argument.type_list_attr, argument.type)
    found = value if isinstance(value, list) else [value]
    return bool(found) and all(isinstance(t, str) and t in types for t in found)
