"""The tab Ops: one table of all ops."""

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.report.reading import only, records
from tests.samples import SAMPLES, sample
from tests.test_costs import gemms, run_of, training
from tests.traces import (
    eager,
    executor,
    gpu,
    host,
    kernel,
    line,
    op,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.changes import Change
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model.blocks import BigTable
from traceanalyzer.report import ops as subject
from traceanalyzer.report.ops import ops_tab
from traceanalyzer.report.page_facts import PageFacts


def table(diagnosis: Diagnosis, *changes: Change) -> BigTable:
    tab = ops_tab(PageFacts(diagnosis=diagnosis, changes=changes))
    assert tab is not None
    return only(tab.blocks, BigTable)


@pytest.fixture
def waiting(tmp_path: Path) -> Diagnosis:
    """In each of four steps the GPU waits for an op on the CPU."""
    python = line("python")(
        *(training(k, 100 * k, eager("UniqueV2", us(100 * k + 30, 40))) for k in range(4))
    )
    device = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))
    return ta.diagnose(ta.load(write(tmp_path, xspace(host(python), gpu(0, device)))))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_op_is_in_it_and_no_column_is_unknown_everywhere(name: str) -> None:
    diagnosis = sample(name)

    found = table(diagnosis)

    rows = records(found)
    assert {row["op_id"] for row in rows} == set(diagnosis.run.ops["op_id"])
    for column in found.columns:
        assert column.title
        assert any(row[column.name] is not None for row in rows)


def test_the_op_that_the_gpu_waits_for_most_is_first(waiting: Diagnosis) -> None:
    first, *others = records(table(waiting))

    assert (first["name"], first["placement"]) == ("UniqueV2", "cpu")
    assert first["gpu_wait_us"] == max(row["gpu_wait_us"] for row in [first, *others])
    waited_ps = waiting.costs.exposed_ps([first["op_id"]])
    assert waited_ps is not None
    assert first["gpu_wait_us"] * 1e6 == pytest.approx(waited_ps)


def test_figures_of_runs_with_steps_are_per_step_and_say_so(waiting: Diagnosis) -> None:
    titles = {c.name: c.title for c in table(waiting).columns}
    assert (titles["gpu_wait_us"], titles["host_us"]) == ("GPU wait/step", "Host time/step")

    worker = thread("tf_Compute", 1)(executor(us(0, 100))(op("a", "Unique", us(0, 10))))
    titles = {c.name: c.title for c in table(ta.diagnose(run_of(host(worker)))).columns}
    assert titles["host_us"] == "Host time"
    assert "gpu_wait_us" not in titles  # no device waited


def test_an_op_has_its_causes_and_changes() -> None:
    diagnosis = sample("recommender")
    op_id = diagnosis.on_a_gpu.findings[0].op_ids[0] if diagnosis.on_a_gpu else ""
    changes = (
        Change(id="1", kind="edit", title="Use int64", op_ids=(op_id,)),
        Change(id="2", kind="edit", title="Move it", op_ids=(op_id,)),
    )

    (row,) = [r for r in records(table(diagnosis, *changes)) if r["op_id"] == op_id]

    assert row["cause"]
    assert (row["change"], row["change_id"]) == ("Use int64 | Move it", "change-1 | change-2")


def test_without_a_gpu_each_op_says_where_it_would_be_with_one() -> None:
    diagnosis = sample("recommender")
    assert diagnosis.on_a_gpu is not None

    rows = records(table(diagnosis))

    stays = {row["op_id"] for row in rows if row["with_a_gpu"] == "cpu"}
    assert (
        stays
        == diagnosis.on_a_gpu.analysis.cpu_ops.keys() - diagnosis.on_a_gpu.analysis.not_replayed
    )
    assert {"gpu", "cpu", "gpu, calls Python on the host"} <= {row["with_a_gpu"] for row in rows}


def test_ops_beyond_its_size_are_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "_MAX_BYTES", 3_000)
    diagnosis = sample("keras_fit")

    tab = ops_tab(PageFacts(diagnosis=diagnosis))

    assert tab is not None
    big, note = tab.blocks
    assert isinstance(big, BigTable)
    assert len(big.packed.data) <= 3_000
    assert big.packed.rows < big.packed.total_rows == len(diagnosis.run.ops)
    assert f"{big.packed.total_rows - big.packed.rows} ops" in str(note)


def test_an_op_without_an_event_on_the_host_has_no_host_time() -> None:
    on_gpu = stream(9)(kernel("gemm", us(0, 5), "m:MatMul"), kernel("gemm", us(9, 5), "m:MatMul"))
    worker = thread("tf_Compute", 1)(executor(us(0, 100))(op("a", "Unique", us(0, 10))))

    rows = records(table(ta.diagnose(run_of(host(worker), gpu(0, on_gpu)))))

    assert {row["name"]: row["host_us"] for row in rows} == {"a": 10.0, "m": None}
