"""Builds the "Timeline" tab: all events, the arrows between them, and the largest gaps.

If there are too many events, consecutive events are merged if they and the gaps between them are
shorter than a threshold, and if they start in the same interval of four times that length. CPU ops
with a known cause are merged only if they are a large part of all events.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.format import op_label
from traceanalyzer.lanes import COPY, KINDS, EventName, HostLane, NameIndex, host_lanes
from traceanalyzer.model import PackedTable
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import EventLane, EventTimeline
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.records import to_record
from traceanalyzer.report.steps import part_label, shift_us
from traceanalyzer.report.text import cut, op_link, table_of, time, transfer_words
from traceanalyzer.run import Host, Run
from traceanalyzer.step_parts import PARTS
from traceanalyzer.timeline.gaps import gaps_of
from traceanalyzer.units import PS_PER_US

_MOST_EVENTS: Final = 400_000
_MOST_BYTES: Final = 1_100_000  # of the packed events
_MOST_NAMES: Final = 8_000
_NAME_LENGTH: Final = 160
_MOST_LANES: Final = 200  # of threads, and of other lanes
_MOST_ARROWS: Final = 5_000  # transfers of a lane
_UNITS_NS: Final[tuple[int, ...]] = tuple(f * 10**e for e in range(9) for f in (1, 2, 5))
_MOST_UNITS: Final = 2**31  # the run is no longer than that
_STAYING_SHARE: Final = 0.4  # most events that are never merged, as a share of all
_FIRST_THRESHOLD_PS: Final = 1024
_LEVEL: Final = 5
_LIMIT_PS: Final = 2**60
_LONGEST_PS: Final = 2**50  # longer events count as this long
_GAPS_SHOWN: Final = 10
_LEAST_SHARE: Final = 0.005  # of the time of all gaps
_WAITED_FOR: Final = {phase: kind for kind, phases in PARTS.items() for phase in phases}


class Events(NamedTuple):
    """Events, sorted by lane and start. A merged event replaces several events."""

    begin: NDArray[np.int64]  # first event of each lane, and the number of events
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # rows of names
    number: NDArray[np.int64]  # how many events each stands for
    first: NDArray[np.int64]  # the first of these


def timeline_tab(diagnosis: Diagnosis) -> b.Tab | None:
    """Return the "Timeline" tab, or None if there are no events."""
    run, findings = diagnosis.run, diagnosis.findings
    if not run.gpu_used and diagnosis.on_a_gpu is not None:
        findings = diagnosis.on_a_gpu.findings
    # The timeline must show every event of these ops.
    explained = {op_id for f in findings if f.harm != "by_design" for op_id in f.op_ids}
    timeline = timeline_block(run, explained)
    if timeline is None:
        return None
    blocks: list[b.Block] = [timeline]
    events = timeline.events
    if events.merged_below_us is not None:
        merged = "Events shorter than "
        drawn = f" ({events.merged_total:,} of them) are merged and unnamed. All events: "
        command = b.Code(text="traceanalyzer tables PATH -o DIR --events")
        blocks.append(b.Note(text=(merged, time(events.merged_below_us), drawn, command)))
    if shifted_us := shift_us(run):
        why = ", so that no work begins before its launch."
        said = "Device times are shifted by up to "
        blocks.append(b.Note(text=(said, time(shifted_us), why)))
    blocks += gap_table(run)
    return b.Tab(id="timeline", title="Timeline", blocks=tuple(blocks))


def timeline_block(run: Run, explained: Collection[str]) -> b.Timeline | None:
    """Return the timeline, or None if empty. Ops in `explained` stay unmerged if possible."""
    names = NameIndex()
    found = [lane for host in run.hosts for lane in host_lanes(host, names) if len(lane.start_ps)]
    if not found:
        return None
    busiest = sorted(range(len(found)), key=lambda k: -found[k].busy_ps)
    threads = [k for k in busiest if found[k].kind == "thread"][:_MOST_LANES]
    others = [k for k in busiest if found[k].kind != "thread"][:_MOST_LANES]
    lanes = [found[k] for k in sorted(threads + others)]
    origin_ps = min(host.start_ps for host in run.hosts)
    whole = _joined(lanes, origin_ps)
    called, rows = _called(names.rows, whole)
    whole = whole._replace(what=rows[whole.what])
    stays = np.array([name.op_id in explained for name in called])[whole.what]
    end_ns = int(whole.end_ps.max()) // 1000
    # Times must fit into 31 bits: nanoseconds do in runs below two seconds.
    unit_ns = next((u for u in _UNITS_NS if end_ns // u < _MOST_UNITS), _UNITS_NS[-1])
    kinds = np.array([name.kind for name in called], np.int64)
    events, packed, below_ps = _fitted(whole, stays, kinds, unit_ns)
    sizes = zip(lanes, np.diff(events.begin), np.diff(whole.begin), strict=True)
    timeline = EventTimeline(
        unit_ns=unit_ns,
        lanes=tuple(
            to_record(EventLane, lane, host=lane.host.name, rows=int(n), events_total=int(total))
            for lane, n, total in sizes
        ),
        lanes_total=len(found),
        names=_packed_names(called, run.ops),
        events=packed,
        events_total=len(whole.start_ps),
        merged_total=int(events.number[events.number > 1].sum()),
        merged_below_us=None if below_ps is None else below_ps / PS_PER_US,
    )
    # An arrow connects two rows of the packed events.
    arrows = np.searchsorted(events.first, _arrows(lanes, whole, called), side="right") - 1
    arrows = np.unique(arrows[arrows[:, 0] != arrows[:, 1]], axis=0)
    columns = {"from": Numbers(arrows[:, 0]), "to": Numbers(arrows[:, 1])}
    return b.Timeline(events=timeline, arrows=pack(columns, len(arrows)) if len(arrows) else None)


def _joined(lanes: Sequence[HostLane], origin_ps: int) -> Events:
    start = (np.concatenate([lane.start_ps for lane in lanes]) - origin_ps).clip(0, _LIMIT_PS)
    end = (np.concatenate([lane.end_ps for lane in lanes]) - origin_ps).clip(0, _LIMIT_PS)
    return Events(
        begin=np.concatenate([[0], np.cumsum([len(lane.start_ps) for lane in lanes])]),
        start_ps=start,
        end_ps=np.maximum(end, start),
        what=np.concatenate([lane.what for lane in lanes]),
        number=np.ones(len(start), np.int64),
        first=np.arange(len(start)),
    )


# --- names -----------------------------------------------------------------------------------


def _called(
    names: Sequence[EventName], events: Events
) -> tuple[list[EventName], NDArray[np.int64]]:
    """Return the names to keep, and each old name's index among them.

    The names with the most time are kept. Other events and merged events are named by kind.
    """
    took = np.bincount(events.what, events.end_ps - events.start_ps, len(names))
    used = np.bincount(events.what, minlength=len(names)) > 0
    kept = np.argsort(-np.where(used, took, -1.0), kind="stable")[:_MOST_NAMES]
    kept = kept[used[kept]]
    rows = len(kept) + np.array([name.kind for name in names], np.int64)
    rows[kept] = np.arange(len(kept))
    others = [EventName(None, kind, None) for kind in range(len(KINDS))]
    return [*(names[k] for k in kept.tolist()), *others], rows


def _packed_names(called: Sequence[EventName], ops: pd.DataFrame) -> PackedTable:
    shown = ops[ops["op_id"].isin({name.op_id for name in called})]
    ops_shown = zip(*(shown[name].astype(str) for name in ("op_id", "name", "type")), strict=True)
    op_names = {op_id: cut(op_label(*op), _NAME_LENGTH) for op_id, *op in ops_shown}
    names = [n.name and (transfer_words(n.name) if n.kind == COPY else n.name) for n in called]
    columns = {
        "name": _texts([name and cut(name, _NAME_LENGTH) for name in names]),
        "kind": Texts(np.array([n.kind for n in called]), KINDS),
        "op_id": _texts([n.op_id for n in called]),
        "op": _texts([op_names.get(n.op_id or "") for n in called]),
    }
    return pack(columns, len(called))


def _texts(values: Sequence[str | None]) -> Texts:
    codes, texts = pd.factorize(np.array(values, dtype=object))
    return Texts(codes, texts.tolist())


# --- as many as fit --------------------------------------------------------------------------


def _fitted(
    events: Events, stays: NDArray[np.bool_], kinds: NDArray[np.int64], unit_ns: int
) -> tuple[Events, PackedTable, int | None]:
    """Merge events until they fit into the page. Return them, their table, and the threshold."""
    most = _MOST_EVENTS
    fitted, below_ps = events, None
    while True:
        if len(events.start_ps) > most:
            too_many_stay = np.count_nonzero(stays) > most * _STAYING_SHARE
            fitted, below_ps = fewer(events, ~stays | too_many_stay, most, kinds)
        packed = _packed(fitted, unit_ns, len(events.start_ps))
        if len(packed.data) <= _MOST_BYTES or len(fitted.start_ps) <= len(events.begin):
            return fitted, packed, below_ps
        fitting = len(fitted.start_ps) * _MOST_BYTES / len(packed.data)
        most = min(int(0.95 * fitting), len(fitted.start_ps) - 1)


def _packed(events: Events, unit_ns: int, total: int) -> PackedTable:
    unit_ps = 1000 * unit_ns
    start, end = ((ps + unit_ps // 2) // unit_ps for ps in (events.start_ps, events.end_ps))
    before = np.concatenate([[0], end[:-1]])
    before[events.begin[events.begin < len(start)]] = 0
    columns = {
        "gap": Numbers(start - before),
        "duration": Numbers(end - start),
        "what": Numbers(events.what),
        "count": Numbers(events.number),
    }
    return pack(columns, total, level=_LEVEL)


def fewer(
    events: Events, may_merge: NDArray[np.bool_], most: int, kinds: NDArray[np.int64]
) -> tuple[Events, int]:
    """Merge short events until at most `most` are left or no more can be merged."""
    start, took = events.start_ps, events.end_ps - events.start_ps
    idle = start[1:] - events.end_ps[:-1]
    size = np.maximum(np.maximum(took[1:], took[:-1]), idle)  # must be below the threshold
    size[~(may_merge[1:] & may_merge[:-1])] = _LIMIT_PS
    size[events.begin[(events.begin > 0) & (events.begin < len(start))] - 1] = _LIMIT_PS
    too_many = len(start) - most
    least_ps = int(np.partition(size, too_many - 1)[too_many - 1]) + 1  # as if all smaller merged
    least_ps = min(max(least_ps, _FIRST_THRESHOLD_PS), _LIMIT_PS // 2)
    shift = (least_ps - 1).bit_length() + 2
    while True:
        below_ps = 1 << (shift - 2)  # a power of two
        joins = (size < below_ps) & (start[1:] >> shift == start[:-1] >> shift)
        first = np.flatnonzero(np.concatenate([[True], ~joins]))
        if len(first) <= most or below_ps >= _LIMIT_PS // 2:
            return _merged(events, first, kinds), below_ps
        shift += 1


def _merged(events: Events, first: NDArray[np.int64], kinds: NDArray[np.int64]) -> Events:
    """Merge groups of events that begin at `first`. A group has its longest event's kind."""
    what = events.what
    is_mixed = np.minimum.reduceat(what, first) != np.maximum.reduceat(what, first)
    took = (events.end_ps - events.start_ps).clip(0, _LONGEST_PS)
    longest = np.maximum.reduceat(took * len(KINDS) + kinds[what], first) % len(KINDS)
    return Events(
        begin=np.searchsorted(first, events.begin),
        start_ps=events.start_ps[first],
        end_ps=np.maximum.reduceat(events.end_ps, first),
        what=np.where(is_mixed, len(kinds) - len(KINDS) + longest, what[first]),
        number=np.diff(first, append=len(events.start_ps)),
        first=first,
    )


