"""The op table of a captured program: rows, what they are told of, and their keys."""

from typing import Any

import pytest

from tests.capture_files import CPU, GPU, SCRIPT, Book, eager_op, node
from tests.tables.reading import HOST, rows
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
    op,
    stream,
    task_environment,
    thread,
    us,
    xspace,
)
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.tables.host_tables import HostTables, host_tables
from traceanalyzer.tables.joined import MARKER
from traceanalyzer.tables.vocabulary import Role

F = "__inference_f_91"
LEVEL_3 = task_environment(options=b"\x10\x03\x18\x01")


def tables(capture_file: CaptureFile | None, *planes: Any) -> HostTables:  # noqa: ANN401  # words nest
    return host_tables(HOST, 0, decode(xspace(*planes)), capture_file, 0)


def python(*ops: str) -> Any:  # noqa: ANN401  # a word of the language
    """A thread that ran these eager ops, 10 µs each, from the first of its sequence on."""
    return line("python")(
        event(MARKER, us(0), thread=0, index=0),
        [eager(name, us(10 + 10 * k, 9)) for k, name in enumerate(ops)],
    )


def in_function(*ops: Any, function: str = F) -> Any:  # noqa: ANN401  # as above
    """A call of a function, and a thread that ran these ops of it."""
    return (
        line("python")(call(function, us(0, 900), step=-5)),
        thread("tf_Compute", 1)(executor(us(0, 900), step=-5)(*ops)),
    )


class TestEagerOps:
    def test_of_one_type_at_two_lines_are_two_rows(self) -> None:
        book = Book()
        book.thread(0, "MatMul @7", "MatMul @9", "MatMul @7")

        ops = tables(book.capture_file(), host(python("MatMul", "MatMul", "MatMul"))).ops

        assert rows(ops, "type", "source_file", "source_line", "occurrences", "host_self_ps") == [
            ("MatMul", SCRIPT, 7, 2, 18_000_000),
            ("MatMul", SCRIPT, 9, 1, 9_000_000),
        ]
        assert ops["op_id"].is_unique

    def test_types_scopes_and_requests_tell_them_apart_too(self) -> None:
        book = Book()
        book.thread(
            0,
            eager_op("Cast", 7, inputs="int32", outputs="float"),
            eager_op("Cast", 7, inputs="int32", outputs="half"),
            eager_op("Cast", 7, inputs="int32", outputs="half", scope="/CPU:0"),
        )

        ops = tables(book.capture_file(), host(python("Cast", "Cast", "Cast"))).ops

        assert rows(ops, "input_types", "output_types", "requested_device", "signature") == [
            ("int32", "float", "", "int32 -> float, train.py:7"),
            ("int32", "half", "", "int32 -> half, train.py:7"),
            ("int32", "half", "/CPU:0", "int32 -> half, /CPU:0, train.py:7"),
        ]

    def test_one_that_is_not_sure_is_a_row_of_its_own(self) -> None:
        book = Book()
        book.thread(0, "Add @1", "Cast @2", "Sub @3")

        ops = tables(book.capture_file(), host(python("Add", "Cast", "Cast", "Sub"))).ops

        assert sorted(rows(ops, "type", "source_line", "input_types", "occurrences")) == [
            ("Add", 1, "float", 1),
            ("Cast", None, None, 2),
            ("Sub", 3, "float", 1),
        ]

    def test_what_they_made_tells_the_device(self) -> None:
        book = Book()
        book.thread(0, eager_op("MatMul", 7), eager_op("Abs", 8, device=GPU))

        found = tables(book.capture_file(), host(python("MatMul", "Abs")))

        assert sorted(
            rows(found.ops, "device", "placement", "placement_certainty", "placement_source")
        ) == [(CPU, "cpu", "certain", "capture_file"), (GPU, "gpu:0", "certain", "capture_file")]

    @pytest.mark.parametrize(("taken_from", "certainty"), [(CPU, "certain"), (GPU, "likely")])
    def test_what_is_made_in_host_memory_was_computed_there(
        self, taken_from: str, certainty: str
    ) -> None:
        book = Book()
        book.thread(0, eager_op("AddV2", 7, device=GPU, memory=CPU, taken_from=taken_from))

        ops = tables(book.capture_file(), host(python("AddV2"))).ops

        assert rows(ops, "device", "placement", "placement_certainty") == [
            (GPU, "host_memory", certainty)
        ]


