"""Finds which kernels an op has, by type and version, for `traceanalyzer kernels`.

Types have their Python names here (`float32`); other modules use TensorFlow's names (`float`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from msgspec import UNSET

from traceanalyzer.capture_file.graph_def import TYPES
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.placement.by_registry import RUNTIMES_OWN, original
from traceanalyzer.placement.devices import CPU
from traceanalyzer.placement.kernel_tables import OpDefinition, minor_of
from traceanalyzer.placement.kernel_types import (
    Combination,
    Extent,
    Support,
    TypeSupport,
    extent_of,
    python_name,
    support_of,
)
from traceanalyzer.placement.registry import Nearest, Registry, load, nearest, supported

_DATA_TYPES: Final = {"float32": "float", "float64": "double", "float16": "half"}
_TYPES: Final = frozenset(TYPES) - {"invalid"}
_EXCEPTIONS: Final = 5  # in one answer
_ALL: Final[Mapping[Extent, bool | None]] = {"all": True, "some": None, "none": False}


class QuestionError(TraceAnalyzerError):
    """Raised if the requested op, type, or version does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAnswer:
    """An op's kernels in one version of TensorFlow."""

    op: str
    dtype: str | None  #: the requested type; None for all
    tf: str  #: the requested version; by default the newest that has a table
    table: str  #: the version whose table gave the answer
    certainty: str  #: `certain` if that is the requested version, otherwise `likely`
    #: Whether the op has a GPU kernel for the requested type (by default, for any type), with sizes
    #: and indices of their usual type. None if it depends on another attribute, or if the table is
    #: of another version.
    gpu_kernel: bool | None
    #: Whether all data, except handles, are in host memory, so that the host computes ops placed on
    #: a GPU. None if it depends, or there is no kernel.
    computed_on_host: bool | None
    host_memory_args: tuple[str, ...]  #: arguments in host memory
    since: str | None  #: the version since which every version has a GPU kernel
    dtypes: Mapping[str, tuple[str, ...]]  #: by type, the devices with a kernel
    depends: Mapping[str, str]  #: by type, the cases without a GPU kernel, if others have one
    attributes: Mapping[str, Mapping[str, TypeSupport]]  #: by type attribute and type
    overall: TypeSupport
    notes: tuple[str, ...]  #: further facts, one sentence each


def answer(op: str, dtype: str | None = None, tf: str | None = None) -> KernelAnswer:
    """Return the kernels of an op, by default for all types and the newest version.

    Raises:
        QuestionError: The op, type, or version does not exist.
    """
    found, data_type = _table(tf), _data_type(dtype)
    support = support_of(found.registry, op)
    if support is None:
        raise QuestionError(_no_such_op(op, found.registry))
    meant = _of_type(support, data_type)
    extent = extent_of(meant)
    there: bool | None = extent.gpu != "none"
    if data_type is not None:
        there = _ALL[extent_of(_usual(support, meant, data_type)).gpu]
    dtypes = sorted({str(c.values[name]) for c in support.combinations for name in support.main})
    by_type = {python_name(d): support.of_type(d) for d in dtypes}
    on_host = {name for c in meant if c.gpu is not None for name in c.gpu.host_memory_args}
    arguments = (*support.definition.inputs, *support.definition.outputs)
    return KernelAnswer(
        op=op,
        dtype=None if data_type is None else python_name(data_type),
        tf=tf or found.registry.version,
        table=found.registry.version,
        certainty=found.certainty,
        gpu_kernel=there if found.exact else None,
        computed_on_host=_ALL[extent.on_host] if extent.gpu != "none" else None,
        host_memory_args=tuple(each.name for each in arguments if each.name in on_host),
        since=_since(op, found.registry.version, data_type),
        dtypes={name: extent_of(of).devices for name, of in by_type.items()},
        depends={name: why for name, of in by_type.items() if (why := _exceptions(support, of))},
        attributes={
            name: {python_name(d): t for d, t in types.items()}
            for name, types in support.types.items()
        },
        overall=support.overall,
        notes=(*_version_notes(found), *_notes(found.registry, support, data_type, meant)),
    )


def cpu_only(dtype: str | None = None, tf: str | None = None) -> tuple[list[str], list[str]]:
    """Return the sorted ops with a CPU kernel but no GPU kernel, and notes, one sentence each.

    Ops that only rewrites or the runtime make are left out. The defaults are those of `answer`.
    """
    found, data_type = _table(tf), _data_type(dtype)
    registry, ops = found.registry, []
    for op in registry.ops:
        if data_type is None:
            is_cpu_only = bool(registry.usable_kernels(op)) and not registry.gpu_kernels(op)
        else:
            support = support_of(registry, op)
            extent = extent_of(() if support is None else _of_type(support, data_type))
            is_cpu_only = extent.devices == (CPU,)
        if is_cpu_only and not op.startswith("_"):
            ops.append(op)
    return ops, [*_version_notes(found)]


def _table(tf: str | None) -> Nearest:
    try:
        minor_of(tf or supported()[-1])
    except ValueError as error:
        raise QuestionError(str(error)) from None
    return nearest(tf or supported()[-1])


