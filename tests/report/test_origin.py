"""How a report came to be, from the trace and from its capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.sidecars import Book
from tests.traces import eager, event, host, line, step, us, write, xspace
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.origin import command, host_tracer_level, recorded_at
from traceanalyzer.sidecar import files
from traceanalyzer.sidecar.document import Levels, Session
from traceanalyzer.tables.eager_alignment import MARKER

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.run import Run

LEVELS = Levels(host_tracer_level=2, device_tracer_level=1, python_tracer_level=0)


def run_of(folder: Path, *, captured: bool = True, start_ns: int = 1, **more: Any) -> Run:  # noqa: ANN401
    marks = event(MARKER, us(0), thread=0, index=0)
    ops = step(1, us(1, 900))(eager("MatMul", us(10, 9)))
    write(folder, xspace(host(line("python")(marks, ops))))
    if captured:
        book = Book()
        book.thread(0, "MatMul @7")
        session = Session(
            trace="host.xplane.pb",
            method="server",
            requested=LEVELS,
            effective=LEVELS,
            start_ns=start_ns,
            stop_ns=None,
            reason="the script ended",
        )
        sidecar = book.sidecar(sessions=(session,), **more)
        files.write(sidecar, folder / "plugins/profile/run/host.placement.json.gz")
    return ta.load(folder)


def test_the_command_is_that_of_the_capture(tmp_path: Path) -> None:
    words = ("traceanalyzer", "capture", "/srv/ann/train.py", "--key", "abc")
    assert command(run_of(tmp_path, command=words)) == "traceanalyzer capture train.py --key ***"


@pytest.mark.parametrize("captured", [True, False])
def test_without_one_the_command_reports_the_trace(tmp_path: Path, *, captured: bool) -> None:
    folder = tmp_path / "my logs"
    assert command(run_of(folder, captured=captured)) == "traceanalyzer report 'my logs'"


@pytest.mark.parametrize(
    ("start_ns", "at"),
    [
        (1_700_000_000_999_999_999, "2023-11-14 22:13:20"),
        (0, None),
        (-5, None),
        (2**62, "2116-02-20 23:53:38"),
        (2**63 - 1, "2262-04-11 23:47:16"),
    ],
)
def test_when_it_was_recorded(tmp_path: Path, start_ns: int, at: str | None) -> None:
    assert recorded_at(run_of(tmp_path, start_ns=start_ns)) == at


def test_a_trace_alone_tells_neither_when_nor_at_which_level(tmp_path: Path) -> None:
    run = run_of(tmp_path, captured=False)
    assert recorded_at(run) is None
    assert host_tracer_level(run) is None


def test_the_level_is_the_one_that_was_in_force(tmp_path: Path) -> None:
    assert host_tracer_level(run_of(tmp_path)) == 2


def test_the_document_has_all_of_it_and_is_the_same_each_time(tmp_path: Path) -> None:
    run = run_of(tmp_path, start_ns=1_700_000_000_000_000_000, command=("traceanalyzer", "capture"))
    made = assemble(ta.diagnose(run)).run
    assert (made.command, made.recorded_at, made.host_tracer_level) == (
        *("traceanalyzer capture", "2023-11-14 22:13:20"),
        2,
    )
    assert made == assemble(ta.diagnose(ta.load(tmp_path))).run
