"""The memory of each GPU, and whether the data that the program keeps on the CPU would fit.

The sources are the trace's allocator events and, in a capture, `get_memory_info` and the driver. If
the data is too large for the GPU, that is likely why a scope requests the CPU.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from traceanalyzer.capture_file.document import CaptureFile, Frame, line_text
from traceanalyzer.causes._cause import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.format import counted, listed, percent_text, size_text
from traceanalyzer.model import Evidence, RuledOut
from traceanalyzer.placement.blocker import BY_SCOPE, Blocker
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.scopes import scopes_of_making
from traceanalyzer.run import Host, Run

# `GPUProcessState::GetGPUAllocator` (gpu_process_state.cc) names them so.
BFC: Final = re.compile(r"GPU_(\d+)_bfc")
_DEVICE: Final = re.compile(r"/device:GPU:(\d+)$")

# A trained variable comes with its gradient and, for Adam, two slots of its size.
_WITH_SLOTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory of one GPU of a host; None for unknown values."""

    number: int  #: TensorFlow's number of the GPU
    peak_bytes: int | None = None  #: the most that TensorFlow had in use
    limit_bytes: int | None = None  #: how much TensorFlow may use
    total_bytes: int | None = None  #: how much the GPU has
    others_bytes: int = 0  #: how much other processes are known to use

    @property
    def room_bytes(self) -> int | None:
        """The memory that TensorFlow can use: its limit, or else the GPU's whole memory."""
        return self.total_bytes if self.limit_bytes is None else self.limit_bytes

    @property
    def free_bytes(self) -> int:
        """The memory that neither TensorFlow, at its peak, nor other processes used."""
        room = self.room_bytes or 0
        if self.total_bytes is not None:
            room = min(room, self.total_bytes - self.others_bytes)
        return room - (self.peak_bytes or 0)

    def room_words(self, name: str) -> str:
        """Return a phrase for the memory that TensorFlow can use on this GPU (`name`)."""
        if self.limit_bytes is None:
            return f"the {size_text(self.total_bytes or 0)} that {name} has"
        words = f"the {size_text(self.limit_bytes)} that TensorFlow may use on {name}"
        return f"{words}, out of {size_text(self.total_bytes)}" if self.total_bytes else words

    @property
    def peak_text(self) -> str:
        """A clause about the peak memory use and the memory that TensorFlow can use."""
        if self.peak_bytes is None:
            return f"TensorFlow may use {size_text(self.room_bytes or 0)} on GPU:{self.number}"
        room = "" if self.room_bytes is None else f" of {self.room_words('it')}"
        return f"GPU:{self.number} used at most {size_text(self.peak_bytes)}{room}"


def gpu_memory(host: Host) -> tuple[GpuMemory, ...]:
    """Return the known memory of each GPU that TensorFlow can use, sorted by number."""
    capture_file = host.capture_file
    devices = (capture_file.devices or {}) if capture_file is not None else {}
    limits = _counts(devices.get("memory_limit"))
    peaks = _counts(devices.get("memory"), "peak")
    for use in host.memory:
        match = BFC.fullmatch(use.allocator)
        if match is not None and use.highest_bytes is not None:
            peaks[int(match[1])] = max(peaks.get(int(match[1]), 0), use.highest_bytes)
        if match is not None and use.limit_bytes is not None:
            limits[int(match[1])] = use.limit_bytes
    totals = _counts(host.device_properties, "memory_size")
    # The driver numbers GPUs by bus, CUDA the fastest first, and `CUDA_VISIBLE_DEVICES` chooses. So
    # for several GPUs, only a size that all of them have is used.
    seen = () if capture_file is None else capture_file.gpus
    sizes = {_count(gpu.get("memory_total_bytes")) for gpu in seen}
    known = {*peaks, *limits, *totals}
    if len(sizes) == 1 and (size_bytes := sizes.pop()):
        totals = dict.fromkeys(known or {0}, size_bytes) | totals
    others = {0: others_bytes(seen[0])} if len(seen) == 1 and known <= {0} else {}
    return tuple(
        GpuMemory(
            number=number,
            peak_bytes=peaks.get(number),
            limit_bytes=limits.get(number),
            total_bytes=totals.get(number),
            others_bytes=others.get(number, 0),
        )
        for number in sorted(known | totals.keys())
    )


