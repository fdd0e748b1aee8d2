"""The look-ups of a sidecar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.sidecar.sidecars import sample
from traceanalyzer.sidecar.document import NO_ATTRIBUTES, Definition, Graph, Sidecar


def test_functions_and_definitions_are_found_by_name() -> None:
    sidecar = sample()

    assert sidecar.definition("__inference_step_9") is sidecar.definitions[0]
    assert sidecar.function("__inference_step_9") is sidecar.functions[0]
    assert sidecar.definition("other") is None
    assert sidecar.function("other") is None


def test_nodes_are_found_by_name() -> None:
    instance = sample().functions[0].instances[0]

    assert [instance.input.index(n) for n in ("x", "mm", "y")] == [0, 1, -1]
    assert instance.partitions[0].index("mm") == 0
    assert (len(instance.input), len(instance.partitions[0])) == (2, 1)


def test_of_equal_names_the_first_counts() -> None:
    definition = Definition(name="f", nodes=("a", "a"), frames=(-1, -1), scopes=(None, None))

    assert definition.index("a") == 0


def test_a_node_leads_to_its_line() -> None:
    sidecar = sample()

    assert sidecar.frame_of_node("__inference_step_9", "mm") == sidecar.frames[0]
    assert sidecar.frame_of_node("__inference_step_9", "x") is None
    assert sidecar.frame_of_node("__inference_step_9", "other") is None
    assert sidecar.frame_of_node("other", "mm") is None


@pytest.mark.parametrize(
    ("environment", "version"),
    [
        ({"tensorflow": {"version": "2.21.0"}}, "2.21.0"),
        ({"tensorflow": {"version": ""}}, None),
        ({"tensorflow": {"version": 2}}, None),
        ({"tensorflow": "2.21.0"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_version_is_told_where_it_is_a_text(
    environment: dict[str, Any] | None, version: str | None
) -> None:
    assert replace(sample(), environment=environment).tensorflow_version == version


def test_a_line_has_the_text_that_any_of_its_frames_has() -> None:
    bare = replace(sample().frames[0], code="<lambda>", text=None)
    sidecar = replace(sample(), frames=(bare, *sample().frames))

    assert sidecar.line_text("/project/train.py", 11) == "return x @ x"
    assert sidecar.line_text("/project/train.py", 30) is None
    assert sidecar.line_text("/elsewhere/train.py", 11) is None
    assert Sidecar(tool="0", host="h", complete=True).line_text("train.py", 1) is None


def test_indices_lead_into_the_pools() -> None:
    sidecar = sample()
    handle = sidecar.signatures[0].outputs[0]

    assert sidecar.frame(-1) is None
    assert sidecar.frame(1) == sidecar.frames[1]
    assert sidecar.attribute_set(0) == {"T": "float"}
    assert sidecar.attribute_set(-1) is NO_ATTRIBUTES
    assert sidecar.resource_of(handle) == sidecar.resources[0]
    assert sidecar.resource_of(sidecar.signatures[1].inputs[0]) is None


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
