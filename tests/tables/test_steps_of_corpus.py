"""Each trace of the corpus has the steps it has; what is asked is counted here in protobuf's parse.

Where nothing but periodicity tells, the figure is what the program's events show: calls of the
jitted function (the outer of the two events that each leaves), executions of the module.
"""

from functools import lru_cache
from typing import Any, Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, slow_but
from tests.tables.reading import rows
from tests.xspace_proto import XSpace
from traceanalyzer.run import Run

pytestmark = needs_corpus

FATMA: Final = (
    ("tfgpu-fatma-cnn-sandor", "2021_02_02_12_57_01", 500),
    ("tfgpu-fatma-cnn-sandor", "2021_02_02_13_12_57", 109),
    ("tfcpu-on-gpu-host-fatma", "2021_02_03_21_48_13", 109),
)
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


def space_of(run: Run) -> Any:  # noqa: ANN401  # protobuf's message
    file = run.hosts[0].file
    assert file is not None
    return XSpace.FromString(file.path.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "name", "first"), FATMA)
def test_keras_marked_nineteen(folder: str, name: str, first: int) -> None:
    run = run_of(folder, name)
    steps = run.steps

    assert steps["step"].tolist() == list(range(first, first + 19))
    assert set(rows(steps, "name", "source", "is_inferred")) == {("train", "step_num", False)}
    marked = 0
    for plane in space_of(run).planes:
        markers = {key for key, stat in plane.stat_metadata.items() if stat.name == "step_num"}
        for event in (event for line in plane.lines for event in line.events):
            marked += any(stat.metadata_id in markers for stat in event.stats)
    assert marked == len(steps)


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


@pytest.mark.slow
def test_two_gpus_took_turns_at_one_step() -> None:
    steps = run_of("tfgpu-tfprofiler-multiworker").steps

    assert rows(steps, "step", "name", "source") == [(0, "step", "line Steps")] * 2
    assert steps["duration_ps"].max() < 22_000_000_000
