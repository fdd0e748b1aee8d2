"""The program went to the CPU when memory ran short.

## What it detects

Programs that catch TensorFlow's ResourceExhaustedError and go on in a `tf.device` scope for the
CPU; such errors that nothing in the program caught; tensors that grappler swaps to the host's
memory and back; memory that the driver pages between both. Of the last three the report says that
they put no op on the CPU: data moves, and what computes on it stays on the GPU.

## Why it happens

TensorFlow itself moves no op when memory is short. Its allocator gives back what it can, waits up
to ten seconds for other ops to free memory (bfc_allocator.cc), and then the op fails. It is the
program that may go on elsewhere: in an `except` that does the work again under
`tf.device("/CPU:0")`, which every step pays for that takes this way.

## How to fix it

Let the work fit: a smaller batch, gradients accumulated over several of them, float16 or bfloat16
where the model bears it (`mixed_bfloat16`), large tables sharded or kept in host memory with only
what a step needs gathered from them. If another process holds the memory of the GPU, end that. Let
the program stop, or say loudly, when it goes on on the CPU.

## How sure it is

Certain where the capture recorded the error and its handler, and the source shows that the scope is
opened within that handler. Likely where the source cannot be read: the scope is opened further down
in the same function. That the error was raised is always certain. Why a scope elsewhere was written
cannot be known: its cause is `explicit_cpu_placement` or `resource_on_cpu`, and where what it keeps
on the CPU is larger than the memory of the GPU, want of memory is a likely motive beside it.
Where it would fit easily, memory is ruled out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text, same_place
from traceanalyzer.causes._cause import Cause
from traceanalyzer.causes.knowledge.after_errors import (
    handler_evidence,
    no_errors_known,
    raised_at,
    raised_evidence,
    went_on_on_the_cpu,
)
from traceanalyzer.causes.knowledge.exhaustion import exhaustion
from traceanalyzer.causes.knowledge.finding_text import ops_text
from traceanalyzer.evidence.gpu_memory import gpu_memory
from traceanalyzer.findings import Finding
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.wording import counted, listed, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame
    from traceanalyzer.causes.knowledge.after_errors import WentOn
    from traceanalyzer.run import Host, Run

_BFC: Final = re.compile(r"GPU_(\d+)_bfc")  # `GetGPUAllocator` (gpu_process_state.cc)
_FORCED: Final = "TF_FORCE_UNIFIED_MEMORY"
_OF_LARGEST: Final = 3
# `MemoryOptimizer` of grappler (memory_optimizer.cc, `BuildSwapPair`) inserts them.
SWAPS: Final = ("_CopyFromGpuToHost", "_CopyFromHostToGpu")
_LETTING_IT_FIT: Final = (
    Fix(text="Take a smaller batch, and accumulate gradients over several of them."),
    Fix(
        text="Compute in bfloat16 where the model bears it: activations take half the memory.",
        code='tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")',
    ),
)


def _not_applicable(run: Run) -> str | None:
    return None if any(_swaps(run)) else no_errors_known(run)


def _check(run: Run) -> Iterator[Finding]:
    for host in run.hosts:
        if host.capture_file is not None:
            yield from _exhausted(run, host, host.capture_file)
        yield from _unified_memory(host)
    yield from _swapped(run)


def _exhausted(run: Run, host: Host, capture_file: CaptureFile) -> Iterator[Finding]:
    """Walk what is said of a program's errors of memory: of each handler once."""
    distinct = {(e.raised[:1], e.handler): e for e in capture_file.errors if _is_of_memory(e)}
    handled: set[Frame] = set()
    for error in distinct.values():
        handler = capture_file.frame(error.handler)
        if handler is None:
            yield _uncaught(host, capture_file, error)
        elif handler not in handled and not exhaustion(error.message).is_on_host:
            handled.add(handler)
            went_on = went_on_on_the_cpu(run, host, handler)
            if went_on is not None:
                yield _caught(host, capture_file, error, handler, went_on)


def _is_of_memory(error: CaughtError) -> bool:
    return error.where == "resource_exhausted" and exhaustion(error.message).is_of_memory


