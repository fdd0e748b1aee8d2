"""Whether `pin_to_host_optimization` is on, for functions and for sessions; and what then moves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.capture_file.capture_files import capture_files
from tests.placement.graphs import node
from tests.placement.test_program import ONE_GPU, Program, arg, only, tensor
from traceanalyzer.capture_file.document import SESSION, CaptureFile, Definition, SessionConfig
from traceanalyzer.placement.pinning import OPTION, Pinning, pinned_of, pinning
from traceanalyzer.placement.program import place_program

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Json

ON: dict[str, Json] = {OPTION: True}
BY_PROGRAM = Pinning(by="program")


def capture_file(
    options: dict[str, Json] | None, *configs: tuple[bool, dict[str, Json]]
) -> CaptureFile:
    return CaptureFile(
        tool="0",
        host="h",
        complete=True,
        devices={"optimizer_options": options},
        session_configs=tuple(
            SessionConfig(is_own=own, is_local=True, soft_placement=False, rewrites=rewrites)
            for own, rewrites in configs
        ),
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (None, None),
        ({}, None),
        ({OPTION: False}, None),
        (ON, BY_PROGRAM),
        ({**ON, "disable_meta_optimizer": True}, None),
        ({**ON, "constant_folding": False}, Pinning(by="program", folds=False)),
        ({**ON, "constant_folding": True}, BY_PROGRAM),
        ({**ON, "min_graph_nodes": -1}, Pinning(by="program", least_nodes=-1)),
        ({**ON, "min_graph_nodes": 0}, BY_PROGRAM),
    ],
)
def test_of_functions(options: dict[str, Json] | None, expected: Pinning | None) -> None:
    assert pinning(capture_file(options), is_of_session=False) == expected
    assert pinning(capture_file(options), is_of_session=True) == expected


def lengths(name: str = "__inference_f_1") -> Program:
    """A function of the lengths of three words."""
    program = Program()
    words = arg("words", T="string", on="CPU:0")
    if name == SESSION:
        words = node("words", "Const", dtype="string", value={"tensor": "string", "shape": [3]})
    program.function(
        name,
        words,
        node("n", "StringLength", "words"),
        node("f", "Cast", "n", SrcT="int32", DstT="float"),
        node("g", "Mul", "f", "f", T="float"),
    )
    return program


def definition(name: str) -> Definition:
    nodes = ("words", "n", "f", "g")
    unknown = (None,) * 4
    return Definition(
        name=name, nodes=nodes, frames=(-1,) * 4, scopes=unknown, shapes=(((3,),),) * 4
    )


def pinned(found: CaptureFile, function: str = "__inference_f_1") -> dict[str, bool]:
    program = place_program(found, ONE_GPU)
    placed = only(program, function)
    names = placed.placement.nodes.graph.names
    moved = pinned_of(found, placed, program.kernels.registry)
    return {names[at]: is_known for at, is_known in moved.items()}


def called(program: Program, **more: object) -> CaptureFile:
    program.eager("__inference_f_1", tensor("string", shape=(3,)))
    devices = {"soft_device_placement": True, "optimizer_options": ON}
    return program.capture_file(**{"devices": devices, **more})


def test_what_goes_of_a_function() -> None:
    known = (definition("__inference_f_1"),)
    assert pinned(called(lengths(), definitions=known)) == {"f": True, "g": True}
    assert pinned(called(lengths())) == {"f": False, "g": False}
    assert pinned(called(lengths(), definitions=known, devices=None)) == {}


@given(capture_files())
@pytest.mark.slow
def test_any_capture_file_has_an_answer(found: CaptureFile) -> None:
    on = replace(
        found,
        devices={"optimizer_options": {**ON, "min_graph_nodes": -1}},
        session_configs=(),
    )
    program = place_program(on, ONE_GPU)
    for ways in program.functions.values():
        for way in ways:
            moved = pinned_of(on, way, program.kernels.registry)
            assert moved.keys() <= {*range(len(way.placement.nodes))}


def test_a_name_that_is_no_devices_is_nowhere() -> None:
    known = (definition("__inference_f_1"),)
    program = lengths()
    odd = called(program, definitions=known)
    (function,) = odd.functions
    (instance,) = function.instances
    graph = replace(instance.input, devices=("/job:x y", "", "", ""))
    broken = replace(function, instances=(replace(instance, input=graph),))
    capture_file_ = replace(odd, functions=(broken,))
    placed = place_program(capture_file_)
    moved = pinned_of(capture_file_, only(placed, "__inference_f_1"), placed.kernels.registry)
    assert moved == {}
