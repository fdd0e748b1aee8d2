"""The benchmark's arithmetic; what it measures takes minutes."""

from __future__ import annotations

import pytest

from tests.performance import benchmark_hooks
from tests.performance.benchmark_hooks import pair_ratios


def test_blocks_are_compared_with_their_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine slows down all the while; what is switched on costs a quarter.
    now_s, speed, is_on = 0.0, 1.0, False
    order: list[bool] = []

    def switch(value: bool) -> None:  # noqa: FBT001 - what the benchmark calls
        nonlocal is_on
        is_on = value
        order.append(value)

    def work() -> None:
        nonlocal now_s, speed
        now_s += (1.25 if is_on else 1.0) * speed
        speed *= 1.01

    monkeypatch.setattr(benchmark_hooks.time, "process_time", lambda: now_s)

    found = pair_ratios(work, switch, 4)

    assert order == [False, True, True, False] * 2
    assert found == pytest.approx([1.25 * 1.01, 1.25 / 1.01] * 2)
