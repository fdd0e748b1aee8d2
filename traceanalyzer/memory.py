"""The memory that each allocator of a host had in use: over time, at its peak, and per step.

An allocator's ledger has the memory in use after each record. A deallocation frees the block last
allocated at its address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.steps import main_steps

MOST_ALLOCATORS: Final = 64  # of a host; a file may name a million
_KINDS: Final = ("device", "unknown", "pinned_host", "host")
_A_STRETCH: Final = 4  # points: its first, lowest, highest and last
AllocatorKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]

# `GPUProcessState::GetGPUAllocator` (gpu_process_state.cc) and XLA's (gpu_helpers.cc).
_GPU: Final = re.compile(r"GPU_(?:collectivememory_)?(\d+)_bfc")
# Names without TensorFlow's device number: `PluggableDeviceProcessState`
# (pluggable_device_process_state.cc), `GpuCudaMallocAsyncAllocator` (which has CUDA's number), and
# TPU allocators.
_DEVICE: Final = re.compile(r"PluggableDevice_\d+_bfc|gpu_async_\d+|cuda_malloc_async|device -?\d+")
# `gpu_host_bfc`, `cuda_host_bfc` in TensorFlow 1, `pluggable_device_host_bfc`, XLA's
# `xla_gpu_host_bfc`: pinned host memory, which devices can copy directly.
_PINNED: Final = re.compile(r"\w*_host_bfc")
# `cpu`, `mklcpu`, `bfc_cpu_allocator_for_gpu` (process_state.cc).
_HOST: Final = re.compile(r"cpu\w*|mkl_?cpu|\w*_cpu_\w+")
# Larger sizes are invalid. Half a million of these fit into int64.
_MOST_BYTES: Final = 2**44
_UNKNOWN: Final = -1  # in a column of sizes
_SIZES: Final = (
    *("requested_bytes", "allocation_bytes", "bytes_allocated"),
    *("bytes_reserved", "bytes_available", "peak_bytes_in_use"),
)
HELD_BY: Final = ("op_id", "op_name", "data_type", "shape", "region_type")


@dataclass(frozen=True, eq=False, kw_only=True)
class Peak:
    """The first moment of peak memory use. Its parts add up to `bytes`; None means unknown."""

    at_ps: int
    bytes: int  #: in use
    reserved_bytes: int  #: reserved by the allocator itself
    named_bytes: int  #: in blocks whose op the trace names
    unnamed_bytes: int  #: in blocks allocated in the trace for an op that it does not name
    before_bytes: int  #: allocated before the trace began
    unaccounted_bytes: int  #: missing because records are lost; negative for lost deallocations
    rounding_bytes: int | None  #: in the live blocks beyond the requested bytes
    available_bytes: int | None  #: still available to the allocator
    fragmentation: float | None  #: share of its free memory outside the largest free piece
    holders: pd.DataFrame  #: the live blocks; see `Ledger.holders`


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocatorUse:
    """The memory that one allocator of a host had in use. None means unknown."""

    allocator: str  #: its name
    kind: AllocatorKind  #: `pinned_host` is host memory that devices copy from directly
    device: str | None  #: the device whose memory it is, such as `/device:GPU:0`
    records: int  #: allocations and deallocations in the trace
    limit_bytes: int | None  #: for pinned memory, a TensorFlow setting, not the host's memory
    highest_bytes: int | None  #: ever in use, also before the trace
    peak: Peak | None  #: within the trace
    #: `at_ps` and `bytes` in use; at most 1000 records, with each period's lowest and highest.
    timeline: pd.DataFrame
    #: `step`, `start_ps`, and the highest and last bytes in use: `peak_bytes`, `end_bytes`.
    steps: pd.DataFrame


def memory_use(allocations: pd.DataFrame, steps: pd.DataFrame) -> tuple[AllocatorUse, ...]:
    """Return the memory that each allocator of one host had in use, device allocators first.

    TensorFlow's plain CPU allocator is not recorded. If there are more than
    `MOST_ALLOCATORS`, leave out the ones with the fewest records.
    """
    if allocations.empty:
        return ()
    records, spans = records_of(allocations), _step_spans(steps)
    counts = records["allocator"].value_counts()
    kept = records[records["allocator"].isin(counts.index[:MOST_ALLOCATORS])]
    of_each = kept.groupby("allocator", observed=True)
    found = [_use(str(name), own, spans) for name, own in of_each]
    return tuple(sorted(found, key=lambda use: (_KINDS.index(use.kind), use.allocator)))


def _use(name: str, records: pd.DataFrame, spans: pd.DataFrame) -> AllocatorUse:
    book = ledger(records)
    # The available bytes are the limit less the bytes in use (`BFCAllocator::AddTraceMe`).
    used, available = (records[name].to_numpy() for name in ("bytes_allocated", "bytes_available"))
    whole = used + available + records["bytes_reserved"].to_numpy().clip(0)
    highest = int(records["peak_bytes_in_use"].max())
    peak = _peak(book) if len(book) else None
    gpu = _GPU.fullmatch(name)
    points = sampled(book.at_ps, book.in_use)
    return AllocatorUse(
        allocator=name,
        kind=allocator_kind(name),
        device=None if gpu is None else f"/device:GPU:{gpu[1]}",
        records=len(records),
        limit_bytes=int(whole[(used >= 0) & (available >= 0)].max(initial=0)) or None,
        highest_bytes=max(highest, peak.bytes) if peak is not None else max(highest, 0) or None,
        peak=peak,
        timeline=pd.DataFrame({"at_ps": book.at_ps[points], "bytes": book.in_use[points]}),
        steps=_by_step(book, spans)[["step", "start_ps", "peak_bytes", "end_bytes"]],
    )


def _peak(book: Ledger) -> Peak:
    at = int(book.in_use.argmax())
    live, record = book.live_at(at), book.records.iloc[at]
    size, blocks = book.size[live], book.records.iloc[live]
    named = int(size[blocks["op_name"].notna()].sum())
    requested = blocks["requested_bytes"].to_numpy()
    available, fragmentation = int(record["bytes_available"]), record["fragmentation"]
    is_share = pd.notna(fragmentation) and 0 <= fragmentation <= 1
    return Peak(
        at_ps=int(book.at_ps[at]),
        bytes=int(book.in_use[at]),
        reserved_bytes=int(book.reserved[at]),
        named_bytes=named,
        unnamed_bytes=int(book.live[at]) - named,
        before_bytes=int(book.before[at]),
        unaccounted_bytes=book.unaccounted(at),
        rounding_bytes=int((size - requested).sum()) if (requested >= 0).all() else None,
        available_bytes=None if available == _UNKNOWN else available,
        fragmentation=float(fragmentation) if is_share else None,
        holders=book.holders(live),
    )


def allocator_kind(name: str) -> AllocatorKind:
    """Return the kind of memory that an allocator manages."""
    if _GPU.fullmatch(name) or _DEVICE.fullmatch(name):
        return "device"
    if _PINNED.fullmatch(name):
        return "pinned_host"
    return "host" if _HOST.fullmatch(name) else "unknown"


def sampled(
    at_ps: NDArray[np.int64], level: NDArray[np.int64], points: int = 1000
) -> NDArray[np.int64]:
    """Return the indices of points that draw nearly the same line as all points.

    Divide the time into equal parts, and choose each part's first, lowest, highest, and last point,
    in all at most `points`. Each value in `level` lasts until the next time in `at_ps`.
    """
    n = len(at_ps)
    if n <= points:
        return np.arange(n, dtype=np.int64)
    inner = np.linspace(float(at_ps[0]), float(at_ps[-1]), points // _A_STRETCH + 1)[1:-1]
    begin = np.unique([0, *np.searchsorted(at_ps, inner).tolist(), n])
    chosen: set[int] = set()
    for first, end in pairwise(begin.tolist()):
        part = level[first:end]
        chosen |= {first, first + int(part.argmin()), first + int(part.argmax()), end - 1}
    return np.array(sorted(chosen), np.int64)


# --- From step to step ----------------------------------------------------------------------------


def _step_spans(steps: pd.DataFrame) -> pd.DataFrame:
    """Return a table of the main steps in order, one row per step.

    If several threads mark the same step, it lasts from the first start to the last end.
    """
    rows = steps if steps.empty else main_steps(steps).sort_values("start_ps", kind="stable")
    rows = rows.assign(end_ps=rows["start_ps"] + rows["duration_ps"])
    marks = rows.groupby((rows["step"] != rows["step"].shift()).cumsum(), sort=False)
    found = marks.agg({"step": "first", "start_ps": "first", "end_ps": "max"})
    return found.astype({"step": np.int64}).reset_index(drop=True)


def _by_step(book: Ledger, spans: pd.DataFrame) -> pd.DataFrame:
    if not len(book) or spans.empty:
        return spans.iloc[:0].assign(peak_bytes=0, end_bytes=0)
    level = np.concatenate([[book.at_first], book.in_use, [0]])  # an extra entry for `reduceat`
    first, last = (
        np.searchsorted(book.at_ps, spans[which].to_numpy(np.int64), side="right")
        for which in ("start_ps", "end_ps")
    )
    last = np.maximum(first, last)
    bounds = np.stack([first, last + 1], axis=1).ravel()
    return spans.assign(peak_bytes=np.maximum.reduceat(level, bounds)[::2], end_bytes=level[last])


# --- The ledger of an allocator -------------------------------------------------------------------


def records_of(table: pd.DataFrame) -> pd.DataFrame:
    """Sort a host's allocation table by time, and set implausible sizes to `_UNKNOWN`."""
    sizes = {
        name: table[name].astype("Int64").fillna(_UNKNOWN).to_numpy(np.int64) for name in _SIZES
    }
    valid = {
        name: np.where((size >= 0) & (size <= _MOST_BYTES), size, _UNKNOWN)
        for name, size in sizes.items()
    }
    records = table.assign(**valid).sort_values("start_ps", kind="stable")
    return records.astype(dict.fromkeys(HELD_BY, "category"))


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """One allocator's records by time. Arrays have one entry per record; sizes are in bytes."""

    records: pd.DataFrame  #: from `records_of`, without those that lack bytes in use or address
    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]  #: False for a deallocation
    size: NDArray[np.int64]  #: of the block
    in_use: NDArray[np.int64]  #: after the record, reserved bytes included
    reserved: NDArray[np.int64]  #: reserved by the allocator
    #: The record that ends the block's life: its deallocation or, if that is lost, the next
    #: allocation at its address. The number of records if there is none; -1 for a deallocation.
    end: NDArray[np.int64]
    before: NDArray[np.int64]  #: in use by blocks allocated before the first record
    live: NDArray[np.int64]  #: in use by blocks that a record allocated
    at_first: int  #: in use before the first record

    def __len__(self) -> int:
        return len(self.at_ps)

    def unaccounted(self, index: int) -> int:
        """Return the bytes in use that no record explains; negative if deallocations were lost."""
        known = self.reserved[index] + self.before[index] + self.live[index]
        return int(self.in_use[index] - known)

    def live_at(self, index: int) -> NDArray[np.int64]:
        """Return the records whose blocks are live after record `index`; none if it is -1."""
        upto = slice(0, index + 1)
        return np.flatnonzero(self.is_allocation[upto] & (self.end[upto] > index))

    def holders(self, blocks: NDArray[np.int64]) -> pd.DataFrame:
        """Sum the sizes of blocks by the columns of `HELD_BY`, largest first."""
        chosen = self.records[list(HELD_BY)].iloc[blocks]
        chosen = chosen.assign(bytes=self.size[blocks], count=1)
        groups = chosen.groupby(list(HELD_BY), sort=False, observed=True, dropna=False)
        sums = groups.sum().reset_index()
        sums = sums.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)
        texts = {name: sums[name].astype(object) for name in HELD_BY}
        return sums.assign(**{name: text.where(text.notna(), None) for name, text in texts.items()})


