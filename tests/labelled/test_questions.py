"""Questions that users asked in public about ops on the CPU: the answers are TensorFlow's own."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.labelled import QUESTIONS, LabelledProgram
from tests.labelled.scoring import problems, score, score_on_a_gpu

_THREAD: Final = re.compile(r"^# ([\w-]+/[\w-]+#\d+): ", re.MULTILINE)
_LEAST: Final = 30

each_program = pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=pytest.mark.slow, id=p.name) for p in QUESTIONS],
)


def test_there_are_thirty() -> None:
    threads = {thread for p in QUESTIONS for thread in _THREAD.findall(p.path.read_text())}
    assert len(threads) >= _LEAST


@each_program
def test_tensorflow_confirms_the_expected_answers(program: LabelledProgram) -> None:
    assert problems(program) == []


@each_program
def test_each_is_answered_with_a_gpu(program: LabelledProgram) -> None:
    found = score(program)
    assert found.right == found.ops, found.misses
    assert found.wrong_certain == 0


@each_program
def test_each_is_answered_without_one(program: LabelledProgram) -> None:
    kinds, right, wrong = score_on_a_gpu(program)
    assert kinds
    assert right == kinds, wrong
