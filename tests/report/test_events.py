from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer
from tests.report.made_timeline import with_many_events
from tests.traces import (
    call,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    op,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.model import TraceWhere
from traceanalyzer.report import events as events_module
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.events import event_timeline
from traceanalyzer.report.level_of_detail import Events, Kinds, together
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.timeline_link import timeline_place

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from traceanalyzer.model import Report
    from traceanalyzer.model.times import EventTimeline


def report_of(folder: Path, *planes: Any) -> Report:  # noqa: ANN401
    logs = write(folder, xspace(*planes), run="run")
    return assemble(traceanalyzer.diagnose(traceanalyzer.load(logs)))


def rows(trace: EventTimeline) -> list[tuple[Any, ...]]:
    """Each event as (lane, start in us, duration in us, name, kind, count)."""
    packed, names = unpack(trace.events), unpack(trace.names)
    found = []
    at = 0
    for lane in trace.lanes:
        end = 0
        for k in range(at, at + lane.rows):
            start = end + int(packed["gap"][k])  # type: ignore[arg-type]
            end = start + int(packed["duration"][k])  # type: ignore[arg-type]
            what = int(packed["what"][k])  # type: ignore[arg-type]
            found.append(
                (
                    lane.name,
                    start * trace.unit_ns / 1000,
                    (end - start) * trace.unit_ns / 1000,
                    names["name"][what],
                    names["kind"][what],
                    packed["count"][k],
                )
            )
        at += lane.rows
    return found


TRAINING = (
    host(
        line("python", at_ns=3000)(
            step(1, us(0, 100))(call("f", us(10, 85), step=-7)),
            step(2, us(100, 100))(call("f", us(110, 85), step=-8)),
        ),
        thread("tf_Compute", 2, at_ns=3000)(
            executor(us(12, 80), step=-7)(
                op("where", "Where", us(14, 50)),
                op("mul", "MatMul", us(66, 10))(launch(us(68, 4), 1)),
            ),
            executor(us(112, 80), step=-8)(
                op("where", "Where", us(114, 20)),
                op("mul", "MatMul", us(136, 10))(launch(us(138, 4), 2)),
            ),
        ),
    ),
    gpu(0)(
        stream(13, "Compute", at_ns=3000)(
            kernel("gemm", us(74, 10), op="mul:MatMul", correlation=1),
            kernel("gemm", us(144, 10), op="mul:MatMul", correlation=2),
        )
    ),
)


def test_each_lane_has_what_happened_on_it_in_order(tmp_path: Path) -> None:
    trace = report_of(tmp_path, *TRAINING).trace
    assert trace is not None
    assert [(lane.kind, lane.name, lane.device) for lane in trace.lanes] == [
        ("steps", "train", None),
        ("stream", "Stream #13(Compute)", "/device:GPU:0"),
        ("thread", "python", None),
        ("thread", "tf_Compute/2", None),
    ]
    assert [lane.is_program for lane in trace.lanes] == [False, False, True, False]
    found = rows(trace)
    assert [row[1:] for row in found if row[0] == "train"] == [
        (0.0, 100.0, "train 1", "step", 1),
        (100.0, 100.0, "train 2", "step", 1),
    ]
    assert [row[1:] for row in found if row[0].startswith("Stream")] == [
        (74.0, 10.0, "gemm", "compute", 1),
        (144.0, 10.0, "gemm", "compute", 1),
    ]
    # The launch within the op on the device is part of it: the host brings it work all the while.
    assert [row[1:] for row in found if row[0] == "tf_Compute/2"][:5] == [
        (12.0, 2.0, "ExecutorState::Process", "runtime", 1),
        (14.0, 50.0, "where:Where", "host_op", 1),
        (64.0, 2.0, "ExecutorState::Process", "runtime", 1),
        (66.0, 10.0, "mul:MatMul", "launch", 1),
        (76.0, 16.0, "ExecutorState::Process", "runtime", 1),
    ]
    assert trace.events_total == len(found)
    assert (trace.merged_total, trace.merged_below_us) == (0, None)
    assert trace.unit_ns == 1


def test_the_largest_gap_says_what_was_waited_for(tmp_path: Path) -> None:
    report = report_of(tmp_path, *TRAINING)
    assert report.trace is not None
    gaps = report.trace.gaps
    assert [(g.start_us, g.duration_us, g.step) for g in gaps] == [
        (0.0, 74.0, "train 1"),
        (84.0, 60.0, "train 1"),
        (154.0, 46.0, "train 2"),
    ]
    assert (gaps[0].phase, gaps[0].phase_us) == ("host_op", 50.0)
    assert (gaps[0].op, gaps[0].op_us) == ("where:Where", 50.0)
    assert (gaps[0].before, gaps[0].after) == (None, "mul:MatMul")
    assert (gaps[1].before, gaps[1].after) == ("mul:MatMul", "mul:MatMul")
    assert (gaps[2].before, gaps[2].after) == ("mul:MatMul", None)
    assert gaps[0].device == "/device:GPU:0"
    assert report.trace.gaps_total == 3


def test_a_place_in_the_trace_leads_to_its_moment(tmp_path: Path) -> None:
    report = report_of(tmp_path, *TRAINING)

    def link(offset_ps: int | None, name: str = "tf_Compute/2") -> str | None:
        place = timeline_place(
            report,
            TraceWhere(
                host="host",
                plane="/host:CPU",
                line=name,
                offset_ps=offset_ps,
                duration_ps=50_000_000,
            ),
        )
        return None if place is None else place.link

    # The line begins at 3 us, and so does the run: an event's offset is its time in the run.
    assert link(14_000_000) == "#timeline&time.view=0.000-89.000"
    assert link(114_000_000) == "#timeline&time.view=89.000-189.000"
    assert link(None) == "#timeline"  # the whole line
    assert link(14_000_000, "tf_Compute/3") is None


# ------------------------------------------------------------------ level of detail

NS = 1000


def lanewise(*lanes: list[tuple[int, int, int]]) -> Events:
    """Events of lanes as (start, end, what) in nanoseconds."""
    flat = [event for lane in lanes for event in lane]
    table = np.array(flat, np.int64).reshape(-1, 3)
    return Events(
        begin=np.concatenate([[0], np.cumsum([len(lane) for lane in lanes])]).astype(np.int64),
        start_ps=table[:, 0] * NS,
        end_ps=table[:, 1] * NS,
        what=table[:, 2],
        number=np.ones(len(table), np.int64),
        stays=np.zeros(len(table), np.bool_),
    )


KINDS = Kinds(kind=np.array([0, 1, 7]), finding=np.array([-1, 3, -1]))


THRESHOLDS = [(2 + number % 2) * 512 << (number // 2) for number in range(103)]
spans = st.tuples(st.integers(0, 10**7), st.integers(0, 10**5), st.integers(0, 2))


@st.composite
def several_lanes(draw: st.DrawFn) -> Events:
    lanes = draw(st.lists(st.lists(spans, max_size=60), min_size=1, max_size=4))
    if not any(lanes):
        lanes[0].append((0, 1, 0))
    return lanewise(*([(s, s + d, w) for s, d, w in sorted(lane)] for lane in lanes))


def covered(events: Events, lane: int) -> list[tuple[int, int]]:
    own = slice(int(events.begin[lane]), int(events.begin[lane + 1]))
    return list(zip(events.start_ps[own].tolist(), events.end_ps[own].tolist(), strict=True))


@given(several_lanes(), st.integers(0, 90), st.randoms(use_true_random=False))
def test_nothing_is_lost_however_much_stands_together(
    events: Events, number: int, random: Random
) -> None:
    below = THRESHOLDS[number]
    stays = np.array([random.random() < 0.1 for _ in events.what], np.bool_)
    events = events._replace(stays=stays)
    found, kinds = together(events, below, KINDS)
    assert int(found.number.sum()) == len(events.what)
    assert found.what.max() < len(kinds.kind)
    assert found.stays.sum() == stays.sum()
    for lane in range(len(events.begin) - 1):
        before, after = covered(events, lane), covered(found, lane)
        assert [s for s, _ in after] == sorted(s for s, _ in after)
        # Each event lies within one of those that are shown, and none is shown where none was.
        assert all(any(s <= a and b <= e for s, e in after) for a, b in before)
        assert {s for s, _ in after} <= {s for s, _ in before}
        assert {e for _, e in after} <= {e for _, e in before}
        # What is long stays as it is.
        assert {(a, b) for a, b in before if b - a >= below} <= set(after)


def test_a_document_keeps_to_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(events_module, "_MOST_BYTES", 20_000)
    monkeypatch.setattr(events_module, "_SAMPLE", (4, 64))
    random = np.random.default_rng(7)
    ops = []
    at = 0
    for k in range(8000):
        took = int(random.integers(10, 5000))
        ops.append(op(f"op_{k % 50}", "MatMul", us(at / 1000, took / 1000)))
        at += took + int(random.integers(0, 3000))
    whole = executor(us(0, at / 1000))(*ops)
    trace = report_of(tmp_path, host(thread("tf_Compute", 1)(whole))).trace
    assert trace is not None
    assert len(trace.events.data) <= 20_000 * 1.05
    assert trace.events_total > 8000  # the ops, and between them the executor
    assert trace.events.rows < trace.events_total
    assert trace.events.total_rows == trace.events_total
    assert trace.merged_below_us is not None
    assert sum(row[-1] for row in rows(trace)) == trace.events_total


@pytest.mark.slow
def test_ten_million_events_fit_into_a_page(tmp_path: Path) -> None:
    logs = write(tmp_path, xspace(*TRAINING), run="run")
    diagnosis = traceanalyzer.diagnose(traceanalyzer.load(logs))
    many = with_many_events(diagnosis, 10_000_000)
    trace = event_timeline(many)
    assert trace is not None
    assert trace.events_total > 10_000_000 * 0.99  # alike ones that touch are one
    assert len(trace.events.data) + len(trace.names.data) <= 2_500_000
    assert trace.events.rows > 100_000
    page = render_page(replace(assemble(diagnosis), trace=trace))
    assert len(page.encode()) <= 5_000_000
