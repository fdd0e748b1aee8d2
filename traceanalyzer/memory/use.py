"""What each allocator of a host had in use: over time, at its peak, from step to step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import pandas as pd

from traceanalyzer.memory.growth import Growth, by_step, growth, step_spans
from traceanalyzer.memory.records import records_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.memory.ledger import Ledger, Numbers
    from traceanalyzer.memory.records import Records


MOST_ALLOCATORS: Final = 64  # of a host; what is no trace of TensorFlow's may name a million
_KINDS: Final = ("device", "unknown", "pinned_host", "host")
_A_STRETCH: Final = 4  # points: its first, its lowest, its highest and its last
AllocatorKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]

# `GPUProcessState::GetGPUAllocator` (gpu_process_state.cc) and XLA's (gpu_helpers.cc).
_GPU: Final = re.compile(r"GPU_(?:collectivememory_)?(\d+)_bfc")
# Names without TensorFlow's number of the device: `PluggableDeviceProcessState`
# (pluggable_device_process_state.cc), `GpuCudaMallocAsyncAllocator` (which has CUDA's number), and
# allocators of TPUs.
_DEVICE: Final = re.compile(r"PluggableDevice_\d+_bfc|gpu_async_\d+|cuda_malloc_async|device -?\d+")
# `gpu_host_bfc`, `cuda_host_bfc` in TensorFlow 1, `pluggable_device_host_bfc`, XLA's
# `xla_gpu_host_bfc`: memory of the host that the system may not move, so that devices can copy it.
_PINNED: Final = re.compile(r"\w*_host_bfc")
# `cpu`, `mklcpu`, `bfc_cpu_allocator_for_gpu` (process_state.cc).
_HOST: Final = re.compile(r"cpu\w*|mkl_?cpu|\w*_cpu_\w+")


@dataclass(frozen=True, eq=False, kw_only=True)
class Peak:
    """The moment of highest use; the parts add up to `bytes`. None means unknown."""

    at_ps: int  #: the first of several such moments
    bytes: int  #: in use
    reserved_bytes: int  #: kept back by the allocator itself
    named_bytes: int  #: in blocks whose op the trace names
    unnamed_bytes: int  #: in blocks allocated in the trace for an op that it does not name
    before_bytes: int  #: allocated before the trace began
    unaccounted_bytes: int  #: missing because records are lost; negative if of deallocations
    rounding_bytes: int | None  #: in the live blocks beyond the requested bytes
    available_bytes: int | None  #: the allocator could still allocate then
    fragmentation: float | None  #: share of its free memory outside the largest free piece
    #: The live blocks, grouped by `op_id`, `op_name`, `data_type`, `shape` and `region_type`, with
    #: `bytes` and `count`; the largest first.
    holders: pd.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocatorUse:
    """The memory that one allocator of a host had in use. None means unknown."""

    allocator: str  #: its name
    kind: AllocatorKind  #: whose memory it is; `pinned_host` is host memory that devices copy
    device: str | None  #: the device whose memory it is, such as `/device:GPU:0`
    records: int  #: allocations and deallocations in the trace
    limit_bytes: int | None  #: of pinned memory a setting of TensorFlow, not the host's memory
    highest_bytes: int | None  #: ever in use, also before the trace
    peak: Peak | None  #: within the trace
    #: `at_ps` and `bytes` in use; at most 1000 records, with each period's lowest and highest.
    timeline: pd.DataFrame
    #: `step`, `start_ps`, and the bytes in use at most and at the end: `peak_bytes`, `end_bytes`.
    steps: pd.DataFrame
    growth: Growth | None  #: set if the end bytes rise from each step to the next


def memory_use(allocations: pd.DataFrame, steps: pd.DataFrame) -> tuple[AllocatorUse, ...]:
    """Return the memory that each allocator of one host had in use, those of devices first.

    Left out are records without the bytes in use or the block's address, allocators that a trace
    does not record, such as TensorFlow's plain CPU allocator, and of more than `MOST_ALLOCATORS`
    those with the fewest records.
    """
    if allocations.empty:
        return ()
    records = records_of(allocations)
    spans = step_spans(steps)
    found = [_use(name, records, rows, spans) for name, rows in _by_allocator(allocations, records)]
    order = {kind: k for k, kind in enumerate(_KINDS)}
    return tuple(sorted(found, key=lambda use: (order[use.kind], use.allocator)))


def _by_allocator(
    allocations: pd.DataFrame, records: Records
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Walk the allocators with most records, each with its rows in order of time."""
    names = allocations["allocator"].astype("category").cat
    in_time = np.argsort(records.at_ps, kind="stable")
    codes = names.codes.to_numpy()[in_time]
    grouped = np.argsort(codes, kind="stable")
    count = np.bincount(codes + 1, minlength=len(names.categories) + 1)
    end = np.cumsum(count)[1:]
    for code in np.argsort(-count[1:], kind="stable")[:MOST_ALLOCATORS].tolist():
        rows = in_time[grouped[end[code] - count[code + 1] : end[code]]]
        if len(rows):
            yield str(names.categories[code]), rows


