"""What holds of every trace that was recorded by others: it is read, adds up, and has a report."""

import re
from typing import Final

import numpy as np
import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, recorded_runs, slow_but
from tests.input_pipeline.test_any_trace import check as check_input
from tests.report.false_causes import lies_of, lies_on
from tests.tables.reading import problems
from tests.transfers.test_graph import check_totals
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.memory import AllocatorUse
from traceanalyzer.model import Report
from traceanalyzer.placement.by_registry import explanation_by_registry
from traceanalyzer.placement.registry import nearest
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import text_of
from traceanalyzer.report.memory import memory
from traceanalyzer.run import Host, Run
from traceanalyzer.timeline.walk import Phase
from traceanalyzer.transfers.graph import device_graph

pytestmark = needs_corpus

UNREADABLE: Final = {"broken-xprof-utf8-mangled", "oldfmt-tfprofiler-demo"}
QUICK: Final = {
    ("broken-xprof-utf8-mangled", "v_head"),
    ("tfgpu-e4040-2023-hd2551", "2023_11_07_18_18_59"),
    ("oldfmt-localtrace-jonathanpeel", "2019-09-19_14-35-23"),
}
# What is told by TensorFlow's kernels, which change from version to version.
BY_KERNELS: Final = {
    "no_gpu_kernel",
    "dtype_unsupported",
    "attr_unsupported",
    "kernel_priority",
    "host_memory_kernel",
    "custom_op",
}


@pytest.mark.parametrize(("folder", "name"), slow_but(QUICK.__contains__, recorded_runs()))
def test_it_adds_up_and_has_a_report_or_one_plain_line(folder: str, name: str) -> None:
    if folder in UNREADABLE:
        with pytest.raises(ta.TraceAnalyzerError, match=r"\A[^\n]+\Z"):
            ta.load(CORPUS / folder, run=name or None)
        return
    run = ta.load(CORPUS / folder, run=name)

    assert problems(run) == []
    assert run.ops["op_id"].is_unique
    for host in run.hosts:
        check_steps(host)
        check_parts(host)
        check_input(host.tables, host.input_pipeline)
        for use in host.memory:
            check_memory(host, use)
    assert (memory(run) is None) == (not any(host.memory for host in run.hosts))
    check_copies(run)
    diagnosis = diagnose(run)
    check_report(run, assemble(diagnosis))
    check_changes(changes_of(diagnosis))


def check_steps(host: Host) -> None:
    """Every step lies within the recording."""
    steps = host.tables.steps
    assert (steps["duration_ps"] > 0).all()
    assert (steps["start_ps"] >= host.start_ps).all()
    assert (steps["start_ps"] + steps["duration_ps"] <= host.end_ps).all()


def check_parts(host: Host) -> None:
    """The parts of a device's time follow on each other, and nothing idle counts twice."""
    every = [device.parts for device in host.timeline.devices]
    for parts in [*every, *([host.timeline.program] if host.timeline.program else [])]:
        assert (parts.end_ps > parts.start_ps).all()
        assert (parts.start_ps[1:] == parts.end_ps[:-1]).all()
    if every:
        idle = [int(p.duration_ps[p.phase != Phase.COMPUTE].sum()) for p in every]
        exposed, copies = host.tables.ops["exposed_ps"], host.tables.transfers
        assert (exposed >= 0).all()
        assert int(exposed.sum()) <= sum(idle) / len(idle)
        told = copies["exposed_ps"].notna() & copies["duration_ps"].notna()
        assert copies["exposed_ps"][told].between(0, copies["duration_ps"][told]).all()


def check_memory(host: Host, use: AllocatorUse) -> None:
    """The parts of an allocator's peak add up to it."""
    table = host.tables.allocations
    rows = table[table["allocator"] == use.allocator]
    in_use = (rows["bytes_allocated"] + rows["bytes_reserved"]).to_numpy(np.int64)
    peak = use.peak
    assert peak is not None
    parts = peak.named_bytes, peak.unnamed_bytes, peak.before_bytes, peak.reserved_bytes
    assert min(parts) >= 0
    assert sum(parts) == peak.bytes == in_use.max() == use.timeline["bytes"].max()
    assert peak.unaccounted_bytes == 0  # none of these traces lost a record
    assert peak.holders["bytes"].sum() == peak.named_bytes + peak.unnamed_bytes
    assert use.highest_bytes is not None
    assert use.limit_bytes is not None
    assert peak.bytes <= use.highest_bytes <= use.limit_bytes
    assert use.timeline["at_ps"].is_monotonic_increasing
    assert (use.steps["end_bytes"] <= use.steps["peak_bytes"]).all()


def check_copies(run: Run) -> None:
    """Bytes in the graph are bytes in the table."""
    check_totals(run.transfers, run.transfer_graph)
    check_totals(run.transfers, device_graph(run.traffic))
    for small in run.transfer_costs.small_transfers:
        assert small.count <= (run.transfers["direction"] == small.direction).sum()
        assert (small.carrying_us or 0) * 4 < small.total_us
    for sync in run.transfer_costs.device_to_host_syncs:
        assert sync.wait_us is None or sync.total_us is None or sync.total_us <= sync.wait_us


def check_changes(changes: tuple[Change, ...]) -> None:
    """Each says what to do; it needs only changes that are there, and saves no more than a step."""
    ids = {change.id for change in changes}
    assert len(ids) == len(changes)
    for change in changes:
        assert ids >= set(change.needs)
        assert change.title
        assert change.edits or change.instead or change.around
        saving = change.saving
        assert saving.share is None or 0 <= saving.share <= 1


def check_report(run: Run, report: Report) -> None:
    """No rule fails, no cause is false, and another version's kernels make nothing certain."""
    document, page = text_of(report, "json"), text_of(report, "html")
    assert re.fullmatch(r"\S.*\.", report.summary.verdict)
    assert all(rule.status != "failed" for rule in report.rules)
    assert "</html>" in page
    assert lies_of(document) + lies_on(page) == []

    version = None if run.version is None else run.version.value
    if nearest(version).exact:
        return
    for found in report.findings:
        for cause in (found, *found.blockers):
            assert cause.cause not in BY_KERNELS or cause.certainty != "certain"
        assert not BY_KERNELS & {out.cause for out in found.ruled_out}
    for op_type in {str(t) for t in run.ops["type"]}:
        assert explanation_by_registry(op_type, None, version).certainty != "certain", op_type
