"""What the report says of input pipelines."""

from pathlib import Path
from typing import Any

import traceanalyzer as ta
from tests.input_pipeline.paced import made_ahead
from tests.traces import Event, host, iterator, line, step, us, write, xspace
from traceanalyzer.model.figures import InputPipeline
from traceanalyzer.report.input_pipeline import input_pipeline


def told(folder: Path, *threads: Any) -> InputPipeline | None:  # noqa: ANN401 - words nest freely
    return input_pipeline(ta.load(write(folder, xspace(host(*threads)))))


def test_the_verdict_comes_first_with_its_figures(tmp_path: Path) -> None:
    slow = told(tmp_path, *made_ahead(10_000, 6_000, 10_000, python=True))
    assert slow is not None
    assert slow.verdict == "too_slow"
    assert slow.text.startswith(
        "The input pipeline is too slow on the CPU. A step waits 6.00\xa0ms for input, 60.0\xa0% "
        "of its time (mean of 10 steps). The stage `Root::ParallelMapV2` is the bottleneck: "
        "it is busy for 10.0 ms per step, and during 100 % of the wait. Its function runs PyFunc."
    )
    assert len(slow.stages.rows) == 3
    (found,) = slow.hosts
    assert (found.wait_mean_us, found.wait_share) == (6000.0, 0.6)
    assert [fix.gain_us_per_step.high for fix in slow.fixes] == [6000.0, 6000.0]


def test_one_that_keeps_up_is_by_design(tmp_path: Path) -> None:
    fast = told(tmp_path, *made_ahead(10_000, 100, 6_000))
    assert fast is not None
    assert fast.text == (
        "The input pipeline runs on the CPU by design, and it keeps up. A step waits 100\xa0µs for "
        "input, 1.0\xa0% of its time (mean of 10 steps)."
    )
    assert fast.fixes == ()


def test_a_shuffle_that_fills_its_buffer_is_told_beside_the_verdict(tmp_path: Path) -> None:
    def asked(at: int, took: int, filling: int) -> Event:
        return iterator("Root", us(at, took), id=1)(
            iterator("Root::Shuffle", us(at, filling), id=2, parent_id=1, buffer_size=2048)
        )

    found = told(
        tmp_path,
        line("python")(
            asked(0, 900_000, 880_000),
            (step(k, us(10**6 + k * 9000, 9000))(asked(10**6 + k * 9000, 9, 5)) for k in range(9)),
        ),
    )
    assert found is not None
    assert found.verdict == "keeps_up"
    assert found.text.endswith(
        "The first element took 900 ms because a shuffle had to fill its buffer of 2,048 elements. "
        "This happens once for each iterator, usually once an epoch."
    )
