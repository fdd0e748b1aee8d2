"""What the report says of memory, and what its tab shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.report.reading import only, plain, records
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
from traceanalyzer.model.blocks import Chart, Fold, KeyValues, Tab, Table
from traceanalyzer.model.figures import Memory
from traceanalyzer.report.memory import memory, memory_tab
from traceanalyzer.run import load

KIB = 1024
GB = 10**9


def told(folder: Path, *events: Any, hosts: int = 1) -> tuple[Memory, Tab]:  # noqa: ANN401
    """What is said of a run on so many hosts, on each of which this happened."""
    for k in range(hosts):
        space = xspace(host(line("a")(op("x", "Cast", us(5, 1 + k)), *events)), gpu(0))
        write(folder, space, host=f"h{k}")
    found = memory(load(folder))
    tab = memory_tab(found)
    assert found is not None
    assert tab is not None
    return found, tab


def test_what_was_in_use_at_the_peak_and_what_held_it(tmp_path: Path) -> None:
    found, tab = told(
        tmp_path,
        step(3, us(6, 10)),
        allocation(KIB, us(8), "x", in_use=3 * KIB, available=KIB, shape="[256]"),
        deallocation(KIB, us(9), in_use=2 * KIB, available=2 * KIB),
    )

    (allocator,) = found.allocators
    assert (allocator.kind, allocator.device) == ("device", "gpu:0")
    assert (allocator.records, allocator.limit_bytes) == (2, 4 * KIB)
    assert allocator.timeline.rows == ((3.0, 3 * KIB), (4.0, 2 * KIB))
    assert allocator.steps.rows == ((3, 1.0, 3 * KIB, 2 * KIB),)
    peak = allocator.peak
    assert peak is not None
    assert (peak.at_us, peak.bytes, peak.share) == (3.0, 3 * KIB, 0.75)
    assert (peak.named_bytes, peak.before_bytes) == (KIB, 2 * KIB)
    (holder,) = peak.holders
    assert (holder.op, holder.type, holder.shape) == ("x", "Cast", "[256]")
    assert (holder.bytes, holder.count, holder.region_type) == (KIB, 1, "output")
    assert found.remarks == ()

    chart = only(tab.blocks, Chart)
    assert (chart.x, chart.series[0].values) == ((3.0, 4.0), (3 * KIB, 2 * KIB))
    assert chart.limit == ("TensorFlow's limit", 4 * KIB)
    (row,) = records(only(tab.blocks, Table))
    assert (row["peak_bytes"], row["peak_share"]) == (3 * KIB, 0.75)
    fold = only(tab.blocks, Fold)
    facts = {name: plain(text) for name, text in only(fold.blocks, KeyValues).rows}
    assert facts["Allocated before the trace began"] == f"{2 * KIB} bytes"
    assert "Reserved by the allocator" not in facts  # none was
    (shown,) = records(only(fold.blocks, Table))
    assert (shown["op"], shown["shape"], shown["bytes"]) == ("x", "[256]", KIB)


@pytest.mark.parametrize(("in_use", "is_said"), [(8.9, False), (9.0, True)])
def test_a_device_that_is_nearly_full(tmp_path: Path, in_use: float, *, is_said: bool) -> None:
    size = round(in_use * GB)
    found, _ = told(tmp_path, allocation(size, us(1), in_use=size, available=10 * GB - size))

    said = "GPU_0_bfc was 90 % full at its peak (9.00 GB of 10.0 GB)"
    assert any(said in remark for remark in found.remarks) == is_said


@pytest.mark.parametrize(("in_use", "lost"), [(3 * KIB, "allocations"), (KIB, "deallocations")])
def test_records_that_do_not_add_up(tmp_path: Path, in_use: int, lost: str) -> None:
    found, _ = told(
        tmp_path,
        allocation(KIB // 2, us(1), address=1, in_use=KIB // 2),
        allocation(KIB, us(2), address=2, in_use=in_use),
    )

    size = abs(in_use - KIB - KIB // 2)
    text = f"{size / 1000:.2f} kB" if size > 1000 else f"{size} bytes"
    (remark,) = found.remarks
    assert f"{lost} totaling {text} before the peak" in remark