def ledger(records: pd.DataFrame) -> Ledger:
    """Return the ledger of one allocator of one host.

    A freed block without a recorded size (TPUs) gets the size of its allocation.
    """
    records = records[(records["bytes_allocated"] >= 0) & records["addr"].notna()]
    allocated, recorded, address = (
        records[name].to_numpy(np.int64) for name in ("bytes_allocated", "allocation_bytes", "addr")
    )
    is_allocation = records["is_allocation"].to_numpy(np.bool_)
    reserved = records["bytes_reserved"].to_numpy(np.int64).clip(0)
    n = len(records)
    order = np.argsort(address, kind="stable")
    same = np.flatnonzero(address[order[1:]] == address[order[:-1]])
    # The index of each record's next and previous record at its address; -1 for none.
    follows, precedes = np.full(n, n, np.int64), np.full(n, -1, np.int64)
    follows[order[same]] = order[same + 1]
    precedes[order[same + 1]] = order[same]
    # The bytes of each block: as recorded, as allocated, or from the change in use.
    change = np.abs(np.diff(allocated, prepend=allocated[:1]))
    size = np.where(recorded >= 0, recorded, change)
    closing = np.flatnonzero((recorded < 0) & ~is_allocation & (precedes >= 0))
    closing = closing[is_allocation[precedes[closing]]]
    size[closing] = size[precedes[closing]]
    taken = np.where(is_allocation, size, 0)
    at_first = int(allocated[0] - (2 * taken[0] - size[0])) if n else 0
    # A block freed without having been allocated is from before the first record.
    older = np.where(~is_allocation & (precedes < 0), size, 0)
    gone = np.zeros(n + 1, np.int64)
    # A record ends at most one block; the last entry means no record.
    gone[follows[is_allocation]] = size[is_allocation]
    return Ledger(
        records=records,
        at_ps=records["start_ps"].to_numpy(np.int64),
        is_allocation=is_allocation,
        size=size,
        in_use=allocated + reserved,
        reserved=reserved,
        end=np.where(is_allocation, follows, -1),
        before=at_first - np.cumsum(older),
        live=np.cumsum(taken - gone[:-1]),
        at_first=at_first + (int(reserved[0]) if n else 0),
    )
