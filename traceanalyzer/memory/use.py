"""What each allocator of a host had in use: over time, at its peak, from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.memory.allocators import allocator_device, allocator_kind
from traceanalyzer.memory.growth import Growth, by_step, growth, step_spans
from traceanalyzer.memory.records import records_of
from traceanalyzer.memory.sampled import sampled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.memory.allocators import AllocatorKind
    from traceanalyzer.memory.ledger import Ledger, Numbers
    from traceanalyzer.memory.records import Records


MOST_ALLOCATORS: Final = 64  # of a host; what is no trace of TensorFlow's may name a million
_KINDS: Final = ("device", "unknown", "pinned_host", "host")


@dataclass(frozen=True, eq=False, kw_only=True)
class Peak:
    """The moment at which most was in use; the parts add up to `bytes`.

    Attributes:
        at_ps: When: the first of several such moments.
        bytes: How much was in use.
        reserved_bytes: Of that, kept back by the allocator itself.
        named_bytes: Of that, in blocks whose op the trace names.
        unnamed_bytes: Of that, in blocks that were allocated in the trace for an op it names not.
        before_bytes: Of that, allocated before the trace began.
        unaccounted_bytes: What does not add up, because records are lost; less than 0 where those
            are of memory that was given back.
        rounding_bytes: What these blocks have beyond what was asked for; None where not told.
        available_bytes: What the allocator could still take then, or None.
        fragmentation: The share of the memory that it had and did not use which was not in the
            largest free piece, or None.
        holders: The blocks that were live, grouped by `op_id`, `op_name`, `data_type`, `shape` and
            `region_type`, with their `bytes` and `count`; those that hold most first.
    """

    at_ps: int
    bytes: int
    reserved_bytes: int
    named_bytes: int
    unnamed_bytes: int
    before_bytes: int
    unaccounted_bytes: int
    rounding_bytes: int | None
    available_bytes: int | None
    fragmentation: float | None
    holders: pd.DataFrame


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocatorUse:
    """What one allocator of a host had in use.

    Attributes:
        allocator: Its name.
        kind: Whose memory it hands out; `pinned_host` is memory of the host that devices copy.
        device: The device whose memory it is, `/device:GPU:0`, or None.
        records: Allocations and deallocations in the trace.
        limit_bytes: How much it may have in use, or None where not told. That of pinned memory is a
            setting of TensorFlow, and no size of the host's memory.
        highest_bytes: The most it ever had in use, before the trace too, or None.
        peak: When most was in use within the trace, or None where no record tells.
        timeline: What was in use after a record, `at_ps` and `bytes`; at most 1000 of the records,
            the lowest and the highest of each stretch of time among them.
        steps: Of each step its number `step`, `start_ps`, and `peak_bytes` and `end_bytes`, in use
            at most and at its end.
        growth: Set where that rises from each step to the next.
    """

    allocator: str
    kind: AllocatorKind
    device: str | None
    records: int
    limit_bytes: int | None
    highest_bytes: int | None
    peak: Peak | None
    timeline: pd.DataFrame
    steps: pd.DataFrame
    growth: Growth | None


def memory_use(allocations: pd.DataFrame, steps: pd.DataFrame) -> tuple[AllocatorUse, ...]:
    """Tell what each allocator of one host had in use.

    Records that do not tell what was in use, or of which block, are left out.

    Args:
        allocations: The host's allocation table.
        steps: Its step table.

    Returns:
        The allocators, those of devices first. What a trace does not record, such as allocations of
        TensorFlow's plain CPU allocator, is not there; nor are those with the fewest records,
        should there be more than `MOST_ALLOCATORS`.
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
    """Return how much an allocator may have in use, and the most that it ever had, as it says.

    What it calls available is its limit less what is in use (`BFCAllocator::AddTraceMe`).
    """
    parts = [sizes[name] for name in ("bytes_allocated", "bytes_available")]
    told = parts[0].known & parts[1].known
    whole = parts[0].values + parts[1].values + sizes["bytes_reserved"].values
    limit = int(whole[told].max(initial=0))
    return limit or None, int(sizes["peak_bytes_in_use"].values.max(initial=0)) or None


def _peak(records: Records, book: Ledger) -> Peak:
    at = int(book.in_use.argmax())
    held = book.held(at)
    rows, row = book.row[held], int(book.row[at])
    ops = records.texts["op_name"]
    named = int(book.size[held][ops.codes[rows] < len(ops.values) - 1].sum())
    asked = records.sizes["requested_bytes"].take(rows)
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
        rounding_bytes=int((book.size[held] - asked.values).sum()) if asked.known.all() else None,
        available_bytes=int(available.values[row]) if available.known[row] else None,
        fragmentation=share if 0 <= share <= 1 else None,
        holders=records.groups(rows, book.size[held]),
    )
