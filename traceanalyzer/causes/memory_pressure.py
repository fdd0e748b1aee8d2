"""The program continued on the CPU after memory ran out.

## What it detects

Programs that catch TensorFlow's ResourceExhaustedError and continue in a `tf.device` scope for the
CPU; such errors that no handler caught; tensors that Grappler swaps to host memory and back; and
memory that the driver pages between both. The last three put no op on the CPU: data moves, and the
ops that use it still run on the GPU.

## Why it happens

TensorFlow itself never moves an op because memory is short. Its allocator frees what it can, waits
up to ten seconds for other ops to release memory (bfc_allocator.cc), and then the op fails. Only
the program can continue elsewhere: in an `except` that repeats the work under
`tf.device("/CPU:0")`. Every step that takes this path pays for it.

## How to fix it

Make the work fit: a smaller batch, gradients accumulated over several batches, float16 or bfloat16
if the model tolerates it (`mixed_bfloat16`), and large tables sharded or kept in host memory, with
only the needed rows gathered. If another process holds the GPU's memory, stop that process. Let the
program stop, or report it clearly, when it continues on the CPU.

## How sure it is

Certain if the capture recorded the error and its handler, and the source shows that the scope is
opened inside that handler. Likely if the source cannot be read: then the scope is opened further
down in the same function. That the error was raised is always certain. The reason for a scope
elsewhere is unknown: its cause is `explicit_cpu_placement` or `resource_on_cpu`. If what it keeps
on the CPU is larger than the GPU's memory, lack of memory is likely the reason; if it would easily
fit, lack of memory is ruled out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text, same_place
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.error_handlers import (
    HandledOps,
    handled_ops,
    handler_evidence,
    no_errors_known,
    raised_at,
    raised_evidence,
)
from traceanalyzer.causes.knowledge.exhaustion import exhaustion
from traceanalyzer.causes.knowledge.finding_text import observed, ops_text
from traceanalyzer.causes.knowledge.gpu_memory import gpu_memory
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import Evidence, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
    from traceanalyzer.run import Host, Run

# `MemoryOptimizer` of Grappler (memory_optimizer.cc, `BuildSwapPair`) inserts them.
SWAPS: Final = ("_CopyFromGpuToHost", "_CopyFromHostToGpu")
_BFC: Final = re.compile(r"GPU_(\d+)_bfc")  # `GetGPUAllocator` (gpu_process_state.cc)
_FORCED: Final = "TF_FORCE_UNIFIED_MEMORY"
_MOST_NAMED: Final = 3  # allocations in evidence
_FIXES: Final = (
    Fix(text="Use a smaller batch, and accumulate gradients over several batches."),
    Fix(
        text="Compute in bfloat16 if the model tolerates it: activations take half the memory.",
        code='tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")',
    ),
)


def not_applicable(run: Run) -> str | None:
    return None if any(_swaps(host) for host in run.hosts) else no_errors_known(run)


def check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        if host.capture_file is not None:
            yield from _exhausted(run, host, host.capture_file)
        yield from _unified_memory(host)
    for host in run.hosts:
        swaps = _swaps(host)
        if swaps:
            yield _swapped(host, swaps)


def _exhausted(run: Run, host: Host, capture_file: CaptureFile) -> Iterator[Finding]:
    """Walk the findings of memory errors: one per handler, and per line without a handler."""
    distinct = {
        (error.raised[:1], error.handler): error
        for error in capture_file.errors
        if error.where == "resource_exhausted" and exhaustion(error.message).is_of_memory
    }
    handled: set[Frame] = set()
    for error in distinct.values():
        handler = capture_file.frame(error.handler)
        if handler is None:
            yield _uncaught(host, capture_file, error)
        elif handler not in handled and not exhaustion(error.message).is_on_host:
            handled.add(handler)
            ops = handled_ops(run, host, handler)
            if ops is not None:
                yield _caught(host, capture_file, error, handler, ops)


def _caught(
    host: Host, capture_file: CaptureFile, error: CaughtError, handler: Frame, ops: HandledOps
) -> Finding:
    raised = raised_at(capture_file, error)
    at = f" at {line_text(raised)}" if raised is not None else ""
    return Finding(
        cause=CAUSE.id,
        sub_reason="caught",
        scope=f"{same_place(raised)} {same_place(handler)}",
        certainty="certain" if ops.is_certain else "likely",
        harm="harmful",
        title=f"After a {error.type}{at}, the program put {ops_text(ops.members)} on the CPU",
        why=(
            f"Memory ran out{at}: TensorFlow {exhaustion(error.message).attempt}. "
            f"{line_text(handler)} caught the error, and the handler requests the CPU. TensorFlow "
            "itself would have failed, not moved anything."
        ),
        op_ids=tuple(cpu_op.op_id for cpu_op, _ in ops.members),
        evidence=(
            raised_evidence(capture_file, error, _message(error)),
            handler_evidence(handler),
            *ops.evidence,
            *_allocator(host, error),
        ),
        fixes=_FIXES,
    )


def _uncaught(host: Host, capture_file: CaptureFile, error: CaughtError) -> Finding:
    raised = raised_at(capture_file, error)
    at = f" at {line_text(raised)}" if raised is not None else ""
    return Finding(
        cause=CAUSE.id,
        sub_reason="not_caught",
        scope=f"{host.name} {same_place(raised)} not caught",
        certainty="certain",
        harm="harmful",
        title=f"Memory ran out{at}, and the program did not catch the error",
        why=(
            f"TensorFlow {exhaustion(error.message).attempt}, waited for memory to be released, "
            "and failed the op. TensorFlow moves nothing to the CPU when memory is short, so this "
            "error put no op there."
        ),
        op_ids=(),
        evidence=(raised_evidence(capture_file, error, _message(error)), *_allocator(host, error)),
        fixes=_FIXES,
    )


def _allocator(host: Host, error: CaughtError) -> Iterator[Evidence]:
    """Walk the figures of the allocator that failed: what was requested, what was in use."""
    failed = exhaustion(error.message)
    where = "errors"
    if failed.bytes is not None:
        allocator = f" from {failed.allocator}" if failed.allocator else ""
        text = f"{size_text(failed.bytes)} were requested{allocator}"
        yield observed("allocator", text, where)
    name = _BFC.fullmatch(failed.allocator)
    number = int(name[1]) if name is not None else 0
    gpu = next((g for g in gpu_memory(host) if g.number == number), None)
    if gpu is not None and not failed.is_on_host:
        if gpu.peak_bytes is not None:
            text = f"GPU:{number} had {size_text(gpu.peak_bytes)} in use at its peak"
            text += f", of {gpu.room_words('it')}" if gpu.room_bytes is not None else ""
            yield observed("allocator", text)
        if gpu.others_bytes:
            text = f"other processes held {size_text(gpu.others_bytes)} of its memory"
            yield observed("other_processes", text)
    for op, size in failed.largest[:_MOST_NAMED]:
        text = f"{op} held {size_text(size)} when the error was raised"
        yield observed("allocator", text, where)
    if not failed.largest:
        yield from _largest_requests(host, failed.allocator)


def _largest_requests(host: Host, allocator: str) -> Iterator[Evidence]:
    """Walk the largest requests to an allocator that the trace recorded."""
    table = host.tables.allocations
    if table.empty or not allocator:
        return
    made = table[(table["allocator"] == allocator) & table["is_allocation"].astype(bool)]
    made = made.dropna(subset=["requested_bytes", "op_name"])
    made = made.sort_values("requested_bytes", ascending=False).drop_duplicates("op_name")
    largest = made.head(_MOST_NAMED)[["op_name", "requested_bytes"]]
    for name, size in largest.itertuples(index=False):
        text = f"{name} requested {size_text(int(size))}, one of the largest recorded requests"
        yield observed("allocator", text)


def _swaps(host: Host) -> dict[str, str]:
    """Return the types of the ops that Grappler inserts to swap tensors, by name.

    A capture holds them in the graphs that ran; a trace alone, as rows of the op table.
    """
    functions = () if host.capture_file is None else host.capture_file.functions
    parts = [part for f in functions for instance in f.instances for part in instance.partitions]
    nodes = [pair for part in parts for pair in zip(part.names, part.ops, strict=True)]
    ops = host.tables.ops
    rows = ops[ops["type"].isin(SWAPS)]
    nodes += zip(rows["name"].astype(str), rows["type"].astype(str), strict=True)
    return {name: op_type for name, op_type in nodes if op_type in SWAPS}


def _swapped(host: Host, swaps: dict[str, str]) -> Finding:
    out = sum(op_type == SWAPS[0] for op_type in swaps.values()) or len(swaps)
    transfers = host.tables.transfers
    is_swap = transfers["producer_name"].isin(swaps) | transfers["consumer_name"].isin(swaps)
    moved = int(transfers.loc[is_swap, "bytes"].sum()) if len(transfers) else 0
    size = f", {size_text(moved)} during the recording" if moved else ""
    where = "functions"
    return Finding(
        cause=CAUSE.id,
        sub_reason="swapped_to_host",
        scope=f"{host.name} swapped",
        certainty="certain",
        harm="harmful",
        title=f"{counted(out, 'tensor')} swapped to host memory and back{size}",
        why=(
            "Grappler's memory optimizer added copies to the host and back to the graph, so that "
            "the GPU's memory suffices. Only data moves: the ops that create and use it still run "
            "on the GPU."
        ),
        op_ids=(),
        evidence=(observed("graph", f"swapping nodes: {listed(sorted(swaps))}", where),),
        fixes=_FIXES,
    )


def _unified_memory(host: Host) -> Iterator[Finding]:
    """Walk the finding, if any, about memory that the driver pages between host and GPU."""
    environment = (host.capture_file.environment if host.capture_file else None) or {}
    variables = environment.get("variables")
    forced = variables.get(_FORCED) if isinstance(variables, dict) else None
    # `UseUnifiedMemory` (gpu_process_state.cc): the variable, or a fraction above 1.
    is_forced = isinstance(forced, str) and forced.lower() in {"1", "true"}
    evidence: list[Evidence] = []
    if is_forced:
        where = f"environment variable {_FORCED}"
        evidence.append(observed("environment", f"{_FORCED} is {forced!r}", where))
    exceeds = False
    for gpu in gpu_memory(host):
        limit, total = gpu.limit_bytes, gpu.total_bytes
        if limit is not None and total is not None and limit > total and not exceeds:
            exceeds = True
            text = (
                f"TensorFlow may use {size_text(limit)} of GPU:{gpu.number}, which has "
                f"{size_text(total)}, as with per_process_gpu_memory_fraction above 1"
            )
            evidence.append(observed("allocator", text))
    if not evidence:
        return
    yield Finding(
        cause=CAUSE.id,
        sub_reason="unified_memory",
        scope=f"{host.name} unified memory",
        certainty="certain" if is_forced else "likely",
        harm="harmful" if exceeds else "harmless",
        title="GPU memory and host memory are unified",
        why=(
            "The driver moves pages between host and GPU memory when they are accessed. That can "
            "slow ops down, but they still run on the GPU."
        ),
        op_ids=(),
        evidence=tuple(evidence),
        fixes=_FIXES,
    )


def _message(error: CaughtError) -> str:
    lines = error.message.strip().splitlines() or [""]
    # A session's message begins with where the op was created.
    return next((each for each in lines if "OOM" in each or "emory" in each), lines[0])


CAUSE = Cause(
    __name__,
    "The program continued on the CPU after memory ran out",
    __doc__,
    check=check,
    not_applicable=not_applicable,
)
