"""Transfers: how many bytes, in which direction, from which op to which."""

from typing import Any

import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    call,
    copy,
    eager,
    eager_send,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    old_copy,
    op,
    ref,
    send,
    stream,
    thread,
    us,
)

US = 10**6
ENDS = ("producer_name", "consumer_name")


def copies(*planes: Any) -> Any:  # noqa: ANN401  # words of the language
    return tables_of(*planes).transfers


def linked(tables: Any) -> list[tuple]:  # noqa: ANN401  # tables of a host
    """Direction and the ops at both ends of each copy, by name; None for an end not linked."""
    names = dict(zip(tables.ops["op_id"], tables.ops["name"], strict=True))
    return [
        (direction, names.get(producer), names.get(consumer))
        for direction, producer, consumer in rows(
            tables.transfers, "direction", "producer", "consumer"
        )
    ]


class TestOnADevice:
    def test_direction_bytes_and_memory_of_today(self) -> None:
        table = copies(
            gpu(0)(
                stream(8, "MemcpyH2D", at_ns=3)(
                    copy("H2D", 4096, us(0, 5), correlation=3),
                    copy("D2H", 16, us(6, 2), target="pageable", asynchronous=False),
                    copy("D2D", 64, us(9, 1)),
                    copy("P2P", 128, us(11, 1)),
                )
            )
        )

        assert rows(
            table, "direction", "bytes", "memory", "is_async", "start_ps", "duration_ps"
        ) == [
            ("h2d", 4096, "pinned", True, 3000, 5 * US),
            ("d2h", 16, "pageable", False, 3000 + 6 * US, 2 * US),
            ("d2d", 64, "unknown", True, 3000 + 9 * US, 1 * US),
            ("p2p", 128, "unknown", True, 3000 + 11 * US, 1 * US),
        ]
        assert rows(table, "device", "stream", "correlation_id") == [
            ("/device:GPU:0", "Stream #8(MemcpyH2D)", correlation) for correlation in (3, 0, 0, 0)
        ]


class TestEnds:
    def test_are_those_of_the_send_that_launched_it(self) -> None:
        """Today a copy names the send, and the send's stats and key name the ends."""
        tables = tables_of(
            host(
                thread("tf_Compute", 1)(
                    executor(us(0, 20))(
                        op("a", "Neg", us(0, 1)),
                        send("a", "b", us(2, 3))(launch(us(3, 1), 7, "cuMemcpyHtoDAsync_v2")),
                    )
                )
            ),
            gpu(0)(
                stream(8)(
                    copy("H2D", 4, us(9, 1), "a/_1:_Send", correlation=7),
                    kernel("k", us(12, 1), "b:Abs"),
                )
            ),
        )

        assert rows(tables.transfers, *ENDS) == [("a", "b")]
        assert linked(tables) == [("h2d", "a", "b")]

    @pytest.mark.parametrize(
        ("direction", "ends"),
        [("H2D", ("h2d", None, "a")), ("D2H", ("d2h", "a", None)), ("D2D", ("d2d", None, None))],
    )
    def test_an_op_that_copies_by_itself_is_one_end(
        self, direction: str, ends: tuple[str, str | None, str | None]
    ) -> None:
        tables = tables_of(
            host(thread("tf_Compute", 1)(op("a", "Where", us(0, 9))(launch(us(1, 1), 7)))),
            gpu(0)(stream(8)(copy(direction, 4, us(9, 1), "a:Where", correlation=7))),
        )

        assert linked(tables) == [ends]
        assert rows(tables.transfers, *ENDS) == [ends[1:]]

    def test_are_not_linked_to_an_op_of_another_function(self) -> None:
        tables = tables_of(
            host(
                line("python")(
                    call("__inference_f_1", us(0, 9), step=-5),
                    call("__inference_g_2", us(20, 9), step=-6),
                ),
                thread("tf_Compute", 1)(
                    executor(us(0, 9), step=-5)(op("a", "Neg", us(1, 1))),
                    executor(us(20, 9), step=-6)(send("a", "b", us(23, 3))(launch(us(24, 1), 7))),
                ),
            ),
            gpu(0)(stream(8)(copy("H2D", 4, us(29, 1), "a/_1:_Send", correlation=7))),
        )

        assert linked(tables) == [("h2d", None, None)]
        assert rows(tables.transfers, *ENDS) == [("a", "b")]


