"""TensorFlow's kernel registry and op definitions, a minor version at a time, without TensorFlow.

The data are those of the Linux CUDA wheels (`data/versions.txt` names them). Finding a kernel is
TensorFlow's `FindKernelRegistration` (`core/framework/op_kernel.cc`, 2.12 to 2.21).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement import tables_file, versions
from traceanalyzer.placement.kernels import CPU, DEFAULT, GPU, Kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.capture_file.document import Attributes
    from traceanalyzer.placement.op_definitions import OpDefinition
    from traceanalyzer.placement.versions import Minor, Proof

__all__ = ["CPU", "DEFAULT", "GPU", "Kernel", "Nearest", "Registry", "load", "nearest", "supported"]

_LABEL: Final = "_kernel"  # the attribute that asks for a kernel of a label


class Registry:
    """The kernels and op definitions of one minor version of TensorFlow, built for CUDA.

    Attributes:
        version: The minor version, `2.21`.
        release: The release that it was taken from, `2.21.0`.
        colocation_exempt: Ops that need not be where the resources are that they take
            (`InputColocationExemptionRegistry`).
    """

    __slots__ = ("_definitions", "_kernels", "_minor", "colocation_exempt", "release", "version")

    def __init__(self, minor: Minor) -> None:
        """Begin with nothing read: an op is read when it is first asked for.

        Args:
            minor: A version that there are tables of.
        """
        self._minor = minor
        self.version = versions.text(minor)
        self.release = tables_file.tabulated()[minor]
        exempt = tables_file.read(tables_file.COLOCATION_EXEMPT)
        self.colocation_exempt = frozenset(tables_file.lines_of(exempt, minor))
        self._kernels: dict[str, tuple[Kernel, ...]] = {}
        self._definitions: dict[str, OpDefinition | None] = {}

    def with_others(self, kernels: Iterable[Kernel]) -> Registry:
        """Return this registry with kernels of ops that it has no definition of."""
        found = Registry(self._minor)
        found._kernels, found._definitions = dict(self._kernels), dict(self._definitions)
        for kernel in kernels:
            if self.definition(kernel.op) is None:
                found._kernels[kernel.op] = (*found._kernels.get(kernel.op, ()), kernel)
        return found

    def __repr__(self) -> str:
        """Return what it is of."""
        return f"Registry({self.version!r})"

    @property
    def ops(self) -> tuple[str, ...]:
        """The op types, sorted."""
        lines = tables_file.paragraphs(tables_file.DEFINITIONS)
        minor = self._minor
        return tuple(op for op in lines if tables_file.first_line(lines[op], minor) is not None)

    def kernels(self, op: str) -> tuple[Kernel, ...]:
        """Return the kernels of an op for CPU, GPU and DEFAULT, of every label; () for none."""
        found = self._kernels.get(op)
        if found is None:
            lines = tables_file.paragraphs(tables_file.KERNELS).get(op, "")
            found = tuple(
                tables_file.kernel_of(op, line) for line in tables_file.lines_of(lines, self._minor)
            )
            self._kernels[op] = found
        return found

    def definition(self, op: str) -> OpDefinition | None:
        """Return an op's definition; None for an op that this version does not have."""
        if op not in self._definitions:
            lines = tables_file.paragraphs(tables_file.DEFINITIONS).get(op, "")
            line = tables_file.first_line(lines, self._minor)
            self._definitions[op] = None if line is None else tables_file.definition_of(op, line)
        return self._definitions[op]

    def find(
        self, op: str, device_type: str, attributes: Attributes, label: str | None = None
    ) -> Kernel | None:
        """Return the kernel that TensorFlow takes for a node on a device type, or None.

        Kernels of the device type come first, the one of highest priority among those that match;
        if there is none, one for DEFAULT.

        Args:
            op: The op type.
            device_type: `CPU` or `GPU`.
            attributes: The node's, in the capture file's encoding; defaults need not be filled in.
            label: The kernel's label; that of the node's `_kernel` attribute if None.

        Returns:
            The kernel; None for none, and where two of one priority match (`StochasticCastToInt`
            of 2.13): such a node TensorFlow refuses.
        """
        kernels = self.kernels(op)
        if not kernels:
            return None
        definition = self.definition(op)
        if definition is not None:
            attributes = definition.complete(attributes)
        wanted = _label(attributes) if label is None else label
        for asked in (device_type, DEFAULT):
            matching = [
                kernel
                for kernel in kernels
                if kernel.device_type == asked
                and kernel.label == wanted
                and kernel.matches(attributes)
            ]
            if matching:
                return _first(matching)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The registry that is nearest to a version.

    Attributes:
        registry: It.
        asked: The version that was asked for; None where it is unknown.
        exact: Whether it is of that very minor version.
    """

    registry: Registry
    asked: str | None
    exact: bool

    @property
    def proof(self) -> Proof:
        """How sure it makes one."""
        return versions.proof(is_exact=self.exact)


def supported() -> tuple[str, ...]:
    """Return the minor versions that there are tables of, oldest first."""
    return tuple(versions.text(minor) for minor in tables_file.tabulated())


def load(version: str) -> Registry:
    """Return the registry of a minor version.

    Args:
        version: `2.21`, or a release of it.

    Raises:
        ValueError: There is no table of that version, or it is none.
    """
    minor = versions.minor_of(version)
    if minor not in tables_file.tabulated():
        there = supported()
        msg = f"there is no kernel table of TensorFlow {version}, but of {there[0]} to {there[-1]}"
        raise ValueError(msg)
    return _registry(minor)


def nearest(version: str | None) -> Nearest:
    """Return the registry that is nearest to a version, which may be unknown.

    Args:
        version: As TensorFlow gives it; None for an unknown one, to which the newest is nearest.
    """
    minor, exact = versions.nearest_minor(version, tuple(tables_file.tabulated()))
    return Nearest(registry=_registry(minor), asked=version, exact=exact)


@cache
def _registry(minor: Minor) -> Registry:
    return Registry(minor)


def _first(matching: list[Kernel]) -> Kernel | None:
    """Return the kernel of highest priority, None if there are two."""
    highest = max(kernel.priority for kernel in matching)
    first, *others = (kernel for kernel in matching if kernel.priority == highest)
    return None if others else first


def _label(attributes: Attributes) -> str:
    value = attributes.get(_LABEL)
    text = value.get("s") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""
