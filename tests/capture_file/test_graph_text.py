"""Graphs as text, which TensorFlow 2.13 to 2.15 dump, compared with protobuf's own encoding."""

from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from tests.capture_file.graph_proto import DataType, GraphDef
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph
from traceanalyzer.capture_file.graph_text import graph_of_text
from traceanalyzer.trace.message import BrokenMessageError


def graph() -> Any:  # noqa: ANN401  # a protobuf message
    made = GraphDef()
    made.versions.producer = 1645
    node = made.node.add(name="scope/x", op="Op", device="/job:a/device:CPU:0")
    node.input.extend(["a:1", "^b"])
    node.experimental_debug_info.original_node_names.append("first")
    node.experimental_debug_info.original_func_names.append("__inference_f_1")
    node.attr["name"].s = b'line\n"quoted" \\ \x00\xff {'
    node.attr["dtype"].type = DataType.values_by_name["DT_INT32_REF"].number
    node.attr["shape"].shape.dim.add(size=-1)
    node.attr["any"].shape.unknown_rank = True
    node.attr["scalar"].shape.SetInParent()
    node.attr["number"].i = -(2**63)
    node.attr["flag"].b = True
    node.attr["rate"].f = float("inf")
    node.attr["f"].func.name = "body"
    node.attr["f"].func.attr["T"].type = 1
    for each in (1, -2, 3):
        node.attr["sizes"].list.i.append(each)
    node.attr["types"].list.type.extend([1, 9])
    node.attr["rates"].list.f.extend([0.5, 1e-7])
    node.attr["texts"].list.s.extend([b"a", b"}"])
    node.attr["shapes"].list.shape.add().dim.add(size=3)
    tensor = node.attr["value"].tensor
    tensor.dtype, tensor.tensor_content = 9, b"} \n \x01{"
    tensor.tensor_shape.dim.add(size=2)
    function = made.library.function.add()
    function.signature.name = "body {"
    function.node_def.add(name="inner", op="Mul")
    made.node.add(name="last", op="NoOp")
    return made


def read(data: bytes) -> tuple[Any, list[Any]]:
    attributes = AttributePool()
    return parse_graph(data, attributes), attributes.sets


def test_text_and_proto_are_read_alike() -> None:
    made = graph()

    assert read(graph_of_text(text_format.MessageToString(made))) == read(made.SerializeToString())
    assert read(made.SerializeToString())[0].names == ("scope/x", "last")


@given(name=st.binary(max_size=20), number=st.integers(-(2**63), 2**63 - 1), rate=st.floats())
def test_any_values(name: bytes, number: int, rate: float) -> None:
    made = GraphDef()
    node = made.node.add(name="n", op="Op")
    node.attr["s"].s, node.attr["i"].i = name, number
    node.attr["f"].f = rate if abs(rate) < 1e38 else float("nan")

    assert read(graph_of_text(text_format.MessageToString(made))) == read(made.SerializeToString())


def test_a_text_that_was_cut_short_is_an_error() -> None:
    lines = text_format.MessageToString(graph()).splitlines()
    whole = read(graph().SerializeToString())[0]
    for end in range(len(lines)):
        try:
            found = read(graph_of_text("\n".join(lines[:end])))[0]
        except BrokenMessageError:
            continue
        assert found.names == whole.names[: len(found.names)]  # it ends between two nodes


@pytest.mark.parametrize("text", ["", "no graph", "node {\n name: unquoted\n}", "}"])
def test_another_text_is_an_error(text: str) -> None:
    with pytest.raises(BrokenMessageError):
        graph_of_text(text)
