"""Allocations: what the allocators recorded."""

from __future__ import annotations

import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import allocation, deallocation, event, host, line, op, us

US = 10**6


def test_allocations_and_what_was_given_back_come_in_order_of_time() -> None:
    tables = tables_of(
        host(
            line("b")(deallocation(1000, us(5), address=0xA0, in_use=512, peak=1536)),
            line("a")(
                allocation(1000, us(1), "dense/MatMul", address=0xA0, in_use=1024),
                allocation(
                    4,
                    us(2),
                    "Shape",
                    allocator="gpu_host_bfc",
                    address=0xB0,
                    type=3,
                    shape="[1]",
                    region="temp",
                ),
            ),
        )
    )

    assert rows(
        tables.allocations,
        "start_ps",
        "is_allocation",
        "allocator",
        "requested_bytes",
        "allocation_bytes",
        "addr",
        "op_name",
        "region_type",
        "data_type",
        "shape",
    ) == [
        (1 * US, True, "GPU_0_bfc", 1000, 1024, 0xA0, "dense/MatMul", "output", "float", "[]"),
        (2 * US, True, "gpu_host_bfc", 4, 256, 0xB0, "Shape", "temp", "int32", "[1]"),
        (5 * US, False, "GPU_0_bfc", 1000, 1024, 0xA0, None, None, None, None),
    ]
    assert rows(tables.allocations, "bytes_allocated", "bytes_available", "peak_bytes_in_use") == [
        (1024, 10**10, 1024),
        (256, 10**10, 256),
        (512, 10**10, 1536),
    ]


@pytest.mark.parametrize("nothing", ["(null)"])
def test_words_for_nothing_are_null(nothing: str) -> None:
    named = event(
        "MemoryAllocation", us(0), tf_op=nothing, region_type=nothing, shape=nothing, data_type=0
    )

    tables = tables_of(host(line("a")(named)))

    assert rows(tables.allocations, "op_name", "region_type", "shape", "data_type") == [(None,) * 4]


@pytest.mark.parametrize(
    ("recorded", "name"), [("3", "int32"), (101, "float_ref"), (77, "dtype77")]
)
def test_types_are_recorded_by_name(recorded: int | str, name: str) -> None:
    tables = tables_of(host(line("a")(event("MemoryAllocation", us(0), data_type=recorded))))

    assert rows(tables.allocations, "data_type") == [name]


def test_an_allocation_belongs_to_the_one_op_of_its_name() -> None:
    tables = tables_of(
        host(
            line("a")(
                op("once", "Pack", us(0, 1)),
                op("twice", "Pack", us(2, 1)),
                op("twice", "Concat", us(4, 1)),
                allocation(4, us(10), "once"),
                allocation(4, us(11), "twice"),
                allocation(4, us(12), "never seen"),
                allocation(4, us(13), ""),
            )
        )
    )
    (op_id,) = rows(tables.ops[tables.ops["name"] == "once"], "op_id")

    assert rows(tables.allocations, "op_id") == [op_id, None, None, None]
