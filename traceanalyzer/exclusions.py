"""The causes that a fact excludes for an op on the CPU."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.gpu_memory import memory_note, memory_peak
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.format import listed
from traceanalyzer.model import RuledOut
from traceanalyzer.placement.devices import GPU, asks_for_cpu, device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.placement.registry import nearest
from traceanalyzer.run import Run


def ruled_out(run: Run, cpu_op: CpuOp, causes: Collection[str]) -> Iterator[RuledOut]:
    """Yield the causes that a fact excludes, except the op's actual causes."""
    found = {cause.partition("/")[0] for cause in causes}
    for cause, because in _excluded(run, cpu_op):
        if cause not in found:
            yield RuledOut(cause=cause, because=because)


def _excluded(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    host = next(host for host in run.hosts if host.name == cpu_op.host)
    if host.tables.facts.gpu_used:
        yield "no_gpu_visible", f"TensorFlow used a GPU: {host.tables.facts.gpu_witness}"
    yield from _by_registry(run, cpu_op)
    requested = cpu_op.requested_device
    if requested is not None and not asks_for_cpu(requested):
        device = f"the program requested {device_text(requested)}"
        text = device if requested else "no device was requested"
        yield "explicit_cpu_placement", text
        yield "library_cpu_placement", text
    blockers, captured = cpu_op.explanation.blockers, host.capture_file
    note = memory_note(run, BlockedOps(((cpu_op, blockers[0]),))) if blockers else None
    if note is not None and (note.certainty is not None or note.ruled_out):
        yield from ((out.cause, out.because) for out in note.ruled_out)
    elif captured and not any(e.where == "resource_exhausted" for e in captured.errors):
        why = "and TensorFlow does not move ops when memory is short or a GPU is busy"
        facts = ("no out-of-memory error was recorded", memory_peak(run), why)
        yield "memory_pressure", "; ".join(filter(None, facts))


def _by_registry(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    """Yield the causes that the kernels of the program's TensorFlow version exclude."""
    explanation, kernels = cpu_op.explanation, nearest(run.tensorflow_version)
    op_type, version = explanation.type, f"TensorFlow {kernels.registry.version}"
    if kernels.registry.definition(op_type) is None or not kernels.exact:
        return
    if kernels.registry.gpu_kernels(op_type):
        text = f"{version} has GPU kernels for {op_type}"
        if explanation.kernels is not None and GPU in explanation.kernels and not explanation.doubt:
            text = f"{version} has a GPU kernel for {op_type} with its dtypes"
            yield "dtype_unsupported", text
        elif explanation.types_missing:
            text += f", but not for {types_missing(cpu_op)}"
        yield "no_gpu_kernel", text
    yield "custom_op", f"{op_type} is part of {version}"


def types_missing(cpu_op: CpuOp) -> str:
    """Return the dtypes for which an op has no GPU kernel."""
    return listed([python_name(t) for t in cpu_op.explanation.types_missing])
