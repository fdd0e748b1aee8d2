from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.examples import EXAMPLES, cpu_only_run, gpu_run, hostile_run
from traceanalyzer.report.summary import print_summary

if TYPE_CHECKING:
    from traceanalyzer.model import Report


def printed(report: Report, width: int = 80, **options: object) -> str:
    console = Console(file=io.StringIO(), width=width, **options)  # type: ignore[arg-type]
    print_summary(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\xa0", " ")


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for line in printed(EXAMPLES[name](), width).splitlines():
        assert cell_len(line) <= width


@pytest.mark.parametrize(
    ("width", "figures"),
    [
        (20, ("182 ms", "3.04 GB", "5.12 ms")),
        (40, ("182 ms", "204 ms", "3.04 GB", "257 ms", "5.12 ms", "28.4 µs")),
    ],
)
def test_no_figure_is_cut_where_there_is_little_room(width: int, figures: tuple[str, ...]) -> None:
    lines = [line.rstrip() for line in printed(gpu_run(), width).splitlines()]
    for figure in figures:
        assert any(line.endswith(figure) or f"{figure} " in line for line in lines)


def test_what_is_cut_is_counted() -> None:
    said = printed(cpu_only_run())
    assert "Showing 2 of 412 CPU-placed ops. All of them: traceanalyzer tables PATH -o DIR" in said
    run = gpu_run()
    many = replace(run, findings=run.findings * 5)
    assert "and 10 more: see the page" in printed(many)


def test_without_steps_no_total_is_said_to_be_of_each_step() -> None:
    run = gpu_run()
    assert run.copy_graph is not None
    backs = tuple(replace(back, count_per_step=None) for back in run.copy_graph.read_backs)
    without_steps = replace(run, copy_graph=replace(run.copy_graph, read_backs=backs))

    assert "Device-to-host sync each step: " in printed(run, 160)
    said = printed(without_steps, 160)
    assert "Device-to-host sync: " in said
    assert "waits 96.0 ms in total" in said


@pytest.mark.parametrize("width", [40, 160])
def test_hostile_names_are_inert(width: int) -> None:
    said = printed(hostile_run(), width)
    assert "[bold" in said  # markup stays text
    assert not any(character in said for character in "\x00\x07\x1b\x9b\u2028\u202e\u200b\ud800")
    assert said.encode("utf-8")
    assert len(said) < 40_000
    colours = printed(hostile_run(), width, force_terminal=True, color_system="truecolor")
    assert "\x1b[31m" in colours or "\x1b[1m" in colours  # our own styles ...
    assert "\x1b[31mg" not in colours  # ... and none of a name's


def test_a_terminal_without_unicode() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    for build in EXAMPLES.values():
        print_summary(build(), Console(file=stream, width=80))
    stream.flush()
    assert b"41.2 us" in raw.getvalue()
