"""Fixes for a slow stage, and the most that each can save."""

from tests.input_pipeline.paced import MS, found, from_source, made_ahead, on_own_thread
from traceanalyzer.input_pipeline.verdict import HostInput


def gains(use: HostInput) -> dict[str, float]:
    """Return the most that each fix can save, in milliseconds to the second decimal."""
    return {fix.kind: round(fix.high_ps / MS, 2) for fix in use.fixes}


def test_a_map_on_the_steps_own_thread_is_made_ahead_or_made_by_several() -> None:
    # 6 ms of work and 4 ms of step: beside it, 2 ms are left to wait for; on 4 CPUs none.
    use = found(on_own_thread(10_000, 6_000))
    assert gains(use) == {"parallel": 6.0, "prefetch": 4.0}
    assert use.fixes[0].kind == "parallel"
    assert "num_parallel_calls=tf.data.AUTOTUNE" in use.fixes[0].code


def test_calls_one_after_another_can_run_at_once() -> None:
    # 10 ms of calls a step; the step's own 4 ms hide some of them already.
    use = found(*made_ahead(10_000, 6_000, 10_000))
    assert gains(use)["parallel"] == 6.0


def test_what_tf_data_tunes_itself_is_not_advised() -> None:
    use = found(*made_ahead(10_000, 6_000, 10_000, parallelism=4, autotune="true"))
    assert "parallel" not in gains(use)


def test_a_cache_needs_a_second_epoch() -> None:
    assert "cache" not in gains(found(*made_ahead(10_000, 6_000, 10_000)))
    use = found(*made_ahead(10_000, 6_000, 10_000, epochs=2, autotune="true"))
    assert gains(use)["cache"] == 6.0


def test_many_short_calls_are_better_made_for_a_batch() -> None:
    use = found(*made_ahead(10_000, 6_000, 10_000, calls=100, op_time=10, batch=100))
    assert gains(use)["vectorise"] == 6.0
    fix = next(f for f in use.fixes if f.kind == "vectorise")
    assert "batch(100)" in fix.code
    long_ops = found(*made_ahead(10_000, 6_000, 10_000, calls=100, op_time=90, batch=100))
    assert "vectorise" not in gains(long_ops)


def test_of_a_generator_in_python_several_may_give_elements() -> None:
    use = found(*from_source(10_000, 6_000, 10_000, "Generator", python=True))
    assert use.slow is not None
    assert use.slow.stage == "Root::Prefetch::Generator"
    assert gains(use) == {"generator": 6.0}
    assert "cycle_length=4" in use.fixes[0].code
