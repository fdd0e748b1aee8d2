"""The placer's rules, each in a graph of a few nodes: the device, and how it came about.

That the rules are TensorFlow's own is shown against TensorFlow, with an emulated GPU.
"""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.graphs import Node, Written, arg, node, tanh, upper, written
from traceanalyzer.placement.placer import Decision

FIRST, INPUT, CONSUMERS, ASSIGNED, NONE = (
    Decision.FIRST,
    Decision.INPUT,
    Decision.CONSUMERS,
    Decision.ASSIGNED,
    Decision.NONE,
)


def rnn(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - has a GPU kernel only
    return node(name, "CudnnRNN", *inputs, T="float", **more)


X = arg("x")

# ------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("of", "soft_device"),
    [
        (upper("n", "x", asked="/device:GPU:0"), "CPU:0"),
        (node("n", "MatMul", "x", "x", T="int32", asked="/device:GPU:0"), "CPU:0"),
        (rnn("n", "x", asked="/device:CPU:0"), "GPU:0"),
        (tanh("n", "x", asked="/device:GPU:9"), "GPU:0"),
        (tanh("n", "x", asked="/device:TPU:0"), "GPU:0"),
    ],
)
def test_a_request_that_cannot_be_met_is_given_up_or_refused(of: Node, soft_device: str) -> None:
    graph = written(X, of)
    assert graph.placed(soft=True).device("n") == soft_device
    assert not graph.placed(soft=True).failures
    hard = graph.placed(soft=False)
    assert hard.device("n") == ""
    assert list(hard.failures) == ["n"]


# ------------------------------------------------------------- arguments, already assigned


def test_two_resources_on_two_devices_for_one_op_are_refused() -> None:
    placed = written(
        arg("a", "CPU:0", T="resource"),
        arg("b", "GPU:0", T="resource"),
        node("both", "TwoResources", "a", "b"),
    ).placed()
    assert list(placed.failures) == ["both"]


# ------------------------------------------------------------------------ colocation groups


def test_requests_in_a_group_that_differ_are_given_up_or_refused() -> None:
    graph = written(
        X, tanh("a", "x", asked="/device:CPU:0"), tanh("b", "x", group="a", asked="/device:GPU:0")
    )
    assert {graph.placed().device(n) for n in "ab"} == {"GPU:0"}
    assert list(graph.placed(soft=False).failures) == ["b"]


def test_a_group_that_no_type_has_kernels_for_is_left_out_or_refused() -> None:
    graph = written(X, rnn("gpu", "x"), upper("cpu", "x", group="gpu"))
    placed = graph.placed()
    assert (placed.device("gpu"), placed.device("cpu")) == ("GPU:0", "CPU:0")
    assert not placed.together("gpu", "cpu")
    assert placed.placement.ignored == [(2, "gpu")]
    assert list(graph.placed(soft=False).failures) == ["cpu"]


def test_priorities_that_disagree_in_a_group_count_for_nothing() -> None:
    placed = written(
        X,
        node("cpu_first", "OptionalFromValue", "x", Toutput_types=["float"]),
        node("gpu_first", "FFT", "x", Tcomplex="complex64", group="cpu_first"),
        tanh("none", "x", group="cpu_first"),
    )
    assert placed.placed(default="").device("none") == "GPU:0"


# ---------------------------------------------------------------------------------- bad input


def test_a_request_that_is_no_device_is_a_failure() -> None:
    placed = written(X, tanh("n", "x", asked="nonsense")).placed()
    assert "nonsense" in placed.failures["n"]
    assert placed.doubt("n")


def test_cyclic_control_flow_of_tensorflow_1_is_placed() -> None:
    placed = written(
        X,
        node("enter", "Enter", "x", T="float", frame_name={"s": "loop"}),
        node("merge", "Merge", "enter", "next", T="float", N=2),
        node("cond", "LoopCond", "pred"),
        node("pred", "Const", "^merge", dtype="bool"),
        node("switch", "Switch", "merge", "cond", T="float"),
        node("same", "Identity", "switch:1", T="float"),
        tanh("body", "same"),
        node("next", "NextIteration", "body", T="float"),
        node("exit", "Exit", "switch", T="float"),
    ).placed()
    assert not placed.failures
    assert placed.device("next") == "GPU:0"
    assert placed.decision("same") is INPUT