class TestRecordedByTheHostAlone:
    def test_an_input_of_an_eager_op(self) -> None:
        tables = tables_of(
            host(
                line("python")(
                    eager("Neg", us(0, 9))(eager_send(us(1, 1), "CPU:0", "CPU:1")),
                    eager("Abs", us(10, 9))(eager_send(us(11, 1), "CPU:0", "GPU:0")),
                    eager("Exp", us(20, 9))(eager_send(us(21, 1), "GPU:0", "CPU:0")),
                    eager("Log", us(30, 9))(eager_send(us(31, 1), "GPU:0", "GPU:1")),
                )
            )
        )

        assert linked(tables) == [
            ("h2h", None, "Neg"),
            ("h2d", None, "Abs"),
            ("d2h", None, "Exp"),
            ("p2p", None, "Log"),
        ]
        assert rows(tables.transfers, "bytes", "duration_ps") == [
            (None, 0),
            (None, None),
            (None, None),
            (None, None),
        ]


class TestCountedIntoOps:
    def test_as_producer_and_as_consumer_each_once(self) -> None:
        tables = tables_of(
            gpu(0)(
                stream(8)(
                    kernel("k", us(0, 1), "a:Neg"),
                    kernel("k", us(2, 1), "b:Abs"),
                    old_copy("D2H", 4, us(3, 2), "a/_1:_HostRecv", producer="a", consumer="b"),
                    old_copy("H2D", 10, us(6, 5), "a/_2:_Send", producer="a", consumer="b", edge=2),
                    old_copy(
                        "D2D", 99, us(12, 7), "a/_3:_Send", producer="a", consumer="a", edge=3
                    ),
                    event("MemcpyD2H", us(20, 1), **{"from": ref("a"), "to": ref("b")}),
                )
            )
        )

        assert rows(tables.ops, "name", "h2d_bytes", "d2h_bytes", "copy_ps") == [
            ("a", 10, 4, (2 + 5 + 7 + 1) * US),
            ("b", 10, 4, (2 + 5 + 1) * US),
        ]


class TestHowTheyWereStarted:
    def started(self, *planes: Any) -> list[tuple]:  # noqa: ANN401
        return rows(copies(*planes), "via", "function", "thread", "launch_ps")

    def test_a_copy_of_a_receive_names_it_and_its_function(self) -> None:
        found = self.started(
            host(
                thread("python", 1)(call("__inference_f_3", us(0, 90), step=5)),
                thread("tf_Compute", 2)(
                    executor(us(5, 60), step=5)(launch(us(10, 2), 7, "cuMemcpyDtoHAsync"))
                ),
            ),
            gpu(0)(stream(8)(copy("D2H", 1, us(14, 1), "a/_2:_HostRecv", correlation=7))),
        )

        assert found == [("_HostRecv", "f", "tf_Compute/2", 10 * US)]

    def test_what_a_program_reads_outside_of_any_graph_is_its_own(self) -> None:
        found = self.started(
            host(
                thread("python", 1)(
                    call("__inference_f_3", us(0, 9), step=5),
                    launch(us(10, 2), 7),
                    launch(us(20), 8),
                ),
                thread("tf_Compute", 2)(executor(us(2, 6), step=5)),
            ),
            gpu(0)(
                stream(8)(
                    copy("D2H", 4, us(12, 1), correlation=7),
                    old_copy("D2H", 4, us(22, 1), correlation=8),
                )
            ),
        )

        assert found == [
            ("python", None, "python/1", 10 * US),
            ("python", None, "python/1", 20 * US),
        ]

    def test_arguments_of_a_call_are_brought_over_within_it(self) -> None:
        found = self.started(
            host(
                thread("python", 1)(
                    event("EagerLocalExecute: __inference_f_3", us(0, 9))(launch(us(1, 2), 7))
                )
            ),
            gpu(0)(stream(8)(old_copy("H2D", 4, us(4, 1), correlation=7))),
        )

        assert found == [("argument", "f", "python/1", 1 * US)]
