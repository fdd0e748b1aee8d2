"""Figures of a report that no single table holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.traces import (
    copy,
    eager,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    op,
    send,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.report.assemble import assemble
from traceanalyzer.rules import Example

if TYPE_CHECKING:
    from pathlib import Path


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
    assert made.copy_graph is not None
    assert [edge.bytes for edge in made.copy_graph.edges] == [None]
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
