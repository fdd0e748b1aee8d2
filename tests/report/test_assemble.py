"""Figures and names of a report that no single table holds."""

from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.capture_files import Book
from tests.causes.examples import Example
from tests.traces import (
    copy,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    op,
    send,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.capture_file import files
from traceanalyzer.capture_file.document import Session
from traceanalyzer.report.about import run_info
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run
from traceanalyzer.tables.joined import MARKER
from traceanalyzer.trace.xplane import ProfileOptions


def test_a_copy_between_two_ops_of_a_finding_costs_once(tmp_path: Path) -> None:
    """Python that feeds Python, by way of the GPU's memory."""
    space = xspace(
        host(
            thread("tf_Compute", 1)(
                executor(us(0, 90))(
                    op("a", "PyFunc", us(1, 20)),
                    send("a", "b", us(30, 5))(launch(us(31, 1), 7)),
                    op("b", "PyFunc", us(40, 20)),
                )
            ),
            line("python")(eager("Neg", us(200, 5))),
        ),
        gpu(0)(
            stream(8)(copy("H2D", 4096, us(50, 2), "a/_1:_Send", correlation=7)),
            stream(9)(kernel("k", us(60, 5), "c:Abs")),
        ),
    )
    made = assemble(ta.diagnose(ta.load(write(tmp_path, space))))

    (finding,) = (f for f in made.findings if f.cause == "python_callback")
    assert {o.name for o in finding.ops} == {"a", "b"}
    assert (finding.cost.copy_bytes, finding.cost.copy_us) == (4096, 2.0)


def test_a_copy_of_unknown_size_is_no_copy_of_0_bytes(tmp_path: Path) -> None:
    """Sends tell who copied what to whom, and not how much."""
    space = xspace(
        host(
            thread("tf_Compute", 1)(
                executor(us(0, 90))(
                    op("a", "PyFunc", us(1, 20)),
                    send("a", "b", us(30, 5)),
                    op("m", "Eig", us(40, 20)),
                )
            ),
        ),
        gpu(0)(stream(9)(kernel("k", us(60, 5), "b:Abs"))),
    )
    made = assemble(ta.diagnose(ta.load(write(tmp_path, space))))

    cost = {f.cause: f.cost for f in made.findings}
    assert made.transfer_graph is not None
    assert [edge.bytes for edge in made.transfer_graph.edges] == [None]
    assert cost["python_callback"].copy_bytes is None
    assert cost["no_gpu_kernel"].copy_bytes == 0


def test_a_device_that_is_named_in_full_and_in_short_is_one() -> None:
    full = "/job:localhost/replica:0/task:0/device:CPU:0"
    ops = tuple(
        {"name": name, "type": "Eig", "device": device}
        for name, device in (("a", full), ("b", "/device:CPU:0"), ("c", full))
    )
    made = assemble(ta.diagnose(Example(title="", ops=ops).run()))

    assert [d.name for d in made.run.devices if d.kind == "cpu"] == [f"h {full}"]


LEVELS = ProfileOptions(host_tracer_level=2, device_tracer_level=1, python_tracer_level=0)


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
            start_ns=start_ns,
            stop_ns=None,
            reason="the script ended",
        )
        capture_file = book.capture_file(sessions=(session,), **more)
        files.write(capture_file, folder / "plugins/profile/run/host.placement.json.gz")
    return ta.load(folder)


def test_the_command_is_that_of_the_capture(tmp_path: Path) -> None:
    words = ("traceanalyzer", "capture", "/srv/ann/train.py", "--key", "abc")
    made = run_info(run_of(tmp_path, command=words))
    assert made.command == "traceanalyzer capture train.py --key ***"


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
    made = run_info(run_of(tmp_path, start_ns=start_ns))
    assert made.recorded_at == at