def _use(name: str, records: Records, rows: NDArray[np.int64], spans: pd.DataFrame) -> AllocatorUse:
    book = records.book(rows)
    limit, highest = _own_account({key: sizes.take(rows) for key, sizes in records.sizes.items()})
    peak = _peak(records, book) if len(book) else None
    points = sampled(book.at_ps, book.in_use)
    steps = by_step(book, spans)
    return AllocatorUse(
        allocator=name,
        kind=allocator_kind(name),
        device=allocator_device(name),
        records=len(rows),
        limit_bytes=limit,
        highest_bytes=highest if peak is None else max(highest or 0, peak.bytes),
        peak=peak,
        timeline=pd.DataFrame({"at_ps": book.at_ps[points], "bytes": book.in_use[points]}),
        steps=steps[["step", "start_ps", "peak_bytes", "end_bytes"]],
        growth=growth(records, book, steps),
    )


def _own_account(sizes: dict[str, Numbers]) -> tuple[int | None, int | None]:
    """Return an allocator's own figures: its limit, and the most it ever had in use.

    The available bytes are the limit less the bytes in use (`BFCAllocator::AddTraceMe`).
    """
    parts = [sizes[name] for name in ("bytes_allocated", "bytes_available")]
    known = parts[0].known & parts[1].known
    whole = parts[0].values + parts[1].values + sizes["bytes_reserved"].values
    limit = int(whole[known].max(initial=0))
    return limit or None, int(sizes["peak_bytes_in_use"].values.max(initial=0)) or None


def _peak(records: Records, book: Ledger) -> Peak:
    at = int(book.in_use.argmax())
    live = book.live_at(at)
    rows, row = book.row[live], int(book.row[at])
    ops = records.texts["op_name"]
    named = int(book.size[live][ops.codes[rows] < len(ops.values) - 1].sum())
    requested = records.sizes["requested_bytes"].take(rows)
    available = records.sizes["bytes_available"]
    share = float(records.fragmentation[row])
    return Peak(
        at_ps=int(book.at_ps[at]),
        bytes=int(book.in_use[at]),
        reserved_bytes=int(book.reserved[at]),
        named_bytes=named,
        unnamed_bytes=int(book.live[at]) - named,
        before_bytes=int(book.before[at]),
        unaccounted_bytes=book.unaccounted(at),
        rounding_bytes=int((book.size[live] - requested.values).sum())
        if requested.known.all()
        else None,
        available_bytes=int(available.values[row]) if available.known[row] else None,
        fragmentation=share if 0 <= share <= 1 else None,
        holders=records.groups(rows, book.size[live]),
    )


def allocator_kind(name: str) -> AllocatorKind:
    """Return what kind of memory an allocator hands out."""
    if _GPU.fullmatch(name) or _DEVICE.fullmatch(name):
        return "device"
    if _PINNED.fullmatch(name):
        return "pinned_host"
    return "host" if _HOST.fullmatch(name) else "unknown"


def allocator_device(name: str) -> str | None:
    """Return the device whose memory it is, `/device:GPU:0`, or None if its name does not say."""
    gpu = _GPU.fullmatch(name)
    return None if gpu is None else f"/device:GPU:{gpu[1]}"


def sampled(
    at_ps: NDArray[np.int64], level: NDArray[np.int64], points: int = 1000
) -> NDArray[np.int64]:
    """Choose the points that draw a series as all of them would, at that many points' width.

    The time is cut into equal stretches, and of each the first, the lowest, the highest and the
    last point stay. The last one counts: it is the level that holds until the next.

    Args:
        at_ps: When, rising, int64.
        level: The level from then on, int64.
        points: How many to choose at most.

    Returns:
        Indices, rising, int64.
    """
    n = len(at_ps)
    if n <= points:
        return np.arange(n, dtype=np.int64)
    inner = np.linspace(float(at_ps[0]), float(at_ps[-1]), points // _A_STRETCH + 1)[1:-1]
    begin = np.unique([0, *np.searchsorted(at_ps, inner).tolist(), n])
    chosen = {
        int(k)
        for first, end in pairwise(begin.tolist())
        for k in (
            first,
            first + level[first:end].argmin(),
            first + level[first:end].argmax(),
            end - 1,
        )
    }
    return np.array(sorted(chosen), np.int64)
