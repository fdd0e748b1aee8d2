"""The ops seen on a host's threads."""

from typing import Any

import pytest

from tests.tables.reading import host_plane
from tests.traces import (
    call,
    device,
    eager,
    eager_send,
    event,
    executor,
    iterator,
    line,
    old_eager,
    old_op,
    op,
    ref,
    send,
    thread,
    us,
)
from traceanalyzer.tables.host_ops import HostOps, host_ops
from traceanalyzer.tables.vocabulary import Kind

US = 10**6
CPU, CPU1, GPU = device("CPU:0"), device("CPU:1"), device("GPU:0")


def seen(*lines: Any) -> HostOps:  # noqa: ANN401  # words of the language
    return host_ops(host_plane(*lines))


def named(ops: HostOps) -> list[str]:
    return [f"{ops.names.op[i]}:{ops.names.type[i]}" for i in ops.name.tolist()]


def by_name(ops: HostOps, values: Any) -> dict[str, Any]:  # noqa: ANN401  # any column
    listed = values.to_list() if hasattr(values, "to_list") else values.tolist()
    return dict(zip(named(ops), listed, strict=True))


class TestWhatIsAnOp:
    def test_an_eager_op_of_older_traces_is_counted_once(self) -> None:
        """TensorFlow 2.3 to 2.5 put `X:X` into `EagerLocalExecute: X`."""
        ops = seen(line("python")(old_eager("LogicalAnd", us(0, 10))))

        assert named(ops) == ["LogicalAnd:LogicalAnd"]
        assert ops.kind.tolist() == [Kind.EAGER_OP]
        assert ops.self_ps.tolist() == [10 * US]

    def test_an_eager_op_is_handed_over_by_one_thread_and_run_by_another(self) -> None:
        """In older traces the run is an eager op's event too, within `EagerKernelExecute`."""
        ops = seen(
            line("python")(event("EagerLocalExecute: UniqueV2", us(0, 5))),
            thread("eager_async_executor", 1)(
                event("EagerKernelExecute", us(6, 40))(
                    old_op("UniqueV2", "UniqueV2", us(7, 38), eager=True)
                )
            ),
        )

        assert ops.kind.tolist() == [Kind.EAGER_OP, Kind.EAGER_OP]
        assert ops.self_ps.tolist() == [5 * US, 38 * US]
        assert ops.is_handed_over.tolist() == [True, False]


class TestFunction:
    def test_is_that_of_the_call_with_the_executors_step_id(self) -> None:
        ops = seen(
            line("python")(
                call("__inference_train_step_164", us(0, 10), step=-5),
                call("__inference_test_step_9", us(20, 10), step=-6),
            ),
            thread("tf_Compute", 1)(
                executor(us(1, 5), step=-5)(op("a", "Neg", us(1, 1))),
                executor(us(21, 5), step=-6)(op("b", "Neg", us(21, 1))),
                executor(us(31, 5), step=-9)(op("c", "Neg", us(31, 1))),
            ),
        )

        assert by_name(ops, ops.function) == {
            "a:Neg": "train_step",
            "b:Neg": "test_step",
            "c:Neg": None,  # its call began before the trace did
        }


