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
    plane,
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


def test_devices_that_took_turns_have_a_step_each() -> None:
    assert steps(
        gpu(0)(old_steps(("train 500", us(0, 10)))),
        gpu(1)(old_steps(("train 500", us(300, 12)))),
    ) == [
        (0, "train", 0, 10 * US, "line Steps"),
        (0, "train", 300 * US, 12 * US, "line Steps"),
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

    def test_what_was_launched_in_it_is_waited_for(self) -> None:
        found = in_us(
            host(
                line("python")(
                    step(1, us(0, 90))(call("__inference_f_1", us(10, 70))),
                    call("__inference_f_1", us(100, 30)),
                ),
                thread("tf_Compute", 7)(launch(us(110, 5), correlation=3)),
            ),
            gpu(0)(stream(7, "Compute")(kernel("gemm", us(150, 40), correlation=3))),
        )

        assert found[1:] == [(2, "train", 100.0, 90.0, "unmarked call", "partial")]

    def test_several_calls_were_left_unmarked_on_purpose(self) -> None:
        found = self.marked(
            call("__inference_f_1", us(300, 60)), call("__inference_f_1", us(400, 60))
        )

        assert found == self.WHOLE

    def test_a_call_of_another_function_is_no_step(self) -> None:
        assert self.marked(call("__inference_g_2", us(420, 60))) == self.WHOLE

    def test_a_call_on_another_thread_is_no_step(self) -> None:
        found = in_us(
            host(
                line("python")(step(1, us(100, 90))(call("__inference_f_1", us(110, 70)))),
                line("other")(call("__inference_f_1", us(0, 70))),
            )
        )

        assert [row[0] for row in found] == [1]

    def test_a_function_called_twice_in_a_step_tells_nothing(self) -> None:
        found = in_us(
            host(
                line("python")(
                    step(1, us(100, 90))(
                        call("__inference_f_1", us(110, 30)), call("__inference_f_1", us(150, 30))
                    ),
                    call("__inference_f_1", us(200, 30)),
                )
            )
        )

        assert [row[0] for row in found] == [1]


class TestSeveralThreads:
    def test_what_threads_mark_alike_at_one_time_is_one_step(self) -> None:
        assert in_us(
            host(
                line("a")(step(1, us(0, 50)), step(2, us(60, 50))),
                line("b")(step(1, us(5, 50)), step(2, us(59, 30))),
            )
        ) == [
            (1, "train", 0.0, 55.0, "step_num", "regular"),
            (2, "train", 59.0, 51.0, "step_num", "regular"),
        ]

    def test_a_number_that_comes_again_later_is_another_step(self) -> None:
        found = in_us(host(line("a")(*(step(n % 2, us(10 * n, 9)) for n in range(4)))))

        assert [row[:3] for row in found] == [
            (0, "train", 0.0),
            (1, "train", 10.0),
            (0, "train", 20.0),
            (1, "train", 30.0),
        ]

    def test_steps_of_two_kinds_may_overlap(self) -> None:
        found = in_us(
            host(line("a")(step(1, us(0, 50))), line("b")(step(1, us(10, 50), name="fetch")))
        )

        assert [row[:4] for row in found] == [(1, "train", 0.0, 50.0), (1, "fetch", 10.0, 50.0)]


class TestStepsWithoutAnythingOnADevice:
    """XProf leaves out a step in which no device computed."""

    def test_a_marked_one_stays(self) -> None:
        found = in_us(
            host(line("python")(*(step(n, us(100 * n, 90)) for n in range(3)))),
            gpu(0)(stream(7, "Compute")(kernel("gemm", us(10, 5)), kernel("gemm", us(210, 5)))),
        )

        assert [row[:4] for row in found] == [(n, "train", 100.0 * n, 90.0) for n in range(3)]

    def test_one_that_the_line_left_out_is_found_on_the_host(self) -> None:
        def grouped(number: int) -> Event:
            return event("train_step", us(100 * number, 90), tf_function_call=ref("notTraced"))(
                event("FunctionRun", us(100 * number + 10, 60), group_id=number, _r=1)
            )

        found = in_us(
            host(line("python")(*(grouped(n) for n in range(4)))),
            gpu(0)(
                line("Steps")(
                    *(
                        event(str(n), us(100 * n + 20, 75), group_id=n, step_name=ref(f"train {n}"))
                        for n in (0, 1, 3)
                    )
                )
            ),
        )

        assert found == [
            (n, "train", 100.0 * n, 90.0 if n == 2 else 95.0, "line Steps", "regular")
            for n in range(4)
        ]

    def test_other_work_of_the_host_is_no_step(self) -> None:
        found = in_us(
            host(
                line("python")(
                    event("train_step", us(0, 90), tf_function_call=ref("notTraced"), group_id=0),
                    event("save", us(100, 90), tf_function_call=ref("notTraced"), group_id=1),
                )
            ),
            gpu(0)(line("Steps")(event("0", us(5, 70), group_id=0, step_name=ref("train 0")))),
        )

        assert found == [(0, "train", 0.0, 90.0, "line Steps", "regular")]


class TestKerasFunctions:
    def test_one_call_is_one_step(self) -> None:
        assert in_us(host(line("python")(keras_call("train_function", 10, 50)))) == [
            (0, "train", 10.0, 50.0, "Keras function", "regular")
        ]

    def test_it_ends_when_what_it_launched_has(self) -> None:
        assert in_us(
            host(
                line("python")(keras_call("train_function", 10, 50)),
                thread("tf_Compute", 7)(
                    launch(us(20, 5), correlation=3), launch(us(70, 5), correlation=4)
                ),
            ),
            gpu(0)(
                stream(7, "Compute")(
                    kernel("gemm", us(30, 45), correlation=3),
                    kernel("of something later", us(80, 45), correlation=4),
                )
            ),
        ) == [(0, "train", 10.0, 65.0, "Keras function", "regular")]

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

    def test_functions_of_one_name_are_kept_apart(self) -> None:
        found = in_us(
            host(
                line("python")(
                    keras_call("multi_step_on_iterator", 0, 50, counter=9),
                    keras_call("multi_step_on_iterator", 60, 50, counter=9),
                    keras_call("multi_step_on_iterator", 120, 50, counter=11),
                )
            )
        )

        assert [row[1] for row in found] == [
            "multi_step_on_iterator",
            "multi_step_on_iterator",
            "multi_step_on_iterator#2",
        ]

    def test_of_tensorflow_2_0(self) -> None:
        # Read from a local.trace; the event around the call has a blank before the name.
        name = "__inference_distributed_function_660"
        assert in_us(host(line("")(event(f" {name}", us(0, 36))(event(name, us(4, 32)))))) == [
            (0, "distributed_function", 0.0, 36.0, "Keras function", "regular")
        ]

    def test_that_one_is_called_within_another_function_makes_no_step(self) -> None:
        assert not in_us(
            host(
                line("python")(
                    call("__inference_outer_1", us(0, 90), step=5),
                ),
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
