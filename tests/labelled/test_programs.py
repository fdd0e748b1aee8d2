"""The labelled programs: TensorFlow bears the labels out, and the rules name their causes.

All tests are in one file, so that one process captures each program once for all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.labelled import HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.scoring import (
    clean_alarms,
    problems,
    score,
    score_bare,
    score_on_a_gpu,
    total,
)
from traceanalyzer.causes import all_causes

if TYPE_CHECKING:
    from collections.abc import Sequence

_ALL: Final = (*PROGRAMS, *HELD_OUT)
_FAST: Final = {"word_scores"}
_NOT_LABELLED: Final = {
    "host_memory_kernel",  # placed on the GPU, so no label of an op on the CPU
    "inside_dataset",  # tests/twin/programs/dataset_reduce.py and loop_over_dataset.py
    "xla_not_whole",  # of an error first; tests/rules/test_xla_not_whole.py has programs of its own
}
_THREAD: Final = re.compile(r"^# ([\w-]+/[\w-]+#\d+): ", re.MULTILINE)
_LEAST_RIGHT: Final = 0.98
_LEAST_AMONG: Final = 0.90


def _each(programs: Sequence[LabelledProgram]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "program",
        [
            pytest.param(p, marks=[] if p.name in _FAST else pytest.mark.slow, id=p.name)
            for p in programs
        ],
    )


each_set = pytest.mark.parametrize(
    "programs",
    [pytest.param(PROGRAMS, id="programs"), pytest.param(HELD_OUT, id="held_out")],
)


def test_each_cause_has_labels_and_users_asked_thirty_of_the_questions() -> None:
    causes = Counter(c for p in _ALL for c in {i for label in p.labels for i in label.ids})
    known = {rule.id for rule in all_causes()}
    assert causes.keys() <= known
    assert {cause for cause in known - _NOT_LABELLED if causes[cause] < 2} == set()
    assert sum(any(len(label.ids) > 1 for label in p.labels) for p in _ALL) >= 10
    assert sum(p.is_clean for p in _ALL) >= 10
    assert len({t for p in QUESTIONS for t in _THREAD.findall(p.path.read_text())}) >= 30


@_each([*_ALL, *QUESTIONS])
def test_tensorflow_bears_the_labels_out(program: LabelledProgram) -> None:
    assert problems(program) == []


@_each([*_ALL, *QUESTIONS])
def test_no_certainty_is_wrong(program: LabelledProgram) -> None:
    found = score(program)
    assert found.wrong_certain == 0, found.misses


@pytest.mark.parametrize("level", [2, pytest.param(3, marks=pytest.mark.slow)])
@_each(_ALL)
def test_nor_from_the_trace_alone(program: LabelledProgram, level: int) -> None:
    found = score_bare(program, level)
    assert found.wrong_certain == 0, found.misses


@pytest.mark.slow
@pytest.mark.parametrize("program", [p for p in _ALL if p.is_clean], ids=lambda p: p.name)
def test_where_nothing_is_wrong_nothing_is_called_harmful(program: LabelledProgram) -> None:
    assert list(clean_alarms(program)) == []


@pytest.mark.slow
@each_set
def test_the_causes_are_the_labels(programs: Sequence[LabelledProgram]) -> None:
    scores = [score(program) for program in programs]
    found = total(scores)
    print(found)  # noqa: T201 - the score
    assert found["right"] >= _LEAST_RIGHT * found["ops"], [m for s in scores for m in s.misses]


@pytest.mark.slow
@each_set
@pytest.mark.parametrize("level", [2, 3])
def test_of_the_trace_alone_the_cause_is_among_four(
    programs: Sequence[LabelledProgram], level: int
) -> None:
    """What falls short: a trace tells nothing of errors that a program caught, of optimizers that
    it switched on, and of other tasks where devices are not named.
    """
    scores = [score_bare(program, level) for program in programs]
    found = total(scores)
    print(found, "named on average:", found["named"] / found["ops"])  # noqa: T201 - the score
    assert found["among"] >= _LEAST_AMONG * found["ops"], [m for s in scores for m in s.misses]


@pytest.mark.slow
@each_set
def test_without_a_gpu_it_is_told_what_would_be_on_the_cpu(
    programs: Sequence[LabelledProgram],
) -> None:
    found = [score_on_a_gpu(program) for program in programs]
    kinds, right = (sum(each[k] for each in found) for k in (0, 1))
    print(f"{right} of {kinds} kinds of ops")  # noqa: T201 - the score
    assert right >= _LEAST_RIGHT * kinds, [m for each in found for m in each[2]]


@_each(QUESTIONS)
def test_each_question_is_answered_with_a_gpu_and_without_one(program: LabelledProgram) -> None:
    found = score(program)
    assert found.right == found.ops, found.misses
    kinds, right, wrong = score_on_a_gpu(program)
    assert kinds
    assert right == kinds, wrong
