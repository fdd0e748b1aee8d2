"""The memory of GPUs, by each source."""

from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import Example
from tests.tables.reading import tables_of
from tests.traces import allocation, host, line, us
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.causes.knowledge.gpu_memory import gpu_memory
from traceanalyzer.run import Host

GB = 10**9


def host_of(**fields: Any) -> Host:  # noqa: ANN401 - any field of a host
    (found,) = Example(title="", ops=({"name": "MatMul", "type": "MatMul"},)).run().hosts
    return replace(found, **fields)


def capture_file(**fields: Any) -> CaptureFile:  # noqa: ANN401 - any field of a capture file
    return CaptureFile(tool="", host="h", complete=True, **fields)


def driver(index: int, total: int, *others: tuple[str, int | None]) -> dict[str, Any]:
    return {
        "index": index,
        "memory_total_bytes": total,
        "other_processes": [
            {"pid": 7, "name": name, "memory_bytes": blocker} for name, blocker in others
        ],
    }


def test_allocations_tell_the_peak_and_the_limit() -> None:
    tables = tables_of(
        host(
            line("a")(
                allocation(1 * GB, us(1), in_use=1 * GB, available=7 * GB, peak=3 * GB),
                allocation(2 * GB, us(2), in_use=4 * GB, available=4 * GB, peak=4 * GB),
                allocation(9 * GB, us(3), allocator="gpu_host_bfc", available=90 * GB),
            )
        )
    )

    (found,) = gpu_memory(host_of(tables=tables))

    assert (found.number, found.peak_bytes, found.limit_bytes) == (0, 4 * GB, 8 * GB)
    assert found.room_bytes == 8 * GB


def test_the_driver_tells_who_else_was_on_the_only_gpu() -> None:
    facts = capture_file(gpus=(driver(0, 8 * GB, ("python", 3 * GB), ("Xorg", None)),))

    (found,) = gpu_memory(host_of(capture_file=facts))

    assert found.total_bytes == 8 * GB
    assert found.others_bytes == 3 * GB


@pytest.mark.parametrize(("sizes", "total"), [((8, 8), 8 * GB), ((8, 24), None)])
def test_of_several_gpus_only_a_common_size_is_taken(
    sizes: tuple[int, ...], total: int | None
) -> None:
    facts = capture_file(
        gpus=tuple(driver(k, size * GB, ("python", GB)) for k, size in enumerate(sizes)),
        devices={"memory": {"/device:GPU:0": {"peak": GB}}},
    )

    (found,) = gpu_memory(host_of(capture_file=facts))

    assert found.total_bytes == total
    assert found.others_bytes == 0
