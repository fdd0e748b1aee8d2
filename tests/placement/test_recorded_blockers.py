"""What a capture file knows of blockers: the scopes that request the device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import Program, only, tensor
from traceanalyzer.capture_file.document import CaptureFile, Frame, Resource, Scope
from traceanalyzer.capture_file.function_records import Definition
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder
from traceanalyzer.placement.program import place_program
from traceanalyzer.placement.recorded_blockers import BlockerRecords


def capture_file_of_an_inlined_call(call: str, *own: int) -> CaptureFile:
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
    return program.capture_file(
        gpus=1,
        definitions=(
            Definition(name="__outer", nodes=("x", call), frames=(-1, -1), scopes=((), (0,))),
            Definition(name="__inner", nodes=("double",), frames=(-1,), scopes=(own,)),
        ),
        scopes=tuple(Scope(device=d, frame=0) for d in ("/CPU:0", "CPU:0", "/GPU:0", "")),
        frames=(Frame(file="train.py", line=6, code="step", is_user=True),),
    )


_SCOPES = ("/CPU:0", "/device:CPU:0", "/GPU:0", "", "/job:localhost")


def capture_file_in_scopes(*around: int) -> CaptureFile:
    """An eager op, and a call of `__f`, within scopes by number, each of a line of its own."""
    program = Program()
    program.eager("Square", tensor("float"), scope="/CPU:0", T="float")
    program.eager("__f", scope="/CPU:0")
    program.function("__f", node("x", "Placeholder", dtype="float"), assigned=("CPU:0",))
    capture_file = program.capture_file(
        gpus=1,
        scopes=tuple(Scope(device=d, frame=at) for at, d in enumerate(_SCOPES)),
        frames=tuple(
            Frame(file="train.py", line=at + 1, code="step", is_user=True)
            for at in range(len(_SCOPES))
        ),
    )
    scoped = [replace(s, scopes=around, scope_frame=4) for s in capture_file.signatures]
    return replace(capture_file, signatures=tuple(scoped))


scopes_and_lines = pytest.mark.parametrize(
    ("around", "lines"),
    [
        ((), [5]),  # of an older recorder: the innermost alone
        ((1,), [2]),
        ((0, 1), [1, 2]),
        ((4, 0, 1), [1, 2]),  # what asks for no type leaves it to the scope around
        ((0, 2, 1), [1]),  # without the inner scope the op would be on a GPU
        ((0, 3, 1), [1]),  # tf.device(None)
        ((0, 1, 0), [1, 2]),  # a function that calls itself
        ((4,), [5]),
    ],
)


@scopes_and_lines
def test_each_scope_around_a_call_blocks(around: tuple[int, ...], lines: list[int]) -> None:
    capture_file = capture_file_in_scopes(*around)
    program = place_program(capture_file)
    way = only(program, "__f")
    (blocker,) = BlockerFinder(way.placement).of(0).found
    found = list(BlockerRecords(capture_file, program.kernels.registry).of_node(way, 0, blocker))
    assert [h.scope_frame and h.scope_frame.line for h in found] == lines
    assert {(h.kind, h.call) for h in found} == {
        (BlockerKind.DEFAULT_DEVICE, capture_file.signatures[1])
    }


def made_in_scopes(*around: int) -> tuple[CaptureFile, Resource]:
    """A variable on the CPU that was made within scopes by number, and is read elsewhere."""
    capture_file = capture_file_in_scopes(*around)
    made = Resource(
        signature=0, name="w:0", dtype="float", shape=None, bytes=None, device="/device:CPU:0"
    )
    return replace(capture_file, resources=(made,)), made


@scopes_and_lines
def test_each_scope_that_a_resource_was_made_in_blocks_its_users(
    around: tuple[int, ...], lines: list[int]
) -> None:
    capture_file, made = made_in_scopes(*around)
    reads = replace(
        capture_file.signatures[0],
        op="ReadVariableOp",
        scope="",
        scopes=(),
        inputs=(replace(tensor("resource"), device="/device:CPU:0", resource=0),),
    )
    finder = BlockerRecords(capture_file, place_program(capture_file).kernels.registry)
    blocker = Blocker(kind=BlockerKind.RESOURCE, input=0, requested_device="/device:CPU:0")

    found = list(finder.of_eager(reads, blocker))

    assert [h.scope_frame and h.scope_frame.line for h in found] == lines
    assert {h.resource for h in found} == {made}


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
def test_each_scope_that_requests_the_cpu_blocks(own: tuple[int, ...], asking: list[str]) -> None:
    capture_file = capture_file_of_an_inlined_call("call", *own)
    program = place_program(capture_file)
    way = only(program, "__outer")
    (blocker,) = BlockerFinder(way.placement).of(1).found
    found = list(BlockerRecords(capture_file, program.kernels.registry).of_node(way, 1, blocker))
    assert [blocker.called_in for blocker in found] == asking