# --- arrows ----------------------------------------------------------------------------------


def _arrows(
    lanes: Sequence[HostLane], events: Events, called: Sequence[EventName]
) -> NDArray[np.int64]:
    """Return arrows to and from the longest transfers of each lane, as pairs of events.

    They connect the producing op's last event before the transfer, the transfer, and the consuming
    op's first event after it.
    """
    code: dict[str | None, int] = {None: -1}
    op = np.array([code.setdefault(name.op_id, len(code)) for name in called])
    op[[name.kind == COPY for name in called]] = -1
    op = op[events.what]
    moved = [pd.DataFrame(columns=["transfer", "producer", "consumer"], dtype=np.int64)]
    for begin, lane in zip(events.begin.tolist(), lanes, strict=False):
        if lane.transfer is not None:
            at = np.flatnonzero(lane.transfer >= 0)
            longest = np.argsort(lane.start_ps[at] - lane.end_ps[at], kind="stable")
            at = at[longest[:_MOST_ARROWS]]
            table = lane.host.tables.transfers.iloc[lane.transfer[at]]
            ends = {e: [code.get(i, -1) for i in table[e]] for e in ("producer", "consumer")}
            moved.append(pd.DataFrame({"transfer": begin + at, **ends}, dtype=np.int64))
    transfers = pd.concat(moved, ignore_index=True)
    known = np.flatnonzero(np.isin(op, transfers[["producer", "consumer"]]) & (op >= 0))

    def paired(end: str, own_ps: NDArray[np.int64], other_ps: NDArray[np.int64]) -> pd.DataFrame:
        at, is_made = transfers["transfer"].to_numpy(), end == "producer"
        own = pd.DataFrame({"transfer": at, "op": transfers[end], "ps": own_ps[at]})
        others = pd.DataFrame({"other": known, "op": op[known], "ps": other_ps[known]})
        pairs = pd.merge_asof(
            own.sort_values("ps"),
            others.sort_values("ps"),
            on="ps",
            by="op",
            direction="backward" if is_made else "forward",
        ).dropna()
        return pairs[["other", "transfer"] if is_made else ["transfer", "other"]]

    made = paired("producer", events.start_ps, events.end_ps)
    taken = paired("consumer", events.end_ps, events.start_ps)
    return np.concatenate([pairs.to_numpy(np.int64) for pairs in (made, taken)])


