"""Which sightings are one op."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import (
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    old_kernel,
    old_launch,
    old_op,
    op,
    ref,
    stream,
    task_environment,
    thread,
    us,
    xla_kernel,
)

LEVEL_3 = task_environment(options=b"\x10\x03\x18\x01")


def found(*planes: Any) -> list[tuple]:  # noqa: ANN401  # words of the language
    """Function, name, device, occurrences and kernels of each row."""
    ops = tables_of(*planes).ops.sort_values(["name", "function", "device"], kind="stable")
    return rows(ops, "function", "name", "device", "occurrences", "kernels")


def test_what_a_kernel_says_of_itself_outweighs_its_launch() -> None:
    assert found(
        host(
            thread("tf_Compute", 1)(
                executor(us(0, 9))(op("a", "MatMul", us(1, 5))(launch(us(2, 1), 7)))
            )
        ),
        gpu(0)(stream(7, "Compute")(kernel("gemm", us(20, 3), "b:Neg", correlation=7))),
    ) == [(None, "a", None, 1, 0), (None, "b", "/device:GPU:0", 1, 1)]


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
                            old_launch("gemm", us(2, 1), 7)
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
