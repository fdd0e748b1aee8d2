"""The op table: what each op took, and its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    call,
    decode,
    eager,
    executor,
    gpu,
    host,
    kernel,
    line,
    op,
    send,
    stream,
    task_environment,
    thread,
    us,
    xspace,
)
from traceanalyzer.tables.host_tables import host_tables

if TYPE_CHECKING:
    import pandas as pd

US = 10**6
F = "__inference_f_91"


def ops(*planes: Any) -> pd.DataFrame:  # noqa: ANN401  # words of the language
    return tables_of(*planes).ops


class TestCounts:
    def test_occurrences_and_times_on_the_host(self) -> None:
        table = ops(
            line_of(
                eager("EagerPyFunc", us(0, 100))(eager("Neg", us(10, 30))), eager("Neg", us(200, 7))
            )
        )

        counted = rows(table, "name", "occurrences", "host_self_ps", "host_total_ps")
        assert sorted(counted) == [
            ("EagerPyFunc", 1, 70 * US, 100 * US),
            ("Neg", 2, 37 * US, 37 * US),
        ]


class TestRole:
    @pytest.mark.parametrize("level", [2, 3])
    def test_what_is_computed_to_make_a_graph_ready_is_no_op_of_the_program(
        self, level: int
    ) -> None:
        """Within the call that needs it, under the names of the graph's own nodes."""
        table = ops(
            host(
                line("python")(
                    call(F, us(0, 90), step=-5)(
                        executor(us(1, 50), step=-1)(
                            op("a", "Sub", us(2, 9)),
                            op("b", "Sub", us(12, 9)),
                            send("a", "", us(22, 1), target="CPU:0"),
                        )
                    )
                ),
                thread("tf_Compute", 1)(executor(us(60, 20), step=-5)(op("c", "Add", us(61, 9)))),
                thread("other", 2)(op("c", "Add", us(95, 2))),
            ),
            gpu(0)(stream(8)(kernel("k", us(70, 2), "a:Sub"))),
            task_environment(options=bytes((0x10, level, 0x18, 1))),
        )

        known = rows(table, "function", "name", "role", "placement", "kernels", "occurrences")
        assert sorted(row for row in known if row[0] == "constant folding") == [
            ("constant folding", "a", "runtime", "cpu", 0, 1),
            ("constant folding", "a/_1", "runtime", "cpu", 0, 1),
            ("constant folding", "b", "runtime", "cpu", 0, 1),
        ]
        rest = {row[1]: row for row in known if row[0] != "constant folding"}
        assert rest["a"] == (None, "a", "compute", "gpu:0", 1, 1)
        assert rest["c"][:3] == ("f", "c", "compute")
        assert rest["c"][5] == 2


class TestOpId:
    def program(self, **shuffled: Any) -> list[Any]:  # noqa: ANN401
        """The same program, recorded with other numbers for all that is arbitrary."""
        counter = shuffled.get("counter", 1)
        step = shuffled.get("step", -5)
        thread_id = shuffled.get("thread_id", 100)
        at = shuffled.get("at", 0)
        ran = [op("a", "Neg", us(at + 1, 1)), op("b", "Abs", us(at + 3, 1))]
        return [
            host(
                line("python")(
                    call(f"__inference_f_{counter}", us(at, 9), step=step),
                    eager("Exp", us(at + 20, 5)),
                ),
                thread("tf_Compute", thread_id)(
                    executor(us(at, 9), step=step)(ran if at else ran[::-1])
                    if shuffled.get("order")
                    else executor(us(at, 9), step=step)(ran)
                ),
            ),
            gpu(0)(stream(8)(kernel("k", us(at + 50, 1), "c:Tanh"))),
        ]

    def ids(self, *planes: Any) -> dict[tuple, str]:  # noqa: ANN401
        table = ops(*planes)
        return dict(
            zip(rows(table, "function", "name", "is_eager"), rows(table, "op_id"), strict=True)
        )

    def test_is_the_same_when_the_program_is_recorded_again(self) -> None:
        first = self.ids(*self.program())
        again = self.ids(*self.program(counter=99, step=-77, thread_id=-5, at=1000))

        assert first == again
        assert set(first) == {
            ("f", "a", False),
            ("f", "b", False),
            (None, "Exp", True),
            (None, "c", False),
        }

    def test_differs_between_hosts_whatever_these_are_called(self) -> None:
        trace = decode(xspace(line_of(eager("Neg", us(0, 9)))))
        first = host_tables("a", 0, trace).ops
        renamed = host_tables("b", 0, trace).ops
        second = host_tables("a", 1, trace).ops

        assert rows(first, "op_id") == rows(renamed, "op_id")
        assert rows(first, "op_id") != rows(second, "op_id")

    def test_survives_names_that_are_no_unicode(self) -> None:
        space = xspace(line_of(op("a", "Neg", us(0, 1))))
        raw = space.SerializeToString().replace(b"a:Neg", b"\xff:Neg")

        assert host_tables("h", 0, decode(raw)).ops["op_id"].is_unique


def line_of(*inside: Any) -> Any:  # noqa: ANN401
    return host(line("python")(*inside))
