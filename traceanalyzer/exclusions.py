"""Finds causes and common explanations that do not apply to a run's CPU ops.

TensorFlow's placer considers kernels, requests, and colocation (placer.cc, colocation_graph.cc).
Memory, load, and the cost of transfers are often suspected of moving ops to the CPU but never do.
"""

from collections.abc import Collection, Iterator
from typing import Final

import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.caught_errors import exhaustion
from traceanalyzer.causes.knowledge.gpu_memory import (
    memory_note,
    memory_peak,
    other_processes,
    others_bytes,
)
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import Myth, RuledOut
from traceanalyzer.placement.devices import GPU, asks_for_cpu, device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.placement.registry import nearest
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import Role

#: For each myth, what is suspected, and the question.
MYTHS: Final = {
    "memory": ("GPU memory", "Was GPU memory full?"),
    "other_processes": ("other processes", "Did other processes use the GPU?"),
    "transfer_cost": ("transfer cost", "Were transfers too expensive?"),
    "float64": ("float64", "Was it float64?"),
}
_FLOAT64: Final = (
    "Nearly all ops with a GPU kernel have one for float64. Float64 can be slow on a GPU, but that "
    "does not move ops to the CPU."
)
_RAN_OUT: Final = (
    "That moved no op to the CPU: when memory runs out, TensorFlow raises ResourceExhaustedError"
)


def ruled_out(run: Run, cpu_op: CpuOp, causes: Collection[str]) -> Iterator[RuledOut]:
    """Yield the causes, other than those in `causes`, that the facts rule out for an op."""
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
        why = "TensorFlow does not move ops when memory is short or a GPU is busy"
        facts = ("no out-of-memory error was recorded", memory_peak(run), why)
        yield "memory_pressure", "; ".join(filter(None, facts))


def _by_registry(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    explanation, kernels = cpu_op.explanation, nearest(run.tensorflow_version)
    op_type, version = explanation.type, f"TensorFlow {kernels.registry.version}"
    if kernels.registry.definition(op_type) is None or not kernels.exact:
        return
    if kernels.registry.gpu_kernels(op_type):
        text = f"{version} has GPU kernels for {op_type}"
        if explanation.kernels is not None and GPU in explanation.kernels and not explanation.doubt:
            text = f"{version} has a GPU kernel for {op_type} with the op's dtypes"
            yield "dtype_unsupported", text
        elif explanation.types_missing:
            text += f", but not for {types_missing(cpu_op)}"
        yield "no_gpu_kernel", text
    yield "custom_op", f"{op_type} is part of {version}"


def types_missing(cpu_op: CpuOp) -> str:
    """Return the dtypes for which an op has no GPU kernel."""
    return listed([python_name(t) for t in cpu_op.explanation.types_missing])


def myths(run: Run) -> tuple[Myth, ...]:
    """Return the myths that the run's figures disprove, or () if TensorFlow used no GPU."""
    found = _answers(run) if run.gpu_used else ()
    return tuple(Myth(id=kind, question=MYTHS[kind][1], answer=text) for kind, text in found)


def _answers(run: Run) -> Iterator[tuple[str, str]]:
    captured = [capture_file for _, capture_file in run.captured]
    if peak := memory_peak(run):
        errors = [error for capture_file in captured for error in capture_file.errors]
        raised = sum(
            e.where == "resource_exhausted" and exhaustion(e.message).is_of_memory for e in errors
        )
        here = "once" if raised == 1 else counted(raised, "time")
        here = f" ({f'{here} in this run' if raised else 'not in this run'})" if captured else ""
        yield "memory", f"{peak}. {_RAN_OUT}{here}."
    for capture_file in captured:
        yield from _other_processes(capture_file)
    across = run.transfers[run.transfers["direction"].isin(["h2d", "d2h"])]
    if len(across):
        size = int(across["bytes"].sum())
        moved = counted(len(across), "transfer") + (f" ({size_text(size)})" if size else "")
        why = "TensorFlow does not weigh transfers when it places ops."
        yield "transfer_cost", f"{moved} between host and GPU moved no op to the CPU: {why}"
    yield from _float64(run.ops)


def _other_processes(capture_file: CaptureFile) -> Iterator[tuple[str, str]]:
    for gpu in capture_file.gpus:
        if others := other_processes(gpu):
            names = listed(list(dict.fromkeys(str(o["name"]) for o in others if o.get("name"))))
            text = f"GPU {gpu.get('index', 0)} was shared with "
            text += counted(len(others), "other process") + (f" ({names})" if names else "")
            used = others_bytes(gpu)
            text += f", which used {size_text(used)} of its memory" if used else ""
            why = "placement does not depend on load. On a busy GPU, an op waits."
            yield "other_processes", f"{text}. That moved no op to the CPU: {why}"


def _float64(ops: pd.DataFrame) -> Iterator[tuple[str, str]]:
    types = ops["input_types"].astype(object).fillna("").str.split(";")
    takes = types.map(lambda of: isinstance(of, list) and "double" in of).astype(bool)
    double = ops[takes & (ops["role"] == Role.COMPUTE)]
    placement = double["placement"].astype(str)
    on_gpu, on_cpu = double[placement.str.startswith("gpu")], int((placement == "cpu").sum())
    if len(on_gpu):
        named = listed(on_gpu["type"].astype(str).drop_duplicates().tolist())
        rest = f" {counted(on_cpu, 'float64 op')} ran on the CPU for the reasons in this report."
        ran = f"{counted(len(on_gpu), 'float64 op')} ran on the GPU ({named})."
        yield "float64", f"{ran} {_FLOAT64}{rest if on_cpu else ''}"
