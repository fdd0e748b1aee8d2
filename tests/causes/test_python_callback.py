"""Python in a graph: what to do depends on whether a step or the input pipeline waits for it."""

from __future__ import annotations

from tests.causes.examples import Example, blocker, cpu_op
from traceanalyzer.causes.python_callback import CAUSE

_IN_PIPELINE = {"name": "PyFunc", "type": "PyFunc", "in_input_pipeline": True}


def test_nothing_in_the_input_pipeline_is_told_that_it_can_run_on_the_gpu() -> None:
    (found,) = CAUSE.check(Example(title="", ops=(_IN_PIPELINE,)).run())

    assert not any("on the GPU" in fix.text for fix in found.fixes)
    assert any("num_parallel_calls" in (fix.code or "") for fix in found.fixes)


def test_so_it_is_for_a_function_of_a_dataset_without_a_gpu() -> None:
    assert CAUSE.describe is not None
    inside = blocker("no_kernel", "PyFunc", function="__inference_Dataset_map_load_3")

    words = CAUSE.describe([(cpu_op("PyFunc"), inside)])

    assert words.harm == "harmless"
    assert not any("on the GPU" in fix.text for fix in words.fixes)


def test_in_a_step_it_is_to_be_written_with_ops() -> None:
    assert CAUSE.describe is not None

    words = CAUSE.describe([(cpu_op("PyFunc"), blocker("no_kernel", "PyFunc"))])

    assert "TensorFlow ops" in words.fixes[0].text
