"""The labelled programs: TensorFlow confirms the labels, and the rules name their causes.

All tests are in one file, so that one process captures each program once for all of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from tests.labelled import BARE, HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.calibration import Calibration, calibrated
from tests.labelled.scoring import (
    Score,
    clean_alarms,
    problems,
    score,
    score_found_on_a_gpu,
    score_listed,
    score_on_a_gpu,
)
from traceanalyzer.causes import all_causes

_ALL: Final = (*PROGRAMS, *HELD_OUT)
_FAST: Final = {"word_scores"}
_NOT_LABELLED: Final = {
    "host_memory_kernel",  # placed on the GPU, so no label of an op on the CPU
    "inside_dataset",  # tests/twin/programs/dataset_reduce.py and loop_over_dataset.py
    "xla_not_whole",  # an error comes first: tests/causes/test_xla_not_whole.py
}
_THREAD: Final = re.compile(r"^# ([\w-]+/[\w-]+#\d+): ", re.MULTILINE)


def _each(programs: Sequence[LabelledProgram]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "program",
        [
            pytest.param(p, marks=[] if p.name in _FAST else pytest.mark.slow, id=p.name)
            for p in programs
        ],
    )


def test_each_cause_has_labels_and_users_asked_thirty_of_the_questions() -> None:
    causes = Counter(c for p in _ALL for c in {i for label in p.labels for i in label.ids})
    known = {cause.id for cause in all_causes()}
    assert causes.keys() <= known
    assert {cause for cause in known - _NOT_LABELLED if causes[cause] < 2} == set()
    assert sum(any(len(label.ids) > 1 for label in p.labels) for p in _ALL) >= 10
    assert sum(p.is_clean for p in _ALL) >= 10
    assert len({t for p in QUESTIONS for t in _THREAD.findall(p.source)}) >= 30


@_each([*_ALL, *QUESTIONS, *BARE])
def test_tensorflow_confirms_the_labels(program: LabelledProgram) -> None:
    assert problems(program) == []


@_each([*_ALL, *QUESTIONS])
def test_no_certain_cause_is_wrong(program: LabelledProgram) -> None:
    for found in (score(program), calibrated(program, 2)):
        assert found.wrong_certain == 0, found.misses


@_each([*_ALL, *QUESTIONS])
def test_every_op_on_the_cpu_is_listed(program: LabelledProgram) -> None:
    found = score_listed(program)
    assert found.right == found.ops, found.misses


@_each([p for p in _ALL if p.is_clean])
def test_nothing_in_a_clean_program_is_called_harmful(program: LabelledProgram) -> None:
    assert clean_alarms(program) == []


@_each(QUESTIONS)
def test_each_question_is_answered_with_a_gpu_and_without_one(program: LabelledProgram) -> None:
    for found in (score(program), score_on_a_gpu(program)):
        assert found.ops
        assert found.right == found.ops, found.misses


@pytest.mark.slow
@pytest.mark.parametrize("programs", [PROGRAMS, HELD_OUT], ids=["programs", "held_out"])
@pytest.mark.parametrize(
    ("scored", "least_share"),
    [
        pytest.param(score, 0.99, id="captured on a GPU: the causes are the label's"),
        pytest.param(
            lambda program: score(program, has_trace=False), 0.99, id="the same without the trace"
        ),
        pytest.param(
            lambda program: score_listed(program, has_trace=False), 0.98, id="ops without a trace"
        ),
        pytest.param(
            score_found_on_a_gpu, 0.98, id="captured without a GPU: the ops on the CPU are found"
        ),
        pytest.param(score_on_a_gpu, 0.98, id="captured without a GPU: which ops are on the CPU"),
    ],
)
def test_nearly_all_answers_are_right(
    programs: Sequence[LabelledProgram],
    scored: Callable[[LabelledProgram], Score],
    least_share: float,
) -> None:
    found = sum(map(scored, programs), start=Score())
    print(f"{found.right} of {found.ops}")  # noqa: T201 - the score
    assert found.right >= least_share * found.ops, found.misses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("programs", "level", "least_explained"),
    [
        pytest.param(PROGRAMS, 2, 0.70, id="programs, level 2"),
        pytest.param((*HELD_OUT, *QUESTIONS), 2, 0.70, id="held out, level 2"),
        pytest.param(BARE, 2, 0.80, id="bare, level 2"),
        pytest.param(BARE, 3, 0.80, id="bare, level 3"),
    ],
)
def test_a_trace_alone_explains_most_ops_and_is_nearly_always_right(
    programs: Sequence[LabelledProgram], level: int, least_explained: float
) -> None:
    found = sum((calibrated(program, level) for program in programs), start=Calibration())
    print(found)  # noqa: T201 - the calibration
    assert found.wrong_certain == 0, found.misses
    assert found.answered >= least_explained * found.ops
    assert found.as_shown >= 0.95 * found.answered, found.misses
