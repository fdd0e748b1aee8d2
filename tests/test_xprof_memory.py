"""Peaks of memory and limits against XProf's `memory_profile`.

These differ by design:

* The moment: if as much was in use several times, XProf takes a later one, and counts its time from
  the start of the thread's line. We take the first, on the trace's clock.
* The highest use ever: XProf takes it from the record that it reads last, thread by thread.
* Memory allocated before the trace: XProf looks no further back than the peak's step.
* Names: a TPU's records name no allocator; XProf calls it `0`, we `device 0`.
"""

from pathlib import Path
from typing import Any, Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, slow_but
from tests.xprof import tool_data
from traceanalyzer.memory import ledger, records_of
from traceanalyzer.run import Host
from traceanalyzer.trace.files import read_host

pytestmark = needs_corpus

FATMA: Final = "tfgpu-fatma-cnn-sandor/plugins/profile"
E4040: Final = "tfgpu-e4040-2023-hd2551/plugins/profile"
LEGACY: Final = "jax-rocm-convlegacy/plugins/profile/jax_conv_minimal_legacy"
MULTIWORKER: Final = (
    "tfgpu-tfprofiler-multiworker/plugins/profile/GPU-multi-worker/34.83.195.179_6003.xplane.pb"
)
TPU: Final = "tpu-xprof-inference2/plugins/profile/v_old/tpu_inference_2.xplane.pb"
RECORDED: Final = (
    f"{FATMA}/2021_02_02_12_57_01/sandor.xplane.pb",
    f"{FATMA}/2021_02_02_13_12_57/sandor.xplane.pb",
    f"{E4040}/2023_11_07_18_18_59/instance-2.xplane.pb",
    "jax-rocm-attention/plugins/profile/jax08_attention/tw003.xplane.pb",
    f"{LEGACY}/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb",
    "tfmac-chiyo-dogsvscats/plugins/profile/2021_10_27_16_33_47/Lucas-MBP.supsi.ch.xplane.pb",
    MULTIWORKER,
    TPU,
)


def xprof_memory(file: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """XProf's allocators, by our names."""
    found = tool_data(file, "memory_profile", folder)["memoryProfilePerAllocator"]
    return {f"device {name}" if name.isdecimal() else name: told for name, told in found.items()}


def both(recorded: str, folder: Path) -> tuple[Host, dict[str, dict[str, Any]]]:
    file = CORPUS / recorded
    if not file.is_file():
        pytest.skip(f"{recorded} is not in the corpus")
    (host,) = ta.load(file).hosts
    return host, xprof_memory(file, folder)


def moments(host: Host, allocator: str) -> set[int]:
    """When as much was in use as at an allocator's peak, from the start of some line."""
    records = records_of(host.tables.allocations)
    book = ledger(records[records["allocator"] == allocator])
    at_ps = book.at_ps[book.in_use == book.in_use.max()]
    assert host.file is not None
    starts = {
        int(ns) * 1000
        for plane in read_host(host.file).planes
        if plane.name == "/host:CPU"
        for ns in plane.lines.timestamp_ns
    }
    return {int(at) - start for at in at_ps for start in starts}


@pytest.mark.parametrize("recorded", slow_but(RECORDED[2].__eq__, RECORDED))
def test_peaks_and_limits_agree(recorded: str, tmp_path: Path) -> None:
    host, theirs = both(recorded, tmp_path)

    assert {use.allocator for use in host.memory} == set(theirs)
    assert theirs
    for use in host.memory:
        told = theirs[use.allocator]["profileSummary"]
        assert use.peak is not None
        assert use.peak.bytes == int(told["peakStats"]["peakBytesInUse"])
        assert use.peak.reserved_bytes == int(told["peakStats"]["stackReservedBytes"])
        assert use.limit_bytes == int(told["memoryCapacity"])
        at_peak = moments(host, use.allocator)
        assert int(told["peakStatsTimePs"]) in at_peak
        if len(at_peak) == 1:
            assert use.peak.available_bytes == int(told["peakStats"]["freeMemoryBytes"])
            fragmentation = pytest.approx(told["peakStats"]["fragmentation"], abs=1e-6)
            assert use.peak.fragmentation == fragmentation
