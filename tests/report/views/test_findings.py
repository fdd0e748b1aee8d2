from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.examples import gpu_run
from traceanalyzer.model import Blocker
from traceanalyzer.report.views.findings import cause_title, kept_by_several


def test_causes_in_words() -> None:
    assert cause_title("no_gpu_visible") == "no GPU visible"


@pytest.mark.parametrize(
    ("sufficient", "ops", "said"),
    [
        ([True], 1, ""),
        ([True, True], 1, "Two causes keep it, each by itself: it moves when all are gone"),
        ([True, False], 1, "Two causes keep it: it moves when all are gone"),
        ([True] * 3, 2, "3 causes keep them, each by itself: they move when all are gone"),
    ],
)
def test_what_several_causes_mean(sufficient: list[bool], ops: int, said: str) -> None:
    blockers = tuple(
        Blocker(cause=f"cause_{n}", certainty="certain", sufficient=is_enough, evidence=())
        for n, is_enough in enumerate(sufficient)
    )
    finding = replace(gpu_run().findings[0], blockers=blockers, ops_total=ops)
    finding = replace(finding, ops=finding.ops[:ops])
    assert kept_by_several(finding) == said
