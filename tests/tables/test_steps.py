"""Steps, from whatever marks them."""

from __future__ import annotations

from typing import Any

from tests.tables.reading import rows, tables_of
from tests.traces import (
    event,
    gpu,
    host,
    keras_step,
    line,
    old_steps,
    plane,
    ps,
    ref,
    step,
    stream,
    us,
)

US = 10**6
COLUMNS = ("step", "name", "start_ps", "duration_ps", "source")


def steps(*planes: Any) -> list[tuple]:  # noqa: ANN401  # words of the language
    return rows(tables_of(*planes).steps, *COLUMNS)


def test_a_marker_is_an_event_with_a_step_number() -> None:
    assert steps(
        host(
            line("python")(
                step(3, us(0, 10)),
                keras_step(4, us(20, 5)),
                event("Profiled batch", us(30, 2), step_num=5),  # Keras 3 gives it no `_r`
                event("FunctionRun", us(40, 2), _r=1),
            )
        )
    ) == [
        (3, "train", 0, 10 * US, "step_num"),
        (4, "train", 20 * US, 5 * US, "step_num"),
        (5, "Profiled batch", 30 * US, 2 * US, "step_num"),
    ]


def test_of_nested_markers_the_outermost_counts() -> None:
    assert steps(
        host(
            line("python")(
                step(1, us(0, 10))(keras_step(1, us(1, 5))(step(1, us(2, 1), name="inner"))),
                step(2, us(10, 10)),
            )
        )
    ) == [(1, "train", 0, 10 * US, "step_num"), (2, "train", 10 * US, 10 * US, "step_num")]


def test_steps_come_in_order_of_time_from_several_threads() -> None:
    assert [
        row[:3]
        for row in steps(
            host(
                line("b")(step(2, us(50, 1), name="eval")),
                line("a", at_ns=1000)(step(1, us(0, 1))),
            )
        )
    ] == [(1, "train", 1 * US), (2, "eval", 50 * US)]


def test_the_line_that_older_profilers_added_serves_where_nothing_marks_steps() -> None:
    assert steps(
        host(line("python")(event("FunctionRun", us(0, 90), _r=1))),
        gpu(0)(
            stream(7, "Compute"),
            old_steps(("train 500", us(0, 10)), ("train 501", us(12, 8))),
        ),
    ) == [
        (0, "train", 0, 10 * US, "line Steps"),
        (1, "train", 12 * US, 8 * US, "line Steps"),
    ]


def test_a_step_spans_what_all_devices_did_in_it() -> None:
    assert steps(
        gpu(0)(old_steps(("train 500", us(0, 10)), ("train 501", us(12, 8)))),
        gpu(1)(old_steps(("train 500", us(2, 11)), ("train 501", us(14, 3)))),
    ) == [
        (0, "train", 0, 13 * US, "line Steps"),
        (1, "train", 12 * US, 8 * US, "line Steps"),
    ]


def test_markers_are_preferred_to_the_line() -> None:
    assert [
        row[-1]
        for row in steps(
            host(line("python")(step(7, us(0, 10)))),
            gpu(0)(old_steps(("0", us(0, 10)))),
        )
    ] == ["step_num"]


def test_a_step_line_whose_events_are_named_oddly() -> None:
    assert steps(
        gpu(0)(
            line("Steps")(
                event("warm up", us(0, 1)),
                event("9" * 30, us(2, 1)),
                event("", us(4, 1), step_name=ref("x")),
            )
        )
    ) == [
        (0, "warm up", 0, US, "line Steps"),
        (1, "step", 2 * US, US, "line Steps"),
        (2, "x", 4 * US, US, "line Steps"),
    ]


def test_without_any_there_are_none() -> None:
    assert steps(host(line("python")(event("FunctionRun", us(0, 9), _r=1)))) == []
    assert steps(plane("/host:metadata")) == []


def test_numbers_beyond_reason_do_not_crash() -> None:
    found = steps(
        host(
            line("python")(
                event("train", ps(0, 5), step_num=-3),
                event("train", ps(9, 5), step_num=2**63 - 1),
                event("train", ps(20, 5), step_num=1.0e300),
                event("train", ps(30, 5), step_num="not a number"),
            )
        )
    )

    assert [row[0] for row in found] == [-3, 2**63 - 1]