def other_processes(gpu: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the other programs' processes on a GPU, as the driver's record of it has them."""
    found = gpu.get("other_processes")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def others_bytes(gpu: Mapping[str, Any]) -> int:
    """Return how much of a GPU's memory other processes are known to use."""
    return sum(_count(each.get("memory_bytes")) or 0 for each in other_processes(gpu))


def _counts(recorded: object, key: str = "") -> dict[int, int]:
    """Return the known byte counts of GPUs, by GPU number."""
    found = {}
    for device, value in (recorded if isinstance(recorded, dict) else {}).items():
        match = _DEVICE.search(device)
        count = _count(value.get(key) if key and isinstance(value, dict) else value)
        if match is not None and count:
            found[int(match[1])] = count
    return found


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal():  # a property of the trace
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, kw_only=True)
class MemoryNote:
    """A note on whether the program keeps data on the CPU for lack of GPU memory."""

    #: How certain that is, by the sizes: None if they do not suggest it.
    certainty: Literal["likely", "possible"] | None = None
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()


def memory_note(run: Run, ops: BlockedOps) -> MemoryNote:
    """Compare the data that the program's scopes keep on the CPU with the memory of the GPU."""
    captured = next((each for each in run.captured if each[0].name == ops.ops[0].host), None)
    kept = None if captured is None else _kept(captured[1], ops)
    if captured is None or kept is None:
        return MemoryNote()
    gpus = [gpu for gpu in gpu_memory(captured[0]) if gpu.room_bytes]
    if not gpus:
        return MemoryNote()
    gpu = max(gpus, key=lambda gpu: gpu.free_bytes)
    data, size_bytes = kept
    others = f"; other processes used {size_text(gpu.others_bytes)}" if gpu.others_bytes else ""
    sizes = f"{data}, and {gpu.peak_text}{others}"
    if size_bytes * _WITH_SLOTS <= gpu.free_bytes:
        out = RuledOut(cause="memory_pressure", because=f"{sizes}: the data would easily fit")
        return MemoryNote(ruled_out=(out,))
    certainty: Literal["likely", "possible"] | None = None
    text = "the data would fit, but not with its gradient and an optimizer's variables"
    if size_bytes > gpu.free_bytes:
        certainty = "likely" if size_bytes > (gpu.room_bytes or 0) else "possible"
        adverb = "likely" if certainty == "likely" else "possibly"
        text = (
            f"the data does not fit, which is {adverb} why the program keeps it on the CPU. "
            "TensorFlow itself would raise ResourceExhaustedError, not move the data"
        )
    evidence = observed("memory_size", f"{sizes}: {text}", "resources and devices")
    return MemoryNote(certainty=certainty, evidence=(evidence,))


def _kept(capture_file: CaptureFile, ops: BlockedOps) -> tuple[str, int] | None:
    """Return a text about the variables that ops use or scopes contain, and their total bytes."""
    scopes = {frame for blocker in ops.blockers if (frame := _own_scope(blocker)) is not None}
    used = [b.resource for b in ops.blockers if _own_scope(b) and b.resource and b.resource.bytes]
    created = [
        resource
        for resource in (capture_file.resources if scopes and not used else ())
        if resource.bytes and asks_for_cpu(resource.device)
        if any(
            capture_file.frame(scope.frame) in scopes
            for scope in scopes_of_making(capture_file, resource)
        )
    ]
    resources = list({id(r): r for r in used or created}.values())
    if not resources:
        return None
    largest = max(resources, key=lambda r: r.bytes or 0)
    total = sum(r.bytes or 0 for r in resources)
    if len(resources) == 1:
        return f"{largest.name or 'the variable'} is {size_text(total)}", total
    lines = listed(sorted(line_text(scope) for scope in scopes))
    named = f", {largest.name}," if largest.name else ""
    content = f"{counted(len(resources), 'variable')}; the largest{named} is"
    contain = "scope at {} contains" if len(scopes) == 1 else "scopes at {} contain"
    size = f"{size_text(total)} ({content} {size_text(largest.bytes or 0)})"
    return f"the {contain.format(lines)} {size}", total


def _own_scope(blocker: Blocker) -> Frame | None:
    frame = blocker.scope_frame
    if frame is None or not frame.is_user or blocker.copied_from or blocker.kind not in BY_SCOPE:
        return None
    return frame if asks_for_cpu(blocker.scope or blocker.requested_device) else None


def memory_peak(run: Run) -> str:
    """Return a clause about the peak memory use of the fullest GPU of a run; "" if unknown."""
    known = [
        (gpu.peak_bytes / gpu.room_bytes, gpu.peak_bytes, gpu, host.name)
        for host in run.hosts
        for gpu in gpu_memory(host)
        if gpu.peak_bytes is not None and gpu.room_bytes
    ]
    if not known:
        return ""
    share, peak_bytes, gpu, host_name = max(known, key=lambda each: each[0])
    where = f"GPU:{gpu.number}" + (f" of {host_name}" if len(run.hosts) > 1 else "")
    room = gpu.room_words(where)
    return f"GPU memory peaked at {percent_text(share)} ({size_text(peak_bytes)} of {room})"
