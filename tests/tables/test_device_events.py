"""What ran on the devices, and the ops it was launched for."""

from typing import Any

import numpy as np
import pytest

from tests.traces import (
    decode,
    event,
    gpu,
    host,
    kernel,
    launch,
    line,
    old_kernel,
    op,
    ref,
    stream,
    thread,
    us,
    xspace,
)
from traceanalyzer.tables.device_events import DeviceEvents, device_events, launched_by
from traceanalyzer.tables.host_ops import host_ops, host_plane


def events(*planes: Any) -> DeviceEvents:  # noqa: ANN401  # words of the language
    trace = decode(xspace(*planes))
    return device_events(trace, host_ops(host_plane(trace)))


def on_gpu(*inside: Any) -> DeviceEvents:  # noqa: ANN401
    return events(gpu(0)(stream(7, "Compute")(*inside)))


class TestOpOfAnEvent:
    def test_is_known_by_annotation_and_level_0_of_older_versions(self) -> None:
        shaped = {"annotation": ref("b:Add#shape=(int32[3])#"), "level 0": ref("b:Add")}
        found = on_gpu(
            old_kernel("gemm", us(0, 1), "a:MatMul"),
            event("add", us(2, 1), stats=shaped),
            event("neg", us(4, 1), stats={"level 0": ref("c:Neg")}),
            event("abs", us(6, 1), stats={"annotation": ref("d:Abs")}),
        )

        assert found.op.to_list() == ["a:MatMul", "b:Add", "c:Neg", "d:Abs"]


class TestLaunch:
    def test_is_the_host_event_of_the_same_correlation(self) -> None:
        found = events(
            host(
                thread("tf_Compute", 1)(
                    op("a", "MatMul", us(0, 10))(launch(us(1, 1), 7), launch(us(3, 1), 8))
                )
            ),
            gpu(0)(
                stream(7, "Compute")(
                    kernel("k", us(5, 1), correlation=8),
                    kernel("k", us(6, 1), correlation=7),
                    kernel("k", us(7, 1), correlation=9),
                    kernel("k", us(8, 1)),
                )
            ),
        )

        assert found.launch.tolist() == [2, 1, -1, -1]


class TestDirection:
    @pytest.mark.parametrize(
        ("name", "direction"),
        [
            ("MemcpyH2D", "h2d"),
            ("MemcpyHtoD", "h2d"),
            ("CopyHostToDevice", "h2d"),
            ("Memset", None),
            ("MemcpyH2D_kernel", None),
        ],
    )
    def test_is_known_by_the_name(self, name: str, direction: str | None) -> None:
        assert on_gpu(event(name, us(0, 1))).direction.to_list() == [direction]

    @pytest.mark.parametrize(
        ("api", "direction"), [("hipMemcpyHtoDAsync", "h2d"), ("hipModuleLaunchKernel", None)]
    )
    def test_of_rocms_copy_kernels_is_that_of_their_launch(
        self, api: str, direction: str | None
    ) -> None:
        found = events(
            host(line("python")(launch(us(0, 1), 7, api))),
            gpu(0)(
                stream(7, "Compute")(
                    kernel("__amd_rocclr_copyBuffer.kd", us(5, 1), correlation=7),
                    kernel("gemm", us(7, 1)),
                )
            ),
        )

        assert found.direction.to_list() == [direction, None]

    def test_a_kernel_launched_like_a_copy_stays_a_kernel(self) -> None:
        found = events(
            host(line("python")(launch(us(0, 1), 7, "hipMemcpyHtoDAsync"))),
            gpu(0)(stream(7, "Compute")(kernel("gemm", us(5, 1), correlation=7))),
        )

        assert found.direction.to_list() == [None]


NONE = -1
US, MS = 10**6, 10**9


def found(
    calls: list[tuple[int, int]], work: list[tuple[int, int]], device: list[int] | None = None
) -> tuple[list[int], list[int]]:
    """The call of each piece of work, and how early each device's clock is."""
    call_id, call_ps = np.array(calls, np.int64).reshape(-1, 2).T
    work_id, work_ps = np.array(work, np.int64).reshape(-1, 2).T
    number = np.array(device if device is not None else [0] * len(work), np.int64)
    launched = launched_by(call_id, call_ps, work_id, work_ps, number)
    return launched.call.tolist(), launched.early_ps.tolist()


def test_of_calls_with_one_id_none_is_taken() -> None:
    assert found([(1, 10), (1, 50), (2, 90)], [(1, 15), (1, 55), (2, 95)])[0] == [NONE, NONE, 2]


def test_what_began_long_before_the_call_with_its_id_was_launched_by_another() -> None:
    long_before = 50 - 2 * MS
    assert found([(1, 50), (2, 60)], [(1, long_before), (1, 55), (2, 65), (2, 66)])[0] == [
        NONE,
        0,
        1,
        1,
    ]


def test_all_of_a_graph_of_an_early_device_was_launched_by_its_one_call() -> None:
    """Only 2 of its 200 pieces seem to begin before it, as few as may be of other calls."""
    calls = [(k, k * MS) for k in range(1, 101)]
    early = [(k, at + (5 + 10 * n - 20) * US) for k, at in calls for n in range(200)]

    call, early_ps = found(calls, early)

    assert early_ps == [15 * US]
    assert call == [k for k in range(100) for _ in range(200)]


def test_a_graph_that_a_drifting_clock_puts_before_its_call_is_whole() -> None:
    calls = [(1, 0), (2, MS), (3, 2 * MS)]
    work = [(1, US), (2, MS + US), (3, 2 * MS - US), (3, 2 * MS + US), (3, 2 * MS + 3 * US)]

    assert found(calls, work) == ([0, 1, 2, 2, 2], [0])


def test_each_device_has_a_clock_of_its_own() -> None:
    calls = [(k, 100 * k) for k in range(1, 9)]
    early = [(k, 100 * k - 35) for k in range(1, 5)]
    right = [(k, 100 * k + 5) for k in range(5, 9)]

    call, early_ps = found(calls, [*early, *right], [0] * 4 + [1] * 4)

    assert early_ps == [35, 0]
    assert call == list(range(8))
