"""What the profiler itself reported leads the first screen, with what to do about it."""

from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.traces import (
    allocation,
    call,
    eager,
    gpu,
    host,
    kernel,
    line,
    ms,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.changes import changes_of
from traceanalyzer.health import trace_health
from traceanalyzer.model import blocks as b
from traceanalyzer.profiler_messages import gpu_work_lost
from traceanalyzer.report.page import page_of
from traceanalyzer.report.text import plain

NO_LIBRARY = "worker: Failed to load libcupti (is it installed and accessible?)"
NO_PERMISSION = "worker: Insufficient privilege to run libcupti (you need root permission)."
ON_GPU = thread("tf_Compute", 1)(allocation(4, us(10), "GPU_0_bfc"), call("__inference_f_1", ms(1)))
PYTHON = line("python")(call("__inference_train_7", ms(2, 300)))
CPU_OPS = line("loop")(eager("Unique", us(5, 900)))
WORK = stream(7)(kernel("gemm", us(20, 90), "a:MatMul"))


def read(tmp_path: Path, *planes: Any, **reported: Any) -> tuple[b.Page, ta.Diagnosis]:  # noqa: ANN401
    diagnosis = ta.diagnose(ta.load(write(tmp_path, xspace(*planes, **reported))))
    return page_of(diagnosis, changes_of(diagnosis)), diagnosis


def said(page: b.Page) -> str:
    return f"{plain(page.happened)} {plain(page.next)}"


@pytest.mark.parametrize("more", [(), (CPU_OPS,)], ids=["no CPU ops", "CPU ops"])
@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (NO_LIBRARY, ["LD_LIBRARY_PATH", "traceanalyzer doctor"]),
        (NO_PERMISSION, ["as root"]),
        ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", ["End the other profiler"]),
    ],
)
def test_gpu_work_that_the_profiler_could_not_record(
    tmp_path: Path, error: str, fix: list[str], more: tuple[Any, ...]
) -> None:
    page, diagnosis = read(tmp_path, host(PYTHON, ON_GPU, *more), gpu(0)(), errors=[error])

    words = said(page)
    assert plain(page.happened).startswith("The GPU's work was not recorded")
    assert error.removeprefix("worker: ") in words
    assert all(part in plain(page.next) for part in fix)
    for wrong in ("not your bottleneck", "entirely on the GPU", "capture script.py", "ten or more"):
        assert wrong not in words
    assert all(change.kind != "record" for change in changes_of(diagnosis))


def test_a_gpu_that_worked_unseen_is_not_called_idle(tmp_path: Path) -> None:
    _, diagnosis = read(tmp_path, host(PYTHON, ON_GPU), gpu(0)(), errors=[NO_LIBRARY])

    (remark,) = (h for h in trace_health(diagnosis.run) if h.id == "device_plane_empty")
    assert "GPU_0_bfc" in remark.message
    assert "nothing ran" not in remark.message


def test_dropped_events_lead_but_do_not_hide_the_verdict(tmp_path: Path) -> None:
    warning = " 4711 events dropped because cupti activity buffer full;"
    page, diagnosis = read(tmp_path, host(PYTHON), gpu(0)(WORK), warnings=[warning])

    assert gpu_work_lost(diagnosis.run) is None
    assert "4711 events dropped" in said(page)
    assert "Record fewer steps" in said(page)


def test_an_unknown_message_is_quoted_first(tmp_path: Path) -> None:
    page, _ = read(tmp_path, host(PYTHON), gpu(0)(WORK), errors=["the flux is out of tune", "b"])

    assert plain(page.happened).startswith("The profiler reported")
    assert "the flux is out of tune" in plain(page.happened)
    assert "1 other message" in plain(page.happened)


def test_a_machine_without_a_gpu_is_no_failure_of_the_profiler(tmp_path: Path) -> None:
    page, _ = read(tmp_path, host(CPU_OPS), errors=["worker: No GPU detected."])

    assert "profiler" not in plain(page.happened)
