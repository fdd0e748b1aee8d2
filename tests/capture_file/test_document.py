"""The look-ups of a capture file."""

from __future__ import annotations

from traceanalyzer.capture_file.function_records import Graph


def test_where_the_data_of_a_node_come_from() -> None:
    graph = Graph(
        names=("a", "b", "c"),
        ops=("Const", "Split", "AddN"),
        inputs=((), ("a",), ("b:1", "b", "^a", "gone:2", "b:x", "b:" + "9" * 5000)),
        devices=("",) * 3,
        attributes=(-1,) * 3,
        origin_functions=("",) * 3,
        origin_nodes=("",) * 3,
    )
    assert [list(graph.sources(at)) for at in range(3)] == [
        [],
        [(0, 0)],
        [(1, 1), (1, 0), (1, 0), (1, 0)],
    ]
