"""Changes against losses that placement does not cause, on traces of real GPUs."""

from __future__ import annotations

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, recorded_runs
from traceanalyzer.changes import Change, changes_of

_CNN = "tfgpu-fatma-cnn-sandor"


def changes(folder: str, run: str | None = None) -> tuple[Change, ...]:
    return changes_of(ta.diagnose(ta.load(CORPUS / folder, run=run)))


@needs_corpus
def test_a_small_keras_model_has_advice_on_launches_and_on_values_read_back() -> None:
    """Ten epochs of a small CNN: the GPU waits for launches, and for the loss that is read."""
    found = changes(_CNN, "2021_02_02_12_57_01")

    assert [change.kind for change in found] == ["runtime", "sync", "runtime"]
    assert not any(change.is_by_placement for change in found)
    assert "jit_compile=True" in found[0].instead
    assert "steps_per_execution" in found[2].instead
    step_us = 5365.5
    for change in found:
        saving = change.saving
        assert saving.share is not None
        assert saving.share * step_us == pytest.approx(saving.high_us, rel=0.01)
        assert saving.share >= 0.02


@needs_corpus
@pytest.mark.parametrize("folder", ["jax-rocm-attention", "tpu-xprof-inference2"])
def test_there_is_nothing_to_change_where_tensorflow_placed_no_op(folder: str) -> None:
    assert changes(folder) == ()


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "run"), recorded_runs())
def test_changes_of_a_recorded_run_are_consistent(folder: str, run: str) -> None:
    try:
        found = changes(folder, run or None)
    except ta.TraceAnalyzerError:
        pytest.skip("the run cannot be read")

    ids = [change.id for change in found]
    assert len(set(ids)) == len(ids)
    assert all(set(change.needs) <= set(ids) for change in found)
    assert all(
        change.title and (change.edits or change.instead or change.around) for change in found
    )
    savings = [change.saving for change in found]
    assert all(s.low_us is None or s.low_us <= (s.high_us or 0.0) for s in savings)
    assert all(s.share is None or 0 <= s.share <= 1 for s in savings)
