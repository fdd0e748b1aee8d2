"""What a program may choose by the GPUs that it finds is not certain where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import blocker, line
from traceanalyzer.capture_file.document import (
    OF_ANOTHER,
    OF_MACHINE,
    CaptureFile,
    CaughtError,
    Scope,
)
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.on_a_gpu import FreeChoices, differences

LINE = line(6)
CAPTURED = CaptureFile(tool="", host="h", complete=True, frames=(LINE,))
ASKS = {"gpu_questions": [["train.py", 3]]}
ERROR = CaughtError(
    where="no_device",
    type="InvalidArgumentError",
    message="Could not satisfy device specification '/device:GPU:0'. "
    "All available devices [/job:localhost/replica:0/task:0/device:CPU:0].",
    raised=(0,),
    handler=-1,
    call=None,
)


def explanation(hold: str = "request", **more: Any) -> PlacementExplanation:  # noqa: ANN401 - fields of `Blocker`
    return PlacementExplanation(
        type="MatMul",
        certainty="certain",
        blockers=(blocker(hold, "MatMul", scope_frame=LINE, **more),),
    )


def test_what_the_program_spells_out_is_as_sure_as_it_was() -> None:
    assert FreeChoices(CAPTURED).weighed(explanation()) == explanation()


def test_a_line_that_may_ask_for_another_device_is_named() -> None:
    captured = replace(CAPTURED, chosen=frozenset({0}))
    weighed = FreeChoices(captured).weighed(explanation())
    assert "train.py:6" in weighed.doubt
    assert weighed.certainty == "likely"
    (said,) = differences(captured)
    assert "at train.py:6 is computed" in said


@pytest.mark.parametrize(
    ("more", "words"), [({"devices": ASKS}, "train.py:3"), ({"errors": (ERROR,)}, "error")]
)
def test_a_program_that_goes_by_the_gpus_there_are_may_do_otherwise(
    more: dict[str, Any], words: str
) -> None:
    choices = FreeChoices(replace(CAPTURED, **more))
    for hold in ("request", "attributes"):
        weighed = choices.weighed(explanation(hold))
        assert words in weighed.doubt
        assert weighed.certainty == "likely"
    assert choices.weighed(explanation("no_kernel")) == explanation("no_kernel")  # wherever it runs


def test_a_computed_request_of_a_program_that_asks_for_gpus_is_only_possible() -> None:
    captured = replace(CAPTURED, devices=ASKS, chosen=frozenset({0}))
    words = (
        "he program asks whether there is a GPU (train.py:3), and its request for the CPU "
        "(train.py:6) is computed or conditional; on a machine with a GPU it may request the GPU "
        "instead"
    )
    weighed = FreeChoices(captured).weighed(explanation())
    assert (weighed.certainty, weighed.doubt) == ("possible", f"t{words}")
    assert [*differences(captured)] == [f"T{words}."]


def test_an_error_that_ended_the_program_was_not_handled() -> None:
    ended = replace(CAPTURED, errors=(replace(ERROR, where="program"),))
    assert FreeChoices(ended).weighed(explanation()) == explanation()


@pytest.mark.parametrize(
    ("origin", "words"), [(OF_MACHINE, "may request the GPU instead"), (OF_ANOTHER, "of a tensor")]
)
def test_why_an_op_may_stay_on_the_cpu_is_said(origin: int, words: str) -> None:
    captured = replace(
        CAPTURED,
        devices=ASKS,
        scopes=(Scope(device="/CPU:0", frame=0, origin=origin),),
        chosen=frozenset({0} if origin == OF_MACHINE else ()),
    )
    choices = FreeChoices(captured)
    assert choices.is_any_unsure
    why = choices.why_unsure(explanation())
    assert "train.py:6" in why
    assert words in why


@pytest.mark.parametrize(
    ("file", "is_unsure"), [("framework/importer.py", True), ("ops/variables.py", False)]
)
def test_an_imported_graph_may_have_been_built_without_a_gpu(file: str, *, is_unsure: bool) -> None:
    """It names the CPU in full, as `tf.device(x.device)` does on a machine without a GPU."""
    copies = line(85, is_user=False, file=f"/site-packages/tensorflow/python/{file}")
    captured = replace(
        CAPTURED,
        frames=(copies,),
        scopes=(Scope(device="/job:localhost/device:CPU:0", frame=0, origin=OF_ANOTHER),),
    )
    assert FreeChoices(captured).is_any_unsure is is_unsure
