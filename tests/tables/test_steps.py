"""Steps, from whatever marks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tests.tables.reading import rows, tables_of
from tests.traces import (
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
    ps,
    ref,
    step,
    stream,
    thread,
    us,
)

if TYPE_CHECKING:
    from tests.traces import Event

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


def test_the_line_that_older_profilers_added_serves_where_nothing_marks_steps() -> None:
    assert steps(
        host(line("python")(event("FunctionRun", us(0, 90), _r=1))),
        gpu(0)(stream(7, "Compute"), old_steps(("train 500", us(0, 10)), ("train 501", us(12, 8)))),
    ) == [(0, "train", 0, 10 * US, "line Steps"), (1, "train", 12 * US, 8 * US, "line Steps")]


def test_a_step_that_two_gpus_did_in_turn_does_not_last_from_one_to_the_other() -> None:
    assert steps(
        gpu(0)(old_steps(("train 500", us(0, 10)))), gpu(1)(old_steps(("train 500", us(300, 12))))
    ) == [(0, "train", 0, 10 * US, "line Steps"), (0, "train", 300 * US, 12 * US, "line Steps")]


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


class TestCutSteps:
    """The recording began within a step, or ended within one: its marker is not there."""

    @staticmethod
    def marked(*more: Event) -> list[tuple]:
        return in_us(
            host(
                line("python")(
                    *(
                        step(n, us(100 * n, 90))(call("__inference_f_1", us(100 * n + 10, 70)))
                        for n in (5, 6, 7)
                    ),
                    *more,
                )
            )
        )

    WHOLE: ClassVar = [(n, "train", 100.0 * n, 90.0, "step_num", "regular") for n in (5, 6, 7)]

    def test_its_call_tells_of_it(self) -> None:
        found = self.marked(
            call("__inference_f_1", us(420, 60)), call("__inference_f_1", us(800, 30))
        )

        assert found == [
            (4, "train", 420.0, 60.0, "unmarked call", "partial"),
            *self.WHOLE,
            (8, "train", 800.0, 30.0, "unmarked call", "partial"),
        ]


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

    def test_markers_and_not_the_line_are_preferred(self) -> None:
        marked = keras_call("train_function", 10, 50)
        on_line = gpu(0)(old_steps(("0", us(20, 70))))

        assert [row[4] for row in in_us(host(line("python")(marked)), on_line)] == [
            "Keras function"
        ]
        assert [
            row[4] for row in in_us(host(line("python")(step(1, us(0, 70))(marked))), on_line)
        ] == ["step_num"]
