"""How many elements tensors have before a graph runs, by what was recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.placement.graphs import node, written
from traceanalyzer.placement.static_sizes import NOT_STATIC, Sizes, static_sizes
from traceanalyzer.sidecar.document import Definition, Sidecar

if TYPE_CHECKING:
    from tests.placement.graphs import Node
    from traceanalyzer.sidecar.document import Shape

FUNCTION = "__inference_f_1"
INNER = "__inference_g_2"


def definition(name: str, **shapes: tuple[Shape, ...] | None) -> Definition:
    unknown = (None,) * len(shapes)
    return Definition(
        name=name,
        nodes=tuple(shapes),
        frames=(-1,) * len(shapes),
        scopes=unknown,
        shapes=tuple(shapes.values()),
    )


def sizes(
    *lines: Node,
    definitions: tuple[Definition, ...] = (),
    function: str = FUNCTION,
    is_fed: bool = False,
    inlined: dict[str, str] | None = None,
) -> dict[str, Sizes | None]:
    given = written(*lines)
    graph = given.graph
    if inlined is not None:
        origins = tuple(INNER if name in inlined else "" for name in graph.names)
        names = tuple(inlined.get(name, "") for name in graph.names)
        graph = replace(graph, origin_functions=origins, origin_nodes=names)
    sidecar = Sidecar(
        tool="0",
        host="h",
        complete=True,
        attributes=given.attributes,
        definitions=definitions,
    )
    found = static_sizes(sidecar, function, graph, is_fed=is_fed)
    return dict(zip(graph.names, found, strict=True))


def test_what_python_knew_is_counted() -> None:
    known = definition(FUNCTION, a=((3, 4),), b=((), (0, 9)), c=((-1, 2),), d=(None,), e=None)
    graph = [node(name, "Op") for name in "abcdef"]
    assert sizes(*graph, definitions=(known,)) == {
        "a": (12,),
        "b": (1, 0),
        "c": (NOT_STATIC,),
        "d": (NOT_STATIC,),
        "e": None,
        "f": None,
    }


def test_of_a_sidecar_without_shapes_nothing_is_known() -> None:
    bare = Definition(name=FUNCTION, nodes=("a",), frames=(-1,), scopes=(None,))
    assert sizes(node("a", "Op"), definitions=(bare,)) == {"a": None}
    assert sizes(node("a", "Op")) == {"a": None}


def test_what_is_inlined_may_be_called_with_sizes_that_it_was_not_made_for() -> None:
    inner = definition(INNER, x=((-1,),), y=((5,),))
    found = sizes(
        node("call/x", "Op"),
        node("call/y", "Op"),
        definitions=(inner,),
        inlined={"call/x": "x", "call/y": "y"},
    )
    assert found == {"call/x": (None,), "call/y": (5,)}


def test_constants_and_arguments_tell_their_own() -> None:
    found = sizes(
        node("constant", "Const", dtype="float", value={"tensor": "float", "shape": [2, 3]}),
        node("argument", "_Arg", T="float", _output_shapes=[{"shape": [7]}]),
        node("open", "_Arg", T="float", _output_shapes=[{"shape": [-1, 7]}]),
        node("unranked", "_Arg", T="float", _output_shapes=[{"shape": None}]),
        node("untold", "_Arg", T="float"),
    )
    assert found == {
        "constant": (6,),
        "argument": (7,),
        "open": (NOT_STATIC,),
        "unranked": (NOT_STATIC,),
        "untold": None,
    }


def test_of_what_a_session_is_fed_nothing_is_taken_for_granted() -> None:
    known = definition("", fed=((3,),), sum=((3,),), whole=((-1,),), apart=((3,),), after=((3,),))
    graph = [
        node("fed", "Placeholder"),
        node("sum", "Op", "apart", "fed:0"),
        node("whole", "Op", "sum"),
        node("apart", "Op"),
        node("after", "Op", "apart", "^fed"),
    ]
    found = sizes(*graph, definitions=(known,), function="", is_fed=True)
    assert found == {
        "fed": (NOT_STATIC,),
        "sum": (None,),
        "whole": (NOT_STATIC,),
        "apart": (3,),
        "after": (3,),
    }
    assert sizes(*graph, definitions=(known,), function="")["fed"] == (3,)


def test_of_what_a_call_returns_grappler_knows_nothing() -> None:
    known = definition(FUNCTION, call=((3,), (4,)), sum=((3,),), apart=((3,),))
    graph = [
        node("call", "StatefulPartitionedCall"),
        node("sum", "Op", "call:1"),
        node("apart", "Op"),
    ]
    assert sizes(*graph, definitions=(known,)) == {
        "call": (NOT_STATIC, NOT_STATIC),
        "sum": (None,),
        "apart": (3,),
    }
