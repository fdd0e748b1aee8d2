"""Whether the data that the program keeps on the CPU would fit the GPU.

A CPU scope shows what its author requested, not why. If the data is too large for the GPU, that is
the likely reason; if it is small, it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.causes.knowledge.gpu_memory import gpu_memory
from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import Evidence, RuledOut
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.scopes import scopes_of_making

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, Frame, Resource
    from traceanalyzer.causes._cause import BlockedOps
    from traceanalyzer.causes.knowledge.gpu_memory import GpuMemory
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

_CAUSE: Final = "memory_pressure"
_BY_SCOPE: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE, BlockerKind.ASSIGNED})
# A trained variable comes with its gradient and, for Adam, two slots of its size.
_WITH_SLOTS: Final = 4


@dataclass(frozen=True, kw_only=True)
class MemoryNote:
    """What sizes say about why the program keeps something on the CPU."""

    #: That it does not fit is the reason: never certain, because it is an intention; None if sizes
    #: do not suggest it.
    certainty: Literal["likely", "possible"] | None = None
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()


def memory_note(run: Run, ops: BlockedOps) -> MemoryNote | None:
    """Compare the data that the program keeps on the CPU with the memory of the GPU.

    Returns:
        None if no scope of the program keeps the ops there, or sizes are not known.
    """
    host = next((h for h in run.hosts if h.name == ops.ops[0].host), None)
    if host is None or host.capture_file is None:
        return None
    kept = _kept(host.capture_file, ops)
    gpus = [gpu for gpu in gpu_memory(host) if gpu.room_bytes]
    if kept is None or not gpus:
        return None
    gpu = max(gpus, key=_free_bytes)
    data, size_bytes = kept
    sizes = f"{data}, {_memory_text(gpu)}"
    if size_bytes * _WITH_SLOTS <= _free_bytes(gpu):
        out = RuledOut(cause=_CAUSE, because=f"{sizes}: it would easily fit")
        return MemoryNote(ruled_out=(out,))
    certainty: Literal["likely", "possible"] | None = None
    text = "it would fit, but not with its gradient and an optimizer's variables"
    if size_bytes > _free_bytes(gpu):
        certainty = "likely" if size_bytes > (gpu.room_bytes or 0) else "possible"
        adverb = "likely" if certainty == "likely" else "possibly"
        text = (
            f"it does not fit, which is {adverb} why the program keeps it on the CPU. TensorFlow "
            "itself would have raised ResourceExhaustedError and moved nothing"
        )
    evidence = observed("memory_size", f"{sizes}: {text}", "resources and devices")
    return MemoryNote(certainty=certainty, evidence=(evidence,))


def _free_bytes(gpu: GpuMemory) -> int:
    """Return what was free at the peak, beside other processes."""
    room = gpu.room_bytes or 0
    usable = room if gpu.total_bytes is None else min(room, gpu.total_bytes - gpu.others_bytes)
    return usable - (gpu.peak_bytes or 0)


def _memory_text(gpu: GpuMemory) -> str:
    """Return the memory as text: `GPU:0 has 8.00 GB, with 2.00 GB in use at the peak`."""
    text = f"GPU:{gpu.number} has {size_text(gpu.room_bytes or 0)}"
    if gpu.limit_bytes is not None:
        text += " for TensorFlow"
    if gpu.peak_bytes is not None:
        text += f", with {size_text(gpu.peak_bytes)} in use at the peak"
    if gpu.others_bytes:
        text += f"; other processes held {size_text(gpu.others_bytes)}"
    return text


def _kept(capture_file: CaptureFile, ops: BlockedOps) -> tuple[str, int] | None:
    """Return the data on the CPU: resources of the ops, or resources created in their scopes."""
    scopes = {frame for blocker in ops.blockers if (frame := _own_scope(blocker)) is not None}
    if not scopes:
        return None
    used = [b.resource for b in ops.blockers if _own_scope(b) and b.resource and b.resource.bytes]
    created = [
        r for r in capture_file.resources if r.bytes and _scope_lines(capture_file, r) & scopes
    ]
    resources = list({id(r): r for r in used or created}.values())
    if not resources:
        return None
    largest = max(resources, key=lambda r: r.bytes or 0)
    total = sum(r.bytes or 0 for r in resources)
    if len(resources) == 1:
        return f"{largest.name or 'it'} is {size_text(total)}", total
    lines = listed(sorted(line_text(scope) for scope in scopes))
    of_largest = f"{largest.name or 'unnamed'} with {size_text(largest.bytes or 0)}"
    content = f"{counted(len(resources), 'variable')}, the largest {of_largest}"
    return f"the scope at {lines} holds {size_text(total)} ({content})", total


def _own_scope(blocker: Blocker) -> Frame | None:
    """Return the line of the program's own CPU scope around an op or its resource."""
    frame = blocker.scope_frame
    if frame is None or not frame.is_user or blocker.copied_from or blocker.kind not in _BY_SCOPE:
        return None
    return frame if asks_for_cpu(blocker.scope or blocker.requested_device) else None


def _scope_lines(capture_file: CaptureFile, resource: Resource) -> set[Frame | None]:
    """Return the lines of the CPU scopes in which a resource was created."""
    if not asks_for_cpu(resource.device):
        return set()
    return {capture_file.frame(scope.frame) for scope in scopes_of_making(capture_file, resource)}
