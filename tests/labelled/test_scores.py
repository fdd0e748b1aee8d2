"""What the rules say of the labelled programs: the right causes, and never a wrong certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.labelled import HELD_OUT, PROGRAMS
from tests.labelled.scoring import clean_alarms, score, score_bare, score_on_a_gpu, total

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.labelled import LabelledProgram

_ALL = (*PROGRAMS, *HELD_OUT)
_FAST = {"word_scores"}
_LEAST_RIGHT = 0.98
_LEAST_AMONG = 0.90

each_program = pytest.mark.parametrize(
    "program",
    [pytest.param(p, marks=[] if p.name in _FAST else pytest.mark.slow, id=p.name) for p in _ALL],
)

each_set = pytest.mark.parametrize(
    "programs",
    [pytest.param(PROGRAMS, id="programs"), pytest.param(HELD_OUT, id="held_out")],
)


@each_program
def test_no_certainty_is_wrong(program: LabelledProgram) -> None:
    found = score(program)
    assert found.wrong_certain == 0, found.misses


@each_program
@pytest.mark.parametrize("level", [2, 3])
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
