"""What a program may choose by the GPUs that it finds is not certain where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.differences import differences
from traceanalyzer.evidence.examples import held, line
from traceanalyzer.evidence.free_choices import FreeChoices
from traceanalyzer.sidecar.document import CaughtError, Sidecar

LINE = line(6)
CAPTURED = Sidecar(tool="", host="h", complete=True, frames=(LINE,))
ERROR = CaughtError(
    where="no_device",
    type="InvalidArgumentError",
    message="Could not satisfy device specification '/device:GPU:0'. "
    "All available devices [/job:localhost/replica:0/task:0/device:CPU:0].",
    raised=(0,),
    handler=-1,
    call=None,
)


def case(hold: str = "request", **more: Any) -> Case:  # noqa: ANN401 - fields of `Held`
    return Case(type="MatMul", held=(held(hold, "MatMul", scope_frame=LINE, **more),))


def test_what_the_program_spells_out_is_as_sure_as_it_was() -> None:
    assert FreeChoices(CAPTURED).doubt(case()) == ""


def test_a_line_that_may_ask_for_another_device_is_named() -> None:
    captured = replace(CAPTURED, chosen=frozenset({0}))
    assert "train.py:6" in FreeChoices(captured).doubt(case())
    (said,) = differences(captured)
    assert "at train.py:6 is computed" in said


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"devices": {"gpu_questions": [["train.py", 3]]}}, "train.py:3"),
        ({"errors": (ERROR,)}, "error"),
    ],
)
def test_a_program_that_goes_by_the_gpus_there_are_may_do_otherwise(
    more: dict[str, Any], words: str
) -> None:
    choices = FreeChoices(replace(CAPTURED, **more))
    assert words in choices.doubt(case())
    assert words in choices.doubt(case("attributes"))
    assert choices.doubt(case("no_kernel")) == ""  # on the CPU wherever it runs


def test_an_error_that_ended_the_program_was_not_handled() -> None:
    ended = replace(CAPTURED, errors=(replace(ERROR, where="program"),))
    assert FreeChoices(ended).doubt(case()) == ""
