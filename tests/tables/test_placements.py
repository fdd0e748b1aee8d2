"""Where each op ran, how sure that is, and on what it rests."""

from typing import Any

import pytest

from tests.tables.reading import placed, rows, tables_of
from tests.traces import (
    allocation,
    call,
    copy,
    eager,
    eager_send,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    launch,
    line,
    old_op,
    op,
    plane,
    ref,
    send,
    stream,
    task_environment,
    thread,
    us,
)

LEVEL_2 = task_environment(options=b"\x10\x02\x18\x01")
LEVEL_3 = task_environment(options=b"\x10\x03\x18\x01")
# A GPU at work on something else, so that TensorFlow is known to have one.
BUSY = gpu(0)(stream(9, "Compute")(kernel("k", us(900, 1), "other:Abs")))


def where(*planes: Any) -> dict[str, tuple[str, str, str]]:  # noqa: ANN401  # words of the language
    found = placed(tables_of(*planes))
    found.pop("other:Abs", None)
    return found


class TestKernel:
    """A kernel launched for the op ran on that device."""

    def test_outweighs_an_input_of_an_eager_op_that_was_sent_to_the_cpu(self) -> None:
        assert where(
            host(
                line("python")(
                    eager("Sum", us(0, 9))(
                        eager_send(us(1, 1), "GPU:0", "CPU:0", argument=1), launch(us(3, 1), 7)
                    )
                )
            ),
            gpu(0)(stream(7, "Compute")(kernel("k", us(5, 1), correlation=7))),
        ) == {"Sum:Sum": ("gpu:0", "certain", "kernel")}

    def test_is_no_proof_for_calls_that_launched_none(self) -> None:
        """At level 3, where a function called under two devices leaves events of both."""
        assert where(
            LEVEL_3,
            host(
                line("python")(
                    call("__inference_f_1", us(0, 9), step=-5),
                    call("__inference_f_1", us(20, 9), step=-6),
                ),
                thread("tf_Compute", 1)(
                    executor(us(1, 5), step=-5)(op("a", "Neg", us(2, 1))),
                    executor(us(21, 5), step=-6)(op("a", "Neg", us(22, 2))(launch(us(22, 1), 7))),
                ),
            ),
            gpu(0)(stream(7, "Compute")(kernel("k", us(25, 1), "a:Neg", correlation=7))),
        ) == {"f a:Neg": ("gpu:0", "likely", "kernel")}


class TestExecutor:
    """A send names the device of the executor that ran the op."""

    def test_is_no_proof_for_calls_whose_executor_sent_nothing(self) -> None:
        tables = tables_of(
            BUSY,
            host(
                thread("tf_Compute", 1)(
                    executor(us(0, 9), context=1)(
                        op("a", "Neg", us(0, 1)), send("a", "b", us(2, 1))
                    ),
                    executor(us(20, 9), context=2)(op("a", "Neg", us(20, 1))),
                )
            ),
        )

        assert placed(tables)["a:Neg"] == ("cpu", "likely", "executor")


class TestTransfer:
    """The far end of a send, or of a copy whose direction is known."""

    def test_a_key_proves_where_the_value_goes(self) -> None:
        found = where(
            LEVEL_3,
            host(
                line("python")(call("__inference_f_1", us(0, 9), step=-5)),
                thread("tf_Compute", 1)(
                    executor(us(0, 9), step=-5, context=1)(send("a", "b", us(2, 1))),
                    executor(us(10, 9), step=-5, context=2)(op("b", "Reshape", us(11, 1))),
                ),
            ),
        )

        assert found["f b:Reshape"] == ("gpu:0", "certain", "transfer")

    def test_an_h2d_copy_proves_its_gpu_end_and_hints_at_the_other(self) -> None:
        found = where(
            LEVEL_3,
            host(
                line("python")(call("__inference_f_1", us(0, 9), step=-5)),
                thread("tf_Compute", 1)(
                    executor(us(0, 9), step=-5)(
                        op("a", "Shape", us(1, 1)),
                        op("b", "Reshape", us(3, 1)),
                        launch(us(6, 1), 7),
                    )
                ),
            ),
            gpu(1)(
                stream(8, "MemcpyH2D")(
                    copy("H2D", 4, us(9, 1), correlation=7, **{"from": ref("a"), "to": ref("b")})
                )
            ),
        )

        assert found == {
            # It may be an op on the GPU that keeps this value in host memory.
            "f a:Shape": ("cpu", "likely", "transfer"),
            "f b:Reshape": ("gpu:1", "certain", "transfer"),
        }

    def test_an_op_whose_function_is_unknown_is_not_the_other_of_its_name(self) -> None:
        """Known of one in `g`; the row without a function need not be that one."""
        tables = tables_of(
            host(
                line("python")(call("__inference_g_2", us(20, 9), step=-6)),
                thread("tf_Compute", 1)(
                    op("b", "Neg", us(1, 1)),
                    executor(us(20, 9), step=-6, context=2)(send("a", "b", us(22, 1))),
                ),
            ),
            gpu(0)(stream(7, "Compute")(kernel("k", us(30, 1), "b:Neg"))),
        )
        b = tables.ops[tables.ops["name"] == "b"]

        assert sorted(rows(b, "placement", "placement_certainty", "placement_source")) == [
            ("cpu", "likely", "host_event"),
            ("gpu:0", "certain", "kernel"),
        ]

    def test_against_an_event_that_only_ops_on_a_cpu_leave_it_does_not_stand(self) -> None:
        """Below level 3 the op that was seen ran on the CPU, so another of its name was meant."""
        found = where(
            host(
                line("python")(call("__inference_f_1", us(0, 9), step=-5)),
                thread("tf_Compute", 1)(
                    executor(us(0, 9), step=-5, context=1)(send("a", "b", us(2, 1))),
                    executor(us(10, 9), step=-5, context=2)(op("b", "Neg", us(11, 1))),
                ),
            )
        )

        assert found["f b:Neg"] == ("cpu", "possible", "host_event")


