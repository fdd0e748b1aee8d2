from __future__ import annotations

import math

import pytest

from traceanalyzer.report.page.axes import size_ticks, time_ticks


def test_marks_are_round_and_have_their_unit() -> None:
    marks = time_ticks(15_000.0)
    assert [mark.label for mark in marks] == ["0", "5\xa0ms", "10\xa0ms", "15\xa0ms"]
    assert [mark.at for mark in marks] == [0, 0.33333, 0.66667, 1]
    assert [m.label for m in size_ticks(8e9)] == ["0", *(f"{k}\xa0GB" for k in (2, 4, 6, 8))]


@pytest.mark.parametrize("highest", [1e-3, 0.3, 0.999, 1, 7, 99.9, 1234.5, 6e7, 3e12, 1e300])
@pytest.mark.parametrize("parts", [2, 3])
def test_there_are_as_many_as_have_room(highest: float, parts: int) -> None:
    marks = time_ticks(highest, parts)
    assert parts + 1 <= len(marks) <= 3 * parts + 1
    assert [mark.at for mark in marks] == sorted({mark.at for mark in marks})
    assert all(0 <= mark.at <= 1 for mark in marks)


@pytest.mark.parametrize("highest", [0.0, -5.0, math.nan, math.inf])
def test_an_axis_of_nothing_has_its_zero(highest: float) -> None:
    assert [mark.label for mark in time_ticks(highest)] == ["0"]
