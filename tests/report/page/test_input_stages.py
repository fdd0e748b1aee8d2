"""The stages of an input pipeline as a tree, with what each works."""

from __future__ import annotations

from dataclasses import replace

from tests.report.examples import gpu_run
from tests.report.markup import read
from traceanalyzer.model import InputPipeline, Table
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.input_stages import STAGES_SHOWN, stage_pipelines


def pipeline() -> InputPipeline:
    found = gpu_run().input_pipeline
    assert found is not None
    return found


def test_a_stage_stands_below_what_takes_its_elements() -> None:
    (found,) = stage_pipelines(pipeline())
    assert [(stage.type, stage.depth) for stage in found.stages] == [
        ("Prefetch", 1),
        ("Map", 2),
        ("TFRecord", 3),
    ]


def test_work_is_that_of_the_function_or_its_own() -> None:
    (found,) = stage_pipelines(pipeline())
    # A stage that makes elements ahead has only its wait told: that is no work.
    assert [stage.work_us for stage in found.stages] == [None, 1_600_000, 100_000]
    assert [stage.share for stage in found.stages] == [0, 1, 0.0625]


def test_what_bounds_the_rate_is_marked_in_words() -> None:
    (found,) = stage_pipelines(pipeline())
    assert [stage.slow_us for stage in found.stages] == [None, 14_250.0, None]
    section = read(render_page(gpu_run())).one("section", id="input-pipeline")
    (slow,) = section.all("li", class_="stage depth-2 slow")
    assert "Map bounds the rate: 14.2 ms a step" in slow.text


def test_the_slow_pipeline_comes_first_and_many_stages_are_cut() -> None:
    given = pipeline()
    columns = ("host", "pipeline", "stage", "type", "self_us")
    rows = [("h", 0, f"Root::S{k}", f"S{k}", 9e9) for k in range(STAGES_SHOWN + 5)]
    rows.append(("trainer-0", 1, "Root::Prefetch::Map", "Map", 1.0))
    stages = Table(columns=columns, rows=tuple(rows), total_rows=len(rows))
    first, second = stage_pipelines(replace(given, stages=stages))
    assert (first.host, first.number) == ("trainer-0", 1)
    assert (len(second.stages), second.total) == (STAGES_SHOWN, STAGES_SHOWN + 5)


def test_no_stages_no_picture() -> None:
    given = replace(pipeline(), stages=Table(columns=("host",), rows=(), total_rows=0))
    assert stage_pipelines(given) == []
