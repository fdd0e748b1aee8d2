"""What a sidecar tells of what holds a node: the scope that asks for its device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import Program, only
from traceanalyzer.evidence.held import HeldFinder
from traceanalyzer.placement.blockers import BlockerFinder
from traceanalyzer.placement.program import place_program
from traceanalyzer.sidecar.document import Definition, Frame, Scope, Sidecar


def sidecar_of_an_inlined_call(call: str, *own: int) -> Sidecar:
    """A function `__outer` that calls `__inner` within a scope, inlined; the name of the call."""
    program = Program()
    program.eager("__outer")
    program.function(
        "__outer",
        node("x", "Placeholder", dtype="float"),
        node("call/double", "Square", "x", T="float", asked="/device:CPU:0"),
        assigned=("GPU:0", "CPU:0"),
    )
    (instance,) = program.functions["__outer"]
    inlined = replace(instance.input, origin_functions=("", "__inner"), origin_nodes=("", "double"))
    program.functions["__outer"] = [replace(instance, input=inlined)]
    return program.sidecar(
        gpus=1,
        definitions=(
            Definition(name="__outer", nodes=("x", call), frames=(-1, -1), scopes=((), (0,))),
            Definition(name="__inner", nodes=("double",), frames=(-1,), scopes=(own,)),
        ),
        scopes=tuple(Scope(device=d, frame=0) for d in ("/CPU:0", "CPU:0", "/GPU:0", "")),
        frames=(Frame(file="train.py", line=6, code="step", is_user=True),),
    )


@pytest.mark.parametrize(("call", "line", "called"), [("call", 6, "__inner"), ("other", None, "")])
def test_what_is_inlined_has_the_scope_of_the_call(
    call: str, line: int | None, called: str
) -> None:
    sidecar = sidecar_of_an_inlined_call(call)
    program = place_program(sidecar)
    way = only(program, "__outer")
    (blocker,) = BlockerFinder(way.placement).of(1).found
    (found,) = HeldFinder(sidecar, program.kernels.registry).of_node(way, 1, blocker)
    assert (found.scope_frame and found.scope_frame.line) == line
    assert found.called_in == called


@pytest.mark.parametrize(
    ("own", "asking"),
    [
        ((), ["__inner"]),
        ((1,), ["", "__inner"]),
        ((0, 1), ["", "", "__inner"]),
        ((2, 1), [""]),  # without the inner scope the outer one would ask for a GPU
        ((3, 1), [""]),  # tf.device(None)
    ],
)
def test_each_scope_that_asks_by_itself_holds(own: tuple[int, ...], asking: list[str]) -> None:
    sidecar = sidecar_of_an_inlined_call("call", *own)
    program = place_program(sidecar)
    way = only(program, "__outer")
    (blocker,) = BlockerFinder(way.placement).of(1).found
    found = list(HeldFinder(sidecar, program.kernels.registry).of_node(way, 1, blocker))
    assert [held.called_in for held in found] == asking
