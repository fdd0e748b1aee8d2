"""The reports of four slow input pipelines name the slow stage and the fix.

Whether the fix gains as much as predicted is for `python -m tests.performance.predict_gain`.
"""

import re

import pytest

from tests.performance.predict_gain import FIXES, PIPELINES, predicted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stage", "line"),
    [
        ("slow_map", r".*MapAndBatch", "    dataset = dataset.map(read)"),
        ("no_prefetch", r"Root::Map", ".batch(2).map(read)"),
        ("no_cache", r".*(ParallelMapV2|MapAndBatch)", ".map(read, num_parallel_calls"),
        ("generator", r".*::Generator", None),  # TensorFlow makes a generator's dataset
    ],
)
def test_names_the_slow_stage_and_its_fix(name: str, stage: str, line: str | None) -> None:
    found = predicted(name, steps=40)

    assert found.verdict == "too_slow"
    fix = next(fix for fix in found.fixes if fix.kind != "rewrite")  # they read in Python
    assert fix.kind == FIXES[name]
    (host,) = found.hosts
    assert host.slow_stage is not None
    assert re.fullmatch(stage, host.slow_stage)
    high, wait = fix.gain_us_per_step.high, host.wait_mean_us
    assert high is not None
    assert wait is not None
    assert 0 <= high <= wait
    if line is not None:
        source = (PIPELINES / f"{name}.py").read_text(encoding="utf-8").splitlines()
        (number,) = [k for k, text in enumerate(source, start=1) if line in text]
        sources = {row["stage"]: row["source"] for row in found.stages.records()}
        assert sources[host.slow_stage] == f"{name}.py:{number}"
    # Reading takes a step's elements 40 ms, a step 25: most of the 15 ms between can be gained.
    assert high > 7_000
