"""The look-ups of a sidecar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.sidecar.sidecars import sample
from traceanalyzer.sidecar.document import Graph


@pytest.mark.parametrize(
    ("environment", "version"),
    [
        ({"tensorflow": {"version": "2.21.0"}}, "2.21.0"),
        ({"tensorflow": {"version": ""}}, None),
        ({"tensorflow": "2.21.0"}, None),
        ({}, None),
    ],
)
def test_the_version_is_told_where_it_is_a_text(
    environment: dict[str, Any] | None, version: str | None
) -> None:
    assert replace(sample(), environment=environment).tensorflow_version == version


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
