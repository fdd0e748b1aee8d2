"""What ran on the devices, and the ops it was launched for."""

from __future__ import annotations

from typing import Any

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
from traceanalyzer.tables.device_events import DeviceEvents, device_events
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

    def test_comes_before_a_call_that_waits_with_the_same_correlation(self) -> None:
        found = events(
            host(line("python")(launch(us(1, 1), 7), launch(us(3, 1), 7, "cuStreamSynchronize"))),
            gpu(0)(stream(7, "Compute")(kernel("k", us(5, 1), correlation=7))),
        )

        assert found.launch.tolist() == [0]


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
