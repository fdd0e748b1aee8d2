"""Whether pipelines keep up, and which stage is slow if not."""

from collections.abc import Callable

import pytest

from tests.input_pipeline.paced import MS, asked, found, made_ahead, steps
from tests.traces import iterator, line, step, us
from traceanalyzer.input_pipeline.verdict import HostInput


def test_waits_are_clipped_to_steps_and_those_between_steps_count_for_the_next() -> None:
    use = found(
        line("python")(
            step(0, us(0, 1000)),
            asked(us(1100, 300)),
            step(1, us(1500, 1000))(asked(us(1600, 200))),
            step(2, us(2500, 1000)),
            step(3, us(3500, 1000)),
        ),
        line("other")(asked(us(1650, 250)), asked(us(3400, 200))),
    )
    assert use.waits is not None
    table = use.waits.table
    assert table["wait_ps"].tolist() == [0, 300 * 10**6, 100 * 10**6, 100 * 10**6]
    assert table["wait_before_ps"].tolist() == [0, 300 * 10**6, 0, 0]


def test_a_wait_while_the_pipeline_was_idle_is_the_time_to_hand_over() -> None:
    use = found(*made_ahead(10_000, 1_000, 2_000))
    assert use.verdict == "keeps_up"
    assert use.waits is not None
    assert use.waits.share == pytest.approx(0.1)


def uneven(*lasts: int, wait: Callable[[int], int]) -> HostInput:
    """Steps that last so many µs each and begin with a wait, during which a stage is at work."""
    begins = [sum(lasts[:k]) for k in range(len(lasts))]
    return found(
        line("python")(
            step(k, us(at, last))(
                asked(
                    us(at, wait(last)),
                    iterator("Root", us(at, wait(last)), id=1, cpu_budget=4)(
                        iterator("Root::Generator", us(at, wait(last)), id=2, parent_id=1)
                    ),
                )
            )
            for k, (at, last) in enumerate(zip(begins, lasts, strict=True))
        )
    )


def test_the_wait_of_the_few_slow_steps_counts() -> None:
    use = uneven(*[4000] * 9, 400_000, *[4000] * 9, 300_000, wait=lambda last: last - 3900)
    assert use.verdict == "too_slow"
    assert use.waits is not None
    assert use.waits.steps == 20
    assert use.waits.share > 0.8
    assert use.slow is not None
    assert use.slow.stage == "Root::Generator"


def test_a_step_that_is_slow_for_another_reason_does_not_count() -> None:
    use = uneven(*[4000] * 9, 400_000, *[4000] * 9, wait=lambda _: 1000)
    assert use.waits is not None
    assert use.waits.steps == 18
    assert use.waits.share == pytest.approx(0.25)


def test_a_wait_that_nothing_explains_names_no_stage() -> None:
    use = found(steps(1000, 500, *([] for _ in range(10))))
    assert use.verdict == "unknown"
    assert "does not show the pipeline's work" in use.reason


def test_filling_a_shuffle_buffer_is_reported_separately() -> None:
    program = line("python")(
        asked(
            us(0, 5000),
            iterator("Root", us(0, 5000), id=1)(
                iterator("Root::Shuffle", us(10, 4800), id=2, parent_id=1, buffer_size=1024)
            ),
        ),
        (
            step(k, us(6000 + 1000 * k, 1000))(
                asked(
                    us(6000 + 1000 * k, 10),
                    iterator("Root", us(6000 + 1000 * k, 10), id=1)(
                        iterator(
                            "Root::Shuffle",
                            us(6001 + 1000 * k, 5),
                            id=2,
                            parent_id=1,
                            buffer_size=1024,
                        )
                    ),
                )
            )
            for k in range(5)
        ),
    )
    use = found(program)
    assert use.verdict == "keeps_up"
    assert use.startup_ps == 5 * MS
    assert use.fill_ps == pytest.approx(4.8 * MS)
    assert use.fill_size == 1024
