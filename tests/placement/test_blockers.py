"""Blockers of nodes: all are found, and each is needed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.graphs import Node, Written, arg, node, read, tanh, upper, variable, written
from tests.placement.test_placer import SETTINGS, graphs
from traceanalyzer.placement.blockers import BlockerFinder, without
from traceanalyzer.placement.devices import parse_device
from traceanalyzer.placement.placer import Placement

X = arg("x")


@pytest.mark.parametrize(
    ("lines", "default", "holds"),
    [
        # nothing does: it is there
        ([tanh("n", "x")], "GPU:0", []),
        # one of each kind
        ([upper("n", "x")], "GPU:0", [("no_kernel", "n")]),
        ([node("n", "MatMul", "x", "x", T="int32")], "GPU:0", [("attributes", "n")]),
        ([tanh("n", "x", asked="/cpu:0")], "GPU:0", [("request", "n")]),
        ([tanh("n", "x")], "CPU:0", [("default_device", "n")]),
        ([node("n", "OptionalFromValue", "x", Toutput_types=["float"])], "", [("priority", "n")]),
        ([arg("v", "CPU:0", T="resource"), read("n", "v")], "GPU:0", [("assigned", "v")]),
        ([variable("v", asked="/cpu:0"), read("n", "v")], "GPU:0", [("resource", "v")]),
        ([arg("n", "CPU:0")], "GPU:0", [("assigned", "n")]),
        # stacked: with any one of them in place the node stays
        ([upper("n", "x", asked="/cpu:0")], "GPU:0", [("no_kernel", "n"), ("request", "n")]),
        ([upper("n", "x", asked="/cpu:0")], "CPU:0", [("no_kernel", "n"), ("request", "n"),
                                                      ("default_device", "n")]),
        ([arg("v", "CPU:0", T="resource"),
          node("n", "ResourceCountUpTo", "v", T="int64", limit=1)],
         "GPU:0", [("no_kernel", "n"), ("assigned", "v")]),
        # what is asked for a resource's user does not count, once the resource is held
        ([arg("v", "CPU:0", T="resource"), read("n", "v", asked="/gpu:0")], "GPU:0",
         [("assigned", "v")]),
        # in a group
        ([upper("s", "x"), tanh("n", "x", group="s")], "GPU:0", [("no_kernel", "s")]),
        ([upper("s", "x"), tanh("n", "x", group="s", asked="/cpu:0")], "GPU:0",
         [("no_kernel", "s"), ("request", "n")]),
        ([tanh("a", "x", asked="/cpu:0"), tanh("n", "x", group="a")], "GPU:0", [("request", "a")]),
        # by what it follows
        ([upper("s", "x"), node("n", "Shape", "s", T="float")], "GPU:0", [("no_kernel", "s")]),
        ([node("n", "Const", dtype="float"), upper("s", "n")], "GPU:0", [("no_kernel", "s")]),
        ([upper("s", "x"), node("i", "Identity", "s", T="float"),
          node("n", "Shape", "i", T="float")], "GPU:0", [("no_kernel", "s")]),
        # by what it would follow without its request
        ([upper("s", "x"), node("n", "Identity", "s", T="float", asked="/cpu:0")], "GPU:0",
         [("request", "n"), ("no_kernel", "s")]),
        # a request that names no CPU holds nothing
        ([upper("n", "x", asked="/job:localhost")], "GPU:0", [("no_kernel", "n")]),
        ([upper("n", "x", asked="/gpu:0")], "GPU:0", [("no_kernel", "n")]),
    ],
)  # fmt: skip
def test_what_holds_a_node(lines: list[Node], default: str, holds: list[tuple[str, str]]) -> None:
    placed = written(X, *lines).placed(default=default)
    assert sorted(placed.holds("n")) == sorted(holds)
    assert placed.blockers("n").is_complete


def test_hundreds_that_ask_for_the_same_hold_a_group_together() -> None:
    many = [tanh(f"n{at}", "x", group="g", asked="/device:CPU:0") for at in range(200)]
    graph = written(X, upper("s", "x", group="g"), *many)
    found = graph.placed().blockers("n7")
    assert found.is_complete
    assert len(found.found) == 201
    setting: dict[str, Any] = {}
    for kept in (0, 1, 100, 200):
        rest = [each for at, each in enumerate(found.found) if at != kept]
        assert not still_there(graph, setting, graph.index("n7"), rest)


def test_members_of_a_group_are_held_by_what_holds_each_of_them() -> None:
    # "b" is colocated with "gpu" and with "n"; no device takes all three, so soft placement leaves
    # it with "n" alone. If "b" could run on a GPU it would go with "gpu", and "n" would stay.
    integers = {"T": "int32"}
    placed = written(
        node("gpu", "CudnnRNN", T="float"),
        node("b", "MatMul", group=["gpu", "n"], **integers),
        node("n", "MatMul", **integers),
    ).placed(default="", soft=True)
    assert placed.placement.roots[1] == placed.placement.roots[2]
    assert placed.placement.ignored
    finder = BlockerFinder(placed.placement)
    held = [{(b.kind.value, b.node) for b in finder.of(at).found} for at in range(3)]
    assert held == [set(), {("attributes", 1)}, {("attributes", 1), ("attributes", 2)}]


def still_there(graph: Written, setting: dict[str, Any], at: int, kept: list[Any]) -> bool:
    """Whether a node is on a GPU once these blockers are gone, in the whole graph."""
    placement = graph.placed(**setting).placement
    goal = next(d for d in placement.setting.machine.devices if "GPU" in d)
    after = Placement(placement.nodes, without(placement.setting, kept, goal))
    device = after.devices[at]
    return not after.failures and bool(device) and parse_device(device).type == "GPU"


@given(graphs(8), st.sampled_from([s for s in SETTINGS if s["gpus"]]))
def test_blockers_are_all_that_holds_a_node_and_each_is_needed(
    graph: Written, setting: dict[str, Any]
) -> None:
    placement = graph.placed(**setting).placement
    finder = BlockerFinder(placement)
    for at in range(len(placement.devices)):
        found = finder.of(at)
        if placement.failures:  # a graph that TensorFlow refuses: all is in doubt
            continue
        assert still_there(graph, setting, at, list(found.found)) == found.is_complete
        assert len(set(found.found)) == len(found.found)
        if found.is_complete:
            for each in found.found:
                rest = [other for other in found.found if other is not each]
                assert not still_there(graph, setting, at, rest), each
