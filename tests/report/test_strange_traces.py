"""Traces that hold next to nothing, or what cannot be: `traceanalyzer report` writes a page."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.report.bad_input import HOSTILE_TEXTS
from tests.report.markup import Element, read, wrong_figures
from tests.traces import (
    event,
    gpu,
    host,
    kernel,
    line,
    ms,
    op,
    plane,
    ps,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.cli import cli
from traceanalyzer.errors import TraceFormatError

HOST_OP = thread("tf_Compute", 1)(op("a", "Add", us(5, 2)))
LONGEST_PS = 2**63 - 1

TRACES: dict[str, tuple[Any, ...]] = {
    "no plane": (),
    "a host with an empty thread": (host(thread("tf_Compute", 1)()),),
    "an empty GPU": (gpu(0),),
    "one op": (host(HOST_OP),),
    "one event that is nothing": (host(line("python")(event("x", ps(0, 0)))),),
    "one step and one op": (
        host(thread("python", 1)(step(1, ms(0, 10))), HOST_OP),
        gpu(0, stream(1, "Compute")(kernel("k", us(1, 2), "a:MatMul"))),
    ),
    "an op before the beginning": (host(thread("tf_Compute", 1)(op("a", "Add", ps(-5, 7)))),),
    "an op of negative length": (host(thread("tf_Compute", 1)(op("a", "Add", ps(5, -7)))),),
    "an op for ever": (host(thread("tf_Compute", 1)(op("a", "Add", ps(0, LONGEST_PS)))),),
    "a kernel for ever": (
        host(HOST_OP),
        gpu(0, stream(1, "Compute")(kernel("k", ps(0, LONGEST_PS), "a:MatMul"))),
    ),
    "a kernel of negative length": (
        host(HOST_OP),
        gpu(0, stream(1, "Compute")(kernel("k", ps(9, -4), "a:MatMul"))),
    ),
    "planes of unknown kind": (plane("/strange"), plane("")),
}
NOTHING_LEFT = {"no plane", "an op of negative length", "an op for ever"}


def page_of(logs: Path, folder: Path) -> Element | None:
    """Returns the page that the command writes, or None where it says in a line why it cannot."""
    page, document = folder / "report.html", folder / "report.json"
    arguments = ["report", str(logs), "-o", str(page), "--json", str(document)]
    try:
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    except TraceFormatError:  # `main` prints it
        assert not page.exists()
        return None
    assert done.exit_code == 0, done.output
    json.loads(document.read_text("utf-8"))
    return read(page.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(TRACES))
def test_little_or_impossible_gives_a_correct_page(name: str, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", xspace(*TRACES[name]), run="run")
    page = page_of(logs, tmp_path)
    if page is None:
        assert name in NOTHING_LEFT
        return
    assert wrong_figures(page) == []
    assert page.one("h1").text


def test_a_hostile_trace_is_text(tmp_path: Path) -> None:
    named = list(enumerate(HOSTILE_TEXTS))
    threads = [
        thread(text, 2 + k)(op(text, "Add", us(5, 2)), op(f"{text}/b", text, us(9, 2)))
        for k, text in named
    ]
    steps = thread("python", 1)(*(step(k, ms(k, 1), name=text) for k, text in named))
    kernels = (kernel(text, us(1 + 9 * k, 2), f"{text}:MatMul") for k, text in named)
    on_gpu = gpu(0, stream(1, "Compute")(*kernels))
    logs = write(tmp_path / "logs", xspace(host(steps, *threads), on_gpu), run="run")

    page = page_of(logs, tmp_path)

    assert page is not None
    assert not {"img", "svg:script"} & {element.tag for element in page.all()}
    programs = [s for s in page.all("script") if "type" not in s.attributes]
    assert len(programs) == 2
    assert (tmp_path / "report.html").stat().st_size < 5_000_000
