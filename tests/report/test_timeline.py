"""The timeline: what happened on each lane, how it is made to fit, and its arrows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer as ta
from tests.traces import (
    call,
    copy,
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
from traceanalyzer.lanes import KINDS
from traceanalyzer.model.blocks import Timeline
from traceanalyzer.report import timeline as subject
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.timeline import Events, fewer, timeline_block

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


def timeline_of(folder: Path, *planes: Any) -> Timeline:  # noqa: ANN401
    found = timeline_block(ta.load(write(folder, xspace(*planes), run="run")), ())
    assert found is not None
    return found


def rows(timeline: Timeline) -> list[tuple[Any, ...]]:
    """Each event as (lane, start in us, duration in us, name, kind, count)."""
    events = timeline.events
    packed, names = unpack(events.events), unpack(events.names)
    found: list[tuple[Any, ...]] = []
    for lane in events.lanes:
        end = 0
        for _ in range(lane.rows):
            k = len(found)
            start = end + int(packed["gap"][k])  # type: ignore[arg-type]
            end = start + int(packed["duration"][k])  # type: ignore[arg-type]
            what = int(packed["what"][k])  # type: ignore[arg-type]
            took = (start * events.unit_ns / 1000, (end - start) * events.unit_ns / 1000)
            found.append(
                (lane.name, *took, names["name"][what], names["kind"][what], packed["count"][k])
            )
    return found


def test_each_lane_has_what_happened_on_it_in_order(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, *TRAINING)
    lanes = timeline.events.lanes
    assert [(lane.kind, lane.name, lane.device) for lane in lanes] == [
        ("steps", "train", None),
        ("stream", "Stream #13(Compute)", "/device:GPU:0"),
        ("thread", "python", None),
        ("thread", "tf_Compute/2", None),
    ]
    assert [lane.is_program for lane in lanes] == [False, False, True, False]
    found = rows(timeline)
    assert [row[1:] for row in found if row[0] == "train"] == [
        (0.0, 100.0, "train 1", "step", 1),
        (100.0, 100.0, "train 2", "step", 1),
    ]
    assert [row[1:] for row in found if row[0].startswith("Stream")] == [
        (74.0, 10.0, "gemm", "compute", 1),
        (144.0, 10.0, "gemm", "compute", 1),
    ]
    # The launch within the op on the device is part of it: the host brings it work all the while.
    # What the runtime does has the name that the trace gives it.
    process = "ExecutorState::Process"
    assert [row[1:] for row in found if row[0] == "tf_Compute/2"][:5] == [
        (12.0, 2.0, process, "runtime", 1),
        (14.0, 50.0, "where:Where", "host_op", 1),
        (64.0, 2.0, process, "runtime", 1),
        (66.0, 10.0, "mul:MatMul", "launch", 1),
        (76.0, 16.0, process, "runtime", 1),
    ]
    assert timeline.events.events_total == len(found)
    assert (timeline.events.merged_total, timeline.events.merged_below_us) == (0, None)


def test_arrows_lead_from_the_producer_to_its_transfer_to_the_consumer(tmp_path: Path) -> None:
    worker = thread("tf_Compute", 2)(
        executor(us(0, 200), step=5)(
            op("make", "Unique", us(10, 20)), op("make", "Unique", us(90, 9))
        )
    )
    device = gpu(0)(
        stream(9, "MemcpyH2D")(copy("H2D", 64, us(40, 5), op="edge_1_make:_Send")),
        stream(8, "Compute")(
            kernel("early", us(5, 2), "use:Neg"), kernel("late", us(60, 5), "use:Neg")
        ),
    )
    folder = tmp_path
    run = ta.load(write(folder, xspace(host(worker), device)))
    ops = run.ops.set_index("name")["op_id"]
    for owner in run.hosts:  # who takes the value, as graphs with names of edges tell
        owner.tables.transfers["producer"] = [ops["make"]]
        owner.tables.transfers["consumer"] = [ops["use"]]

    timeline = timeline_block(run, ())

    assert timeline is not None
    assert timeline.arrows is not None
    joined = unpack(timeline.arrows)
    found = rows(timeline)
    pairs = [
        tuple((found[int(k)][1], found[int(k)][3]) for k in pair)  # type: ignore[arg-type]
        for pair in zip(joined["from"], joined["to"], strict=True)
    ]
    moved = (40.0, "transfer, host to device")
    assert sorted(pairs) == [((10.0, "make:Unique"), moved), (moved, (60.0, "late"))]


# ------------------------------------------------------------------ as many as fit

NS = 1000
SPANS = st.tuples(st.integers(0, 10**7), st.integers(0, 10**5), st.integers(0, 2))


def lanewise(*lanes: list[tuple[int, int, int]]) -> Events:
    """Events of lanes as (start, end, what) in nanoseconds."""
    table = np.array([event for lane in lanes for event in lane], np.int64).reshape(-1, 3)
    return Events(
        begin=np.concatenate([[0], np.cumsum([len(lane) for lane in lanes])]).astype(np.int64),
        start_ps=table[:, 0] * NS,
        end_ps=table[:, 1] * NS,
        what=table[:, 2],
        number=np.ones(len(table), np.int64),
        first=np.arange(len(table)),
    )


@st.composite
def several_lanes(draw: st.DrawFn) -> Events:
    lanes = draw(st.lists(st.lists(SPANS, max_size=60), min_size=1, max_size=4))
    if sum(map(len, lanes)) < 2:
        lanes[0] += [(0, 1, 0), (1, 1, 0)]
    return lanewise(*([(s, s + d, w) for s, d, w in sorted(lane)] for lane in lanes))


def covered(events: Events, lane: int) -> list[tuple[int, int]]:
    own = slice(int(events.begin[lane]), int(events.begin[lane + 1]))
    return list(zip(events.start_ps[own].tolist(), events.end_ps[own].tolist(), strict=True))


@given(several_lanes(), st.integers(1, 200), st.randoms(use_true_random=False))
def test_nothing_is_lost_however_much_is_merged(events: Events, most: int, random: Any) -> None:  # noqa: ANN401
    most = min(most, len(events.what) - 1)
    stays = np.array([random.random() < 0.1 for _ in events.what], np.bool_)
    kinds = np.array([0, 1, 7, *range(len(KINDS))])

    found, below = fewer(events, ~stays, most, kinds)

    assert int(found.number.sum()) == len(events.what)
    assert found.what.max() < len(kinds)
    for lane in range(len(events.begin) - 1):
        before, after = covered(events, lane), covered(found, lane)
        assert [s for s, _ in after] == sorted(s for s, _ in after)
        # Each event lies within one of those that are shown, and none is shown where none was.
        assert all(any(s <= a and b <= e for s, e in after) for a, b in before)
        assert {s for s, _ in after} <= {s for s, _ in before}
        assert {e for _, e in after} <= {e for _, e in before}
        # What is long stays as it is.
        assert {(a, b) for a, b in before if b - a >= below} <= set(after)
    at = {*zip(found.start_ps.tolist(), found.end_ps.tolist(), found.what.tolist(), strict=True)}
    kept = events.start_ps[stays], events.end_ps[stays], events.what[stays]
    assert {*zip(*(column.tolist() for column in kept), strict=True)} <= at


def test_a_document_keeps_to_its_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subject, "_MOST_BYTES", 20_000)
    random = np.random.default_rng(7)
    ops = []
    at = 0
    for k in range(8000):
        took = int(random.integers(10, 5000))
        ops.append(op(f"op_{k % 50}", "MatMul", us(at / 1000, took / 1000)))
        at += took + int(random.integers(0, 3000))
    whole = executor(us(0, at / 1000))(*ops)
    timeline = timeline_of(tmp_path, host(thread("tf_Compute", 1)(whole)))
    events = timeline.events
    assert len(events.events.data) <= 20_000
    assert events.events_total > 8000  # the ops, and between them the executor
    assert events.events.rows < events.events_total == events.events.total_rows
    assert events.merged_below_us is not None
    assert sum(row[-1] for row in rows(timeline)) == events.events_total