def _caught(
    host: Host,
    capture_file: CaptureFile,
    error: CaughtError,
    handler: Frame,
    went_on: WentOn,
) -> Finding:
    raised = raised_at(capture_file, error)
    first = f" at {line_text(raised)}" if raised is not None else ""
    return Finding(
        cause=CAUSE.id,
        sub_reason="caught",
        scope=f"{same_place(raised)} {same_place(handler)}",
        certainty="certain" if went_on.is_certain else "likely",
        harm="harmful",
        title=f"After a {error.type}{first} the program put {ops_text(went_on.members)} on the CPU",
        why=(
            f"Memory did not suffice{first}: TensorFlow {exhaustion(error.message).wanted}. "
            f"{line_text(handler)} caught the error, and what follows there asks for the CPU. "
            "TensorFlow would have failed, not moved anything."
        ),
        op_ids=tuple(cpu_op.op_id for cpu_op, _ in went_on.members),
        evidence=(
            raised_evidence(capture_file, error, _told(error)),
            handler_evidence(handler),
            *went_on.evidence,
            *_allocator(host, error),
        ),
        fixes=_LETTING_IT_FIT,
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
        title=f"Memory did not suffice{at}, and no handler of the program caught the error",
        why=(
            f"TensorFlow {exhaustion(error.message).wanted}. It found no room, waited for some to "
            "be freed, and failed the op. It moves nothing to the CPU for that: this error put no "
            "op there."
        ),
        op_ids=(),
        evidence=(raised_evidence(capture_file, error, _told(error)), *_allocator(host, error)),
        fixes=_LETTING_IT_FIT,
    )


def _allocator(host: Host, error: CaughtError) -> Iterator[Evidence]:
    """Walk the figures of the allocator that failed: what was asked for, what was in use."""
    told = exhaustion(error.message)
    if told.bytes is not None:
        by = f" of {told.allocator}" if told.allocator else ""
        text = f"{size_text(told.bytes)} were asked for{by}"
        yield Evidence(kind="allocator", text=text, where=CaptureFileWhere(sidecar="errors"))
    name = _BFC.fullmatch(told.allocator)
    number = int(name[1]) if name is not None else 0
    gpu = next((g for g in gpu_memory(host) if g.number == number), None)
    if gpu is not None and not told.is_on_host and gpu.peak_bytes is not None:
        text = f"GPU:{number} had {size_text(gpu.peak_bytes)} in use at its peak"
        text += f", of {gpu.room_words('it')}" if gpu.room_bytes is not None else ""
        yield Evidence(kind="allocator", text=text)
    if gpu is not None and not told.is_on_host and gpu.others_bytes:
        text = f"other processes held {size_text(gpu.others_bytes)} of its memory"
        yield Evidence(kind="other_processes", text=text)
    for op, size in told.largest[:_OF_LARGEST]:
        text = f"{op} held {size_text(size)} when the error was raised"
        yield Evidence(kind="allocator", text=text, where=CaptureFileWhere(sidecar="errors"))
    if not told.largest:
        yield from _largest_requests(host, told.allocator)


def _largest_requests(host: Host, allocator: str) -> Iterator[Evidence]:
    """Walk the largest requests to an allocator that the trace recorded."""
    table = host.tables.allocations
    if table.empty or not allocator:
        return
    made = table[(table["allocator"] == allocator) & table["is_allocation"].astype(bool)]
    made = made.dropna(subset=["requested_bytes", "op_name"])
    made = made.sort_values("requested_bytes", ascending=False).drop_duplicates("op_name")
    for name, size in made.head(_OF_LARGEST)[["op_name", "requested_bytes"]].itertuples(
        index=False
    ):
        text = f"{name} asked for {size_text(int(size))}: of the largest requests recorded"
        yield Evidence(kind="allocator", text=text)


def _swaps(run: Run) -> Iterator[tuple[Host, str, str]]:
    """Walk the ops that grappler inserts to swap tensors: host, name and type.

    A capture holds them in the graphs that ran; from a trace alone they are seen as its rows.
    """
    for host in run.hosts:
        found: dict[tuple[str, str], None] = {}
        for function in () if host.capture_file is None else host.capture_file.functions:
            for instance in function.instances:
                for part in instance.partitions:
                    pairs = zip(part.names, part.ops, strict=True)
                    found.update(dict.fromkeys(pair for pair in pairs if pair[1] in SWAPS))
        ops = host.tables.ops
        rows = ops[ops["type"].isin(SWAPS)]
        pairs = zip(rows["name"].astype(str), rows["type"].astype(str), strict=True)
        found.update(dict.fromkeys(pairs))
        yield from ((host, name, op_type) for name, op_type in found)


