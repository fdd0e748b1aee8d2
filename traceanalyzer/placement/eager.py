"""Replays how TensorFlow chooses the device of an eager op.

See `EagerOperation::Execute`, `MaybePinToResourceDevice`, and `MaybePinSmallOpsToCpu`
(core/common_runtime/eager: eager_operation.cc, placement_utils.cc) and
`EagerContext::SelectDevice` (context.cc).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import DeviceName, DeviceNameError, Machine, parse_device
from traceanalyzer.placement.kernel_tables import AttributesError, InputTypesError, op_types
from traceanalyzer.placement.registry import EVERYWHERE, Registry, SupportedTypes

_PINS_SMALL: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"
_NOT_PINNED: Final = op_types("not_pinned")
_SMALL: Final = 64  # elements
_SMALL_TYPES: Final = frozenset({"int32", "int64"})


def pins_small(capture_file: CaptureFile) -> bool:
    """Return whether the environment keeps ops with small inputs on the CPU."""
    variables = (capture_file.environment or {}).get("variables")
    value = variables.get(_PINS_SMALL) if isinstance(variables, dict) else None
    return isinstance(value, str) and value.lower() in {"1", "true"}


class EagerInput(NamedTuple):
    """An input of an eager op."""

    dtype: str  #: its type, as the capture file names types; "" unknown
    device: str  #: its device; for a resource handle, the device of the resource
    elements: int | None = None  #: None if unknown


class EagerOp(NamedTuple):
    """An eager op, with the attributes and inputs that determine its placement."""

    op: str
    attributes: Attributes  #: as the program passed them
    inputs: Sequence[EagerInput]  #: their devices do not matter, unless one is a resource
    scope: str  #: the device that the `tf.device` scope requests, "" for none


@dataclass(frozen=True, slots=True)
class EagerSetting:
    """The conditions, other than scopes, under which eager ops are placed."""

    machine: Machine
    registry: Registry
    soft: bool = True
    pins_small: bool = False  #: whether TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING is set
    #: Names of functions, which are ops too and run anywhere.
    functions: Collection[str] = frozenset()


class EagerPlacement(NamedTuple):
    """The device of an eager op, and the reason for it."""

    device: str  #: full name; "" if TensorFlow raises an error
    #: The reason: a resource (which outweighs any scope), small inputs, the request of the scope
    #: (met or dropped), or only the kernels (`PRIORITY`).
    decided_by: BlockerKind
    support: SupportedTypes  #: which types of devices have a kernel for it
    doubt: str = ""  #: why this may be wrong, or ""


def place_eager(
    eager_op: EagerOp, setting: EagerSetting, *, has_kernels: bool = False
) -> EagerPlacement:
    """Place an eager op as TensorFlow does. `has_kernels` assumes kernels for all device types."""
    op, attributes, inputs, scope = eager_op
    registry, host = setting.registry, setting.machine.host
    complete, doubt = _completed(op, attributes, inputs, registry)
    support = EVERYWHERE
    if not has_kernels:
        support = registry.supported_types(op, complete, setting.functions)
    doubt = doubt or support.doubt
    if op not in setting.functions and op not in registry.colocation_exempt:
        resources = [each.device for each in inputs if each.dtype == "resource"]
        is_pinned = setting.pins_small and _is_pinned(op, inputs, host)
        if resources or is_pinned:
            device = resources[0] if resources else host
            if "" in resources:
                doubt = doubt or "the device of the resource was not recorded"
            if device and parse_device(device).type not in support.names:
                device = ""
            decided_by = BlockerKind.RESOURCE if resources else BlockerKind.SMALL_INPUTS
            is_one = len({*resources} - {""}) <= 1
            return EagerPlacement(device if is_one else "", decided_by, support, doubt)
    decided_by = BlockerKind.REQUEST
    try:
        requested = parse_device(scope)
    except DeviceNameError as error:
        device, doubt = "", str(error)
    else:
        device = _best(requested, support, setting.machine)
        if not device and setting.soft:
            device = _best(requested.softened(), support, setting.machine)
        elif device and requested.type is None:
            decided_by = BlockerKind.PRIORITY
    return EagerPlacement(device, decided_by, support, doubt)


def _completed(
    op: str, attributes: Attributes, inputs: Sequence[EagerInput], registry: Registry
) -> tuple[Mapping[str, Json] | None, str]:
    """Return an op's attributes, completed from its input types, or None with the reason."""
    definition = registry.definition(op)
    if definition is None:
        return attributes, ""
    types = [each.dtype for each in inputs]
    try:
        complete = definition.complete(definition.of_inputs(types, attributes))
        definition.input_types(complete)
    except InputTypesError as error:
        return None, str(error)
    except AttributesError:
        return None, "the types of its inputs were not recorded"
    return complete, ""


def _is_pinned(op: str, inputs: Sequence[EagerInput], host: str) -> bool:
    are_small = (
        each.device in {host, ""}
        and each.dtype in _SMALL_TYPES
        and each.elements is not None
        and each.elements <= _SMALL
        for each in inputs
    )
    return bool(inputs) and op not in _NOT_PINNED and all(are_small)


def _best(requested: DeviceName, support: SupportedTypes, machine: Machine) -> str:
    """Return the device with the best kernel priority (`SelectBestMatchingDevice`), or ""."""
    devices = machine.matching(requested)
    found = (d for kind in support.names for d in devices if parse_device(d).type == kind)
    return next(found, "")
