"""Where the replay may be wrong, and what that draws into doubt."""

from __future__ import annotations

from typing import Any

from tests.placement.graphs import Node, node, written


def arg(name: str, on: str = "GPU:0", T: str = "float", **more: Any) -> Node:  # noqa: ANN401, N803
    return node(name, "_Arg", T=T, index=0, on=on, **more)


def tanh(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "Tanh", *inputs, T="float", **more)


def upper(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "StringUpper", *inputs, **more)


def read(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "ReadVariableOp", *inputs, dtype="float", **more)


X = arg("x")


def doubtful(*lines: Node, guessed: tuple[str, ...] = (), **setting: Any) -> set[str]:  # noqa: ANN401
    placed = written(X, *lines).placed(guessed=guessed, **setting)
    return {name for name in placed.written.graph.names if placed.doubt(name)}


def test_a_doubt_spreads_to_what_follows_and_to_the_groups_of_that() -> None:
    assert doubtful(
        node("n", "MyOp", "x"),
        node("shape", "Shape", "n", T="float"),
        tanh("with_it", "x", group="shape"),
        node("c", "Const", dtype="float"),
        node("m", "MyOp", "c"),
        node("d", "Const", dtype="float", group="c"),
        tanh("other", "d"),
    ) == {"n", "shape", "with_it", "c", "m", "d"}


def test_a_guess_is_in_doubt_with_all_that_is_held_by_it() -> None:
    lines = (arg("v", "CPU:0", T="resource"), read("r", "v"), tanh("t", "r"))
    assert doubtful(*lines, guessed=("v",)) == {"v", "r"}
    assert doubtful(*lines) == set()


def test_a_graph_that_tensorflow_would_refuse_is_in_doubt_as_a_whole() -> None:
    placed = written(X, upper("n", "x", asked="/gpu:0"), tanh("m", "x")).placed(soft=False)
    assert placed.doubt("m").startswith("TensorFlow would refuse the graph: n: ")
