"""Memory from step to step."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.memory.test_use import only
from tests.tables.reading import rows, tables_of
from tests.traces import allocation, deallocation, host, line, step, us
from traceanalyzer.memory.use import memory_use

US = 10**6
KIB = 1024


def leaking(steps: int, *, kept: int = KIB) -> list[Any]:
    """Steps of 10 us, each of which takes two blocks and gives one of them back."""
    events = []
    for k in range(steps):
        before = 5 * KIB + kept * k
        events += [
            step(k, us(10 * k, 9)),
            allocation(kept, us(10 * k + 1), "metrics/concat", address=k, in_use=before + kept),
            allocation(8 * KIB, us(10 * k + 2), "tmp", address=999, in_use=before + kept + 8 * KIB),
            deallocation(8 * KIB, us(10 * k + 3), address=999, in_use=before + kept),
        ]
    return events


def test_each_step_has_its_peak_and_its_end() -> None:
    use = only(
        # Before the first record 3 KiB were in use, and so in the step before it.
        step(7, us(0, 5)),
        step(8, us(10, 10)),
        step(9, us(30, 10)),
        step(10, us(50, 10)),
        allocation(1 * KIB, us(12), "x", address=1, in_use=4 * KIB),
        deallocation(1 * KIB, us(15), address=1, in_use=3 * KIB),
        allocation(2 * KIB, us(20), "y", address=2, in_use=5 * KIB),  # as the step ends
        deallocation(2 * KIB, us(35), address=2, in_use=3 * KIB),
        allocation(9 * KIB, us(45), "between", address=3, in_use=12 * KIB),
        deallocation(9 * KIB, us(48), address=3, in_use=3 * KIB),
    )

    assert rows(use.steps, "step", "start_ps", "peak_bytes", "end_bytes") == [
        (7, 0, 3 * KIB, 3 * KIB),
        (8, 10 * US, 5 * KIB, 5 * KIB),
        (9, 30 * US, 5 * KIB, 3 * KIB),
        (10, 50 * US, 3 * KIB, 3 * KIB),
    ]
    assert use.growth is None


def test_a_rise_at_the_end_of_each_of_five_steps_is_growth() -> None:
    use = only(*leaking(5))

    growth = use.growth
    assert growth is not None
    assert (growth.steps, growth.bytes_per_step) == (5, KIB)
    assert (growth.first_bytes, growth.last_bytes) == (6 * KIB, 10 * KIB)
    assert rows(growth.holders, "op_name", "bytes", "count") == [("metrics/concat", 4 * KIB, 4)]


@pytest.mark.parametrize("kind", ["warm_up", "partial"])
def test_a_step_that_is_no_steady_one_tells_nothing_of_growth(kind: str) -> None:
    tables = tables_of(host(line("a")(leaking(6))))
    kinds = ["regular"] * 6

    def growing() -> bool:
        steps = tables.steps.assign(kind=pd.Categorical(kinds))
        return memory_use(tables.allocations, steps)[0].growth is not None

    assert growing()
    kinds[0] = kind
    assert growing()
    kinds[5] = kind
    assert not growing()


def test_what_grows_by_being_made_anew_is_named() -> None:
    """A list that is copied into a longer one at each step: no block of it outlives two steps."""
    events: list[Any] = []
    for k in range(1, 7):
        at = 10 * k
        events += [
            step(k, us(at, 9)),
            allocation(k * KIB, us(at + 1), "append", address=k, in_use=(2 * k - 1) * KIB),
            deallocation((k - 1) * KIB, us(at + 2), address=k - 1, in_use=k * KIB),
        ]

    use = only(*events)

    assert use.growth is not None
    assert use.growth.bytes_per_step == KIB
    assert rows(use.growth.holders, "op_name", "bytes", "count") == [("append", 5 * KIB, 0)]
