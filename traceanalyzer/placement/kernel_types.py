"""Which types would give an op a kernel on a GPU, whatever else is known of it.

All answers hold in every version of TensorFlow that has a table: where versions differ, they say
less rather than something wrong for one of them.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.registry import registries
from traceanalyzer.placement.support import (
    SHAPE_OPS,
    all_on_host,
    known_types,
    support_of,
)

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.placement.kernel_tables import Kernel
    from traceanalyzer.placement.op_definitions import OpDefinition
    from traceanalyzer.placement.registry import Registry
    from traceanalyzer.placement.support import Support

_NO_DATA: Final = SHAPE_OPS | {"Assert", "LinSpace"}
_PYTHON: Final = {"float": "float32", "double": "float64", "half": "float16"}


def python_name(dtype: str) -> str:
    """Return the name that a program gives a type: `float32` for `float`."""
    return _PYTHON.get(dtype, dtype)


@cache
def definition_of(op: str) -> OpDefinition | None:
    """Return an op's definition in the newest version that has it; None for no op of TensorFlow."""
    found = (registry.definition(op) for registry in reversed(registries()))
    return next((definition for definition in found if definition is not None), None)


def is_type(op: str, attribute: str) -> bool:
    """Return whether an attribute of an op is a type or a list of types."""
    definition = definition_of(op)
    found = None if definition is None else definition.attributes.get(attribute)
    return found is not None and found.is_type


def inputs_of(op: str, attribute: str) -> tuple[str, ...]:
    """Return the names of the inputs whose type an attribute is, in the op's order."""
    definition = definition_of(op)
    inputs = () if definition is None else definition.inputs
    return tuple(a.name for a in inputs if attribute in {a.type_attr, a.type_list_attr})


@cache
def types_taken(op: str, attribute: str, value: str) -> tuple[str, ...]:
    """Return the types that an attribute can have instead of one, to have a GPU kernel; sorted.

    Args:
        attribute: The one attribute that keeps a node from every GPU kernel that it comes nearest
            to. The others may have any values.

    Returns:
        Those with which the node certainly has a kernel that computes on the GPU: not one that has
        all its arguments in host memory, unless it has no data of that type at all (`VarHandleOp`).
    """
    return tuple(sorted(known_types() & _taken(op, attribute, value)))


@cache
def types_computed(op: str) -> frozenset[str]:
    """Return the types of data that a GPU computes an op with, in every version that has it.

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
    return reduce(frozenset.intersection, computed) if computed else frozenset()


def is_never_computed(op: str) -> bool:
    """Return whether no GPU kernel of an op, in any version, computes on the GPU."""
    found = _supports(op)
    return bool(found) and all(support.overall.on_host == "all" for support in found)


def _supports(op: str) -> list[Support]:
    found = (support_of(registry, op) for registry in registries())
    return [support for support in found if support is not None]


@cache
def is_copied_to_host(op: str) -> bool:
    """Return whether the host computes an op whatever its type, on data that a GPU may have made.

    `Qr` is one. Sizes, indices and scalars (`LinSpace`) are not such data.
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
def values_taken(op: str, attribute: str, value: str) -> tuple[str, ...]:
    """Return the same for an attribute that is a string."""
    return tuple(sorted(_taken(op, attribute, value)))


@cache
def casts_on_gpu(source: str, target: str) -> bool:
    """Return whether a GPU casts one type to another, in every version that has both."""
    attributes: dict[str, Json] = {"SrcT": source, "DstT": target, "Truncate": False}
    return all(r.find("Cast", GPU, attributes) is not None for r in registries())


def _taken(op: str, attribute: str, value: str) -> frozenset[str]:
    each = [
        _taken_in(registry, definition, attribute, value)
        for registry in registries()
        if (definition := registry.definition(op)) is not None
    ]
    known = [values for values in each if values is not None]
    return reduce(frozenset.intersection, known) if known else frozenset()


def _taken_in(
    registry: Registry, definition: OpDefinition, attribute: str, value: str
) -> frozenset[str] | None:
    """Return the values in one version; None where a kernel may take the value that is there."""
    on_gpu = [kernel for kernel in registry.gpu_kernels(definition.name) if not kernel.label]
    refusing = [k for k in on_gpu if value not in k.constraints.get(attribute, {value})]
    if not on_gpu:
        return frozenset()
    if not refusing:
        return None
    carried = definition.has_argument_of({attribute})
    # The node is refused by one of these for this attribute alone; by which is not known.
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
    return reduce(frozenset.intersection, by_kernel)


def _is_wider(kernel: Kernel, other: Kernel, attribute: str) -> bool:
    """Return whether a kernel takes all that another does, but for one attribute."""
    return all(
        name in other.constraints and other.constraints[name] <= allowed
        for name, allowed in kernel.constraints.items()
        if name != attribute
    )