class TestInPipeline:
    @pytest.mark.parametrize(
        "around",
        [
            lambda x: thread("tf_data_private_threadpool", 1)(executor(us(0, 90))(x)),
            lambda x: line("python")(iterator("Root::Map", us(0, 90))(x)),
            lambda x: line("python")(event("IteratorGetNextOp::DoCompute", us(0, 90))(x)),
            lambda x: line("python")(
                event("InstantiatedCapturedFunction::Run", us(0, 90), id=-3)(x)
            ),
        ],
        ids=["thread", "stage", "get next", "captured"],
    )
    @pytest.mark.parametrize("what", [op("a", "Neg", us(1, 1)), eager("Neg", us(1, 1))])
    def test_what_runs_on_behalf_of_tf_data_is_distinguished(self, around: Any, what: Any) -> None:  # noqa: ANN401
        ops = seen(around(what))
        mine = [k for k, kind in enumerate(ops.kind) if kind != Kind.STAGE]

        assert ops.in_pipeline[mine].tolist() == [True]
        assert ops.function.take(mine).to_list() == ["tf.data"]  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("stages", "is_input"),
        [
            (("ReduceDatasetOp::DoCompute",), False),
            (("ReduceIterator::Root::Prefetch::Scan",), False),
            (("ReduceIterator::Root::Scan", "ReduceIterator::Root::Scan::Map"), True),
        ],
    )
    def test_what_reduces_a_dataset_computes_for_the_step(
        self,
        stages: tuple[str, ...],
        is_input: bool,  # noqa: FBT001
    ) -> None:
        """AutoGraph makes of `for x in dataset` a scan that is reduced."""
        called = event("InstantiatedCapturedFunction::Run", us(3, 5), id=-3)
        for k, stage in enumerate(reversed(stages)):
            called = event(stage, us(2 - k, 8 + 2 * k))(called)
        ops = seen(
            thread("tf_data_reduce_dataset", 1)(called),
            thread("tf_data_private_threadpool", 2)(
                executor(us(4, 3), step=-3)(op("a", "Neg", us(5, 1)))
            ),
        )

        assert ops.in_pipeline.tolist() == [is_input]


class TestDevice:
    def test_all_that_an_executor_ran_is_where_it_sent_from(self) -> None:
        ops = seen(
            thread("tf_Compute", 1)(
                executor(us(0, 20), context=1)(
                    op("a", "Neg", us(1, 1)), send("a", "b", us(3, 1), "CPU:0", "CPU:1")
                ),
                executor(us(30, 20), context=2)(op("b", "Neg", us(31, 1))),
            ),
            thread("tf_Compute", 2)(executor(us(40, 9), context=1)(op("c", "Neg", us(41, 1)))),
        )

        assert by_name(ops, ops.device) == {
            "a:Neg": CPU,
            "a/_1:_Send": CPU,
            "b:Neg": None,  # its own executor sent nothing
            "c:Neg": CPU,
        }
        assert ops.device_is_proved.tolist() == [True, True, False, True]

    def test_an_id_that_all_executors_of_a_step_share_tells_nothing(self) -> None:
        """Up to TensorFlow 2.6 `_c` was the step's id, so the send's executor is not known."""
        ops = seen(
            thread("tf_Compute", 1)(
                executor(us(0, 20), step=5, context=5)(send("a", "b", us(3, 1))),
                executor(us(30, 20), step=5, context=5)(op("b", "Neg", us(31, 1))),
            )
        )

        assert by_name(ops, ops.device) == {"a/_1:_Send": CPU, "b:Neg": None}

    @pytest.mark.parametrize(("op", "device"), [("MatMul", CPU), ("Neg", None)])
    def test_an_input_sent_to_the_cpu_is_no_proof(self, op: str, device: str | None) -> None:
        """A GPU takes the input of Neg from host memory if it is an int32."""
        ops = seen(line("python")(eager(op, us(0, 9))(eager_send(us(1, 1), "GPU:0", "CPU:0"))))

        assert ops.device.to_list() == [device]
        assert ops.device_is_proved.tolist() == [False]

    def test_an_input_sent_to_the_cpu_tells_nothing_in_older_traces(self) -> None:
        """There an op on a GPU that takes a shape in host memory has it sent to the CPU."""
        ops = seen(
            line("python")(
                event("EagerExecute: Reshape", us(0, 9))(
                    event("EagerLocalExecute: Reshape", us(0, 9))(
                        eager_send(us(1, 1), "GPU:0", "CPU:0", argument=1)
                    )
                )
            )
        )

        assert ops.device.to_list() == [None]


class TestInputTypes:
    @pytest.mark.parametrize(
        ("shape", "types"),
        [
            ("(float[64,64];int32[2])", "float;int32"),
            ("(;int64[3])", "?;int64"),
            ("()", "?"),  # without inputs nothing is written, no brackets either
            ("", None),
            ("[64,64]", None),  # a shape without types, as allocations have
        ],
    )
    def test_are_read_off_the_shapes(self, shape: str, types: str | None) -> None:
        ops = seen(thread("tf_Compute", 1)(op("a", "MatMul", us(0, 1), shape=ref(shape))))

        assert ops.input_types.to_list() == [types]
