"""Steps, from whatever marks them; warm-up, outliers, and what the recording cut."""

from typing import Any

import numpy as np
import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    Event,
    call,
    event,
    executor,
    gpu,
    host,
    keras_step,
    kernel,
    launch,
    line,
    old_steps,
    plane,
    ps,
    ref,
    step,
    stream,
    thread,
    us,
)
from traceanalyzer.tables.steps import step_kinds

US = 10**6
COLUMNS = ("step", "name", "start_ps", "duration_ps", "source")


def steps(*planes: Any) -> list[tuple]:  # noqa: ANN401  # words of the language
    return rows(tables_of(*planes).steps, *COLUMNS)


def in_us(*planes: Any) -> list[tuple]:  # noqa: ANN401  # as above
    """Number, name, start and duration in microseconds, source and kind of each step."""
    table = tables_of(*planes).steps
    table = table.assign(start=table["start_ps"] / US, duration=table["duration_ps"] / US)
    return rows(table, "step", "name", "start", "duration", "source", "kind")


def keras_call(name: str, start: float, duration: float, counter: int = 12) -> Event:
    """A call as Keras makes it: Python's own event is around it."""
    return event(name, us(start, duration), tf_function_call=ref("notTraced-nonXla"))(
        call(f"__inference_{name}_{counter}", us(start + 1, duration - 1))
    )


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


@pytest.mark.parametrize(("duration_us", "found"), [(8, {"prepare"}), (90, {"train"})])
def test_what_a_capture_marked_gives_way_to_a_function_that_takes_longer(
    duration_us: int, found: set[str]
) -> None:
    """The capture marks the first function that repeats, before it sees the others."""
    marks = [
        event("step", us(20 * k, 20), graph_type=ref("prepare"), step_num=k, _r=1) for k in range(5)
    ]
    prepares = [call("__inference_prepare_1", us(20 * k, 8)) for k in range(5)]
    trains = [call("__inference_train_2", us(100 + 100 * k, duration_us)) for k in range(9)]

    table = steps(host(line("python")(*marks, *prepares, *trains)))

    assert {name for _, name, *_ in table} == found


def test_the_line_that_older_profilers_added_serves_where_nothing_marks_steps() -> None:
    assert steps(
        host(line("python")(event("FunctionRun", us(0, 90), _r=1))),
        gpu(0)(stream(7, "Compute"), old_steps(("train 500", us(0, 10)), ("train 501", us(12, 8)))),
    ) == [(0, "train", 0, 10 * US, "line Steps"), (1, "train", 12 * US, 8 * US, "line Steps")]


def test_a_step_that_two_gpus_did_in_turn_does_not_last_from_one_to_the_other() -> None:
    assert steps(
        gpu(0)(old_steps(("train 500", us(0, 10)))), gpu(1)(old_steps(("train 500", us(300, 12))))
    ) == [(0, "train", 0, 10 * US, "line Steps"), (0, "train", 300 * US, 12 * US, "line Steps")]


def test_the_steps_of_tpus_are_what_they_run_and_not_what_the_host_calls_long_before() -> None:
    """The host runs ahead: by its calls, the first steps would be short, and others idle."""

    def tpu(number: int, late: float) -> Any:  # noqa: ANN401  # a word of the language
        ran = (event(f"jit_f({122 + k})", us(100 + 50 * k + late, 40)) for k in range(3))
        return plane(f"/device:TPU:{number}", line("XLA Modules")(*ran))

    calls = (event("PjitFunction(f)", us(5 * k, 4)) for k in range(3))
    assert in_us(host(line("python")(*calls)), tpu(0, 0), tpu(1, 2)) == [
        (0, "jit_f", 100.0, 52.0, "XLA modules", "regular"),
        (1, "jit_f", 150.0, 52.0, "XLA modules", "regular"),
        (2, "jit_f", 200.0, 42.0, "XLA modules", "partial"),
    ]


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


# ------------------------------------------------------------------ markers that are not all


