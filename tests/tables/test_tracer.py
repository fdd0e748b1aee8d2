"""What the tracers of a host were set to record, and what they saw of devices."""

from dataclasses import replace
from typing import Any

import pytest

from tests.capture_files import Book
from tests.traces import (
    allocation,
    decode,
    event,
    gpu,
    host,
    line,
    op,
    ref,
    task_environment,
    thread,
    us,
    xspace,
)
from traceanalyzer.tables.host_tables import host_tables
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.trace.xplane import ProfileOptions

# ProfileOptions: fields 1 (flag), 2 host, 3 device, 4 python level, 5 version, 10 a path.
LEVEL_2 = b"\x08\x01\x10\x02\x18\x01\x28\x01\x38\x01\x52\x04logs"


def facts_of(*planes: Any, **more: Any) -> TracerFacts:  # noqa: ANN401  # words of the language
    return host_tables("h", 0, decode(xspace(*planes, **more))).facts


class TestHostLevel:
    def test_is_what_the_trace_itself_recorded(self) -> None:
        facts = facts_of(host(), task_environment(options=LEVEL_2))

        assert (facts.host_level, facts.host_level_source) == (2, "profile_options")

    @pytest.mark.parametrize(
        "tell_tale",
        [
            event("ExecutorPropagateOutputs", us(3, 1)),
            op("dense/MatMul", "MatMul", us(3, 1), shape=ref("(float[64,64];float[64,64])")),
        ],
    )
    def test_three_by_what_only_that_level_writes(self, tell_tale: Any) -> None:  # noqa: ANN401
        facts = facts_of(host(thread("tf_Compute", 1)(tell_tale)))

        assert (facts.host_level, facts.host_level_source) == (3, "level 3 events")

    def test_as_the_capture_proved_where_the_trace_does_not_tell(self) -> None:
        levels = ProfileOptions(host_tracer_level=3, device_tracer_level=1, python_tracer_level=0)
        plain = Book().capture_file()
        (session,) = plain.sessions
        capture_file = replace(plain, sessions=(replace(session, requested=levels),))

        facts = host_tables("h", 0, decode(xspace(host())), capture_file, 0).facts

        assert (facts.host_level, facts.host_level_source) == (3, "capture")


class TestGpuUsed:
    @pytest.mark.parametrize("allocator", ["GPU_0_bfc", "gpu_host_bfc"])
    def test_by_an_allocation_that_only_a_gpu_brings_about(self, allocator: str) -> None:
        """TensorFlow makes pinned memory, `gpu_host_bfc`, only where it has a GPU."""
        facts = facts_of(host(line("python")(allocation(64, us(1), "x", allocator=allocator))))

        assert facts.gpu_used
        assert facts.gpu_witness == f"allocations of {allocator}"

    def test_not_by_a_plane_that_only_describes_one(self) -> None:
        facts = facts_of(host(line("python")(op("a", "MatMul", us(0, 1)))), gpu(0))

        assert not facts.gpu_used
        assert facts.gpu_witness == ""
        assert facts.accelerators == {"/device:GPU:0": 0}


class TestGpuMayBeMissed:
    @pytest.mark.parametrize("kind", ["errors", "warnings"])
    def test_with_a_tracer_that_failed(self, kind: str) -> None:
        facts = facts_of(host(), **{kind: ["Failed to load libcupti (is it installed?)"]})

        assert facts.gpu_may_be_missed


def test_a_pluggable_device_is_known_by_its_allocator() -> None:
    facts = facts_of(
        host(line("python")(allocation(64, us(1), "x", allocator="pluggable_device_host_bfc")))
    )

    assert facts.pluggable_used
    assert not facts.gpu_used
