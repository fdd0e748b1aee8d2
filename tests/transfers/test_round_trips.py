"""Round trips: values go from a GPU to ops on the CPU and back."""

from tests.traces import (
    Event,
    call,
    executor,
    gpu,
    host,
    kernel,
    old_copy,
    op,
    stream,
    thread,
    us,
)
from tests.transfers.made import CPU, GPU, Made, made, recorded
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.model.figures import RoundTripTransfers
from traceanalyzer.transfers.round_trips import RoundTrip


def off(producer: str, consumer: str, size: int, at: int) -> Event:
    """A transfer from the GPU."""
    return old_copy(
        "D2H", size, us(at, 2), f"{producer}/_1:_Send", producer=producer, consumer=consumer
    )


def onto(producer: str, consumer: str, size: int, at: int) -> Event:
    """A transfer to the GPU."""
    return old_copy(
        "H2D", size, us(at, 2), f"{producer}/_2:_Send", producer=producer, consumer=consumer
    )


def run(ops: list[Event], on_gpu: list[Event], capture_file: CaptureFile | None = None) -> Made:
    """A call of the function `f`, whose ops on the CPU run on a thread of the pool."""
    return made(
        host(
            thread("python", 1)(call("__inference_f_1", us(0, 1000), step=5)),
            thread("tf_Compute", 2)(executor(us(1, 998), step=5)(*ops)),
        ),
        gpu(0)(stream(9)(*on_gpu)),
        capture_file=capture_file,
    )


def names(trip: RoundTrip) -> list[str]:
    return [op.name for op in trip.ops]


class TestByCopiesAlone:
    def test_an_op_that_takes_from_the_gpu_and_gives_back_is_one(self) -> None:
        found = run(
            [op("a", "Unique", us(20, 10))],
            [
                kernel("k", us(2, 3), "x:Neg"),
                off("x", "a", 100, 10),
                onto("a", "y", 40, 40),
                onto("a", "z", 40, 50),
                kernel("k", us(60, 3), "y:Abs"),
            ],
        )

        (trip,) = found.costs.round_trips
        assert names(trip) == ["a"]
        assert trip.certainty == "likely"  # as is, in a trace without a capture, where `a` ran
        assert trip.function == "f"
        assert trip.host == "worker-0"
        assert trip.arriving == RoundTripTransfers(count=1, bytes=100, total_us=2, exposed_us=None)
        assert trip.leaving == RoundTripTransfers(count=2, bytes=80, total_us=4, exposed_us=None)


class TestInARecordedGraph:
    def test_all_ops_on_the_way_are_in_it_in_order(self) -> None:
        """x on the GPU; a, b and c on the CPU, b unseen; y on the GPU. d leads nowhere."""
        capture_file = recorded(
            "__inference_f_1",
            ("x", "Neg", GPU, ()),
            ("c", "Unique", CPU, ("b",)),
            ("b", "Reshape", CPU, ("a", "^x")),
            ("a", "Unique", CPU, ("x",)),
            ("d", "Where", CPU, ("a",)),
            ("y", "Abs", GPU, ("c:1",)),
        )
        found = run(
            [
                op("a", "Unique", us(20, 5)),
                op("d", "Where", us(26, 5)),
                op("c", "Unique", us(32, 5)),
            ],
            [off("x", "a", 100, 10), onto("c", "y", 40, 40)],
            capture_file,
        )

        (trip,) = found.costs.round_trips
        assert names(trip) == ["a", "b", "c"]
        assert [op.op_id for op in trip.ops] == [found.op_id(name) for name in "abc"]
        assert (trip.certainty, trip.function) == ("certain", "f")
        assert (trip.arriving.bytes, trip.leaving.bytes) == (100, 40)

    def test_ops_that_the_graph_does_not_connect_are_none(self) -> None:
        capture_file = recorded(
            "__inference_f_1",
            ("x", "Neg", GPU, ()),
            ("a", "Unique", CPU, ("x",)),
            ("c", "Unique", CPU, ()),
            ("y", "Abs", GPU, ("c",)),
        )
        found = run(
            [op("a", "Unique", us(20, 5)), op("c", "Unique", us(32, 5))],
            [off("x", "a", 100, 10), onto("c", "y", 40, 40)],
            capture_file,
        )

        assert found.costs.round_trips == ()
