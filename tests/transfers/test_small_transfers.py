"""Many small transfers in a step, each far slower than its bytes alone."""

import pytest

from tests.traces import Event, copy, gpu, host, step, stream, thread, us
from tests.transfers.made import made
from traceanalyzer.model.figures import SmallTransfersEdge, SmallTransfersRecord

LARGE = copy("H2D", 1_000_000, us(900, 100))  # 10 GB/s


def found_small(*copies: Event, steps: int = 2) -> tuple[SmallTransfersRecord, ...]:
    """Find small transfers on a GPU, with steps at 0, 1000, ..."""
    marks = [step(k, us(1000 * k, 1000)) for k in range(steps)]
    found = made(host(thread("python", 1)(*marks)), gpu(0)(stream(9)(*copies)))
    return found.costs.small_transfers


def small(number: int, *, size: int = 64, at: int = 0) -> list[Event]:
    return [copy("H2D", size, us(at + 10 * k, 2)) for k in range(number)]


def test_ten_in_a_step_are_one() -> None:
    (found,) = found_small(*small(10), *small(12, at=1000), LARGE)

    assert found == SmallTransfersRecord(
        source="host",
        target="gpu:0",
        direction="h2d",
        count=22,
        count_per_step=11.0,
        bytes_each=64.0,
        total_us=44,
        each_us=2,
        carrying_us=pytest.approx(0.141),  # 64 bytes at 10 GB/s are 6.4 ns
        edges=(SmallTransfersEdge(source="host", target="gpu:0", count=22),),
        edges_total=1,
    )


def test_nine_are_none() -> None:
    assert found_small(*small(9), *small(9, at=1000), LARGE) == ()


def test_a_copy_whose_bytes_take_a_quarter_of_its_time_is_not_small() -> None:
    """Of 5 000 bytes 0.5 us of 2 us are carrying; of 4 900 less."""
    assert found_small(*small(20, size=5_000), LARGE, steps=1) == ()
    assert len(found_small(*small(20, size=4_900), LARGE, steps=1)) == 1


def test_where_the_link_is_not_known_no_link_of_a_gpu_is_as_slow_as_that() -> None:
    """At 1 GB/s, 500 bytes take a quarter of 2 us. The time on the link is unknown."""
    (found,) = found_small(*small(20, size=499), steps=1)

    assert found.carrying_us is None
    assert found_small(*small(20, size=500), steps=1) == ()


def test_without_steps_a_hundred_are_one() -> None:
    (found,) = found_small(*small(100), steps=0)

    assert (found.count, found.count_per_step) == (100, None)
    assert found_small(*small(99), steps=0) == ()
