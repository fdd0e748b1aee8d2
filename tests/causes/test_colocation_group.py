"""Where the evidence for a colocation is."""

import pytest

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes.colocation_group import match as match_of
from traceanalyzer.model import CaptureFileWhere
from traceanalyzer.placement.explanations import PlacementExplanation


@pytest.mark.parametrize("inferred_from", ["", "it belongs to update/ScatterSub"])
def test_only_what_a_capture_recorded_is_said_to_be_recorded(inferred_from: str) -> None:
    explanation = PlacementExplanation(type="Mul", inferred_from=inferred_from)
    on_cpu = blocker(
        "resource",
        "ScatterSub",
        link="class",
        name="update/ScatterSub",
        requested_device="/device:CPU:0",
    )

    match = match_of(cpu_op("Mul", explanation=explanation), on_cpu)

    assert match is not None
    is_recorded = [isinstance(each.where, CaptureFileWhere) for each in match.evidence]
    assert is_recorded == [not inferred_from] * 2
