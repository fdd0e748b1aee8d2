"""Whether what the program keeps on the CPU would have had room on the GPU.

A scope for the CPU says what its author wanted, not why. That something was too large for the GPU
is the likeliest reason where it is, and no reason where it is small: sizes decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.causes.knowledge.gpu_memory import device_resources, gpu_memory
from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix, RuledOut
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.recorded_blockers import scopes_of_making

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Frame, Resource, Signature, Tensor
    from traceanalyzer.causes.knowledge.gpu_memory import GpuMemory
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Host, Run

_CAUSE: Final = "memory_pressure"
_BYTES: Final = {
    "half": 2, "bfloat16": 2, "float": 4, "double": 8, "complex64": 8, "complex128": 16,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "bool": 1,
}  # fmt: skip
_BFLOAT16: Final = 2
_FLOATS: Final = ("float", "double")
# A variable that is trained comes with its gradient and, for Adam, two slots of its size.
_EASILY: Final = 4


@dataclass(frozen=True, kw_only=True)
class MemoryNote:
    """What sizes say of why the program keeps something on the CPU."""

    #: How sure it is that it was put there because it does not fit: never certain, for that is an
    #: intention; None where sizes do not point to it.
    certainty: Literal["likely", "possible"] | None
    evidence: tuple[Evidence, ...]  #: the sizes, and whether it would fit otherwise
    fixes: tuple[Fix, ...] = ()  #: what would make it fit
    #: That memory was the reason, where it would have had plenty of room.
    ruled_out: tuple[RuledOut, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What is kept on the CPU: in words, how large, and how much of that floats could save."""

    text: str
    bytes: int
    saved_by_bfloat16: int


def memory_note(run: Run, members: Sequence[tuple[CpuOp, Blocker]]) -> MemoryNote | None:
    """Compare what the program keeps on the CPU with the memory of the GPU.

    Args:
        members: The ops, each with what holds it first of all.

    Returns:
        None where no scope of the program holds them, or sizes are not known.
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
    """Return what was left of a GPU when most was in use."""
    return _least_room(gpu) - (gpu.peak_bytes or 0)


def _least_room(gpu: GpuMemory) -> int:
    """Return what TensorFlow can use, as far as the others leave it."""
    room = gpu.room_bytes or 0
    return room if gpu.total_bytes is None else min(room, gpu.total_bytes - gpu.others_bytes)


def _note(kept: _Kept, gpu: GpuMemory, capture_file: CaptureFile) -> MemoryNote:
    free = _free_bytes(gpu)
    size = _size_text(kept, gpu)
    if kept.bytes * _EASILY <= free:
        out = RuledOut(cause=_CAUSE, because=f"{size}: it would fit easily")
        return MemoryNote(certainty=None, evidence=(), ruled_out=(out,))
    where = CaptureFileWhere(sidecar="resources and devices")
    if kept.bytes <= free:
        text = (
            f"{size}: it would fit, but not with its gradient and the slots of an optimizer such "
            "as Adam, which take three times as much again"
        )
        return MemoryNote(
            certainty=None, evidence=(Evidence(kind="memory_size", text=text, where=where),)
        )
    certainty: Literal["likely", "possible"] = (
        "likely" if kept.bytes > (gpu.room_bytes or 0) else "possible"
    )
    text = (
        f"{size}: it does not fit, and {'likely' if certainty == 'likely' else 'possibly'} that "
        "is why the program keeps it on the CPU. TensorFlow itself would have raised "
        "ResourceExhausted, and moved nothing"
    )
    found = (
        Evidence(kind="memory_size", text=text, where=where),
        *(
            Evidence(kind="would_it_fit", text=text, where=where)
            for text in _otherwise(kept, gpu, capture_file)
        ),
    )
    return MemoryNote(certainty=certainty, evidence=found, fixes=tuple(_fixes(kept, gpu)))


def _size_text(kept: _Kept, gpu: GpuMemory) -> str:
    """Return the sizes in words: `w:0 is 2.00 MB, GPU:0 has 8.00 GB`."""
    text = f"{kept.text}, GPU:{gpu.number} has {size_text(gpu.room_bytes or 0)}"
    if gpu.limit_bytes is not None:
        text += " for TensorFlow"
    if gpu.peak_bytes is not None:
        text += f", of which {size_text(gpu.peak_bytes)} were in use at the peak"
    if gpu.others_bytes:
        text += f"; other processes held {size_text(gpu.others_bytes)}"
    return text


def _otherwise(kept: _Kept, gpu: GpuMemory, capture_file: CaptureFile) -> Iterator[str]:
    """Walk what could be otherwise, and whether it would fit then."""
    free = _free_bytes(gpu)
    if kept.saved_by_bfloat16:
        size = kept.bytes - kept.saved_by_bfloat16
        yield f"in bfloat16 it would take {size_text(size)}: that {_verdict(size <= free)}"
    resident = device_resources(capture_file, gpu.number)
    passing = (gpu.peak_bytes or 0) - resident
    if gpu.peak_bytes is not None and passing > 0:
        fits = kept.bytes <= _least_room(gpu) - resident
        yield (
            f"of what was in use at the peak, {size_text(resident)} are known variables of the "
            f"GPU; the other {size_text(passing)} are what a smaller batch lessens: with none of "
            f"that it {_verdict(fits)}"
        )
    if gpu.others_bytes and gpu.total_bytes is not None:
        fits = kept.bytes <= (gpu.room_bytes or 0) - (gpu.peak_bytes or 0)
        yield f"without the other processes it {_verdict(fits)}"
    yield (
        "memory growth makes no room: TensorFlow then takes memory when it needs it instead of at "
        "its start, and no more of it is there"
    )


def _verdict(fits: bool) -> str:  # noqa: FBT001 - a figure of speech
    return "would fit" if fits else "would not fit either"


def _fixes(kept: _Kept, gpu: GpuMemory) -> Iterator[Fix]:
    if kept.saved_by_bfloat16 and kept.bytes - kept.saved_by_bfloat16 <= _free_bytes(gpu):
        yield Fix(text="Keep it in bfloat16, if the model tolerates that: it would fit on the GPU.")
    yield Fix(
        text=(
            "Where it stays on the CPU, keep that alone there: gather from it what a step needs, "
            "and compute on that outside of the scope."
        )
    )


def _kept(
    host: Host, capture_file: CaptureFile, members: Sequence[tuple[CpuOp, Blocker]]
) -> _Kept | None:
    """Return what is kept on the CPU: the resources that hold the ops, or are made in their scopes.

    Where there are none, it is what the largest op within the scopes takes and makes.
    """
    scopes = {frame for _, blocker in members if (frame := _own_scope(blocker)) is not None}
    if not scopes:
        return None
    used = [h.resource for _, h in members if _own_scope(h) and h.resource and h.resource.bytes]
    made = [
        r for r in capture_file.resources if r.bytes and _lines_of_making(capture_file, r) & scopes
    ]
    resources = list({id(r): r for r in used or made}.values())
    if resources:
        return _of_resources(resources, scopes)
    return _of_tensors(host, capture_file, members)


def _own_scope(blocker: Blocker) -> Frame | None:
    """Return the line of the program's own scope that keeps an op, or its resource, on the CPU."""
    frame = blocker.scope_frame
    if frame is None or not frame.is_user or blocker.copied_from:
        return None
    if blocker.kind not in {BlockerKind.REQUEST, BlockerKind.RESOURCE, BlockerKind.ASSIGNED}:
        return None
    return frame if asks_for_cpu(blocker.scope or blocker.requested_device) else None


