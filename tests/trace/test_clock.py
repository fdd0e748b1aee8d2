"""Times of a trace on a clock on which they fit, whatever clock the file was written with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceanalyzer as ta
from tests.traces import decode, event, gpu, host, kernel, line, ns, stream, us, write, xspace
from traceanalyzer.health import trace_health
from traceanalyzer.trace.clock import LONGEST_PS, on_one_clock
from traceanalyzer.trace.columns import Trace

EPOCH_NS = 1_700_000_000 * 10**9
SIXTY_DAYS_NS = 60 * 86_400 * 10**9


def space(at_ns: int) -> Any:  # noqa: ANN401  # a protobuf message
    """A host and a device, whose lines begin a little apart."""
    return xspace(
        host(line("python", event("a", us(5, 3)), event("b", us(9, 2), n=7), at_ns=at_ns)),
        gpu(0)(stream(13, "Compute", at_ns=at_ns + 2000)(kernel("gemm", us(4, 1)))),
    )


def starts(trace: Trace) -> list[int]:
    every = np.concatenate([plane.start_ps for plane in trace.planes])
    found: list[int] = (every - every.min()).tolist()
    return found


@pytest.mark.parametrize("at_ns", [0, 10**9, SIXTY_DAYS_NS, EPOCH_NS, 2**63 - 10**6, -EPOCH_NS])
def test_distances_do_not_depend_on_where_the_clock_begins(at_ns: int) -> None:
    trace = on_one_clock(decode(space(at_ns)))
    assert starts(trace) == [0, 4_000_000, 1_000_000]
    assert np.abs(trace.planes[0].start_ps).max() < LONGEST_PS
    assert not trace.impossible_events


@pytest.mark.parametrize("at_ns", [0, EPOCH_NS])
@pytest.mark.parametrize("away_ns", [2**63 - 1, -(2**63), 2**63 // 1000, SIXTY_DAYS_NS * 2 + 5])
def test_a_line_far_from_the_others_is_left_out(at_ns: int, away_ns: int) -> None:
    message = space(at_ns)
    message.planes[0].lines.add(id=9, name="away", timestamp_ns=away_ns).events.add(
        metadata_id=1, duration_ps=5
    )
    trace = on_one_clock(decode(message))
    assert trace.impossible_events == 1
    assert starts(trace) == [0, 4_000_000, 1_000_000]


@pytest.mark.parametrize("duration_ps", [-1, -(2**63), 2**63 - 1])
def test_an_event_of_impossible_duration_is_left_out_with_its_stats(duration_ps: int) -> None:
    message = xspace(
        host(line("python", event("a", us(0, 1)), event("b", us(1, 1), n=7), event("c", us(2, 1))))
    )
    message.planes[0].lines[0].events[1].duration_ps = duration_ps
    trace = on_one_clock(decode(message))
    (plane,) = trace.planes
    assert trace.impossible_events == 1
    assert [plane.names[code] for code in plane.name_of] == ["a", "c"]
    assert plane.lines.event_begin.tolist() == [0, 2]
    assert not plane.integers("n").present.any()


def test_two_hosts_that_count_from_the_epoch_keep_their_distance(tmp_path: Path) -> None:
    for name, at_ns in (("a", EPOCH_NS), ("b", EPOCH_NS + 500)):
        write(tmp_path, space(at_ns), host=name)
    first, second = ta.load(tmp_path).hosts
    assert second.start_ps - first.start_ps == ns(500).start_ps


def test_what_a_file_gets_wrong_about_its_events_is_said(tmp_path: Path) -> None:
    message = space(0)
    message.planes[1].lines[0].events.add(metadata_id=99, duration_ps=5)
    message.planes[0].lines[0].events[0].duration_ps = -5
    run = ta.load(write(tmp_path, message))
    said = {health.id: health for health in trace_health(run)}
    assert said["impossible_times"].severity == "error"
    assert "1 event " in said["impossible_times"].message
    assert "1 event" in said["unknown_metadata"].message


def test_a_gpu_whose_events_all_count_from_another_time_was_used(tmp_path: Path) -> None:
    message = xspace(
        host(line("python", *(event(f"e{k}", us(5 * k, 3)) for k in range(9)), at_ns=EPOCH_NS)),
        gpu(0)(stream(13, "Compute", at_ns=0)(kernel("gemm", us(4, 1), "a:MatMul"))),
    )
    run = ta.load(write(tmp_path, message))
    (facts,) = (one.tables.facts for one in run.hosts)
    assert run.gpu_used
    assert "/device:GPU:0" in facts.gpu_witness
    assert facts.accelerators == {"/device:GPU:0": 0}