class TestGraphOps:
    def test_have_line_request_and_device(self) -> None:
        book = Book()
        book.function(F, node("dense/MatMul", "MatMul", line=21, asked="/device:GPU:0"))

        ops = tables(
            book.capture_file(), host(in_function(op("dense/MatMul", "MatMul", us(10, 5)))), LEVEL_3
        ).ops

        assert rows(ops, "function", "source_line", "requested_device", "device") == [
            ("f", 21, "/device:GPU:0", CPU)
        ]
        assert rows(ops, "placement", "placement_certainty", "placement_source") == [
            ("cpu", "certain", "capture_file")
        ]
        assert rows(ops, "input_types", "output_types", "signature") == [(None, None, None)]

    def test_of_two_functions_may_bear_one_name(self) -> None:
        book = Book()
        book.function(F, node("mm", "MatMul", line=21))
        book.function("__inference_f_95", node("mm", "MatMul", line=22))
        book.function("__inference_f_97", node("mm", "MatMul", line=21))  # traced again
        book.function("__inference_g_99", node("mm", "MatMul", line=31, asked="/CPU:0"))
        called = [
            (call(name, us(100 * k, 90), step=-9 * k), executor(us(100 * k, 90), step=-9 * k))
            for k, name in enumerate(
                (F, "__inference_f_95", "__inference_f_97", "__inference_g_99"), 1
            )
        ]

        ops = tables(
            book.capture_file(),
            host(
                line("python")(c for c, _ in called),
                thread("tf_Compute", 1)(
                    turn(op("mm", "MatMul", us(100 * k + 10, 5)))
                    for k, (_, turn) in enumerate(called, 1)
                ),
            ),
        ).ops

        assert rows(ops, "function", "name", "source_line", "requested_device") == [
            ("f", "mm", 21, ""),
            ("f#2", "mm", 22, ""),
            ("g", "mm", 31, "/CPU:0"),
        ]

    def test_of_a_dataset_that_a_step_reduces(self) -> None:
        book = Book()
        book.function("__inference_Dataset_map_21", node("mul", "Mul", line=40))
        book.function(
            "__inference_reduce_add_22", node("mul", "Mul", line=50), node("add", "AddV2", line=51)
        )
        book.function(F, node("reduce", "ReduceDataset", attributes=0))
        captured = "InstantiatedCapturedFunction::Run"

        ops = tables(
            book.capture_file(attributes=({"f": {"func": "__inference_reduce_add_22"}},)),
            host(
                thread("tf_data_reduce_dataset", 3)(
                    event(captured, us(5, 20), id=-9), event(captured, us(30, 20), id=-11)
                ),
                thread("tf_data_private_threadpool", 1)(
                    executor(us(6, 10), step=-9)(op("mul", "Mul", us(10, 5))),
                    executor(us(31, 20), step=-11)(
                        op("mul", "Mul", us(35, 5)), op("add", "AddV2", us(42, 3))
                    ),
                ),
            ),
        ).ops

        assert {*rows(ops, "function", "type", "source_line", "role")} == {
            ("tf.data", "Mul", 40, Role.INPUT_PIPELINE),
            ("reduce_add", "Mul", 50, Role.COMPUTE),
            ("reduce_add", "AddV2", 51, Role.COMPUTE),
        }

    def test_a_kernel_elsewhere_than_recorded_stands(self) -> None:
        book = Book()
        book.function(F, node("mm", "MatMul", line=21))

        ops = tables(
            book.capture_file(),
            host(in_function(launch(us(20, 2), 7))),
            gpu(0)(stream(7, "Compute")(kernel("gemm", us(40, 3), "mm:MatMul", correlation=7))),
        ).ops

        assert rows(ops, "device", "placement", "placement_source") == [
            ("/device:GPU:0", "gpu:0", "kernel")
        ]


class TestKeys:
    def keys(self, *ops: Any) -> list[str]:  # noqa: ANN401  # an op, in words or not
        book = Book()
        book.thread(0, *ops)
        found = tables(book.capture_file(), host(python(*("MatMul" for _ in ops)))).ops
        assert found["op_id"].is_unique
        return rows(found, "op_id")

    def test_do_not_hang_on_the_line(self) -> None:
        assert self.keys("MatMul @7", "MatMul @9") == self.keys("MatMul @107", "MatMul @109")


def test_an_empty_capture_file_changes_nothing() -> None:
    plane = host(python("Abs", "Neg"), in_function(op("mm", "MatMul", us(10, 5)))[1])

    with_it, without = tables(Book().capture_file(), plane), tables(None, plane)

    assert with_it.ops.equals(without.ops)
    assert without.joined is None
