"""The tab Timeline: every event, and the largest gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import Code, Column, Note, Quantity, Tab
from traceanalyzer.report.lane_events import timeline_block
from traceanalyzer.report.sections.shared import op_link, table_of
from traceanalyzer.report.text import op_label, transfer_words
from traceanalyzer.timeline.gaps import gaps_of
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model.blocks import Block, Cell, Table, Text
    from traceanalyzer.model.times import EventTimeline
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.gaps import Gaps

_GAPS_SHOWN: Final = 20
_LEAST_SHARE: Final = 0.005  # of the time of all gaps
_COLUMNS: Final = (
    Column(name="device", title="Device", kind="code"),
    Column(name="waited_for", title="Waited for"),
    Column(name="op", title="Op"),
    Column(name="then", title="Ran next", kind="code"),
    Column(name="steps", title="Steps", kind="count"),
    Column(name="gaps", title="Gaps", kind="count"),
    Column(name="each_us", title="Each (mean)", kind="us"),
    Column(name="total_us", title="Total", kind="us"),
)
_WAITED_FOR: Final = {
    Phase.HOST_OP: "CPU op",
    Phase.UNPLACED: "op of unknown placement",
    Phase.INPUT: "input pipeline",
    Phase.LAUNCH: "kernel launch",
    Phase.RUNTIME: "TensorFlow runtime",
    Phase.PROGRAM: "your program",
    Phase.QUEUED: "queued work",
    Phase.OTHER_DEVICE: "another device",
    Phase.COPY: "transfer",
    Phase.COMPUTE: "kernel",
    Phase.UNATTRIBUTED: "unknown",
}


def timeline_tab(diagnosis: Diagnosis) -> Tab | None:
    """Return the tab; None without events."""
    run = diagnosis.run
    timeline = timeline_block(run, _explained(diagnosis))
    if timeline is None:
        return None
    blocks: list[Block] = [timeline]
    if timeline.events.merged_below_us is not None:
        blocks.append(Note(text=_merged(timeline.events)))
    shift_us = max((0, *(ps for h in run.hosts for ps in h.timeline.shifts_ps.values())))
    if shift_us:
        shifted: Text = (
            "Device times are shifted by up to ",
            Quantity(value=shift_us / PS_PER_US, unit="us"),
            ", so that nothing begins before its launch.",
        )
        blocks.append(Note(text=shifted))
    blocks += gap_table(run)
    return Tab(id="timeline", title="Timeline", blocks=tuple(blocks))


def _explained(diagnosis: Diagnosis) -> set[str]:
    """Return the ops of findings, but for those by design: no event of theirs is to be missed."""
    findings = diagnosis.findings
    if not diagnosis.run.gpu_used and diagnosis.on_a_gpu is not None:
        findings = diagnosis.on_a_gpu.findings
    return {op_id for f in findings if f.harm != "by_design" for op_id in f.op_ids}


def _merged(events: EventTimeline) -> Text:
    return (
        f"{counted(events.merged_total, 'event')} shorter than ",
        Quantity(value=events.merged_below_us or 0.0, unit="us"),
        " are drawn merged, without names. All events: ",
        Code(text="traceanalyzer tables PATH -o DIR"),
    )


def gap_table(run: Run) -> Iterator[Table]:
    """Yield the table of gaps, if there are any."""
    found = [(host, gaps) for host in run.hosts for gaps in gaps_of(host.tables, host.timeline)]
    found.sort(key=lambda pair: -pair[1].total_ps)
    if not found:
        return
    least_ps = _LEAST_SHARE * sum(gaps.total_ps for _, gaps in found)
    shown = [pair for pair in found[:_GAPS_SHOWN] if pair[1].total_ps >= least_ps]
    rows = [_gap_row(host, gaps) for host, gaps in shown]
    devices = {(host.name, gaps.device) for host, gaps in found}
    if len(devices) > 1:
        for row, (host, gaps) in zip(rows, shown, strict=True):
            device = gaps.device or "the program"
            row["device"] = f"{host.name} {device}" if len(run.hosts) > 1 else device
    origin_ps = min(host.start_ps for host in run.hosts)
    is_program = devices == {(host.name, None) for host in run.hosts}
    what = "Time in which the program's thread waited" if is_program else "Idle time of devices"
    yield table_of(
        _COLUMNS,
        rows,
        len(found),
        table_id="gaps",
        caption=(f"{what}, gaps that waited for the same together. A row leads to the longest.",),
        ids=[_target(gaps, origin_ps) for _, gaps in shown],
    )


def _gap_row(host: Host, gaps: Gaps) -> dict[str, Cell]:
    total_us = gaps.total_ps / PS_PER_US
    op: Cell = None
    if gaps.row >= 0:
        op = (op_link(_op(host, gaps.row), str(host.tables.ops["op_id"].iloc[gaps.row])),)
    return {
        "waited_for": _WAITED_FOR[gaps.phase],
        "op": op,
        "then": _next(host, gaps.after),
        "steps": gaps.steps or None,
        "gaps": gaps.count,
        "each_us": total_us / gaps.count,
        "total_us": total_us,
    }


def _op(host: Host, row: int) -> str:
    op = host.tables.ops.iloc[row]
    return op_label(str(op["name"]), str(op["type"]))


def _next(host: Host, event: int) -> str | None:
    work = host.timeline.work
    if work is None or event < 0:
        return None
    transfer, row = int(work.transfer[event]), int(work.row[event])
    if transfer >= 0:
        return transfer_words(str(host.tables.transfers["direction"].iloc[transfer]))
    return _op(host, row) if row >= 0 else str(host.tables.kernels["name"].iloc[event])


def _target(gaps: Gaps, origin_ps: int) -> str:
    start, end = ((at_ps - origin_ps) / PS_PER_US for at_ps in gaps.longest_ps)
    return f"time-{start:.3f}-{end:.3f}"
