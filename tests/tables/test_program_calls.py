"""Steps inferred from what repeats: exactly, or not at all."""

from typing import Any

import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    Event,
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    line,
    op,
    stream,
    thread,
    us,
)

US = 10**6


def steps(*planes: Any) -> list[tuple]:  # noqa: ANN401  # words of the language
    """Name, start and duration in microseconds, source and kind of each step; all are inferred."""
    table = tables_of(*planes).steps
    assert table["is_inferred"].all()
    assert table["step"].tolist() == list(range(len(table)))
    table = table.assign(start=table["start_ps"] / US, duration=table["duration_ps"] / US)
    return rows(table, "name", "start", "duration", "source", "kind")


def sequence(text: str) -> list[Event]:
    """Ops and calls, one each 10 us, 8 us long: `f` to `h` are functions, other letters ops."""
    return [
        call(f"__inference_{letter}_1", us(10 * k, 8))
        if letter in "fgh"
        else eager(f"Op{letter}", us(10 * k, 8))
        for k, letter in enumerate(text)
        if letter != " "
    ]


def of(text: str) -> list[tuple]:
    return steps(host(line("python")(*sequence(text))))


def test_a_function_called_over_and_over() -> None:
    assert of("fff") == [
        ("f", 0.0, 10.0, "function calls", "regular"),
        ("f", 10.0, 10.0, "function calls", "regular"),
        ("f", 20.0, 8.0, "function calls", "partial"),
    ]


@pytest.mark.parametrize(("times", "duration_us", "number"), [(5, 8, 0), (5, 90, 5), (12, 8, 12)])
def test_a_few_short_calls_after_all_else_are_no_steps(
    times: int, duration_us: int, number: int
) -> None:
    """Such as those that try out a saved model, at the end of a long program."""
    before = [eager(f"Op{k}", us(100 * k, 80)) for k in range(40)]
    variable = eager("VarHandleOp", us(4000, 8))
    each_us = duration_us + 2
    calls = [call("__inference_f_1", us(4010 + each_us * k, duration_us)) for k in range(times)]

    assert len(steps(host(line("python")(*before, variable, *calls)))) == number


def test_ops_that_repeat_exactly() -> None:
    assert of("abc abc abc ab") == [
        ("3 ops", 0.0, 40.0, "repeated ops", "regular"),
        ("3 ops", 40.0, 40.0, "repeated ops", "regular"),
        ("3 ops", 80.0, 40.0, "repeated ops", "regular"),
        ("3 ops", 120.0, 18.0, "repeated ops", "partial"),
    ]


def test_a_step_that_does_more_now_and_then_is_one_step() -> None:
    # Not four steps, after which something is logged.
    found = of("abcd abcd abcd abcdxy" * 3 + "abcd abcd")

    assert {row[0] for row in found} == {"4 ops"}
    assert [row[1] for row in found][:6] == [0.0, 50.0, 100.0, 150.0, 210.0, 260.0]
    assert len(found) == 14


def test_a_loop_after_a_set_up() -> None:
    """An op that comes several times in each turn, in short pieces and a long one, begins none."""
    made = [eager("VarHandleOp", us(10 * k, 8)) for k in range(20)]
    turns = enumerate("abcdeaijakl" * 10)
    loop = [eager(f"Op{letter}", us(1000 + 10 * k, 8)) for k, letter in turns]

    found = steps(host(line("python")(*made, *loop)))

    assert len(found) == 10
    assert {row[0] for row in found} == {"11 ops"}
    assert [row[2] for row in found][:9] == [110.0] * 9


def test_what_is_done_for_each_variable_in_a_step_is_no_step() -> None:
    found = of(("abcdeijk" + "vw" * 20) * 3)

    assert [row[:2] for row in found] == [("48 ops", 0.0), ("48 ops", 480.0), ("48 ops", 960.0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f",
        "ff",  # twice may be chance
        "aaaaaaaaaa",  # a loop over one op
        "abc abd abc abe abc abf",  # each time another
        "ab ab ab ab ab klmnopq",  # a loop, and the rest of the step
        "abcdeijk" + "vw" * 20,  # one step with many variables
        "fffffa fffffa fffffa fffff",  # a step of five calls, or five steps and a summary?
        "fa fgb fa fgb fga fa fgc fa",  # another function, irregularly
    ],
)
def test_nothing_is_better_than_something_wrong(text: str) -> None:
    assert of(text) == []


def test_a_loop_within_a_call_makes_no_steps() -> None:
    assert not steps(
        host(
            line("python")(call("__inference_f_1", us(0, 900), step=5)),
            thread("tf_Compute", 1)(
                executor(us(5, 880), step=5)(
                    *(op(f"{n}_{k}", n, us(10 + 20 * k, 8)) for k in range(40) for n in ("Mul",))
                )
            ),
        ),
        gpu(0)(
            stream(7, "Compute")(
                kernel(name, us(20 * k + at, 8)) for k in range(40) for name, at in GEMM_AND_RELU
            )
        ),
    )


GEMM_AND_RELU = (("gemm", 0), ("relu", 10))


# ------------------------------------------------------------------- sessions of TensorFlow 1


def of_session(program: str) -> list[tuple]:
    """Runs of the main thread, one each 10 us."""
    w, mm, q = ("w", "VariableV2"), ("mm", "MatMul"), ("queue", "FIFOQueueV2")
    runs = {"t": (w, mm), "d": (q,), "l": (w,)}
    ran = [
        executor(us(10 * k, 8), step=k, context=k)(
            op(name, type_, us(10 * k + at, 1)) for at, (name, type_) in enumerate(runs[letter])
        )
        for k, letter in enumerate(program, 1)
    ]
    started = [event("SessionRun", us(10 * k, 8), id=k, _r=1) for k in range(1, len(program) + 1)]
    return steps(host(line("python")(*started), thread("tf_Compute", 1)(*ran)))


def test_different_runs_of_a_session_in_turn_are_one_step() -> None:
    found = of_session("dtdtdtdt")
    assert [row[:3] for row in found] == [
        ("2 ops", 10.0, 20.0),
        ("2 ops", 30.0, 20.0),
        ("2 ops", 50.0, 20.0),
        ("2 ops", 70.0, 18.0),
    ]


def test_what_is_run_now_and_then_does_not_make_one_step_of_many_runs() -> None:
    assert len(of_session("tttd" * 5)) == 20


def test_a_run_shows_fewer_ops_once_they_are_known_to_be_cheap() -> None:
    assert len(of_session("dtdtdtdldldldldldl")) == 9
