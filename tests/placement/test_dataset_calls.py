"""Functions of datasets: those that compute for a step, and those that prepare its input."""

from typing import Any

import pytest

from tests.placement.graphs import Node, node
from tests.placement.test_program import Program, arg, tanh
from traceanalyzer.placement.calls import functions_of_steps

STEP = "__inference_step_1"
SOURCE = node("source", "TensorSliceDataset")
QUERIES = arg("queries")


def calls(name: str, op: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - attributes
    return node(name, op, *inputs, f={"func": f"__inference_{name}_2"}, **more)


def reduced(dataset: str) -> Node:
    return calls("best", "ReduceDataset", dataset, "queries")


def of_steps(*lines: Node, function: str = STEP) -> set[str]:
    program = Program()
    program.function(function, *lines)
    found = functions_of_steps(program.capture_file())
    return {name.removeprefix("__inference_").removesuffix("_2") for name in found}


def test_the_body_of_a_loop_is_of_the_step_and_what_prepares_its_input_is_not() -> None:
    lines = (
        SOURCE,
        QUERIES,
        calls("decode", "MapDataset", "source"),
        node("prefetched", "PrefetchDataset", "decode"),
        calls("body", "ScanDataset", "prefetched", "queries", use_default_device=False),
        calls("go_on", "TakeWhileDataset", "body"),
        reduced("go_on"),
    )
    assert of_steps(*lines) == {"body", "best"}


@pytest.mark.parametrize(
    ("given", "is_of_step"),
    [
        (QUERIES, True),  # of the step, or a constant of the program's: a graph does not tell
        (tanh("given", "queries"), True),
        (node("given", "Identity", "of_step"), True),
        (node("given", "Const"), False),
        (arg("given", T="resource"), False),
        (node("given", "VarHandleOp", dtype="float"), False),
        (SOURCE, False),
    ],
)
def test_a_function_that_is_given_a_value_of_the_step_may_compute_for_it(
    given: Node, *, is_of_step: bool
) -> None:
    lines = {each.name: each for each in (SOURCE, QUERIES, tanh("of_step", "queries"), given)}
    scores = calls("scores", "MapDataset", "source", given.name)
    assert of_steps(*lines.values(), scores, reduced("scores")) == (
        {"scores", "best"} if is_of_step else {"best"}
    )


def test_a_function_of_a_dataset_that_reduces_another_prepares_input() -> None:
    program = Program()
    windows = (SOURCE, QUERIES, reduced("source"))
    program.eager("MapDataset", f={"func": "__inference_Dataset_map_total_1"})
    program.function("__inference_Dataset_map_total_1", *windows)
    assert functions_of_steps(program.capture_file()) == set()