class TestKerasFunctions:
    def test_that_is_by_the_clock_of_the_host(self) -> None:
        """The device's is early by 40 us: what ends at 35 by it does so at 75."""
        assert in_us(
            host(
                line("python")(keras_call("train_function", 50, 20)),
                thread("tf_Compute", 7)(
                    launch(us(52, 2), correlation=3), launch(us(55, 2), correlation=4)
                ),
            ),
            gpu(0)(
                stream(7, "Compute")(
                    kernel("gemm", us(12, 2), correlation=3),
                    kernel("gemm", us(15, 20), correlation=4),
                )
            ),
        ) == [(0, "train", 50.0, 25.0, "Keras function", "regular")]

    def test_one_lasts_until_the_next_of_any_kind(self) -> None:
        found = in_us(
            host(
                line("python")(
                    keras_call("train_function", 0, 50),
                    keras_call("train_function", 60, 50),
                    keras_call("test_function", 200, 50, counter=20),
                    keras_call("train_function", 300, 50),
                )
            )
        )

        assert found == [
            (0, "train", 0.0, 60.0, "Keras function", "regular"),
            (1, "train", 60.0, 140.0, "Keras function", "regular"),
            (0, "test", 200.0, 100.0, "Keras function", "regular"),
            (2, "train", 300.0, 50.0, "Keras function", "partial"),
        ]

    def test_that_one_is_called_within_another_function_makes_no_step(self) -> None:
        assert not in_us(
            host(
                line("python")(call("__inference_outer_1", us(0, 90), step=5)),
                thread("tf_Compute", 1)(
                    executor(us(5, 80), step=5)(
                        event("call:__inference_train_function_3", us(10, 50))
                    )
                ),
            )
        )


LETTERS = {"warm_up": "w", "outlier": "o", "partial": "p", "regular": "r"}


def kinds(durations: list[int], partial: tuple[int, ...] = (), once: tuple[int, ...] = ()) -> str:
    """The kinds of steps that follow one another, a letter each; `once` are numbers of steps."""
    duration, numbers = np.array(durations, np.int64), np.arange(len(durations))
    found = step_kinds(
        duration, np.isin(numbers, partial), np.where(np.isin(numbers, once), duration // 5, 0)
    )
    return "".join(LETTERS[kind] for kind in found)


@pytest.mark.parametrize(
    ("durations", "found"),
    [
        ([], ""),
        ([100], "r"),
        ([900, 100], "rr"),  # which of two is like the rest?
        ([900, 100, 100], "wrr"),
        ([900, 300, 100, 101, 99, 100, 102], "wwrrrrr"),
        ([900, 100, 100, 400, 100, 101], "wrrorr"),
        ([40, 100, 100, 101, 100], "orrrr"),  # what is faster warms nothing up
        ([100, 101, 102, 101, 124, 100], "rrrrrr"),  # within a quarter
        ([60, 140, 80, 120, 100, 150, 70], "rrrrrrr"),  # they differ that much anyway
    ],
)
def test_by_duration(durations: list[int], found: str) -> None:
    assert kinds(durations) == found


def test_what_is_cut_is_no_measure_for_the_others() -> None:
    assert kinds([900, 900, 900, 300, 100, 100, 100], partial=(0, 1, 2)) == "pppwrrr"
    assert kinds([1, 100, 100, 100, 2], partial=(0, 4)) == "prrrp"
    assert kinds([5], partial=(0,)) == "p"


@pytest.mark.parametrize(
    ("durations", "prepare", "found"),
    [
        ([100, 100, 100, 101], (0, 1, 2, 3), "rrrr"),
        ([900, 100, 100, 101], (0, 1, 2, 3), "wrrr"),
        ([120, 100, 100, 101, 100], (0,), "wrrrr"),
        ([100, 100, 101, 110, 100], (3,), "rrrwr"),  # the last batch of an epoch is smaller
        ([900], (0,), "w"),
        ([300, 100] * 5, (0, 2, 4, 6, 8), "w" + "r" * 9),  # a function is traced again and again
        ([100, 100, 100, 100, 400] * 4, (4, 9, 14, 19), "r" * 20),
    ],
)
def test_preparing_steps_warm_up_unless_they_recur(
    durations: list[int], prepare: tuple[int, ...], found: str
) -> None:
    assert kinds(durations, once=prepare) == found


def test_a_program_compiled_in_a_step() -> None:
    def kinds_of(*compiled: Event) -> list[str]:
        steps = line("python")(*(step(n, us(100 * n, 90)) for n in range(1, 5)))
        return rows(tables_of(host(steps, line("compiler")(*compiled))).steps, "kind")

    assert kinds_of(event("backend_compile", us(210, 20))) == [
        *("regular", "warm_up", "regular", "regular")
    ]
    assert kinds_of(event("backend_compile", us(210, 5))) == ["regular"] * 4  # too short
    assert kinds_of(event("$layers.py:7 compile", us(210, 50))) == ["regular"] * 4  # Python's own
    assert kinds_of(event("compile_report", us(210, 50))) == ["regular"] * 4
