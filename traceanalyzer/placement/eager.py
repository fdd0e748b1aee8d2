"""Replays where TensorFlow runs an eager op.

See `EagerOperation::Execute`, `MaybePinToResourceDevice` and `MaybePinSmallOpsToCpu`
(core/common_runtime/eager: eager_operation.cc, placement_utils.cc) and
`EagerContext::SelectDevice` (context.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement.devices import (
    CPU,
    DeviceName,
    DeviceNameError,
    Machine,
    parse_device,
)
from traceanalyzer.placement.op_definitions import AttributesError, InputTypesError
from traceanalyzer.placement.registry import EVERYWHERE, SupportedTypes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json
    from traceanalyzer.placement.registry import Registry

_PINS_SMALL: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"
# `IsPinnableOp`: they make data, and small inputs say nothing of how much.
_NOT_PINNED: Final = frozenset(
    {
        "RandomUniform",
        "RandomUniformInt",
        "RandomStandardNormal",
        "StatelessRandomUniform",
        "StatelessRandomUniformInt",
        "StatelessRandomUniformFullInt",
        "StatelessRandomNormal",
    }
)
_SMALL: Final = 64  # elements
_SMALL_TYPES: Final = frozenset({"int32", "int64"})


def pins_small(capture_file: CaptureFile) -> bool:
    """Return whether the program keeps small inputs on the CPU (`ReadBoolFromEnvVar`)."""
    variables = (capture_file.environment or {}).get("variables")
    value = variables.get(_PINS_SMALL) if isinstance(variables, dict) else None
    return isinstance(value, str) and value.lower() in {"1", "true"}


class EagerDecision(Enum):
    """How an eager op comes by its device."""

    RESOURCE = "resource"  #: it uses a resource, which lives there: this outweighs any scope
    #: Its inputs are few integers on the CPU, and the program's environment has
    #: TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING set.
    SMALL_INPUTS = "small_inputs"
    REQUEST = "request"  #: its scope requests the device, or the type of device
    FIRST = "first"  #: nothing decides but which kernels there are: the first device that has one
    #: The scope's device cannot be had; soft placement gave up its type and number.
    SOFT = "soft"
    NONE = "none"  #: there is no device: TensorFlow raises an error


@dataclass(frozen=True, slots=True)
class EagerInput:
    """An input of an eager op."""

    dtype: str  #: its type, as the capture file names types; "" unknown
    device: str  #: where it is; of a resource's handle, where the resource is
    elements: int | None = None  #: None if unknown


class EagerOp(NamedTuple):
    """An eager op."""

    op: str
    #: What the program gave: what follows from the inputs is filled in, and defaults are.
    attributes: Attributes
    #: Where they are decides nothing, unless one is a resource.
    inputs: Sequence[EagerInput]
    scope: str  #: the device that the `tf.device` scope requests, "" for none


@dataclass(frozen=True, slots=True)
class EagerSetting:
    """What eager ops are placed under, besides their scopes."""

    machine: Machine
    registry: Registry
    soft: bool = True
    pins_small: bool = False  #: whether TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING is set
    #: Names of functions, which are ops too and run anywhere.
    functions: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerPlacement:
    """Where an eager op runs, and why."""

    device: str  #: full name; "" where TensorFlow raises an error
    decision: EagerDecision
    support: SupportedTypes  #: which types of devices have a kernel for it
    input: int | None = None  #: the position of the resource that decided, where one did
    doubt: str = ""  #: why this may be otherwise, or ""


def place_eager(
    eager_op: EagerOp, setting: EagerSetting, *, has_kernels: bool = False
) -> EagerPlacement:
    """Place an eager op as TensorFlow does.

    Args:
        has_kernels: Take it to have a kernel for every type of device, to see what would follow.
    """
    op, attributes, inputs, scope = eager_op
    registry = setting.registry
    is_function = op in setting.functions
    complete, doubt = _completed(op, attributes, inputs, registry)
    support = (
        EVERYWHERE if has_kernels else registry.supported_types(op, complete, setting.functions)
    )
    doubt = doubt or support.doubt
    if not is_function and op not in registry.colocation_exempt:
        resources = [at for at, each in enumerate(inputs) if each.dtype == "resource"]
        if resources:
            return _with_resources(inputs, resources, support, doubt)
        if setting.pins_small and _is_pinned(op, inputs, setting.machine.host):
            has_kernel = any(kind == CPU for kind, _ in support.types)
            device, decision = setting.machine.host, EagerDecision.SMALL_INPUTS
            return _placed(device if has_kernel else "", decision, support, doubt)
    try:
        requested = parse_device(scope)
    except DeviceNameError as error:
        return _placed("", EagerDecision.NONE, support, str(error))
    device = _best(requested, support, setting.machine)
    decision = EagerDecision.FIRST if requested.type is None else EagerDecision.REQUEST
    if not device and setting.soft:
        device = _best(requested.softened(), support, setting.machine)
        decision = EagerDecision.SOFT
    return _placed(device, decision, support, doubt)


def _placed(
    device: str, decision: EagerDecision, support: SupportedTypes, doubt: str
) -> EagerPlacement:
    decision = decision if device else EagerDecision.NONE
    return EagerPlacement(device=device, decision=decision, support=support, doubt=doubt)


def _with_resources(
    inputs: Sequence[EagerInput], positions: Sequence[int], support: SupportedTypes, doubt: str
) -> EagerPlacement:
    devices = {inputs[at].device for at in positions}
    device = inputs[positions[0]].device
    if "" in devices:
        doubt = doubt or "where the resource is was not recorded"
    is_possible = len(devices - {""}) <= 1 and (
        not device or parse_device(device).type in {kind for kind, _ in support.types}
    )
    return EagerPlacement(
        device=device if is_possible else "",
        decision=EagerDecision.RESOURCE if is_possible else EagerDecision.NONE,
        support=support,
        input=positions[0],
        doubt=doubt,
    )


def _completed(
    op: str, attributes: Attributes, inputs: Sequence[EagerInput], registry: Registry
) -> tuple[Mapping[str, Json] | None, str]:
    """Return an op's attributes with those that its inputs determine, and a doubt."""
    definition = registry.definition(op)
    if definition is None:
        return attributes, ""
    types = [each.dtype for each in inputs]
    found: Mapping[str, Json] = {}
    if all(types):
        try:
            found = definition.attributes_of_inputs(types)
        except InputTypesError as error:
            return None, str(error)
    complete = definition.complete({**found, **attributes})
    try:
        definition.input_types(complete)
    except AttributesError:
        return None, "the types of its inputs were not recorded"
    return complete, ""


def _is_pinned(op: str, inputs: Sequence[EagerInput], host: str) -> bool:
    return (
        bool(inputs)
        and op not in _NOT_PINNED
        and all(
            each.device in {host, ""}
            and each.dtype in _SMALL_TYPES
            and each.elements is not None
            and each.elements <= _SMALL
            for each in inputs
        )
    )


def _best(requested: DeviceName, support: SupportedTypes, machine: Machine) -> str:
    """See `SelectBestMatchingDevice`: the kernel's priority counts before the device's."""
    return next(
        (
            device
            for kind, _ in support.types
            for device in machine.matching(requested)
            if parse_device(device).type == kind
        ),
        "",
    )
