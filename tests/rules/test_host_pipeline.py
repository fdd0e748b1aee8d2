"""A pipeline that keeps up is by design; one for which steps wait is too slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.input_pipeline.paced import made_ahead, steps
from tests.traces import host, write, xspace
from traceanalyzer.rules.host_pipeline import RULE

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from traceanalyzer.findings import Finding


def within(folder: Path, *threads: Any) -> Finding:  # noqa: ANN401 - words of the language
    run = ta.load(write(folder, xspace(host(*threads))))
    (found,) = [f for f in RULE.check(run) if f.scope == "within"]
    return found


def test_one_that_keeps_up_needs_no_change(tmp_path: Path) -> None:
    found = within(tmp_path, *made_ahead(10_000, 100, 6_000))
    assert found.harm == "by_design"
    assert found.fixes == ()
    assert [e.text for e in found.evidence if e.kind == "input_wait"] == [
        "a regular step waits 0.10 ms for input, 1 % of its time"
    ]


def test_one_that_steps_wait_for_is_too_slow(tmp_path: Path) -> None:
    found = within(tmp_path, *made_ahead(10_000, 6_000, 10_000))
    assert found.harm == "harmful"
    assert "too slow on the CPU" in found.title
    (waits,) = [e.text for e in found.evidence if e.kind == "input_wait"]
    assert waits == (
        "a regular step waits 6.00 ms for input, 60 % of its time; `Root::ParallelMapV2` bounds "
        "the rate, with 10.00 ms a step"
    )
    assert [fix.code for fix in found.fixes] == [
        "dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)"
    ]


def test_of_one_that_was_hardly_recorded_nothing_is_said(tmp_path: Path) -> None:
    found = within(tmp_path, *[steps(10_000, 6_000, count=2)])
    assert found.harm == "by_design"
    assert not [e for e in found.evidence if e.kind == "input_wait"]
    assert len(found.fixes) == 1
