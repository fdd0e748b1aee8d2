"""The tab Timeline: every event, and the largest gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.steps import PARTS, shift_us
from traceanalyzer.report.text import op_label, op_link, table_of, time, transfer_words
from traceanalyzer.report.timeline import timeline_block
from traceanalyzer.timeline.gaps import gaps_of
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.gaps import Gaps

_SHOWN: Final = 10
_LEAST_SHARE: Final = 0.005  # of the time of all gaps
_COLUMNS: Final = (
    b.Column(name="device", title="Device", kind="code"),
    b.Column(name="waited_for", title="Waited mostly for"),
    b.Column(name="op", title="Op"),
    b.Column(name="then", title="Ran next", kind="code"),
    b.Column(name="steps", title="Steps", kind="count"),
    b.Column(name="gaps", title="Gaps", kind="count"),
    b.Column(name="each_us", title="Each (mean)", kind="us"),
    b.Column(name="total_us", title="Total", kind="us"),
)
_WAITED_FOR: Final = {phase: part.label for part in PARTS for phase in part.phases}


def timeline_tab(diagnosis: Diagnosis) -> b.Tab | None:
    """Return the tab; None without events."""
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
        merged = f"{counted(events.merged_total, 'event')} shorter than "
        drawn = " are drawn merged, without names. All events: "
        command = b.Code(text="traceanalyzer tables PATH -o DIR")
        blocks.append(b.Note(text=(merged, time(events.merged_below_us), drawn, command)))
    if shifted_us := shift_us(run):
        why = ", so that nothing begins before its launch."
        said = "Device times are shifted by up to "
        blocks.append(b.Note(text=(said, time(shifted_us), why)))
    blocks += gap_table(run)
    return b.Tab(id="timeline", title="Timeline", blocks=tuple(blocks))


def gap_table(run: Run) -> Iterator[b.Table]:
    """Yield the table of gaps, if there are any."""
    found = [(host, gaps) for host in run.hosts for gaps in gaps_of(host.tables, host.timeline)]
    found.sort(key=lambda pair: -pair[1].total_ps)
    if not found:
        return
    least_ps = _LEAST_SHARE * sum(gaps.total_ps for _, gaps in found)
    shown = [pair for pair in found[:_SHOWN] if pair[1].total_ps >= least_ps]
    devices = {(host.name, gaps.device) for host, gaps in found}
    rows = [_row(host, gaps) for host, gaps in shown]
    if len(devices) > 1:
        for row, (host, gaps) in zip(rows, shown, strict=True):
            device = gaps.device or "the program"
            row["device"] = f"{host.name} {device}" if len(run.hosts) > 1 else device
    origin_ps = min(host.start_ps for host in run.hosts)
    longest_us = [[(ps - origin_ps) / PS_PER_US for ps in gaps.longest_ps] for _, gaps in shown]
    is_program = all(device is None for _, device in devices)
    what = "Time in which the program's thread waited" if is_program else "Idle time of devices"
    yield table_of(
        _COLUMNS,
        rows,
        len(found),
        table_id="gaps",
        caption=(
            f"{what}. Gaps with the same main reason share a row, which links to the longest gap.",
        ),
        ids=[f"time-{start:.3f}-{end:.3f}" for start, end in longest_us],
    )


def _row(host: Host, gaps: Gaps) -> dict[str, b.Cell]:
    op_ids, total_us = host.tables.ops["op_id"], gaps.total_ps / PS_PER_US
    has_op = gaps.row >= 0
    return {
        "waited_for": _WAITED_FOR[gaps.phase],
        "op": (op_link(_op(host, gaps.row), str(op_ids.iloc[gaps.row])),) if has_op else None,
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