def _lines_of_making(capture_file: CaptureFile, resource: Resource) -> set[Frame | None]:
    """Return the lines of the scopes for the CPU that a resource was made in."""
    if not asks_for_cpu(resource.device):
        return set()
    return {capture_file.frame(scope.frame) for scope in scopes_of_making(capture_file, resource)}


def _of_resources(resources: Sequence[Resource], scopes: set[Frame]) -> _Kept:
    resources = sorted(resources, key=lambda r: -(r.bytes or 0))
    total = sum(r.bytes or 0 for r in resources)
    if len(resources) == 1:
        text = f"{resources[0].name or 'it'} is {size_text(total)}"
    else:
        lines = listed(sorted(line_text(scope) for scope in scopes))
        text = (
            f"what is made in the scope at {lines} is {size_text(total)} "
            f"({counted(len(resources), 'variable')}, the largest "
            f"{resources[0].name or 'without a name'} with {size_text(resources[0].bytes or 0)})"
        )
    return _Kept(
        text=text,
        bytes=total,
        saved_by_bfloat16=sum(_saved(r.dtype, r.bytes or 0) for r in resources),
    )


def _of_tensors(
    host: Host, capture_file: CaptureFile, members: Sequence[tuple[CpuOp, Blocker]]
) -> _Kept | None:
    """Return what the largest eager op within the scopes takes and makes."""
    joined = host.tables.joined
    if joined is None:
        return None
    own = {cpu_op.op_id for cpu_op, blocker in members if _own_scope(blocker) is not None}
    numbers = [
        number
        for op_id, record in zip(host.tables.ops["op_id"], joined.records, strict=True)
        if record is not None and op_id in own
        for number in record.signatures
    ]
    sized = [
        kept for n in numbers if (kept := _of_signature(capture_file.signatures[n])) is not None
    ]
    return max(sized, key=lambda kept: kept.bytes, default=None)


def _of_signature(signature: Signature) -> _Kept | None:
    tensors = (*signature.inputs, *signature.outputs)
    sizes = [_tensor_bytes(tensor) for tensor in tensors]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    saved = sum(_saved(t.dtype, size) for t, size in zip(tensors, known, strict=True))
    total = sum(known)
    return _Kept(
        text=f"what {signature.op} takes and makes is {size_text(total)}",
        bytes=total,
        saved_by_bfloat16=saved,
    )


def _tensor_bytes(tensor: Tensor) -> int | None:
    size = _BYTES.get(tensor.dtype)
    for extent in tensor.shape or ():
        if extent < 0:
            return None
        size = None if size is None else size * extent
    return size if tensor.shape is not None else None


def _saved(dtype: str, size: int) -> int:
    return size - size * _BFLOAT16 // _BYTES[dtype] if dtype in _FLOATS else 0
