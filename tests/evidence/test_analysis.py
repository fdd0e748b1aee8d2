"""The ops of a run on the CPU: gone through once, however many rules ask."""

from __future__ import annotations

import gc
import weakref

import pytest

from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.rules import Example


def test_a_run_is_gone_through_once() -> None:
    example = Example(title="", ops=({"name": "Eig", "type": "Eig"},))
    run, other = example.run(), example.run()

    first = analyse(run)

    assert [s.name for s in first.subjects] == ["Eig"]
    assert analyse(run).subjects is first.subjects
    assert analyse(other).subjects is not first.subjects


@pytest.mark.parametrize(
    ("input_types", "held"),
    [("?;int32;int32", []), ("int16;int32;int32", ["attributes"]), ("float;int32;int32", [])],
)
def test_an_op_is_not_held_by_a_type_that_the_trace_does_not_tell(
    input_types: str, held: list[str]
) -> None:
    """No GPU kernel takes a type without a name; but that is none the op has."""
    gathers = {"name": "GatherV2", "type": "GatherV2", "input_types": input_types}

    (subject,) = analyse(Example(title="", ops=(gathers,)).run()).subjects

    assert [h.hold.value for h in subject.case.held] == held


def test_a_run_is_not_kept_for_that() -> None:
    run = Example(title="", ops=({"name": "Eig", "type": "Eig"},)).run()
    subjects = analyse(run).subjects
    gone = weakref.ref(run)

    del run
    gc.collect()

    assert gone() is None
    assert len(subjects) == 1