# --- gaps ------------------------------------------------------------------------------------


def gap_table(run: Run) -> Iterator[b.Table]:
    """Yield the table of gaps, if there are any."""
    found = [(host, gaps) for host in run.hosts for gaps in gaps_of(host.tables, host.timeline)]
    found.sort(key=lambda pair: -pair[1].total_ps)
    if not found:
        return
    least_ps = _LEAST_SHARE * sum(gaps.total_ps for _, gaps in found)
    devices = {(host.name, gaps.device) for host, gaps in found}
    is_unknown = all(_WAITED_FOR[gaps.phase] == "unknown" for _, gaps in found)
    origin_ps = min(host.start_ps for host in run.hosts)
    rows: list[dict[str, b.Cell]] = []
    ids = []
    for host, gaps in found[:_GAPS_SHOWN]:
        if gaps.total_ps < least_ps:
            break
        device = gaps.device or "the program"
        device = f"{host.name} {device}" if len(run.hosts) > 1 else device
        start, end = ((ps - origin_ps) / PS_PER_US for ps in gaps.longest_ps)
        ids.append(f"time-{start:.3f}-{end:.3f}")
        row: dict[str, b.Cell] = {"device": device if len(devices) > 1 else None}
        reason = None if is_unknown else part_label(_WAITED_FOR[gaps.phase])
        row |= {"waited_for": reason, "then": _next(host, gaps.after)}
        if gaps.row >= 0:
            op_id = str(host.tables.ops["op_id"].iloc[gaps.row])
            row["op"] = (op_link(_op(host, gaps.row), op_id),)
        total_us = gaps.total_ps / PS_PER_US
        row |= {"steps": gaps.steps or None, "gaps": gaps.count}
        rows.append(row | {"each_us": total_us / gaps.count, "total_us": total_us})
    is_program = all(device is None for _, device in devices)
    what = "Waits of the program's thread" if is_program else "Idle time of devices"
    caption = f"{what}, by {'the op that ended it' if is_unknown else 'its main reason'}."
    yield table_of("gaps", rows, len(found), table_id="gaps", caption=(caption,), ids=ids)


def _op(host: Host, row: int) -> str:
    op = host.tables.ops.iloc[row]
    return op_label(str(op["name"]), str(op["type"]))


def _next(host: Host, event: int) -> str | None:
    work = host.timeline.work
    if work is None:
        return None
    if event < 0:
        return "(end of the recording)"
    transfer, row = int(work.transfer[event]), int(work.row[event])
    if transfer >= 0:
        return transfer_words(str(host.tables.transfers["direction"].iloc[transfer]))
    return _op(host, row) if row >= 0 else str(host.tables.kernels["name"].iloc[event])
