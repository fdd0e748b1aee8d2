"""Looks up TensorFlow's kernels and op definitions by version, without importing TensorFlow.

The data comes from the Linux CUDA wheels listed in `data/versions.txt`. Lookups follow TensorFlow's
`FindKernelRegistration` and `SupportedDeviceTypesForNode` (core/framework/op_kernel.cc, 2.12 to
2.21).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Final, Literal, NamedTuple

import msgspec

from traceanalyzer.capture_file.document import (
    Attributes,
    CaptureFile,
    Json,
    RegisteredKernel,
)
from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.kernel_tables import Minor, OpDefinition

DEFAULT: Final = "DEFAULT"  # for every device type without a matching kernel
# `DataTypeAlwaysOnHost` in core/framework/types.cc
ALWAYS_ON_HOST: Final = frozenset({"string", "string_ref", "resource"})
# Ops that use the shape of a tensor, not its values (`IsMetadata`, graph.h), and `Identity`.
_FOLLOW_INPUTS: Final = frozenset({"Identity", "Rank", "Shape", "Size"})
_ADVISED: Final = (2, 12)  # the first version that `capture` records


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, or several kernels that differ only in the attribute values they accept."""

    device_type: str  #: `CPU`, `GPU` or `DEFAULT`
    #: The allowed values of each constrained attribute: types as in the capture file, or text.
    constraints: dict[str, frozenset[str | int | bool]] = {}
    #: Sorted names of its arguments in host memory. Strings and resources are always there, named
    #: or not.
    host_memory_args: tuple[str, ...] = ()
    priority: int = 0  #: the matching kernel with the highest priority is used
    label: str = ""  #: the required value of a node's `_kernel` attribute

    def mismatches(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the constrained attributes that are missing or have an unsupported value."""
        return tuple(
            name
            for name, allowed in self.constraints.items()
            if name not in attributes or not _accepts(allowed, attributes[name])
        )


def _accepts(allowed: frozenset[str | int | bool], value: Json) -> bool:
    if isinstance(value, str):
        return value in allowed
    if isinstance(value, list):
        return all(isinstance(v, str) and v in allowed for v in value)
    if isinstance(value, dict):
        text = value.get("s")
        return isinstance(text, str) and text in allowed
    # 1 and True are equal in a set, but TensorFlow distinguishes them.
    return any(type(value) is type(v) and value == v for v in allowed)


def _label_of(attributes: Attributes) -> str:
    value = attributes.get("_kernel")
    text = value.get("s") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True)
class SupportedTypes:
    """The device types that have a kernel for a node."""

    types: tuple[tuple[str, int], ...]  #: in order, with the kernel's priority
    #: For each type without a matching kernel, the attributes whose values no kernel accepts; empty
    #: if the op has no kernel for that type.
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doubt: str = ""  #: why this may be wrong, or ""

    @property
    def names(self) -> tuple[str, ...]:  # noqa: D102
        return tuple(kind for kind, _ in self.types)


_KERNELS: Final = msgspec.json.Decoder(Kernel)
_DEFINITIONS: Final = msgspec.json.Decoder(OpDefinition)
EVERYWHERE: Final = SupportedTypes(((GPU, 0), (CPU, 0)))


class Registry:
    """The kernels and op definitions of one minor version of TensorFlow, built for CUDA.

    Ops are read from the tables on first use.
    """

    def __init__(self, minor: Minor) -> None:
        self._minor = minor
        self.version = kernel_tables.text(minor)  #: `2.21`
        self.release = kernel_tables.tabulated()[minor]  #: the release it was read from, `2.21.0`
        #: Ops that need not be with their resources (`InputColocationExemptionRegistry`).
        exempt = kernel_tables.read(kernel_tables.COLOCATION_EXEMPT)
        self.colocation_exempt = frozenset(kernel_tables.lines_of(exempt, minor))
        self._kernels: dict[str, tuple[Kernel, ...]] = {}
        self._definitions: dict[str, OpDefinition | None] = {}

    def with_others(self, kernels: Iterable[RegisteredKernel]) -> Registry:
        """Return a copy with kernels added, except those of ops that TensorFlow defines."""
        found = Registry(self._minor)
        for each in kernels:
            if self.definition(each.op) is None:
                kernel = msgspec.convert(asdict(each), Kernel)
                found._kernels[each.op] = (*found._kernels.get(each.op, ()), kernel)
        return found

    @property
    def ops(self) -> tuple[str, ...]:
        """The op types, sorted."""
        defined = kernel_tables.paragraphs(kernel_tables.DEFINITIONS).items()
        return tuple(op for op, lines in defined if [*kernel_tables.lines_of(lines, self._minor)])

    def kernels(self, op: str) -> tuple[Kernel, ...]:
        """Return all kernels of an op, for any device type and with any label."""
        if op not in self._kernels:
            lines = kernel_tables.paragraphs(kernel_tables.KERNELS).get(op, "")
            of_version = kernel_tables.lines_of(lines, self._minor)
            self._kernels[op] = tuple(map(_KERNELS.decode, of_version))
        return self._kernels[op]

    def definition(self, op: str) -> OpDefinition | None:
        """Return an op's definition, or None if this version lacks the op."""
        if op not in self._definitions:
            lines = kernel_tables.paragraphs(kernel_tables.DEFINITIONS).get(op, "")
            line = next(kernel_tables.lines_of(lines, self._minor), None)
            self._definitions[op] = None if line is None else _DEFINITIONS.decode(line)
        return self._definitions[op]

    def usable_kernels(self, op: str) -> tuple[Kernel, ...]:
        """Return the kernels of an op that constrain only attributes that the op has.

        No node can match the op's other kernels (`TopK` and `TileGrad` have some).
        """
        definition, kernels = self.definition(op), self.kernels(op)
        if definition is None:
            return kernels
        return tuple(k for k in kernels if k.constraints.keys() <= definition.attributes.keys())

    def gpu_kernels(self, op: str) -> tuple[Kernel, ...]:
        """Return the usable GPU and DEFAULT kernels of an op, with any label."""
        return tuple(k for k in self.usable_kernels(op) if k.device_type in {GPU, DEFAULT})

    def find(
        self, op: str, device_type: str, attributes: Attributes, label: str | None = None
    ) -> Kernel | None:
        """Return the kernel that TensorFlow uses for a node on a device type, or None.

        This is the matching kernel with the highest priority for the type, or else for DEFAULT.
        TensorFlow refuses a node if two kernels tie (`StochasticCastToInt` in 2.13).
        `label` defaults to the node's `_kernel` attribute.
        """
        definition = self.definition(op)
        if definition is not None:
            attributes = definition.complete(attributes)
        wanted = _label_of(attributes) if label is None else label
        labelled = [kernel for kernel in self.kernels(op) if kernel.label == wanted]
        for tried in (device_type, DEFAULT):
            of_type = (kernel for kernel in labelled if kernel.device_type == tried)
            matching = [kernel for kernel in of_type if not kernel.mismatches(attributes)]
            if matching:
                highest = max(kernel.priority for kernel in matching)
                first, *others = (kernel for kernel in matching if kernel.priority == highest)
                return None if others else first
        return None

    def supported_types(
        self, op: str, attributes: Attributes | None, functions: Collection[str] = frozenset()
    ) -> SupportedTypes:
        """Return the device types with a kernel for a node, or all types for a function call."""
        if self.definition(op) is None and not self.kernels(op):
            doubt = "" if op in functions else f"TensorFlow itself has no op {op}"
            return replace(EVERYWHERE, doubt=doubt)
        types: list[tuple[str, int]] = []
        missing: dict[str, tuple[str, ...]] = {}
        doubt = ""
        for kind in (GPU, CPU):
            registered = [k for k in self.kernels(op) if k.device_type in {kind, DEFAULT}]
            if attributes is None and any(k.constraints or k.label for k in registered):
                doubt = "its attributes were not recorded"
                types.append((kind, max(k.priority for k in registered)))
                continue
            kernel = self.find(op, kind, attributes or {})
            if kernel is not None:
                types.append((kind, kernel.priority))
            else:
                label = _label_of(attributes or {})
                refusals = [
                    (*k.mismatches(attributes or {}), *(() if k.label == label else ("_kernel",)))
                    for k in registered
                ]
                # Those of the kernels that come nearest to accepting the node.
                fewest = min(map(len, refusals), default=0)
                names = (name for refusal in refusals if len(refusal) == fewest for name in refusal)
                missing[kind] = tuple(dict.fromkeys(names))
        types.sort(key=lambda each: -each[1])
        return SupportedTypes(tuple(types), missing, doubt)

    # --- where an op can run, whatever its dtypes ---

    def makes_numbers(self, op: str) -> bool:
        """Return whether an op has an output other than a resource, string, or variant."""
        definition = self.definition(op)
        others = {"resource", "string", "variant"}
        return definition is not None and any(o.type not in others for o in definition.outputs)

    def takes_resource(self, op: str) -> bool:
        """Return whether an op must be on the device of an input, a resource or a reference."""
        definition = self.definition(op)
        inputs = () if definition is None or op in self.colocation_exempt else definition.inputs
        return any(a.type == "resource" or a.is_ref for a in inputs)

    def follows_others(self, op: str) -> bool:
        """Return whether the placer may put an op where its neighbors are (placer.cc).

        It does so for ops with no input and one output, such as constants, for ops that only use
        shapes, and for identities.
        """
        definition = self.definition(op)
        if definition is None or op in _FOLLOW_INPUTS:
            return definition is not None
        return (
            not definition.inputs
            and len(definition.outputs) == 1
            and not (definition.outputs[0].is_ref or definition.makes_handles)
        )

    def has_values_without_gpu_kernel(self, op: str) -> bool:
        """Return whether only CPU kernels accept some value of an attribute that is no dtype."""
        definition = self.definition(op)
        on_gpu = [k.constraints for k in self.gpu_kernels(op) if not k.label]
        usable = [k for k in self.usable_kernels(op) if not k.label]
        on_cpu = [k.constraints for k in usable if k.device_type == CPU]
        names = {name for each in on_gpu for name in each}
        return definition is not None and any(
            not definition.attributes[name].is_type
            and all(name in each for each in on_gpu)
            and any(
                name not in each or all(each[name] - gpu[name] for gpu in on_gpu) for each in on_cpu
            )
            for name in names
        )

    def prefers_cpu(self, op: str) -> bool:
        """Return whether the CPU kernel of an op has a higher priority than its GPU kernel."""
        kernels = self.usable_kernels(op)
        cpu = [k.priority for k in kernels if k.device_type in {CPU, DEFAULT}]
        gpu = [k.priority for k in self.gpu_kernels(op)]
        return bool(cpu and gpu) and max(cpu) > max(gpu)

    def has_labels_without_gpu_kernel(self, op: str) -> bool:
        """Return whether an op has CPU kernels with a `_kernel` label that no GPU kernel has."""
        on_gpu = {k.label for k in self.gpu_kernels(op)}
        on_cpu = {k.label for k in self.usable_kernels(op) if k.device_type == CPU}
        return bool(on_cpu - on_gpu - {""})


class Nearest(NamedTuple):
    """The registry nearest to a requested version."""

    registry: Registry
    requested: str | None  #: the version that was requested; None if unknown
    #: Whether the registry is of exactly that minor version, and proves which kernels there were.
    exact: bool

    @property
    def certainty(self) -> Literal["certain", "likely"]:
        """The certainty that the requested version has the same kernels as this registry."""
        return "certain" if self.exact else "likely"


def supported() -> tuple[str, ...]:
    """Return the minor versions that have tables, oldest first."""
    return tuple(kernel_tables.text(minor) for minor in kernel_tables.tabulated())


def load(version: str) -> Registry:
    """Return the registry of a version that has tables, such as `2.21` or `2.21.0`."""
    return _registry(kernel_tables.minor_of(version))


def registries() -> tuple[Registry, ...]:
    """Return the registries of the versions that advice must work for, oldest first.

    Older versions are left out: they lack int64 kernels, so little advice would work for them.
    """
    return tuple(_registry(minor) for minor in kernel_tables.tabulated() if minor >= _ADVISED)


def nearest(version: str | None) -> Nearest:
    """Return the registry of the nearest version, or the newest if `version` is unknown."""
    minor, exact = kernel_tables.nearest_minor(version)
    return Nearest(_registry(minor), version, exact)


def registry_of(capture_file: CaptureFile) -> Nearest:
    """Return the registry for a capture file, with the kernels of other libraries' ops added."""
    kernels = nearest(capture_file.tensorflow_version)
    others = [k for k in capture_file.kernels if k.device_type in {CPU, GPU, DEFAULT}]
    return kernels._replace(registry=kernels.registry.with_others(others)) if others else kernels


@cache
def _registry(minor: Minor) -> Registry:
    return Registry(minor)
