"""Whether the data that the program keeps on the CPU would fit the GPU.

A CPU scope shows what its author requested, not why. If the data is too large for the GPU, that is
the likely reason; if it is small, it is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.causes.knowledge.exhaustion import DTYPE_BYTES
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.causes.knowledge.gpu_memory import device_resources, gpu_memory
from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import Evidence, Fix, RuledOut
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.scopes import scopes_of_making

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame, Resource, Signature, Tensor
    from traceanalyzer.causes.knowledge.finding_text import Members
    from traceanalyzer.causes.knowledge.gpu_memory import GpuMemory
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Host, Run

_CAUSE: Final = "memory_pressure"
_FLOATS: Final = ("float", "double")
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
    fixes: tuple[Fix, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """Data on the CPU: a text, its size, and how much bfloat16 would save."""

    text: str
    bytes: int
    saved_by_bfloat16: int


def memory_note(run: Run, members: Members) -> MemoryNote | None:
    """Compare the data that the program keeps on the CPU with the memory of the GPU.

    Returns:
        None if no scope of the program keeps the ops there, or sizes are not known.
    """
    host = next((h for h in run.hosts if members and h.name == members[0][0].host), None)
    if host is None or host.capture_file is None:
        return None
    kept = _kept(host, host.capture_file, members)
    gpus = [gpu for gpu in gpu_memory(host) if gpu.room_bytes]
    if kept is None or not gpus:
        return None
    return _note(kept, max(gpus, key=_free_bytes), host.capture_file)


def _free_bytes(gpu: GpuMemory) -> int:
    """Return what was free at the peak."""
    return _usable_bytes(gpu) - (gpu.peak_bytes or 0)


def _usable_bytes(gpu: GpuMemory) -> int:
    """Return what TensorFlow can use beside other processes."""
    room = gpu.room_bytes or 0
    return room if gpu.total_bytes is None else min(room, gpu.total_bytes - gpu.others_bytes)


def _note(kept: _Kept, gpu: GpuMemory, capture_file: CaptureFile) -> MemoryNote:
    free = _free_bytes(gpu)
    sizes = _sizes_text(kept, gpu)
    if kept.bytes * _WITH_SLOTS <= free:
        out = RuledOut(cause=_CAUSE, because=f"{sizes}: it would easily fit")
        return MemoryNote(ruled_out=(out,))
    where = "resources and devices"
    if kept.bytes <= free:
        text = (
            f"{sizes}: it would fit, but not with its gradient and the slots of an optimizer such "
            "as Adam, which need three times as much in addition"
        )
        return MemoryNote(evidence=(observed("memory_size", text, where),))
    certainty: Literal["likely", "possible"] = (
        "likely" if kept.bytes > (gpu.room_bytes or 0) else "possible"
    )
    adverb = "likely" if certainty == "likely" else "possibly"
    text = (
        f"{sizes}: it does not fit, which is {adverb} why the program keeps it on the CPU. "
        "TensorFlow itself would have raised ResourceExhaustedError and moved nothing"
    )
    others = _alternatives(kept, gpu, capture_file)
    return MemoryNote(
        certainty=certainty,
        evidence=(
            observed("memory_size", text, where),
            *(observed("would_it_fit", each, where) for each in others),
        ),
        fixes=tuple(_fixes(kept, gpu)),
    )


def _sizes_text(kept: _Kept, gpu: GpuMemory) -> str:
    """Return the sizes as text: `w:0 is 2.00 MB, GPU:0 has 8.00 GB`."""
    text = f"{kept.text}, GPU:{gpu.number} has {size_text(gpu.room_bytes or 0)}"
    if gpu.limit_bytes is not None:
        text += " for TensorFlow"
    if gpu.peak_bytes is not None:
        text += f", with {size_text(gpu.peak_bytes)} in use at the peak"
    if gpu.others_bytes:
        text += f"; other processes held {size_text(gpu.others_bytes)}"
    return text


def _alternatives(kept: _Kept, gpu: GpuMemory, capture_file: CaptureFile) -> Iterator[str]:
    """Walk what could be changed, and whether the data would fit then."""
    if kept.saved_by_bfloat16:
        size = kept.bytes - kept.saved_by_bfloat16
        verdict = _verdict(fits=size <= _free_bytes(gpu))
        yield f"in bfloat16 it would need {size_text(size)}, and it {verdict}"
    resident = device_resources(capture_file, gpu.number)
    transient = (gpu.peak_bytes or 0) - resident
    if gpu.peak_bytes is not None and transient > 0:
        verdict = _verdict(fits=kept.bytes <= _usable_bytes(gpu) - resident)
        yield (
            f"at the peak, {size_text(resident)} were known variables on the GPU; a smaller batch "
            f"reduces the other {size_text(transient)}: without any of it, the data {verdict}"
        )
    if gpu.others_bytes and gpu.total_bytes is not None:
        fits = kept.bytes <= (gpu.room_bytes or 0) - (gpu.peak_bytes or 0)
        yield f"without the other processes it {_verdict(fits=fits)}"
    yield (
        "memory growth does not help: TensorFlow then allocates memory when it needs it instead of "
        "at the start, but there is no more of it"
    )


def _verdict(*, fits: bool) -> str:
    return "would fit" if fits else "would still not fit"


def _fixes(kept: _Kept, gpu: GpuMemory) -> Iterator[Fix]:
    if kept.saved_by_bfloat16 and kept.bytes - kept.saved_by_bfloat16 <= _free_bytes(gpu):
        yield Fix(text="Keep it in bfloat16 if the model tolerates it: it would fit on the GPU.")
    yield Fix(
        text=(
            "If it stays on the CPU, keep only the data there: gather what a step needs, and "
            "compute outside the scope."
        )
    )


def _kept(host: Host, capture_file: CaptureFile, members: Members) -> _Kept | None:
    """Return the data on the CPU: resources of the ops, or resources created in their scopes.

    Without resources, it is the input and output of the largest op in the scopes.
    """
    scopes = {frame for _, blocker in members if (frame := _own_scope(blocker)) is not None}
    if not scopes:
        return None
    used = [b.resource for _, b in members if _own_scope(b) and b.resource and b.resource.bytes]
    created = [
        r for r in capture_file.resources if r.bytes and _scope_lines(capture_file, r) & scopes
    ]
    resources = list({id(r): r for r in used or created}.values())
    if resources:
        return _of_resources(resources, scopes)
    return _of_tensors(host, capture_file, members)


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


def _of_resources(resources: Sequence[Resource], scopes: set[Frame]) -> _Kept:
    resources = sorted(resources, key=lambda r: -(r.bytes or 0))
    total = sum(r.bytes or 0 for r in resources)
    largest = resources[0]
    if len(resources) == 1:
        text = f"{largest.name or 'it'} is {size_text(total)}"
    else:
        lines = listed(sorted(line_text(scope) for scope in scopes))
        text = (
            f"the scope at {lines} holds {size_text(total)} "
            f"({counted(len(resources), 'variable')}, the largest {largest.name or 'unnamed'} with "
            f"{size_text(largest.bytes or 0)})"
        )
    saved = sum(_saved(r.dtype, r.bytes or 0) for r in resources)
    return _Kept(text=text, bytes=total, saved_by_bfloat16=saved)


def _of_tensors(host: Host, capture_file: CaptureFile, members: Members) -> _Kept | None:
    """Return the input and output of the largest eager op in the scopes."""
    joined = host.tables.joined
    if joined is None:
        return None
    own = {cpu_op.op_id for cpu_op, blocker in members if _own_scope(blocker) is not None}
    sized = [
        kept
        for op_id, record in zip(host.tables.ops["op_id"], joined.records, strict=True)
        if record is not None and op_id in own
        for number in record.signatures
        if (kept := _of_signature(capture_file.signatures[number])) is not None
    ]
    return max(sized, key=lambda kept: kept.bytes, default=None)


def _of_signature(signature: Signature) -> _Kept | None:
    tensors = (*signature.inputs, *signature.outputs)
    sizes = [size for tensor in tensors if (size := _tensor_bytes(tensor)) is not None]
    if not sizes or len(sizes) < len(tensors):
        return None
    return _Kept(
        text=f"the input and output of {signature.op} are {size_text(sum(sizes))}",
        bytes=sum(sizes),
        saved_by_bfloat16=sum(_saved(t.dtype, s) for t, s in zip(tensors, sizes, strict=True)),
    )


def _tensor_bytes(tensor: Tensor) -> int | None:
    size = DTYPE_BYTES.get(tensor.dtype)
    for extent in tensor.shape or ():
        if extent < 0:
            return None
        size = None if size is None else size * extent
    return size if tensor.shape is not None else None


def _saved(dtype: str, size_bytes: int) -> int:
    if dtype not in _FLOATS:
        return 0
    return size_bytes - size_bytes * DTYPE_BYTES["bfloat16"] // DTYPE_BYTES[dtype]
