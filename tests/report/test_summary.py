from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.examples import EXAMPLES, cpu_only_run, empty_run, gpu_run, hostile_run
from traceanalyzer.report.summary import print_summary

if TYPE_CHECKING:
    from traceanalyzer.model import Report


def printed(report: Report, width: int = 80, **options: object) -> str:
    console = Console(file=io.StringIO(), width=width, **options)  # type: ignore[arg-type]
    print_summary(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\xa0", " ")


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [20, 40, 80, 160])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for line in printed(EXAMPLES[name](), width).splitlines():
        assert cell_len(line) <= width


@pytest.mark.parametrize("width", [80, 160])
def test_what_a_reader_needs_first(width: int) -> None:
    said = on_one_line(printed(gpu_run(), width))
    assert said.startswith(gpu_run().summary.verdict)
    for words in (
        "Step time 14.4 ms, 95th percentile 14.9 ms",
        "GPU waits 1.95 ms per step",
        "GPU idle 35.7 %",
        "CPU-op time 229 ms in 5 CPU-placed ops",
        "97.8 % (certain 80.2 %, likely 17.6 %, possible 0 %, unexplained 2.2 %)",
        "warning: The GPU tracer dropped 1,204 events",
        "1. A Python function runs inside every step",
        "certain, harmful · python_callback/eager_py_func · 1 op",
        "host 182 ms · copied 1.26 GB · GPU waits 1.70 ms per step",
        "train/augment.py:88 image = tf.py_function(blur, [image], tf.float32)",
        "Change, for the first: Write the blur with TensorFlow ops",
        "host 40.1 ms · copied unknown · GPU waits 212 µs per step",
        "certain, by design · host_pipeline · 212 ops",
        "host to gpu:0 3.04 GB 257 ms 480",
        "host to gpu:1 unknown 41.2 µs 12",
        "No rule found a cause for 5.12 ms of CPU-op time.",
        "Would settle it: a capture with `traceanalyzer capture`",
    ):
        assert words in said


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


def test_cpu_placed_ops_with_cost_and_cause() -> None:
    lines = printed(gpu_run(), 160).splitlines()
    first = next(line for line in lines if line.startswith(" augment/EagerPyFunc"))
    assert first.split() == [
        "augment/EagerPyFunc",
        *("120", "182", "ms", "204", "ms"),
        *("python_callback", "(certain)"),
    ]
    gather = next(line for line in lines if "ResourceGather" in line)
    assert gather.split()[-1] == "unexplained"


def test_of_stacked_causes_all_that_must_change_is_said() -> None:
    run = gpu_run()
    stacked = next(f for f in run.findings if len(f.blockers) > 1)
    single = replace(stacked, blockers=())

    said = on_one_line(printed(replace(run, findings=(stacked,)), 160))

    for words in (
        "Two causes keep it, each by itself: it moves when all are gone",
        "- python_callback (certain): TensorFlow 2.18.0 registers EagerPyFunc for CPU only.",
        '(likely): The call stands inside with tf.device("/CPU:0"). [train/augment.py:84]',
        "Change, for the first: Write the blur with TensorFlow ops",
    ):
        assert words in said
    alone = on_one_line(printed(replace(run, findings=(single,)), 160))
    assert "when all are gone" not in alone
    assert "Change: Write the blur" in alone
    many = replace(stacked, blockers=stacked.blockers * 4)
    assert "- and 3 more: see the page" in printed(replace(run, findings=(many,)), 160)


def test_what_is_cut_is_counted() -> None:
    said = printed(cpu_only_run())
    assert "Showing 2 of 412 CPU-placed ops. All of them: traceanalyzer tables PATH -o DIR" in said
    run = gpu_run()
    many = replace(run, findings=run.findings * 5)
    assert "and 10 more: see the page" in printed(many)


def test_unknown_says_why() -> None:
    said = on_one_line(printed(cpu_only_run()))
    assert "Step time unknown (no steps in this trace)" in said
    assert "Explained unknown (no GPU in this trace)" in said
    assert "GPU waits unknown Source" not in said


def test_what_a_gpu_would_change() -> None:
    said = on_one_line(printed(cpu_only_run()))
    assert "By replaying the placer, not measured." in said
    assert "- MatMul has no GPU kernel for int32 (likely, dtype_unsupported)" in said


def test_an_empty_trace() -> None:
    said = printed(empty_run())
    assert "The trace holds no TensorFlow op." in said
    assert "No rule found a cause in this trace." in said
    assert "Copies" not in said


@pytest.mark.parametrize("width", [40, 80, 160])
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
