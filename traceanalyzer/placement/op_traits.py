"""Checks where an op can run, based on its kernels and definition but not on its dtypes."""

from functools import cache
from typing import Final

from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import DEFAULT, Registry

# Ops that use the shape of a tensor, not its values (`IsMetadata`, graph.h), and `Identity`.
_FOLLOW_INPUTS: Final = frozenset({"Identity", "Rank", "Shape", "Size"})


def makes_numbers(registry: Registry, op: str) -> bool:
    """Return whether an op has an output other than a resource, string, or variant."""
    definition = registry.definition(op)
    return definition is not None and any(
        output.type not in {"resource", "string", "variant"} for output in definition.outputs
    )


def takes_resource(registry: Registry, op: str) -> bool:
    """Return whether an op must run on the device of an input that is a resource or a reference."""
    definition = registry.definition(op)
    if definition is None or op in registry.colocation_exempt:
        return False
    return any(a.type == "resource" or a.is_ref for a in definition.inputs)


def follows_others(registry: Registry, op: str) -> bool:
    """Return whether the placer may put an op where its neighbors are (placer.cc).

    It does so for ops with no input and one output, such as constants, for ops that only use
    shapes, and for identities.
    """
    definition = registry.definition(op)
    if definition is None:
        return False
    outputs = definition.outputs
    is_generator = not definition.inputs and len(outputs) == 1
    makes_value = is_generator and not (outputs[0].is_ref or outputs[0].type == "resource")
    return makes_value or op in _FOLLOW_INPUTS


@cache
def has_values_without_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether an attribute other than a dtype has a value that only CPU kernels accept."""
    definition = registry.definition(op)
    on_gpu = [k.constraints for k in registry.gpu_kernels(op) if not k.label]
    usable = [k for k in registry.usable_kernels(op) if not k.label]
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


@cache
def prefers_cpu(registry: Registry, op: str) -> bool:
    """Return whether the CPU kernel of an op has a higher priority than its GPU kernel."""
    kernels = registry.usable_kernels(op)
    cpu = [k.priority for k in kernels if k.device_type in {CPU, DEFAULT}]
    gpu = [k.priority for k in registry.gpu_kernels(op)]
    return bool(cpu and gpu) and max(cpu) > max(gpu)


@cache
def has_labels_without_gpu_kernel(registry: Registry, op: str) -> bool:
    """Return whether an op has CPU kernels with a `_kernel` label that no GPU kernel has."""
    labeled = [(k.label, k.device_type) for k in registry.usable_kernels(op) if k.label]
    on_gpu = {label for label, device_type in labeled if device_type in {GPU, DEFAULT}}
    return any(device_type == CPU and label not in on_gpu for label, device_type in labeled)
