"""Which calls are marked as steps, and what that replaces in TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tensorflow.python.profiler import trace
from tensorflow.python.profiler.internal import _pywrap_traceme

from traceanalyzer.capturing.recorder.evidence import StepMarks

NATIVE = trace.Trace.__init__
TRAIN = "__inference_train_17"
MAIN = 0


class Marks:
    """What has been written into the trace."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.steps: list[str] = []

    def made(self, _: str, *, step_num: int, graph_type: str, _r: int) -> Mark:
        assert _r == 1
        mark = f"{graph_type} {step_num}"
        self.open.append(mark)
        return Mark(self, mark)


class Mark:
    def __init__(self, marks: Marks, text: str) -> None:
        self._marks = marks
        self._text = text

    def Stop(self) -> None:  # noqa: N802 - TensorFlow's name
        self._marks.open.remove(self._text)
        self._marks.steps.append(self._text)


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    found = Marks()
    monkeypatch.setattr(_pywrap_traceme, "TraceMe", found.made)
    return found


@pytest.fixture
def steps() -> Iterator[StepMarks]:
    found = StepMarks(None)
    found.install()
    yield found
    found.uninstall()
    assert trace.Trace.__init__ is NATIVE


def _call(steps: StepMarks, name: str = TRAIN, thread: int = MAIN, times: int = 1) -> None:
    for _ in range(times):
        steps.ended(name, thread)
        steps.began(name, thread)


def _own_step(number: int) -> Any:  # noqa: ANN401 - a context
    return trace.Trace("train", step_num=number, _r=1)


def test_steps_are_marked_from_the_third_call_on(steps: StepMarks, marks: Marks) -> None:
    steps.session_started()
    _call(steps, times=2)
    assert not marks.open
    _call(steps, times=3)
    assert (marks.steps, marks.open) == (["train 3", "train 4"], ["train 5"])


def test_a_later_session_marks_from_its_first_call_on(steps: StepMarks, marks: Marks) -> None:
    _call(steps, times=10)
    steps.session_started()
    _call(steps, times=4)
    assert marks.steps == ["train 11", "train 12", "train 13"]


def test_a_program_that_marks_its_steps_is_left_to_it(steps: StepMarks, marks: Marks) -> None:
    steps.session_started()
    for number in range(6):
        with _own_step(number):
            _call(steps)
    assert not marks.steps
    assert not marks.open