def _swapped(run: Run) -> Iterator[Finding]:
    """Walk what is said of tensors that are swapped to the host and back: one finding a host."""
    for host in run.hosts:
        swaps = [(name, op_type) for own, name, op_type in _swaps(run) if own is host]
        if not swaps:
            continue
        names = {name for name, _ in swaps}
        out = sum(op_type == SWAPS[0] for _, op_type in swaps) or len(swaps)
        copies = host.tables.copies
        told = copies["producer_name"].isin(names) | copies["consumer_name"].isin(names)
        moved = int(copies.loc[told, "bytes"].sum()) if len(copies) else 0
        cost = f", {size_text(moved)} in the recorded time" if moved else ""
        text = f"nodes that swap: {listed(sorted(names))}"
        yield Finding(
            cause=CAUSE.id,
            sub_reason="swapped_to_host",
            scope=f"{host.name} swapped",
            certainty="certain",
            harm="harmful",
            title=f"{counted(out, 'tensor')} swapped to the host's memory and back{cost}",
            why=(
                "Grappler's memory optimizer put copies to the host and back into the graph, so "
                "that the GPU's memory suffices. Data moves; the ops that make and use it still "
                "compute on the GPU, and none is on the CPU for it."
            ),
            op_ids=(),
            evidence=(
                Evidence(kind="graph", text=text, where=CaptureFileWhere(sidecar="functions")),
            ),
            fixes=_LETTING_IT_FIT,
        )


def _unified_memory(host: Host) -> Iterator[Finding]:
    """Walk what is said of memory that the driver pages between host and GPU: at most one."""
    variables = ((host.capture_file.environment if host.capture_file else None) or {}).get(
        "variables"
    )
    forced = variables.get(_FORCED) if isinstance(variables, dict) else None
    # `UseUnifiedMemory` (gpu_process_state.cc) takes the variable, or a fraction above 1.
    is_forced = isinstance(forced, str) and forced.lower() in {"1", "true"}
    beyond = next(
        (
            gpu
            for gpu in gpu_memory(host)
            if gpu.limit_bytes is not None
            and gpu.total_bytes is not None
            and gpu.limit_bytes > gpu.total_bytes
        ),
        None,
    )
    if not is_forced and beyond is None:
        return
    evidence: list[Evidence] = []
    if is_forced:
        where = CaptureFileWhere(sidecar=f"environment variable {_FORCED}")
        evidence.append(Evidence(kind="environment", text=f"{_FORCED} is {forced!r}", where=where))
    if beyond is not None:
        text = (
            f"TensorFlow may use {size_text(beyond.limit_bytes or 0)} of GPU:{beyond.number}, "
            f"which has {size_text(beyond.total_bytes or 0)}: as with "
            "per_process_gpu_memory_fraction above 1"
        )
        evidence.append(Evidence(kind="allocator", text=text))
    yield Finding(
        cause=CAUSE.id,
        sub_reason="unified_memory",
        scope=f"{host.name} unified memory",
        certainty="certain" if is_forced else "likely",
        harm="harmful" if beyond is not None else "harmless",
        title="The GPU's memory is unified with the host's",
        why=(
            "The driver moves pages between the memory of the host and that of the GPU when they "
            "are touched. That can make ops slow; they still compute on the GPU, and none is on "
            "the CPU for it."
        ),
        op_ids=(),
        evidence=tuple(evidence),
        fixes=_LETTING_IT_FIT,
    )


def _told(error: CaughtError) -> str:
    lines = error.message.strip().splitlines() or [""]
    # A session's begins with where the op was made.
    return next((each for each in lines if "OOM" in each or "emory" in each), lines[0])


CAUSE = Cause(
    id="memory_pressure",
    title="The program went to the CPU when memory ran short",
    documentation=__doc__,
    check=_check,
    not_applicable=_not_applicable,
)