# ------------------------------------------------------------------------------- any graph

_OPS: list[tuple[str, dict[str, Any]]] = [
    ("Tanh", {"T": "float"}),
    ("MatMul", {"T": "int32"}),
    ("StringUpper", {}),
    ("CudnnRNN", {"T": "float"}),
    ("Const", {"dtype": "float"}),
    ("Const", {"dtype": "int32"}),
    ("VarHandleOp", {"dtype": "float"}),
    ("VarHandleOp", {"dtype": "int32"}),
    ("VariableV2", {"dtype": "float"}),
    ("ReadVariableOp", {"dtype": "float"}),
    ("Assign", {"T": "float"}),
    ("Identity", {"T": "float"}),
    ("Identity", {"T": "resource"}),
    ("Shape", {"T": "float"}),
    ("Shape", {"T": "string"}),
    ("OptionalFromValue", {"Toutput_types": ["float"]}),
    ("FFT", {"Tcomplex": "complex64"}),
    ("RangeDataset", {"output_types": ["int64"]}),
    ("BatchDatasetV2", {"output_types": ["int64"]}),
    ("TensorListReserve", {"element_dtype": "string", "shape_type": "int32"}),
    ("TensorListReserve", {"element_dtype": "float", "shape_type": "int32"}),
    ("TensorListLength", {}),
    ("MyCustomOp", {}),
    ("NoOp", {}),
    ("Merge", {"T": "float", "N": 2}),
]
_REQUESTS = ["", "", "", "/device:CPU:0", "/device:GPU:0", "/device:GPU:1", "/device:*:1", "/gpu:7"]


@st.composite
def graphs(draw: st.DrawFn, most: int = 12) -> Written:
    """Graphs of all kinds of nodes, backward edges and nonsense among them."""
    count = draw(st.integers(1, most))
    names = [f"n{at}" for at in range(count)]
    anything = st.sampled_from(names)
    lines = []
    for name in names:
        if draw(st.integers(0, 5)) == 0:
            dtype = draw(st.sampled_from(["float", "resource"]))
            on = draw(st.sampled_from(["CPU:0", "GPU:0", "GPU:1"]))
            lines.append(node(name, "_Arg", T=dtype, index=0, on=on))
            continue
        op, attributes = draw(st.sampled_from(_OPS))
        inputs = draw(st.lists(anything | anything.map("^{}".format), max_size=3))
        lines.append(
            node(
                name,
                op,
                *inputs,
                asked=draw(st.sampled_from(_REQUESTS)),
                group=draw(st.sampled_from([(), (), ()]) | st.lists(anything, max_size=2)),
                attributes=draw(st.sampled_from([attributes, attributes, attributes, None])),
            )
        )
    return written(*lines)


SETTINGS = [
    {"gpus": gpus, "default": default, "soft": soft}
    for gpus, default, soft in itertools.product((0, 1, 2), ("", "CPU:0", "GPU:0"), (True, False))
]


@given(graphs(), st.sampled_from(SETTINGS))
def test_any_graph_is_placed_and_always_alike(graph: Written, setting: dict[str, Any]) -> None:
    placed, again = graph.placed(**setting), graph.placed(**setting)
    placement = placed.placement
    assert placement.devices == again.placement.devices
    assert placement.decisions == again.placement.decisions
    assert placement.failures == again.placement.failures
    machine = {*placement.setting.machine.devices}
    assigned = placement.setting.assigned
    failed = {failure[0] for failure in placement.failures}
    for at, device in placement.devices.items():
        if at in assigned:
            assert (device, placement.decisions[at]) == (assigned[at], ASSIGNED)
        elif device:
            assert device in machine
        else:
            assert at in failed
            assert placement.decisions[at] is NONE
    if not failed:
        devices_of: dict[int, set[str]] = {}
        for at, root in placement.roots.items():
            devices_of.setdefault(root, set()).add(placement.devices[at])
        assert all(len(devices) == 1 for devices in devices_of.values())


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


def test_a_graph_that_tensorflow_would_refuse_is_in_doubt_as_a_whole() -> None:
    placed = written(X, upper("n", "x", asked="/gpu:0"), tanh("m", "x")).placed(soft=False)
    assert placed.doubt("m").startswith("TensorFlow would reject the graph: n: ")
