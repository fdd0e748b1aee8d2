"""What is excluded for an op, and what is possible, by TensorFlow's kernels and by the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.memory_fit import memory_note
from traceanalyzer.format import listed
from traceanalyzer.model import RuledOut
from traceanalyzer.placement.devices import GPU, asks_for_cpu, device_text
from traceanalyzer.placement.kernel_types import python_name, support_of
from traceanalyzer.placement.registry import nearest
from traceanalyzer.report.myths import memory_peak

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.registry import Nearest
    from traceanalyzer.run import Host, Run


def ruled_out(run: Run, host: Host, cpu_op: CpuOp, causes: Collection[str]) -> Iterator[RuledOut]:
    """Yield the causes that a fact excludes, apart from those that the op has."""
    blocker = {cause.partition("/")[0] for cause in causes}
    for cause, because in _excluded(run, host, cpu_op, nearest(run.tensorflow_version)):
        if cause not in blocker:
            yield RuledOut(cause=cause, because=because)


def _excluded(run: Run, host: Host, cpu_op: CpuOp, kernels: Nearest) -> Iterator[tuple[str, str]]:
    if host.tables.facts.gpu_used:
        yield "no_gpu_visible", f"TensorFlow used a GPU: {host.tables.facts.gpu_witness}"
    yield from _by_registry(cpu_op, kernels)
    yield from _by_request(cpu_op)
    yield from _by_memory(run, host, cpu_op)


def _by_memory(run: Run, host: Host, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    """Yield why the program did not move the op because of memory, if that is known."""
    blockers = cpu_op.explanation.blockers
    note = memory_note(run, BlockedOps(((cpu_op, blockers[0]),))) if blockers else None
    if note is not None and (note.certainty is not None or note.ruled_out):
        yield from ((out.cause, out.because) for out in note.ruled_out)
        return
    errors = () if host.capture_file is None else host.capture_file.errors
    if host.capture_file is not None and not any(e.where == "resource_exhausted" for e in errors):
        peak = memory_peak(run)
        text = "no out-of-memory error was recorded; " + (f"{peak}; " if peak else "")
        text += "and TensorFlow moves no op because memory is short or a GPU is busy"
        yield "memory_pressure", text


def _by_registry(cpu_op: CpuOp, kernels: Nearest) -> Iterator[tuple[str, str]]:
    """Yield what the kernels of the program's TensorFlow version exclude."""
    explanation = cpu_op.explanation
    definition = kernels.registry.definition(explanation.type)
    if definition is None or not kernels.exact:
        return
    version = f"TensorFlow {kernels.registry.version}"
    if bool(kernels.registry.gpu_kernels(explanation.type)):
        if explanation.kernels is not None and GPU in explanation.kernels and not explanation.doubt:
            text = f"{version} has a GPU kernel for {explanation.type} with its dtypes"
            yield "no_gpu_kernel", text
            yield "dtype_unsupported", text
        elif explanation.types_missing:
            missing = listed([python_name(t) for t in explanation.types_missing])
            yield (
                "no_gpu_kernel",
                f"{version} has GPU kernels for {explanation.type}, but not for {missing}",
            )
        else:
            yield "no_gpu_kernel", f"{version} has GPU kernels for {explanation.type}"
    yield "custom_op", f"{explanation.type} is part of {version}"


def _by_request(cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    """Yield what the requested device excludes."""
    requested = cpu_op.requested_device
    if requested is None or asks_for_cpu(requested):
        return
    text = (
        f"the program requested {device_text(requested)}"
        if requested
        else "no device was requested"
    )
    yield "explicit_cpu_placement", text
    yield "library_cpu_placement", text


def possible(cpu_op: CpuOp, devices: Sequence[str], version: str | None) -> Iterator[str]:
    """Yield the devices there are, and the kernels there are for the op, a sentence each."""
    explanation = cpu_op.explanation
    if devices:
        yield f"Devices: {listed([device_text(d) for d in devices])}."
    kernels = nearest(version)
    support = support_of(kernels.registry, explanation.type)
    if support is None:
        return
    if explanation.kernels is not None and not explanation.doubt:
        kinds = " and ".join(f"the {kind}" for kind in explanation.kernels) or "no device"
        yield f"With its attributes, {explanation.type} has a kernel for {kinds}."
        return
    of = f"TensorFlow {kernels.registry.version}"
    if support.overall.gpu == "none":
        yield f"{explanation.type} has no GPU kernel in {of}."
    elif not explanation.types_missing and support.overall.gpu == "all":
        yield f"{explanation.type} has GPU kernels in {of}, for all dtypes."
    elif explanation.types_missing:
        missing = listed([python_name(t) for t in explanation.types_missing])
        yield f"{explanation.type} has GPU kernels in {of}, but none for {missing}."
    else:
        yield f"{explanation.type} has GPU kernels in {of}."
