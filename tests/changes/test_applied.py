"""Changes applied with `patch`: the edited programs run, and TensorFlow puts the ops on the GPU."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from tests.changes.applied import applied, only_found
from tests.labelled import HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram

_SMALL: Final = tomllib.loads(
    Path(__file__).with_name("programs.toml").read_text(encoding="utf-8")
)["program"]
_QUICK: Final = {"a scatter whose updates have the variable's dtype"}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, marks=[] if p["title"] in _QUICK else pytest.mark.slow, id=p["title"])
        for p in _SMALL
    ],
)
def test_the_edits_of_a_small_program_move_its_ops_and_keep_its_results(
    program: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(program["source"].removeprefix("\n"), encoding="utf-8")

    found = applied(LabelledProgram(path))

    edits = [edit for change in found.changes for edit in change.edits]
    assert {(edit.file, edit.line) for edit in edits} == {
        ("train.py", line) for line in program["places"]
    }
    assert {change.is_verified for change in found.changes} == {program.get("is_verified", True)}
    assert found.left == {}
    assert found.printed_after == found.printed_before != ""


_NO_DIFF: Final = """
import tensorflow as tf

visits = tf.Variable([0, 0])
rooms = tf.constant([1, 2])
prices = tf.constant([1, 2], tf.int64)


def product(a, b):
    return tf.matmul(a, b)


@tf.function
def step(x):
    visits.assign_add([1, 2])
    total = tf.math.bincount(rooms, weights=prices)
    best = tf.math.segment_sum(prices * 2**53 + 1, [0, 0])
    return product(x, x), product(tf.cast(x, tf.float32), tf.ones([2, 2])), total, best


for _ in range(2):
    step(tf.ones([2, 2], tf.int32))
    print((visits + rooms).numpy())
"""


def test_lines_that_another_dtype_may_break_have_no_diff(tmp_path: Path) -> None:
    """An eager op adds to a variable; a function gets several dtypes; weights; large values."""
    path = tmp_path / "train.py"
    path.write_text(_NO_DIFF.removeprefix("\n"), encoding="utf-8")

    found = only_found(LabelledProgram(path)).all_changes

    places = {change.place[1] for change in found if change.place}
    assert {3, 9, 15, 16} <= places
    assert not [change.title for change in found if change.edits]


_LABELLED: Final = {p.name: p for p in (*PROGRAMS, *HELD_OUT, *QUESTIONS)}
_EXPECTED: Final = tomllib.loads(
    Path(__file__).with_name("labelled.toml").read_text(encoding="utf-8")
)


def test_edits_are_applied_to_forty_programs() -> None:
    assert len(_SMALL) + sum(each["is_edited"] for each in _EXPECTED.values()) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("name", _EXPECTED)
def test_the_changes_of_a_labelled_program_come_first(name: str) -> None:
    """Their places are the lines to edit; `test_every_diff` applies their edits."""
    expected, program = _EXPECTED[name], _LABELLED[name]

    found = only_found(program).all_changes

    first = [each for each in found[:3] if each.is_by_placement]
    places = {each.place for each in first if each.kind != "gpu"}
    assert first
    assert places <= {(program.path.name, line) for line in expected["lines"]}
    if expected["is_edited"]:
        assert any(each.edits for each in found)
