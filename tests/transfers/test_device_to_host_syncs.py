"""Scalars read back each step: their reader, how often, and the waits for them."""

import pytest

from tests.corpus import CORPUS, needs_corpus
from tests.traces import (
    Event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    old_copy,
    old_kernel,
    op,
    step,
    stream,
    thread,
    us,
)
from tests.transfers.made import GPU, made, recorded
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.model.figures import DeviceToHostSyncRecord
from traceanalyzer.run import load


def found(
    copies: list[Event],
    *,
    steps: int = 2,
    pool: tuple[Event, ...] = (),
    capture_file: CaptureFile | None = None,
) -> tuple[DeviceToHostSyncRecord, ...]:
    marks = [step(k, us(1000 * k, 1000)) for k in range(steps)]
    run = made(
        host(thread("python", 1)(*marks), thread("tf_Compute", 2)(*pool)),
        gpu(0)(stream(9)(*copies)),
        capture_file=capture_file,
    )
    return run.costs.device_to_host_syncs


def predicate(at: int, size: int = 1, consumer: str = "cond/x/_6") -> Event:
    return old_copy(
        "D2H", size, us(at, 2), "p/_1:_HostRecv", producer="p", consumer=consumer, correlation=at
    )


class TestReader:
    def test_a_predicate_is_known_by_the_name_of_the_node_that_replaces_the_conditional(
        self,
    ) -> None:
        (back,) = found([predicate(100), predicate(1100)])

        assert (back.reader, back.certainty) == ("predicate", "likely")
        assert (back.source_name, back.consumer_name) == ("p", "cond/x/_6")
        assert (back.count, back.count_per_step, back.bytes_each) == (2, 1.0, 1.0)
        assert back.total_us == 4

    def test_a_capture_proves_that_the_reader_is_control_flow(self) -> None:
        capture_file = recorded(
            "f", ("p", "Less", GPU, ()), ("my_choice/x/_6", "_SwitchN", GPU, ("p",))
        )
        copies = [predicate(k, 4, "my_choice/x/_6") for k in (100, 1100)]

        (back,) = found(copies, capture_file=capture_file)
        assert (back.reader, back.certainty) == ("predicate", "certain")

    def test_an_op_on_the_cpu(self) -> None:
        copies = [
            old_copy("D2H", 4, us(k, 2), "a/_1:_Send", producer="a", consumer="b")
            for k in (100, 1100)
        ]

        (back,) = found(copies, pool=(executor(us(50, 90))(op("b", "AsString", us(105, 9))),))
        assert (back.reader, back.certainty) == ("cpu_op", "likely")

    def test_the_program_itself(self) -> None:
        """The trace does not show which op made the tensor."""
        (back,) = found(reads(100, 1100))

        assert (back.reader, back.certainty) == ("python", "certain")
        assert (back.source, back.source_name, back.consumer_name) == ("gpu:0", None, None)


def reads(*at: int, size: int = 4) -> list[Event]:
    return [old_copy("D2H", size, us(k, 2)) for k in at]


class TestHowOften:
    @pytest.mark.parametrize(
        ("copies", "steps", "is_found"),
        [
            (reads(1000, 2000), 4, True),  # in half of the steps
            (reads(1000, 2000), 5, False),
            (reads(100, 1100, size=16), 2, True),
            (reads(100, 1100, size=17), 2, False),  # more than a scalar
            (reads(100, 200, 300), 0, True),  # without steps three are a habit
            (reads(100, 200), 0, False),
        ],
    )
    def test_scalars_in_half_of_the_steps_at_least(
        self, copies: list[Event], *, steps: int, is_found: bool
    ) -> None:
        assert bool(found(copies, steps=steps)) is is_found

    def test_what_comes_after_a_step_belongs_to_it(self) -> None:
        marks = [step(k, us(1000 * k, 400)) for k in range(3)]
        run = made(
            host(thread("python", 1)(*marks)),
            gpu(0)(stream(9)(*reads(500, 1500, 2500))),
        )

        (back,) = run.costs.device_to_host_syncs
        assert back.count_per_step == 1.0


class TestWaiting:
    def test_lasts_from_the_request_to_the_end_of_the_copy(self) -> None:
        """Asked for at 50 and 1070, there at 102 and 1102: 52 + 32."""
        (back,) = found(
            [predicate(100), predicate(1100)],
            pool=(launch(us(50, 1), 100), launch(us(1070, 1), 1100)),
        )

        assert back.wait_us == 84

    def test_is_unknown_without_a_request_or_if_the_clocks_disagree(self) -> None:
        (unasked,) = found([predicate(100), predicate(1100)])
        assert unasked.wait_us is None

        (late,) = found(
            [predicate(100), predicate(1100)],
            pool=(launch(us(110, 1), 100), launch(us(1110, 1), 1100)),
        )
        assert late.wait_us is None

    def test_the_device_is_idle_until_its_next_work(self) -> None:
        """Idle from 102 to 130. A kernel runs right after the second copy."""
        copies = [
            predicate(100),
            old_kernel("k", us(130, 5), "a:Neg"),
            predicate(1100),
            kernel("k", us(1101, 50)),
        ]
        (back,) = found(copies)
        assert back.idle_us == 28

        (last,) = found([predicate(100), predicate(1100)])
        assert last.idle_us == 1100 - 102  # up to the second, after which nothing is known


@pytest.mark.slow
@needs_corpus
def test_predicates_of_a_recorded_program_are_found_costed_and_named() -> None:
    """Loss scaling asks twice in each step whether all gradients are finite.

    Its trace has 21 steps of mixed precision; nothing on the CPU is to blame.
    """
    run = load(CORPUS / "tfgpu-fatma-cnn-sandor", "2021_02_02_12_57_01")

    syncs = run.transfer_costs.device_to_host_syncs
    predicates = {sync.source_name: sync for sync in syncs if sync.reader == "predicate"}
    assert sorted(predicates) == ["All_10", "cond/then/_0/cond/GreaterEqual"]
    for back in predicates.values():
        assert (back.count, back.count_per_step, back.bytes_each) == (21, 1.0, 1.0)
        assert back.device == "/device:GPU:0"
        assert 0 < (back.total_us or 0) < (back.wait_us or 0)
        assert (back.idle_us or 0) > 0
        assert run.transfer_graph.nodes[back.source]["label"].startswith(f"{back.source_name}:")
    assert predicates["All_10"].total_us == 27.071
    assert predicates["All_10"].consumer_name == "cond/readvariableop_resource/_6"

    (own,) = (sync for sync in syncs if sync.reader == "python")
    assert (own.count, own.count_per_step) == (41, 2.0)