class TestNoGpu:
    """Nothing in the trace shows that TensorFlow had one."""

    @pytest.mark.parametrize("level", [LEVEL_2, LEVEL_3])
    @pytest.mark.parametrize("described", [(), (gpu(0),)])
    def test_makes_the_cpu_likely_at_any_level(self, level: Any, described: Any) -> None:  # noqa: ANN401
        assert where(
            level,
            *described,
            host(line("python")(eager("Neg", us(0, 1)), op("a", "Neg", us(5, 1)))),
        ) == {"Neg:Neg": ("cpu", "likely", "no_gpu"), "a:Neg": ("cpu", "likely", "no_gpu")}


class TestNoProofWhereThereIsNone:
    """Each of these once was called certain, and need not be so."""

    def test_a_send_of_one_call_proves_nothing_of_another(self) -> None:
        """The same function, called on the GPU and then under a CPU scope, which needs no send."""
        found = where(
            LEVEL_3,
            host(
                thread("python", 1)(
                    call("__inference_f_1", us(0, 5), step=1, context=11),
                    call("__inference_f_1", us(50, 5), step=2, context=12),
                ),
                thread("tf_Compute", 2)(
                    executor(us(10, 9), step=1, context=11)(send("x", "inv", us(11, 1))),
                    executor(us(20, 9), step=1, context=21)(op("inv", "Inv", us(21, 2))),
                    executor(us(60, 900), step=2, context=12)(op("inv", "Inv", us(61, 800))),
                ),
            ),
            BUSY,
        )

        assert found["f inv:Inv"][1] != "certain"

    def test_a_copy_of_one_call_proves_nothing_of_another(self) -> None:
        """Also: the second call, on the CPU, copies nothing."""
        once = (
            line("python")(
                call("__inference_f_1", us(0, 5), step=1),
                call("__inference_f_1", us(50, 5), step=2),
            ),
            thread("tf_Compute", 2)(
                executor(us(10, 9), step=1)(op("b", "Reshape", us(11, 1)), launch(us(13, 1), 7)),
                executor(us(60, 9), step=2)(op("b", "Reshape", us(61, 1))),
            ),
        )
        both = thread("tf_Compute", 3)(executor(us(70, 9), step=2)(launch(us(71, 1), 8)))
        ends = {"from": ref("a"), "to": ref("b")}
        copies = gpu(0)(
            stream(8)(
                copy("H2D", 4, us(20, 1), correlation=7, **ends),
                copy("H2D", 4, us(80, 1), correlation=8, **ends),
            )
        )

        assert where(LEVEL_3, host(*once), copies)["f b:Reshape"] == ("gpu:0", "likely", "transfer")
        assert where(LEVEL_3, host(*once, both), copies)["f b:Reshape"] == (
            "gpu:0",
            "certain",
            "transfer",
        )

    def test_a_kernel_that_a_callback_launched_itself(self) -> None:
        found = where(
            LEVEL_2,
            host(
                thread("tf_Compute", 1)(
                    executor(us(0, 500))(op("f", "PyFunc", us(1, 400))(launch(us(5, 1), 7)))
                )
            ),
            gpu(0)(stream(7, "Compute")(kernel("of_cupy", us(20, 3), correlation=7))),
        )

        assert found == {"f:PyFunc": ("cpu", "likely", "host_event")}

    def test_a_stage_that_can_be_put_on_a_gpu(self) -> None:
        stages = [iterator("Root::Prefetch", us(0, 5)), iterator("Root::Shuffle", us(10, 5))]
        found = where(LEVEL_2, host(thread("tf_data_iterator", 1)(*stages)), BUSY)

        assert {name.rpartition("::")[2]: what[:2] for name, what in found.items()} == {
            "Prefetch": ("cpu", "likely"),
            "Shuffle": ("cpu", "certain"),
        }

    def test_an_eager_op_beside_a_tpu(self) -> None:
        tpu = plane("/device:TPU:0", line("XLA Ops")(event("fusion", us(0, 9))))
        found = where(LEVEL_2, host(line("python")(eager("Add", us(0, 5)))), tpu)

        assert found["Add:Add"] == ("unknown", "possible", "none")

    def test_an_old_eager_op_without_its_outer_event(self) -> None:
        """Eager ops are traced whatever their device, at every level."""
        found = where(host(line("python")(old_op("Neg", "Neg", us(0, 5), eager=True))), BUSY)

        assert found == {"Neg:Neg": ("unknown", "possible", "none")}


class TestRegistry:
    """No version of TensorFlow whose kernels are known has one for it on a GPU."""

    def test_tells_nothing_of_devices_of_other_kinds(self) -> None:
        """Their kernels are in no table."""
        tpu = plane("/device:TPU:0")(line("XLA Ops")(event("fusion", us(0, 1))))
        seen = host(line("python")(eager("RandomShuffle", us(0, 9))))
        pluggable = host(
            line("python")(
                eager("RandomShuffle", us(0, 9)),
                allocation(64, us(20), "a", allocator="pluggable_device_host_bfc"),
            )
        )

        for planes in ((tpu, seen), (pluggable,)):
            assert where(*planes)["RandomShuffle:RandomShuffle"] == ("unknown", "possible", "none")
