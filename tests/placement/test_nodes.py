"""Facts about nodes that the placer needs: neighbors, edges that bind, kinds of nodes."""

import pytest

from tests.placement.graphs import Node, node, tanh, variable, written
from traceanalyzer.placement.nodes import describe, is_dataset
from traceanalyzer.placement.registry import load


def const(name: str, *inputs: str) -> Node:
    return node(name, "Const", *inputs, dtype="float")


def identity(name: str, *inputs: str) -> Node:
    return node(name, "Identity", *inputs, T="float")


@pytest.mark.parametrize(("version", "does"), [("2.16", False), ("2.17", True)])
def test_an_identity_follows_from_2_17_on(version: str, *, does: bool) -> None:
    graph = written(const("c"), tanh("x", "c"), identity("i", "x"), tanh("y", "i"))
    nodes = describe(graph.graph, graph.attributes, load(version))
    assert bool(nodes.followers) is does


@pytest.mark.parametrize(
    ("op", "outputs", "makes"),
    [
        ("RangeDataset", ["variant"], True),
        ("BatchDatasetV2", ["variant"], True),
        ("ParallelMapDatasetV12", ["variant"], True),
        ("DatasetFromGraph", ["variant"], True),
        ("DatasetToGraphV2", ["string"], False),
        ("IteratorV2", ["resource"], False),
        ("BatchDatasetV2", ["variant", "variant"], False),
        ("OptionalFromValue", ["variant"], False),
        ("Dataset2", ["variant"], False),
    ],
)
def test_a_dataset_is_known_by_its_ops_name(op: str, outputs: list[str], *, makes: bool) -> None:
    assert is_dataset(op, outputs) is makes


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("given", ["gone", "gone:1", "^gone", "", "^", ":", ":0"])
def test_an_input_that_is_not_there_is_a_doubt(given: str) -> None:
    graph = written(tanh("x", given))
    assert "is not in the graph" in graph.described().doubts[0]


@pytest.mark.parametrize("given", ["v:out:0", "v:x", "v:-1", "v:99", "v:", "v:²"])
def test_an_output_that_is_no_number_of_one_is_no_error(given: str) -> None:
    assert len(written(variable("v"), tanh("x", given), node("y", "MyOp", given)).described()) == 3


def test_attributes_of_the_wrong_kind_are_no_error() -> None:
    graph = written(
        node("a", "AddN", T="float", N="many"),
        node("b", "IdentityN", T="float"),
        node("c", "Const", dtype=["float"]),
        node("d", "Tanh", "c", T={"s": "float"}),
        node("e", "TensorListReserve", "c", "c", element_dtype=7, shape_type=None),
    )
    assert len(graph.described().support) == 5


def test_lists_of_strings_are_on_the_host_and_what_takes_them() -> None:
    def reserve(name: str, dtype: str) -> Node:
        return node(name, "TensorListReserve", "n", "n", element_dtype=dtype, shape_type="int32")

    graph = written(
        node("n", "Const", dtype="int32"),
        reserve("strings", "string"),
        reserve("floats", "float"),
        reserve("lists", "variant"),
        node("same", "Identity", "strings", T="variant"),
        node("length", "TensorListLength", "same"),
        node("other", "TensorListLength", "floats"),
        node("unknown", "TensorListLength", "lists"),
        node("nested", "TensorListSetItem", "lists", "n", "strings", element_dtype="variant"),
        # TensorFlow takes the first input's list for all of them
        node("strings_first", "IdentityN", "strings", "floats", T=["variant", "variant"]),
        node("floats_first", "IdentityN", "floats", "strings", T=["variant", "variant"]),
        node("after", "Identity", "length", T="int32"),
    )
    names = graph.graph.names
    assert {names[at] for at in graph.described().host_lists} == {
        "same",
        "length",
        "nested",
        "strings_first",
    }


def test_a_list_of_strings_is_followed_round_a_loop() -> None:
    graph = written(
        node("n", "Const", dtype="int32"),
        node("list", "EmptyTensorList", "n", "n", element_dtype="string", shape_type="int32"),
        node("enter", "Enter", "list", T="variant", frame_name={"s": "loop"}),
        node("merge", "Merge", "enter", "next", T="variant", N=2),
        node("next", "NextIteration", "merge", T="variant"),
    )
    names = graph.graph.names
    assert {names[at] for at in graph.described().host_lists} == {"enter", "merge", "next"}
