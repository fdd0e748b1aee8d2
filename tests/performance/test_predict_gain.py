"""What the reports of four slow pipelines predict; whether it comes true is for `predict_gain`."""

from __future__ import annotations

import re

import pytest

from tests.performance.predict_gain import CASES, Case, predicted

_SLOW_STAGES = {
    "slow_map": r".*MapAndBatch",
    "no_prefetch": r"Root::Map",
    "no_cache": r".*(ParallelMapV2|MapAndBatch)",
    "generator": r".*::Generator",
}
# What stands in the line that makes the slow stage; a generator's dataset is made by TensorFlow.
_MADE_BY = {
    "slow_map": "    dataset = dataset.map(read)",
    "no_prefetch": ".batch(2).map(read)",
    "no_cache": ".map(read, num_parallel_calls",
    "generator": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_slow_pipeline_is_told_with_its_stage_and_its_fix(case: Case) -> None:
    found = predicted(case, steps=40)

    assert found.verdict == "too_slow"
    assert found.cure == case.cure
    assert found.slow_stage is not None
    assert re.fullmatch(_SLOW_STAGES[case.name], found.slow_stage)
    assert found.low_us is not None
    assert found.high_us is not None
    assert found.wait_us is not None
    assert 0 <= found.low_us <= found.high_us <= found.wait_us
    if text := _MADE_BY[case.name]:
        lines = case.script.read_text(encoding="utf-8").splitlines()
        (number,) = [k for k, line in enumerate(lines, start=1) if text in line]
        assert found.line == f"{case.name}.py:{number}"
    # Reading takes a step's elements 40 ms, a step 25: most of the 15 ms between can be gained.
    assert found.high_us > 7_000
