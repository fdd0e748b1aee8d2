"""The op table: which occurrences are one op, what each op took, and its key."""

from typing import Any

import pandas as pd
import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    call,
    decode,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    old_kernel,
    old_op,
    op,
    ref,
    send,
    stream,
    task_environment,
    thread,
    us,
    xla_kernel,
    xspace,
)
from traceanalyzer.tables.host_tables import host_tables

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
    def test_differs_between_hosts_whatever_these_are_called(self) -> None:
        trace = decode(xspace(line_of(eager("Neg", us(0, 9)))))
        first = host_tables("a", 0, trace).ops
        renamed = host_tables("b", 0, trace).ops
        second = host_tables("a", 1, trace).ops

        assert rows(first, "op_id") == rows(renamed, "op_id")
        assert rows(first, "op_id") != rows(second, "op_id")


def line_of(*inside: Any) -> Any:  # noqa: ANN401
    return host(line("python")(*inside))


LEVEL_3 = task_environment(options=b"\x10\x03\x18\x01")


def found(*planes: Any) -> list[tuple]:  # noqa: ANN401  # words of the language
    """Function, name, device, occurrences and kernels of each row."""
    ops = tables_of(*planes).ops.sort_values(["name", "function", "device"], kind="stable")
    return rows(ops, "function", "name", "device", "occurrences", "kernels")


@pytest.mark.parametrize("in_graph", [False, True])
def test_a_kernel_is_of_no_op_where_another_may_have_launched_it(*, in_graph: bool) -> None:
    """The id comes twice, with but one kernel: the work may be either call's."""
    of_graph = thread("tf_Compute", 1)(
        executor(us(0, 99))(
            op("a", "MatMul", us(0, 10))(launch(us(5, 2), 1)),
            op("b", "Relu", us(75, 10))(launch(us(80, 2), 1)),
        )
    )
    eagerly = line("python")(
        eager("MatMul", us(0, 10))(launch(us(5, 2), 1)),
        eager("Relu", us(75, 10))(launch(us(80, 2), 1)),
    )

    tables = tables_of(
        host(of_graph if in_graph else eagerly),
        gpu(0)(stream(7, "Compute")(kernel("k", us(85, 5), correlation=1))),
    )

    assert rows(tables.kernels, "op_id", "op") == [(None, None)]
    assert sorted(rows(tables.ops, "type", "device", "kernels", "kernel_ps")) == [
        ("MatMul", None, 0, 0),
        ("Relu", None, 0, 0),
    ]


class TestBelowLevel3:
    def test_a_host_op_and_a_kernel_of_its_name_are_two_ops_while_the_function_is_unknown(
        self,
    ) -> None:
        assert found(
            host(
                line("python")(call("__inference_f_1", us(0, 9), step=-5)),
                thread("tf_Compute", 1)(executor(us(1, 5), step=-5)(op("a", "Neg", us(2, 1)))),
            ),
            gpu(0)(stream(7, "Compute")(kernel("k", us(3, 1), "a:Neg"))),
        ) == [("f", "a", None, 1, 0), (None, "a", "/device:GPU:0", 1, 1)]

    def test_they_are_two_within_one_function_too(self) -> None:
        """It was called under two devices: an op on a GPU would have left no host event."""
        assert found(
            host(
                line("python")(
                    call("__inference_f_1", us(0, 9), step=-5),
                    call("__inference_f_1", us(20, 9), step=-6),
                ),
                thread("tf_Compute", 1)(
                    executor(us(1, 5), step=-5)(op("a", "Neg", us(2, 1))),
                    executor(us(21, 5), step=-6)(launch(us(22, 1), 7)),
                ),
            ),
            gpu(0)(stream(7, "Compute")(kernel("k", us(23, 1), "a:Neg", correlation=7))),
        ) == [("f", "a", "/device:GPU:0", 1, 1), ("f", "a", None, 1, 0)]


class TestAtLevel3:
    def test_a_host_op_and_a_kernel_of_its_name_are_one(self) -> None:
        assert found(
            LEVEL_3,
            host(thread("tf_Compute", 1)(op("a", "Neg", us(2, 1)))),
            gpu(0)(stream(7, "Compute")(kernel("k", us(3, 1), "a:Neg"))),
        ) == [(None, "a", "/device:GPU:0", 1, 1)]


class TestEagerOps:
    @pytest.mark.parametrize("level_3", [False, True])
    def test_a_kernel_named_after_its_eager_op_is_not_a_graph_ops(self, *, level_3: bool) -> None:
        """Older traces annotate an eager op's kernel `MatMul:MatMul`, a common graph op's name."""
        tables = tables_of(
            *([LEVEL_3] if level_3 else []),
            host(
                line("python")(
                    event("EagerLocalExecute: MatMul", us(0, 9))(
                        old_op("MatMul", "MatMul", us(1, 5), eager=True)(
                            event("gemm", us(2, 1), correlation_id=7)
                        )
                    )
                ),
                thread("tf_Compute", 1)(op("MatMul", "MatMul", us(0, 1))),
            ),
            gpu(0)(
                stream(7, "Compute")(
                    old_kernel("gemm", us(9, 1), "MatMul:MatMul", correlation=7, eager=True)
                )
            ),
        )

        assert sorted(rows(tables.ops, "is_eager", "kernels", "placement")) == [
            (False, 0, "unknown" if level_3 else "cpu"),
            (True, 1, "gpu:0"),
        ]


class TestXla:
    def test_a_kernel_is_of_the_op_its_instruction_keeps_the_name_of(self) -> None:
        tables = tables_of(
            gpu(0)(
                stream(7, "Compute")(
                    xla_kernel("fusion_3", us(0, 1), "fusion.3", op="dense/MatMul"),
                    xla_kernel("fusion_4", us(2, 1), "fusion.4", op="dense/MatMul"),
                    xla_kernel("add", us(4, 1), "loop_add_fusion.1.2", module="cluster_1"),
                    xla_kernel("add", us(6, 1), "add"),
                )
            )
        )

        assert sorted(rows(tables.ops, "function", "name", "type", "kernels")) == [
            ("cluster_0", "add", "add", 1),
            ("cluster_0", "dense/MatMul", "fusion", 2),
            ("cluster_1", "loop_add_fusion.1.2", "loop_add_fusion", 1),
        ]
        assert set(rows(tables.ops, "placement")) == {"xla"}


def test_calls_with_other_input_types_are_other_rows() -> None:
    tables = tables_of(
        host(
            thread("tf_Compute", 1)(
                op("a", "AddV2", us(0, 1), shape=ref("(float[2];float[2])")),
                op("a", "AddV2", us(2, 1), shape=ref("(float[3];float[3])")),
                op("a", "AddV2", us(4, 1), shape=ref("(int32[2];int32[2])")),
                op("a", "AddV2", us(6, 1)),
                op("b", "AddV2", us(8, 1), shape=ref("(half[2];half[2])")),
                op("b", "AddV2", us(10, 1)),
            )
        )
    )

    assert sorted(
        rows(tables.ops, "name", "input_types", "signature", "occurrences"), key=repr
    ) == [
        ("a", "float;float", "float;float", 2),
        ("a", "int32;int32", "int32;int32", 1),
        ("a", None, None, 1),
        ("b", "half;half", "half;half", 2),
    ]