def _data_type(dtype: str | None) -> str | None:
    if dtype is None:
        return None
    plain = dtype.strip().removeprefix("tf.").removeprefix("DT_").lower()
    name = _DATA_TYPES.get(plain, plain)
    if name not in _TYPES:
        known = sorted(map(python_name, _TYPES))
        close = get_close_matches(plain, known, n=5) or known
        msg = f"{dtype!r} is not a TensorFlow type; use one of {', '.join(close)}"
        raise QuestionError(msg)
    return name


def _no_such_op(op: str, registry: Registry) -> str:
    there = [version for version in supported() if load(version).definition(op) is not None]
    if there:
        newest = f" to {there[-1]}" if len(there) > 1 else ""
        return (
            f"the op {op} exists in TensorFlow {there[0]}{newest}, not in {registry.version};"
            f" use --tf {there[-1]}"
        )
    plain = {name.lower(): name for name in registry.ops if not name.startswith("_")}
    close = get_close_matches(op.rpartition(".")[2].replace("_", "").lower(), plain, n=5)
    suggested = ", ".join(plain[name] for name in close)
    hint = f"similar: {suggested}" if close else "write op types like MatMul or ResizeArea"
    return f"TensorFlow {registry.version} has no op {op!r}; {hint}"


def _of_type(support: Support, dtype: str | None) -> tuple[Combination, ...]:
    if dtype is None:
        return support.combinations
    is_taken = support.main or dtype in _taken(support.definition)
    return support.of_type(dtype) if is_taken else ()


def _usual(
    support: Support, combinations: tuple[Combination, ...], dtype: str
) -> tuple[Combination, ...]:
    """Return combinations with `dtype` data, and with default types for sizes and indices."""
    found = combinations
    for name in support.types:
        attribute = support.definition.attributes[name]
        default = "int32" if attribute.default is UNSET else attribute.default
        of_type = [c for c in found if c.values[name] == dtype] if name in support.main else []
        found = tuple(of_type or (c for c in found if c.values[name] == default)) or found
    return found


def _taken(definition: OpDefinition) -> set[str]:
    """Return the input and output types that an op's definition allows."""
    taken: set[str] = set()
    for argument in (*definition.inputs, *definition.outputs):
        attribute = definition.attributes.get(argument.type_attr or argument.type_list_attr)
        allowed = {argument.type} if attribute is None else attribute.allowed
        taken.update(_TYPES if allowed is None else allowed)
    return taken


def _since(op: str, version: str, dtype: str | None) -> str | None:
    """Return the version since which a GPU kernel has existed without a gap, or None."""
    first = None
    for earlier in reversed(supported()[: supported().index(version) + 1]):
        support = support_of(load(earlier), op)
        if support is None or extent_of(_of_type(support, dtype)).gpu == "none":
            break
        first = earlier
    return first


def _exceptions(support: Support, meant: Sequence[Combination]) -> str:
    """Describe the attribute values without a GPU kernel. Return "" if all or none have one."""
    missing = [c for c in meant if c.gpu is None]
    if not missing or len(missing) == len(meant):
        return ""
    cases: list[str] = []
    for name in support.named:
        with_kernel = {c.values[name] for c in meant if c.gpu is not None}
        values = {c.values[name] for c in missing} - with_kernel
        if values:
            cases.append(f"{name} {' or '.join(sorted(python_name(str(v)) for v in values))}")
            missing = [c for c in missing if c.values[name] not in values]
    for each in missing:
        types = (f"{name} {python_name(str(each.values[name]))}" for name in support.named)
        cases.append(" and ".join(types))
    others = ", among others" if len(cases) > _EXCEPTIONS else ""
    return f"not with {', nor with '.join(cases[:_EXCEPTIONS])}{others}"


def _version_notes(found: Nearest) -> Iterator[str]:
    if not found.exact:
        yield (
            f"TensorFlow {found.requested} is not covered: this answer is for "
            f"{found.registry.version}, the nearest version, and some kernels may differ"
        )


def _notes(
    registry: Registry, support: Support, dtype: str | None, meant: Sequence[Combination]
) -> Iterator[str]:
    definition = support.definition
    op, kernels = definition.name, registry.usable_kernels(definition.name)
    rewritten = original(op)
    if rewritten is not None and rewritten.ops:
        replaced = " and ".join((*rewritten.ops, *(() if rewritten.is_complete else ("others",))))
        yield f"Programs do not create this op: TensorFlow substitutes it for {replaced}"
    elif op in RUNTIMES_OWN:
        yield "Programs do not create this op: only TensorFlow itself does"
    if not support.combinations and registry.kernels(op):
        yield "Its kernels cannot be used: they need attributes that the op does not have"
    elif dtype is not None and not meant:
        said = "No kernel supports" if dtype in _taken(definition) else f"{op} does not take"
        yield f"{said} {python_name(dtype)}"
    if definition.makes_handles and support.overall.gpu != "none":
        yield "It returns a handle, which is always in host memory; the resource is on the GPU"
    if why := _exceptions(support, meant) if dtype is not None else "":
        yield f"But {why}"
    constrained = {name for kernel in kernels for name in kernel.constraints}
    attributes = definition.attributes.items()
    pinned = [name for name, a in attributes if name in constrained and not a.is_type]
    if pinned:
        yield f"There may be no GPU kernel for other values of {', '.join(pinned)}"
