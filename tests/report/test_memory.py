"""What the report says of memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.examples import empty_run, gpu_run
from tests.report.markup import read
from tests.report.test_summary import printed
from tests.traces import (
    allocation,
    deallocation,
    gpu,
    host,
    line,
    op,
    step,
    us,
    write,
    xspace,
)
from traceanalyzer.model import Memory, Table
from traceanalyzer.report.memory import memory
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.memory_line import memory_line
from traceanalyzer.run import load

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model import AllocatorMemory

KIB = 1024
GB = 10**9


def memory_of(folder: Path, *events: Any, hosts: int = 1) -> Memory | None:  # noqa: ANN401
    """What is said of a run on so many hosts, on each of which this happened."""
    for k in range(hosts):
        space = xspace(host(line("a")(op("x", "Cast", us(5, 1 + k)), *events)), gpu(0))
        write(folder, space, host=f"h{k}")
    return memory(load(folder))


def told(folder: Path, *events: Any, hosts: int = 1) -> Memory:  # noqa: ANN401
    found = memory_of(folder, *events, hosts=hosts)
    assert found is not None
    return found


def test_a_run_without_records_says_nothing(tmp_path: Path) -> None:
    assert memory_of(tmp_path) is None


def test_times_count_from_the_runs_first_event_and_ops_are_named_with_type(
    tmp_path: Path,
) -> None:
    found = told(
        tmp_path,
        step(3, us(6, 10)),
        allocation(KIB, us(8), "x", in_use=3 * KIB, available=KIB, shape="[256]"),
        deallocation(KIB, us(9), in_use=2 * KIB, available=2 * KIB),
    )

    (allocator,) = found.allocators
    assert (allocator.host, allocator.allocator) == ("h0", "GPU_0_bfc")
    assert (allocator.kind, allocator.device) == ("device", "gpu:0")
    assert (allocator.records, allocator.limit_bytes) == (2, 4 * KIB)
    assert allocator.timeline.rows == ((3.0, 3 * KIB), (4.0, 2 * KIB))
    assert allocator.timeline.total_rows == 2
    assert allocator.steps.rows == ((3, 1.0, 3 * KIB, 2 * KIB),)
    peak = allocator.peak
    assert peak is not None
    assert (peak.at_us, peak.bytes, peak.share) == (3.0, 3 * KIB, 0.75)
    assert (peak.named_bytes, peak.before_bytes) == (KIB, 2 * KIB)
    (holder,) = peak.holders
    assert (holder.op, holder.type, holder.shape) == ("x", "Cast", "[256]")
    assert (holder.bytes, holder.count, holder.region_type) == (KIB, 1, "output")
    assert holder.op_id is not None
    assert peak.holders_total is None
    assert found.remarks == ()
    assert found.allocators_total is None


def test_of_many_groups_those_that_hold_most_are_told_and_the_rest_counted(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        [
            allocation(k * 256, us(k), f"op{k}", address=k, in_use=128 * k * (k + 1))
            for k in range(1, 61)
        ],
    )

    peak = found.allocators[0].peak
    assert peak is not None
    assert [holder.op for holder in peak.holders] == [f"op{k}" for k in range(60, 10, -1)]
    assert peak.holders_total == 60


def test_what_rounding_would_make_nothing_of_is_something(tmp_path: Path) -> None:
    found = told(tmp_path, allocation(1, us(1), allocator="gpu_host_bfc", available=64 << 30))

    peak = found.allocators[0].peak
    assert peak is not None
    assert peak.share == 1e-6


class TestRemarks:
    @pytest.mark.parametrize(
        ("in_use", "said"),
        [
            (8.9, ()),
            (
                9.0,
                ("GPU_0_bfc was 90 % full at its peak (9.00 GB of 10.0 GB)",),
            ),
        ],
    )
    def test_a_device_that_is_nearly_full(
        self, tmp_path: Path, in_use: float, said: tuple[str, ...]
    ) -> None:
        size = round(in_use * GB)
        record = allocation(size, us(1), in_use=size, available=10 * GB - size)

        remarks = told(tmp_path, record).remarks
        assert tuple(remark.partition(":")[0] for remark in remarks) == said

    def test_pinned_memory_is_never_called_full(self, tmp_path: Path) -> None:
        record = allocation(KIB, us(1), allocator="gpu_host_bfc", in_use=KIB, available=0)

        assert told(tmp_path, record).remarks == ()

    def test_growth_names_what_grows_and_on_which_host(self, tmp_path: Path) -> None:
        steps = [
            (
                step(k, us(10 * k + 10, 9)),
                allocation(2000, us(10 * k + 11), "kept", address=k, in_use=2048 * (k + 1)),
            )
            for k in range(5)
        ]

        found = told(tmp_path, steps, hosts=2)

        assert found.remarks == tuple(
            f"GPU_0_bfc of h{k} had more in use at the end of each of 5 steps than at the end of "
            "the one before, 2.05 kB a step; most of it belongs to kept: something is kept from "
            "step to step, and if that goes on a long run reaches the limit."
            for k in range(2)
        )
        growth = found.allocators[0].growth
        assert growth is not None
        assert (growth.first_bytes, growth.last_bytes) == (2048, 5 * 2048)
        assert [(h.op, h.bytes, h.count) for h in growth.holders] == [("kept", 4 * 2048, 4)]

    @pytest.mark.parametrize(("in_use", "lost"), [(3 * KIB, "allocations"), (KIB, "deallocations")])
    def test_records_that_do_not_add_up(self, tmp_path: Path, in_use: int, lost: str) -> None:
        found = told(
            tmp_path,
            allocation(KIB // 2, us(1), address=1, in_use=KIB // 2),
            allocation(KIB, us(2), address=2, in_use=in_use),
        )

        size = abs(in_use - KIB - KIB // 2)
        text = f"{size / 1000:.2f} kB" if size > 1000 else f"{size} bytes"
        (remark,) = found.remarks
        assert remark == (
            f"The records of GPU_0_bfc do not add up: {lost} of {text} before its peak are not in "
            "the trace."
        )


def allocator_of(*points: tuple[float, int]) -> AllocatorMemory:
    found = gpu_run().memory
    assert found is not None
    timeline = Table(columns=("at_us", "bytes"), rows=points, total_rows=len(points))
    return replace(found.allocators[0], timeline=timeline)


class TestPicture:
    def test_what_was_in_use_stays_so_until_the_next_record(self) -> None:
        line = memory_line(allocator_of((10, 100), (15, 200), (20, 50)))

        assert line is not None
        assert line.line == "M0 20H50V0H100V30"
        assert line.area == "M0 20H50V0H100V30V40H0Z"
        assert line.peak_x == 50
        assert (line.lowest_bytes, line.highest_bytes) == (50, 200)
        assert (line.start_us, line.end_us) == (10, 20)

    @pytest.mark.parametrize("points", [(), ((1, 5),), ((1, 0), (2, 0)), ((1, 5), (1, 6))])
    def test_there_is_none_of_nothing_or_of_one_moment(
        self, points: tuple[tuple[float, int], ...]
    ) -> None:
        assert memory_line(allocator_of(*points)) is None


class TestPage:
    def test_the_section_is_there_where_something_is_told(self) -> None:
        ids = [s.attributes.get("id") for s in read(render_page(gpu_run())).all("section")]
        assert "memory" in ids
        ids = [s.attributes.get("id") for s in read(render_page(empty_run())).all("section")]
        assert "memory" not in ids

    def test_it_shows_allocators_peaks_and_holders(self) -> None:
        (section,) = (
            s
            for s in read(render_page(gpu_run())).all("section")
            if s.attributes.get("id") == "memory"
        )
        text = " ".join(section.text.replace("\xa0", " ").split())

        assert "GPU_0_bfc was 97 % full at its peak (7.76 GB of 8.00 GB)." in text
        assert "the host's, pinned" in text
        assert "Showing 2 of 3 allocators, those with most records." in text
        picture = section.one("svg", role="img")
        assert picture.attributes["aria-label"] == (
            "Memory in use in GPU_0_bfc over 57.6\xa0ms: between 2.00\xa0GB and 7.76\xa0GB, the "
            "most 14.4\xa0ms after the first record"
        )
        captions = [table.one("caption").text for table in section.all("table")]
        assert captions == [
            "Memory by allocator",
            "What held GPU_0_bfc at its peak",
            "What grew in GPU_0_bfc",
        ]
        assert "not named" in text


class TestTerminal:
    def test_what_needs_attention_is_printed(self) -> None:
        text = printed(gpu_run())

        assert "- GPU_0_bfc was 97 % full at its peak (7.76 GB of 8.00 GB)." in text

    def test_of_many_remarks_the_first_are_printed_and_the_rest_counted(self) -> None:
        run = gpu_run()
        assert run.memory is not None
        remarks = tuple(f"remark {k}" for k in range(7))

        text = printed(replace(run, memory=replace(run.memory, remarks=remarks)))

        assert "- remark 4" in text
        assert "remark 5" not in text
        assert "and 2 more: see the page" in text

    def test_memory_that_does_its_work_is_not_mentioned(self) -> None:
        run = gpu_run()
        assert run.memory is not None

        assert "GPU_0_bfc" not in printed(replace(run, memory=replace(run.memory, remarks=())))
        assert "GPU_0_bfc" not in printed(replace(run, memory=None))
