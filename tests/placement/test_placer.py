"""The placer's rules, each in a graph of a few nodes: the device, and how it came about.

That the rules are TensorFlow's own is shown against TensorFlow, with an emulated GPU.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.graphs import Node, Written, full, function, node, written
from traceanalyzer.placement.placer import Changes, Decision

FIRST, INPUT, CONSUMERS, ASSIGNED, NONE = (
    Decision.FIRST,
    Decision.INPUT,
    Decision.CONSUMERS,
    Decision.ASSIGNED,
    Decision.NONE,
)


def arg(name: str, on: str = "GPU:0", T: str = "float") -> Node:  # noqa: N803 - TensorFlow's name
    return node(name, "_Arg", T=T, index=0, on=on)


def const(name: str, *inputs: str, dtype: str = "float", **more: Any) -> Node:  # noqa: ANN401
    return node(name, "Const", *inputs, dtype=dtype, **more)


def tanh(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "Tanh", *inputs, T="float", **more)


def upper(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "StringUpper", *inputs, **more)


def variable(name: str, asked: str = "", dtype: str = "float", **more: Any) -> Node:  # noqa: ANN401
    return node(name, "VarHandleOp", dtype=dtype, shape={"shape": []}, asked=asked, **more)


def read(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "ReadVariableOp", *inputs, dtype="float", **more)


def rnn(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - has a GPU kernel only
    return node(name, "CudnnRNN", *inputs, T="float", **more)


X = arg("x")

# ------------------------------------------------------------------- kernels and preference


@pytest.mark.parametrize(
    ("of", "default", "device"),
    [
        (tanh("n", "x"), "GPU:0", "GPU:0"),
        (tanh("n", "x"), "", "GPU:0"),  # a session: GPUs first
        (tanh("n", "x"), "CPU:0", "CPU:0"),  # the function was called under tf.device("/CPU:0")
        (upper("n", "x"), "GPU:0", "CPU:0"),  # no kernel
        (node("n", "MatMul", "x", "x", T="int32"), "GPU:0", "CPU:0"),  # none of that dtype
        (rnn("n", "x"), "CPU:0", "GPU:0"),  # none for the CPU
        # a kernel's priority counts, but for the default device
        (node("n", "OptionalFromValue", "x", Toutput_types=["float"]), "", "CPU:0"),
        (node("n", "OptionalFromValue", "x", Toutput_types=["float"]), "GPU:0", "GPU:0"),
        (node("n", "FFT", "x", Tcomplex="complex64"), "", "GPU:0"),
        (node("n", "some_function", "x"), "GPU:0", "GPU:0"),
        (node("n", "some_function", "x"), "CPU:0", "CPU:0"),
    ],
)
def test_kernels_and_the_default_device_decide(of: Node, default: str, device: str) -> None:
    placed = written(X, of).placed(default=default)
    assert placed.device("n") == device
    assert placed.decision("n") is FIRST
    assert not placed.failures


def test_without_a_gpu_all_is_on_the_cpu() -> None:
    placed = written(arg("x", "CPU:0"), tanh("n", "x"), upper("s", "x")).placed(gpus=0)
    assert set(placed.devices.values()) == {"CPU:0"}


def test_what_has_a_kernel_for_gpus_alone_is_refused_without_one() -> None:
    placed = written(arg("x", "CPU:0"), rnn("n", "x"), tanh("m", "x")).placed(gpus=0)
    assert placed.failures["n"] == "no device here has a kernel for it"
    assert placed.device("n") == ""
    assert placed.decision("n") is NONE
    assert placed.device("m") == "CPU:0"


# ------------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    ("asked", "device"),
    [
        ("/device:CPU:0", "CPU:0"),
        ("/job:localhost/replica:0/task:0/device:CPU:0", "CPU:0"),
        ("/cpu:0", "CPU:0"),
        ("/device:GPU:1", "GPU:1"),
        ("/device:GPU:*", "GPU:0"),
        ("/device:*:1", "GPU:1"),
        ("/job:localhost/replica:0/task:0", "GPU:0"),  # names no type: tf.numpy_function's
        ("/", "GPU:0"),
    ],
)
def test_a_request_is_heeded_as_far_as_it_goes(asked: str, device: str) -> None:
    for soft in (True, False):
        placed = written(X, tanh("n", "x", asked=asked)).placed(gpus=2, soft=soft)
        assert placed.device("n") == device
        assert placed.decision("n") is FIRST


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


def test_not_even_soft_placement_finds_another_machine() -> None:
    placed = written(X, tanh("n", "x", asked="/job:worker/device:GPU:0")).placed(soft=True)
    assert placed.device("n") == ""
    assert "/job:worker/device:GPU:0" in placed.failures["n"]


def test_gpus_are_preferred_in_the_order_of_their_names_as_text() -> None:
    graph = written(X, tanh("n", "x", asked="/device:GPU:*"))
    changes = Changes(requests={1: "/device:GPU:0"})
    assert graph.placed(gpus=12, default="").device("n") == "GPU:0"
    assert graph.placed(gpus=12, default="CPU:0", changes=changes).device("n") == "GPU:0"
    # GPU:10 is before GPU:2, which soft placement would otherwise have taken
    from_second = graph.placed(gpus=12, default="").placement.candidates
    assert [d.rpartition(":")[2] for d in next(iter(from_second.values()))][:4] == [
        "0", "1", "10", "11",
    ]  # fmt: skip


# ------------------------------------------------------------- arguments, already assigned


def test_what_was_assigned_stays_and_is_in_nobodys_way() -> None:
    placed = written(arg("x", "CPU:0"), tanh("n", "x")).placed()
    assert (placed.device("x"), placed.decision("x")) == ("CPU:0", ASSIGNED)
    assert placed.device("n") == "GPU:0"  # where the input is plays no role


def test_a_resource_that_was_handed_in_holds_what_uses_it() -> None:
    graph = written(
        arg("v", "CPU:0", T="resource"), read("r", "v", asked="/device:GPU:0"), tanh("n", "r")
    )
    for soft in (True, False):
        placed = graph.placed(soft=soft)
        assert placed.devices == {"v": "CPU:0", "r": "CPU:0", "n": "GPU:0"}
        assert not placed.failures


def test_two_resources_on_two_devices_for_one_op_are_refused() -> None:
    placed = written(
        arg("a", "CPU:0", T="resource"),
        arg("b", "GPU:0", T="resource"),
        node("both", "TwoResources", "a", "b"),
    ).placed()
    assert list(placed.failures) == ["both"]


# ------------------------------------------------------------------------------ resources


def test_a_resource_lives_where_it_is_asked_to_and_draws_its_users() -> None:
    placed = written(
        variable("v", asked="/device:CPU:0"),
        read("r", "v", asked="/device:GPU:0"),
        node("a", "AssignVariableOp", "v", "r", dtype="float"),
        tanh("n", "r"),
    ).placed(soft=False)
    assert placed.devices == {"v": "CPU:0", "r": "CPU:0", "a": "CPU:0", "n": "GPU:0"}
    assert placed.together("v", "a")


def test_a_resource_that_has_no_kernel_on_the_gpu_draws_its_users() -> None:
    placed = written(variable("v", dtype="int32"), node("r", "ReadVariableOp", "v", dtype="int32"))
    assert placed.placed().devices == {"v": "CPU:0", "r": "CPU:0"}


def test_a_users_request_is_heeded_where_nothing_is_asked_of_the_resource() -> None:
    placed = written(variable("v"), read("r", "v", asked="/device:CPU:0")).placed()
    assert placed.devices == {"v": "CPU:0", "r": "CPU:0"}


def test_of_two_users_that_ask_for_different_devices_the_resources_first_counts() -> None:
    placed = written(
        variable("v"), read("a", "v", asked="/device:CPU:0"), read("b", "v", asked="/device:GPU:0")
    ).placed()
    assert set(placed.devices.values()) == {"CPU:0"}


def test_a_resource_gives_way_to_soft_placement_where_its_user_has_no_kernel() -> None:
    graph = written(
        variable("v", asked="/device:GPU:0"),
        node("s", "ResourceCountUpTo", "v", T="int64", limit=1),
    )
    assert graph.placed(soft=True).devices == {"v": "CPU:0", "s": "CPU:0"}
    assert graph.placed(soft=False).failures


def test_a_reference_binds_as_a_resource_does() -> None:
    placed = written(
        node("v", "VariableV2", dtype="float", shape={"shape": []}, asked="/device:CPU:0"),
        const("c"),
        node("a", "Assign", "v", "c", T="float", asked="/device:GPU:0"),
        node("i", "Identity", "v", T="float"),
        tanh("t", "i"),
        tanh("u", "i"),
    ).placed(soft=False)
    assert placed.together("v", "a")
    assert not placed.together("v", "i")  # a plain Identity reads it
    assert (placed.device("a"), placed.device("i")) == ("CPU:0", "GPU:0")


def test_an_exempt_op_need_not_be_where_its_resource_is() -> None:
    call = node("call", "StatefulPartitionedCall", "v", Tin=["resource"], Tout=[], f=function("f"))
    placed = written(arg("v", "CPU:0", T="resource"), call).placed()
    assert placed.device("call") == "GPU:0"
    assert not placed.together("v", "call")


def test_datasets_are_with_the_datasets_they_read() -> None:
    placed = written(
        const("s", dtype="int64"),
        node("range", "RangeDataset", "s", "s", "s", output_types=["int64"]),
        node("custom", "MyDatasetOp", "range"),
        node("map", "MapDataset", "range", f=function("f"), Targuments=[], output_types=["int64"]),
    ).placed()
    assert placed.together("range", "map")
    assert placed.device("map") == "CPU:0"
    assert not placed.together("range", "custom")


# ------------------------------------------------------------------------ colocation groups


def test_what_has_no_kernel_on_the_gpu_keeps_its_group_from_it() -> None:
    placed = written(X, upper("s", "x"), tanh("n", "x", group="s")).placed()
    assert placed.devices == {"x": "GPU:0", "s": "CPU:0", "n": "CPU:0"}


def test_a_group_is_joined_by_name_before_its_namesake_is_seen() -> None:
    placed = written(X, tanh("n", "x", group="s"), tanh("m", "x", group="s"), upper("s", "x"))
    assert {placed.placed().device(n) for n in "nms"} == {"CPU:0"}


def test_a_group_may_be_named_after_nothing() -> None:
    placed = written(X, upper("s", "x", group="gone"), tanh("n", "x", group="gone")).placed()
    assert placed.device("n") == "CPU:0"


def test_a_node_in_two_groups_joins_them() -> None:
    placed = written(X, upper("s", "x"), tanh("a", "x"), tanh("n", "x", group=("s", "a"))).placed()
    assert placed.device("a") == "CPU:0"


def test_a_request_in_a_group_counts_for_all() -> None:
    placed = written(X, tanh("a", "x", asked="/device:CPU:0"), tanh("b", "x", group="a")).placed()
    assert placed.device("b") == "CPU:0"


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


def test_a_group_that_was_not_joined_leaves_its_request_behind() -> None:
    placed = written(X, upper("cpu", "x", asked="/device:GPU:1"), rnn("gpu", "x", group="cpu"))
    assert placed.placed(gpus=2).devices == {"x": "GPU:0", "cpu": "CPU:0", "gpu": "GPU:1"}


def test_priorities_that_disagree_in_a_group_count_for_nothing() -> None:
    placed = written(
        X,
        node("cpu_first", "OptionalFromValue", "x", Toutput_types=["float"]),
        node("gpu_first", "FFT", "x", Tcomplex="complex64", group="cpu_first"),
        tanh("none", "x", group="cpu_first"),
    )
    assert placed.placed(default="").device("none") == "GPU:0"


# ------------------------------------------------------------- generators, shapes, identities


@pytest.mark.parametrize(
    ("lines", "device", "decision"),
    [
        ([upper("s", "c")], "CPU:0", CONSUMERS),
        ([upper("s", "c"), upper("t", "c")], "CPU:0", CONSUMERS),
        ([upper("s", "c"), tanh("t", "c")], "GPU:0", FIRST),  # they do not agree
        ([upper("s", "x", "^c")], "CPU:0", CONSUMERS),  # a control edge is one
        ([], "GPU:0", FIRST),
        ([rnn("g", "c")], "GPU:0", CONSUMERS),
    ],
)
def test_a_generator_goes_where_its_consumers_agree(
    lines: list[Node], device: str, decision: Decision
) -> None:
    placed = written(X, const("c"), *lines).placed()
    assert (placed.device("c"), placed.decision("c")) == (device, decision)


def test_a_generator_goes_only_where_it_can() -> None:
    asked = written(const("c", asked="/device:GPU:0"), upper("s", "c")).placed()
    assert (asked.device("c"), asked.decision("c")) == ("GPU:0", FIRST)
    text = written(variable("v", dtype="int32"), node("g", "MyOp", "^v", asked="/device:GPU:0"))
    assert (text.placed().device("v"), text.placed().decision("v")) == ("CPU:0", FIRST)


def test_generators_wait_for_all_that_has_inputs() -> None:
    placed = written(const("a"), const("b", "^a"), X, upper("s", "b")).placed()
    assert placed.devices == {"a": "GPU:0", "b": "CPU:0", "x": "GPU:0", "s": "CPU:0"}
    # `b` had no device yet when `a` was placed
    assert placed.decision("a") is FIRST
    other = written(const("b", "^a"), const("a"), X, upper("s", "b")).placed()
    assert (other.device("a"), other.decision("a")) == ("CPU:0", CONSUMERS)


@pytest.mark.parametrize("op", ["Shape", "Size", "Rank"])
def test_metadata_is_with_its_input_where_it_can(op: str) -> None:
    at_cpu = tanh("t", "x", asked="/device:CPU:0")
    placed = written(X, at_cpu, node("m", op, "t", T="float")).placed()
    assert (placed.device("m"), placed.decision("m")) == ("CPU:0", INPUT)
    assert placed.followed("m") == "t"
    elsewhere = written(X, at_cpu, node("m", op, "t", T="float", asked="/device:GPU:0")).placed()
    assert (elsewhere.device("m"), elsewhere.decision("m")) == ("GPU:0", FIRST)


@pytest.mark.parametrize("op", ["Size", "Rank"])
def test_metadata_that_has_no_kernel_there_is_not_with_its_input(op: str) -> None:
    placed = written(X, tanh("t", "x"), node("m", op, "t", T="string")).placed()
    assert (placed.device("m"), placed.decision("m")) == ("CPU:0", FIRST)


def test_the_shape_of_what_is_placed_later_follows_nothing() -> None:
    placed = written(X, node("m", "Shape", "c", T="float"), const("c"), upper("s", "c")).placed()
    assert placed.device("c") == "GPU:0"  # its consumers are on different devices
    assert (placed.device("m"), placed.decision("m")) == ("GPU:0", FIRST)


def test_shapes_of_several_follow_nothing() -> None:
    placed = written(
        X,
        tanh("t", "x", asked="/device:CPU:0"),
        node("m", "ShapeN", "t", "t", T="float", N=2),
    ).placed()
    assert (placed.device("m"), placed.decision("m")) == ("GPU:0", FIRST)


def identity(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401
    return node(name, "Identity", *inputs, T="string", **more)


@pytest.mark.parametrize(
    ("lines", "device", "decision"),
    [
        ([upper("s", "x"), node("i", "Identity", "s", T="float")], "CPU:0", INPUT),
        ([upper("s", "x"), node("i", "Identity", "s", T="float"), tanh("t", "i")], "CPU:0", INPUT),
        # it asks for a device itself
        ([upper("s", "x"), node("i", "Identity", "s", T="float", asked="/gpu:0")], "GPU:0", FIRST),
        # its neighbours ask for different ones
        ([upper("s", "x", asked="/cpu:0"), node("i", "Identity", "s", T="float"), tanh("t", "i")],
         "GPU:0", FIRST),
        # for the same, though neither can have it
        ([upper("s", "x", asked="/gpu:0"), node("i", "Identity", "s", T="float"),
          tanh("t", "i", asked="/gpu:0")], "CPU:0", INPUT),
        # nobody uses it, and its input asks for something
        ([upper("s", "x", asked="/cpu:0"), node("i", "Identity", "s", T="float")], "GPU:0", FIRST),
        # it has two consumers
        ([upper("s", "x"), node("i", "Identity", "s", T="float"), tanh("t", "i"), tanh("u", "i")],
         "GPU:0", FIRST),
    ],
)  # fmt: skip
def test_an_identity_is_with_its_input(lines: list[Node], device: str, decision: Decision) -> None:
    placed = written(X, *lines).placed()
    assert (placed.device("i"), placed.decision("i")) == (device, decision)


def test_the_device_of_an_argument_is_no_request() -> None:
    placed = written(
        arg("x", "CPU:0"), node("i", "Identity", "x", T="float"), tanh("t", "i")
    ).placed()
    assert (placed.device("i"), placed.decision("i")) == ("CPU:0", INPUT)


# -------------------------------------------------------------------------- lists of strings


def test_a_list_of_strings_holds_what_takes_it_to_the_cpu() -> None:
    graph = written(
        const("n", dtype="int32"),
        node("l", "TensorListReserve", "n", "n", element_dtype="string", shape_type="int32"),
        node("i", "IdentityN", "l", T=["variant"]),
        node("length", "TensorListLength", "i"),
        tanh("together", "n", group="length"),
    )
    placed = graph.placed()
    assert placed.devices == {
        "n": "GPU:0", "l": "GPU:0", "i": "CPU:0", "length": "CPU:0", "together": "CPU:0",
    }  # fmt: skip
    every = Changes(kernels=frozenset(range(5)))
    assert set(graph.placed(changes=every).devices.values()) == {"GPU:0"}


# ------------------------------------------------------------------------------------ changes


def test_what_is_taken_otherwise_is_placed_so() -> None:
    graph = written(
        arg("v", "CPU:0", T="resource"),
        read("r", "v"),
        upper("s", "r", asked="/device:CPU:0"),
        tanh("t", "r", group="s"),
    )
    s = graph.index("s")
    assert graph.placed(changes=Changes(requests={s: ""})).device("s") == "CPU:0"
    freed = Changes(requests={s: ""}, kernels=frozenset({s}))
    assert graph.placed(changes=freed).device("s") == "GPU:0"
    assert graph.placed(changes=Changes(assigned={0: full("GPU:0")})).device("r") == "GPU:0"
    assert graph.placed(changes=Changes(unbound=frozenset({3}))).device("t") == "GPU:0"
    on_cpu = Changes(default_device=full("CPU:0"), unbound=frozenset({3}))
    assert graph.placed(changes=on_cpu).device("t") == "CPU:0"


# ---------------------------------------------------------------------------------- bad input


def test_an_empty_graph_is_placed() -> None:
    assert written().placed().devices == {}


def test_a_request_that_is_no_device_is_a_failure() -> None:
    placed = written(X, tanh("n", "x", asked="nonsense")).placed()
    assert "nonsense" in placed.failures["n"]
    assert placed.doubt("n")


def test_an_assigned_device_that_is_none_is_a_failure() -> None:
    placed = written(node("x", "_Arg", T="float", index=0, on="/nonsense"), tanh("n", "x")).placed()
    assert "/nonsense" in placed.failures["x"]
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


def test_identities_in_a_circle_are_placed() -> None:
    placed = written(identity("a", "b"), identity("b", "a")).placed()
    assert set(placed.devices.values()) == {"GPU:0"}


def test_nodes_of_one_name_are_no_error() -> None:
    placed = written(X, tanh("n", "x"), upper("n", "x"), tanh("m", "n", group="n")).placed()
    assert len(placed.placement.devices) == 4


def test_a_graph_that_names_what_is_not_there_is_placed_and_in_doubt() -> None:
    placed = written(X, tanh("n", "gone"), tanh("m", "x")).placed()
    assert placed.device("n") == "GPU:0"
    assert "gone" in placed.doubt("n")
    assert not placed.doubt("m")


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
    assert list(placement.devices) == list(again.placement.devices)
    assert list(placement.decisions) == list(again.placement.decisions)
    assert placement.failures == again.placement.failures
    machine = {*placement.setting.machine.devices}
    assigned = placement.setting.assigned
    failed = {failure.node for failure in placement.failures}
    for at, device in enumerate(placement.devices):
        if at in assigned:
            assert (device, placement.decisions[at]) == (assigned[at], ASSIGNED)
        elif device:
            assert device in machine
        else:
            assert at in failed
            assert placement.decisions[at] is NONE
    if not failed:
        devices_of: dict[int, set[str]] = {}
        for root, device in zip(placement.roots, placement.devices, strict=True):
            devices_of.setdefault(root, set()).add(device)
        assert all(len(devices) == 1 for devices in devices_of.values())
