"""What is known of the memory of GPUs, and from where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.tables.reading import tables_of
from tests.traces import allocation, event, host, line, us
from traceanalyzer.evidence.gpu_memory import GpuMemory, OtherProcess, gpu_memory
from traceanalyzer.rules import Example
from traceanalyzer.sidecar.document import Sidecar

if TYPE_CHECKING:
    from traceanalyzer.run import Host

GB = 10**9


def host_of(**fields: Any) -> Host:  # noqa: ANN401 - any field of a host
    (found,) = Example(title="", ops=({"name": "MatMul", "type": "MatMul"},)).run().hosts
    return replace(found, **fields)


def sidecar(**fields: Any) -> Sidecar:  # noqa: ANN401 - any field of a sidecar
    return Sidecar(tool="", host="h", complete=True, **fields)


def driver(index: int, total: int, *others: tuple[str, int | None]) -> dict[str, Any]:
    return {
        "index": index,
        "memory_total_bytes": total,
        "other_processes": [
            {"pid": 7, "name": name, "memory_bytes": held} for name, held in others
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


def test_allocations_without_figures_tell_nothing() -> None:
    named = event("MemoryAllocation", us(0), allocator_name="GPU_0_bfc")
    tables = tables_of(host(line("a")(named)))

    assert gpu_memory(host_of(tables=tables)) == ()


def test_a_capture_tells_the_peak_of_the_whole_program_and_the_limit() -> None:
    found = gpu_memory(
        host_of(
            sidecar=sidecar(
                devices={"memory": {"/device:GPU:1": {"current": 1, "peak": 5 * GB}}},
                log=(
                    (
                        "2026-11-21 12:00:00.0: I gpu_device.cc:2022] Created device "
                        "/job:localhost/replica:0/task:0/device:GPU:1 with 7000 MB memory:  -> "
                        "device: 1, name: NVIDIA T4"
                    ),
                ),
            )
        )
    )

    assert [(g.number, g.peak_bytes, g.limit_bytes) for g in found] == [(1, 5 * GB, 7000 << 20)]


def test_a_capture_tells_how_much_tensorflow_may_take() -> None:
    facts = sidecar(devices={"memory_limit": {"/device:GPU:0": 6 * GB, "/device:GPU:1": None}})

    assert [(g.number, g.room_bytes) for g in gpu_memory(host_of(sidecar=facts))] == [(0, 6 * GB)]


def test_the_plane_of_a_device_states_its_size() -> None:
    (found,) = gpu_memory(
        host_of(device_properties={"/device:GPU:0": {"memory_size": str(16 * GB)}})
    )

    assert (found.total_bytes, found.room_bytes, found.peak_bytes) == (16 * GB, 16 * GB, None)


def test_the_driver_tells_who_else_was_on_the_only_gpu() -> None:
    facts = sidecar(gpus=(driver(0, 8 * GB, ("python", 3 * GB), ("Xorg", None)),))

    (found,) = gpu_memory(host_of(sidecar=facts))

    assert found.total_bytes == 8 * GB
    assert found.others == (
        OtherProcess(name="python", bytes=3 * GB),
        OtherProcess(name="Xorg", bytes=None),
    )
    assert found.others_bytes == 3 * GB


@pytest.mark.parametrize(("sizes", "total"), [((8, 8), 8 * GB), ((8, 24), None)])
def test_of_several_gpus_only_a_common_size_is_taken(
    sizes: tuple[int, ...], total: int | None
) -> None:
    facts = sidecar(
        gpus=tuple(driver(k, size * GB, ("python", GB)) for k, size in enumerate(sizes)),
        devices={"memory": {"/device:GPU:0": {"peak": GB}}},
    )

    (found,) = gpu_memory(host_of(sidecar=facts))

    assert found.total_bytes == total
    assert found.others == ()


def test_what_is_no_figure_is_left_out() -> None:
    facts = sidecar(
        devices={"memory": {"/device:GPU:0": None, "/device:GPU:1": {"peak": "much"}}},
        gpus=({"memory_total_bytes": None, "other_processes": None},),
    )

    assert gpu_memory(host_of(sidecar=facts)) == ()


def test_what_tensorflow_may_use_is_told_apart_from_what_the_card_has() -> None:
    both = GpuMemory(number=0, limit_bytes=15_600_000_000, total_bytes=16_900_000_000)
    assert both.room_words("GPU:0") == (
        "the 15.6 GB that TensorFlow may use on GPU:0, which has 16.9 GB"
    )
    limited = GpuMemory(number=0, limit_bytes=2 * GB)
    assert limited.room_words("it") == "the 2.00 GB that TensorFlow may use on it"
    stated = GpuMemory(number=0, total_bytes=8 * GB)
    assert stated.room_words("it") == "the 8.00 GB that it has"
