"""The memory that each allocator had in use, in hand-written traces."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.reading import rows, tables_of
from tests.traces import allocation, deallocation, host, line, op, step, us
from traceanalyzer.memory import AllocatorUse, memory_use, sampled
from traceanalyzer.tables.host_tables import HostTables

US = 10**6
KIB = 1024
A, B, C = 0xA000, 0xB000, 0xC000


def used(*events: Any) -> tuple[AllocatorUse, ...]:  # noqa: ANN401  # words of the language
    return used_in(tables_of(host(line("a")(*events))))


def used_in(tables: HostTables) -> tuple[AllocatorUse, ...]:
    return memory_use(tables.allocations, tables.steps)


def only(*events: Any) -> AllocatorUse:  # noqa: ANN401  # any event
    (found,) = used(*events)
    return found


def holders(use: AllocatorUse) -> list[tuple[Any, ...]]:
    assert use.peak is not None
    return rows(use.peak.holders, "op_name", "data_type", "shape", "region_type", "bytes", "count")


def test_the_peak_has_its_holders() -> None:
    use = only(
        op("dense/MatMul", "MatMul", us(0, 0.5)),
        # Of 8 KiB that were in use before, 2 KiB are given back before the peak, 1 KiB after it.
        deallocation(2 * KIB, us(1), address=0x1, in_use=6 * KIB),
        allocation(1000, us(2), "gone", address=A, in_use=7 * KIB, region="temp"),
        deallocation(1000, us(3), address=A, in_use=6 * KIB),
        allocation(4000, us(4), "dense/MatMul", address=A, in_use=10 * KIB, shape="[1000]"),
        allocation(1000, us(5), "w", address=B, in_use=11 * KIB, type=3, region="persist"),
        allocation(1000, us(6), "w", address=C, in_use=12 * KIB, type=3, region="persist"),
        allocation(2048, us(7), "", address=0xD, in_use=14 * KIB, available=6 * KIB),
        deallocation(1 * KIB, us(8), address=0x2, in_use=13 * KIB),
        allocation(1 * KIB, us(9), "late", address=0x3, in_use=14 * KIB),
    )

    peak = use.peak
    assert peak is not None
    assert (peak.at_ps, peak.bytes, peak.available_bytes) == (7 * US, 14 * KIB, 6 * KIB)
    assert (peak.named_bytes, peak.unnamed_bytes) == (6 * KIB, 2 * KIB)
    assert (peak.before_bytes, peak.unaccounted_bytes, peak.reserved_bytes) == (6 * KIB, 0, 0)
    assert peak.rounding_bytes == (4 * KIB - 4000) + 2 * (KIB - 1000)
    assert holders(use) == [
        ("dense/MatMul", "float", "[1000]", "output", 4 * KIB, 1),
        ("w", "int32", "[]", "persist", 2 * KIB, 2),
        (None, "float", "[]", "output", 2 * KIB, 1),
    ]
    assert rows(peak.holders, "op_id")[0] is not None
    assert rows(peak.holders, "op_id")[1:] == [None, None]


def test_of_several_moments_with_as_much_in_use_the_first_is_the_peak() -> None:
    use = only(
        allocation(KIB, us(1), "x", address=A, in_use=KIB),
        deallocation(KIB, us(2), address=A, in_use=0),
        allocation(KIB, us(3), "y", address=A, in_use=KIB),
    )

    assert use.peak is not None
    assert use.peak.at_ps == 1 * US
    assert [held[0] for held in holders(use)] == ["x"]


def test_allocators_are_kept_apart_those_of_devices_first() -> None:
    found = used(
        allocation(1, us(1), "a", address=A, allocator="mklcpu"),
        allocation(1, us(2), "b", address=A, allocator="gpu_host_bfc", available=64 * KIB),
        allocation(1, us(3), "c", address=A, allocator="GPU_1_bfc"),
        allocation(1, us(4), "d", address=A, allocator="a_pool"),
        allocation(1, us(5), "e", address=A, allocator="GPU_0_bfc"),
        allocation(1, us(6), "f", address=A, allocator="PluggableDevice_0_bfc"),
        allocation(1, us(7), "g", address=A, allocator="bfc_cpu_allocator_for_gpu"),
        allocation(1, us(8), "h", address=A, allocator="pluggable_device_host_bfc"),
    )

    assert [(use.allocator, use.kind, use.device, use.records) for use in found] == [
        ("GPU_0_bfc", "device", "/device:GPU:0", 1),
        ("GPU_1_bfc", "device", "/device:GPU:1", 1),
        ("PluggableDevice_0_bfc", "device", None, 1),
        ("a_pool", "unknown", None, 1),
        ("gpu_host_bfc", "pinned_host", None, 1),
        ("pluggable_device_host_bfc", "pinned_host", None, 1),
        ("bfc_cpu_allocator_for_gpu", "host", None, 1),
        ("mklcpu", "host", None, 1),
    ]


class TestLostRecords:
    def test_a_block_whose_deallocation_is_lost_ends_when_its_address_is_reused(
        self,
    ) -> None:
        use = only(
            allocation(KIB, us(1), "x", address=A, in_use=KIB),
            allocation(KIB, us(2), "y", address=A, in_use=KIB),
            allocation(KIB, us(3), "z", address=B, in_use=2 * KIB),
        )

        assert [held[0] for held in holders(use)] == ["y", "z"]
        assert use.peak is not None
        assert use.peak.unaccounted_bytes == 0

    def test_a_block_freed_twice_was_allocated_in_between(self) -> None:
        use = only(
            allocation(KIB, us(1), "x", address=A, in_use=KIB),
            deallocation(KIB, us(2), address=A, in_use=0),
            deallocation(KIB, us(3), address=A, in_use=0),
            allocation(2 * KIB, us(4), "y", address=B, in_use=2 * KIB),
        )

        assert use.peak is not None
        assert (use.peak.before_bytes, use.peak.unaccounted_bytes) == (0, 0)


class TestInvalidSizes:
    @pytest.mark.parametrize("told", [-1, 2**63 - 1])
    def test_an_impossible_size_is_unknown(self, told: int) -> None:
        use = only(
            allocation(KIB, us(1), "x", address=A, in_use=told, available=told, peak=told),
            allocation(KIB, us(2), "y", address=B, in_use=KIB, available=told, peak=told),
        )

        assert use.peak is not None
        assert (use.peak.at_ps, use.peak.bytes) == (2 * US, KIB)
        assert (use.limit_bytes, use.highest_bytes) == (None, KIB)


# From step to step.


def test_each_step_has_its_peak_and_its_end() -> None:
    use = only(
        # Before the first record 3 KiB were in use, and so in the step before it.
        step(7, us(0, 5)),
        step(8, us(10, 10)),
        step(9, us(30, 10)),
        step(10, us(50, 10)),
        allocation(1 * KIB, us(12), "x", address=1, in_use=4 * KIB),
        deallocation(1 * KIB, us(15), address=1, in_use=3 * KIB),
        allocation(2 * KIB, us(20), "y", address=2, in_use=5 * KIB),  # as the step ends
        deallocation(2 * KIB, us(35), address=2, in_use=3 * KIB),
        allocation(9 * KIB, us(45), "between", address=3, in_use=12 * KIB),
        deallocation(9 * KIB, us(48), address=3, in_use=3 * KIB),
    )

    assert rows(use.steps, "step", "start_ps", "peak_bytes", "end_bytes") == [
        (7, 0, 3 * KIB, 3 * KIB),
        (8, 10 * US, 5 * KIB, 5 * KIB),
        (9, 30 * US, 5 * KIB, 3 * KIB),
        (10, 50 * US, 3 * KIB, 3 * KIB),
    ]


# A long series in few points.


@given(
    st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 9)), min_size=1, max_size=60),
    st.sampled_from([4, 8, 20]),
)
def test_few_points_with_both_ends_the_lowest_and_the_highest(
    series: list[tuple[int, int]], points: int
) -> None:
    series.sort(key=lambda point: point[0])
    at, level = np.array(series, np.int64).T

    chosen = sampled(at, level, points)

    assert len(chosen) <= points
    assert (np.diff(chosen) > 0).all()
    assert (chosen[0], chosen[-1]) == (0, len(at) - 1)
    assert level[chosen].max() == level.max()
    assert level[chosen].min() == level.min()
