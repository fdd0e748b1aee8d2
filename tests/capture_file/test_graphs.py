"""Dumped graphs, against what protobuf reads of the same bytes."""

import math
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.capture_file.graph_proto import DataType, GraphDef
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph
from traceanalyzer.trace.message import BrokenMessageError

TYPES = sorted(DataType.values_by_number)

names = st.text(max_size=12)
types = st.sampled_from(TYPES)
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(width=32)


def as_dtype(number: int) -> str:
    return str(DataType.values_by_number[number].name).removeprefix("DT_").lower()


def as_float(number: float) -> Any:  # noqa: ANN401  # JSON
    return number if math.isfinite(number) else {"float": str(number)}


def as_sizes(shape: Any) -> Any:  # noqa: ANN401  # a message; JSON
    return None if shape.unknown_rank else [dim.size for dim in shape.dim]


_IN_JSON: dict[str, Callable[[Any], Any]] = {
    "s": lambda value: {"s": value.decode("utf-8", "backslashreplace")},
    "f": as_float,
    "type": as_dtype,
    "shape": lambda value: {"shape": as_sizes(value)},
    "tensor": lambda value: {
        "tensor": as_dtype(value.dtype),
        "shape": as_sizes(value.tensor_shape),
    },
    "func": lambda value: {"func": value.name},
    "i": int,
    "b": bool,
}


def as_value(value: Any) -> Any:  # noqa: ANN401  # a message; JSON
    """What the document holds of an AttrValue, said in protobuf's terms."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        return [_IN_JSON[f.name](v) for f, values in value.list.ListFields() for v in values]
    return _IN_JSON[kind](getattr(value, kind))


def assert_same(data: bytes) -> None:
    expected = GraphDef.FromString(data)
    pool = AttributePool()

    graph = parse_graph(data, pool)

    assert graph.names == tuple(node.name for node in expected.node)
    assert graph.ops == tuple(node.op for node in expected.node)
    assert graph.inputs == tuple(tuple(node.input) for node in expected.node)
    assert graph.devices == tuple(node.device for node in expected.node)
    origins = [node.experimental_debug_info for node in expected.node]
    assert graph.origin_functions == tuple(
        next(filter(None, o.original_func_names), "") for o in origins
    )
    assert graph.origin_nodes == tuple(
        next(filter(None, o.original_node_names), "") for o in origins
    )
    assert graph.producer == expected.versions.producer
    found = [pool.sets[at] for at in graph.attributes]
    assert found == [{k: as_value(v) for k, v in node.attr.items()} for node in expected.node]
    assert len({repr(each) for each in pool.sets}) == len(pool.sets)


sizes = st.lists(st.integers(-1, 2**40), max_size=3).map(
    lambda sizes: {"dim": [{"size": size} for size in sizes]}
)
shapes = sizes | st.just({"unknown_rank": True})
scalars: dict[str, st.SearchStrategy[Any]] = {
    "s": st.binary(max_size=8),
    "i": integers,
    "f": floats,
    "b": st.booleans(),
    "type": types,
    "shape": shapes,
    "tensor": st.fixed_dictionaries(
        {"dtype": types, "tensor_shape": shapes, "tensor_content": st.binary(max_size=2000)}
    ),
    "func": st.fixed_dictionaries({"name": names, "attr": st.just({"T": {"type": 1}})}),
}
of_one_kind = st.one_of(
    *(st.lists(each, max_size=4).map(lambda v, k=kind: {k: v}) for kind, each in scalars.items())
)
values = st.one_of(
    st.just({}),
    of_one_kind.map(lambda found: {"list": found}),
    *(each.map(lambda v, k=kind: {k: v}) for kind, each in scalars.items()),
)
nodes = st.fixed_dictionaries(
    {
        "name": names,
        "op": names,
        "device": names,
        "input": st.lists(names, max_size=3),
        "attr": st.dictionaries(names, values, max_size=3),
        "experimental_debug_info": st.fixed_dictionaries(
            {
                "original_node_names": st.lists(names, max_size=2),
                "original_func_names": st.lists(names, max_size=2),
            }
        ),
        "experimental_type": st.fixed_dictionaries({"type_id": st.sampled_from([0, 1])}),
    }
)
graphs = st.fixed_dictionaries(
    {
        "node": st.lists(nodes, max_size=4),
        "versions": st.fixed_dictionaries({"producer": st.integers(0, 2**31 - 1)}),
        "library": st.just({"function": [{"signature": {"name": "passed over"}}]}),
    }
).map(lambda fields: GraphDef(**fields))


@given(graphs)
def test_graphs_are_read_as_protobuf_reads_them(graph: Any) -> None:  # noqa: ANN401
    assert_same(graph.SerializeToString())


@given(graphs, st.data())
def test_damaged_graphs_are_told(graph: Any, data: st.DataObject) -> None:  # noqa: ANN401
    whole = bytearray(graph.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])

    try:
        found = parse_graph(cut, AttributePool())
    except BrokenMessageError:
        return
    assert len(found.names) == len(found.inputs) == len(found.attributes)


def test_long_texts_and_lists_are_cut() -> None:
    graph = GraphDef()
    node = graph.node.add(name="n", op="Op")
    node.attr["text"].s = b"x" * 5000
    node.attr["list"].list.i.extend(range(5000))
    pool = AttributePool()

    parse_graph(graph.SerializeToString(), pool)

    assert pool.sets == [{"list": list(range(1000)), "text": {"s": "x" * 1000}}]
