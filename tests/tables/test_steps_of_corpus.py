"""The steps in traces of the corpus that have no markers.

The expected figures are counts of the program's events: calls of the jitted function (the outer of
the two events of each), executions of the module.
"""

from functools import lru_cache
from typing import Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, slow_but
from tests.tables.reading import rows
from traceanalyzer.run import Run

pytestmark = needs_corpus

E4040: Final = "2023_11_07_18_18_59"
ONE_BATCH: Final = (
    ("tfgpu-e4040-2023-hd2551", E4040),
    ("tfmac-chiyo-dogsvscats", None),
    ("tfcpu-win-ahettiarac", None),
    ("oldfmt-ruben-noxplane", None),
    ("oldfmt-sagemaker-timeline", None),
    ("oldfmt-localtrace-jonathanpeel", None),
)
INFERRED: Final = (
    ("jax-rocm-attention", "27 ops", "repeated ops", 3),
    ("jax-rocm-elementwise", "11 ops", "repeated ops", 5),
    ("jax-rocm-conv08", "forward_3d_conv", "function calls", 5),
    ("jax-rocm-convlegacy", "forward_3d_conv", "function calls", 10),
    ("tpu-xprof-inference2", "jit_f", "XLA modules", 100),
)


@lru_cache(maxsize=4)
def run_of(folder: str, name: str | None = None) -> Run:
    if not (CORPUS / folder).is_dir():
        pytest.skip(f"{folder} is not in the corpus")
    return ta.load(CORPUS / folder, run=name)


@pytest.mark.parametrize(
    ("folder", "name"), slow_but(lambda case: not case[0].startswith("tfcpu"), ONE_BATCH)
)
def test_keras_profiled_one_batch(folder: str, name: str | None) -> None:
    steps = run_of(folder, name).steps

    expected = "distributed_function" if "localtrace" in folder else "train"
    assert rows(steps, "step", "name", "source", "is_inferred", "kind") == [
        (0, expected, "Keras function", False, "regular")
    ]


def test_a_batch_ends_when_the_gpu_has_done_it_and_not_with_what_comes_later() -> None:
    run = run_of("tfgpu-e4040-2023-hd2551", E4040)
    (begin,) = run.steps["start_ps"]
    end = begin + run.steps["duration_ps"].iloc[0]
    kernels = run.kernels
    finish = kernels["start_ps"] + kernels["duration_ps"]
    of_model = ~kernels["op"].isin(["LogicalAnd:LogicalAnd", "nan:LogicalAnd"])

    assert (kernels["start_ps"][of_model] >= begin).all()
    assert finish[of_model].max() == end


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "name", "source", "count"), INFERRED)
def test_what_is_done_over_and_over(folder: str, name: str, source: str, count: int) -> None:
    steps = run_of(folder).steps

    assert len(steps) == count
    assert set(rows(steps, "name", "source", "is_inferred")) == {(name, source, True)}
    assert steps["start_ps"].is_monotonic_increasing
    assert rows(steps, "kind")[-1] == "partial"
