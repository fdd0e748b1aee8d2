"""Requests for the device of another object, on another machine."""

from dataclasses import replace

import pytest

from tests.placement.graphs import node
from tests.placement.test_program import Program, only, tensor
from traceanalyzer.capture_file.document import (
    OF_ANOTHER,
    OF_MACHINE,
    OF_OP,
    CaptureFile,
    Frame,
    Resource,
    Scope,
    Signature,
)
from traceanalyzer.capture_file.function_records import Definition, Graph
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.blockers import BlockerFinder
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.program import ProgramPlacement
from traceanalyzer.placement.recorded_blockers import BlockerRecords
from traceanalyzer.placement.scopes import ReadDevices, unsure_scopes

CPU, GPU = Machine.local(gpus=1).host, Machine.local(gpus=1).devices[0]
SPELT, OF_MOVED, OF_KEPT, OF_LOST, OF_TENSOR, OF_ALL, LIFTING, OF_JOB, OF_MADE, OF_CALL = range(10)
RESOURCES = (GPU, CPU, "")  # where each is on the other machine


def _signature(op: str, scopes: tuple[int, ...] = (), *, is_function: bool = False) -> Signature:
    return Signature(
        op=op,
        is_function=is_function,
        scope=CPU,
        scope_frame=-1,
        scopes=scopes,
        frame=-1,
        attributes=-1,
        inputs=(),
        outputs=(),
    )


def _read(capture_file: CaptureFile, *, unsure_as_recorded: bool = False) -> ReadDevices:
    return ReadDevices(
        capture_file=capture_file,
        machine=Machine.local(gpus=1),
        resources=RESOURCES,
        place=lambda _: GPU,
        as_recorded=frozenset(unsure_scopes(capture_file) if unsure_as_recorded else ()),
    )


CAPTURE_FILE = CaptureFile(
    tool="0",
    host="h",
    complete=True,
    scopes=(
        Scope(device=CPU, frame=-1),
        Scope(device=CPU, frame=-1, origin=0),
        Scope(device=CPU, frame=-1, origin=1),
        Scope(device=CPU, frame=-1, origin=2),
        Scope(device=CPU, frame=-1, origin=OF_ANOTHER),
        Scope(device=CPU, frame=-1, origin=OF_MACHINE),
        Scope(device="None", frame=-1),
        Scope(device="/job:localhost", frame=-1),
        Scope(device=CPU, frame=-1, origin=OF_OP),
        Scope(device=CPU, frame=0, origin=OF_OP - 1),
    ),
    signatures=(_signature("Range"), _signature("__inference_step_1", is_function=True)),
    frames=(Frame(file="train.py", line=1, code="<module>", is_user=True),),
)
asking = pytest.mark.parametrize(
    ("scopes", "device"),
    [
        ((SPELT,), CPU),
        ((OF_MOVED,), GPU),
        ((OF_KEPT,), CPU),
        ((OF_LOST,), ""),  # where that is is not known: then nothing is asked for
        ((OF_TENSOR,), ""),
        ((OF_ALL,), GPU),
        ((OF_MADE,), GPU),  # where the op runs that made the tensor
        ((OF_CALL,), ""),
        ((SPELT, OF_MOVED), CPU),  # the innermost counts
        ((OF_MOVED, SPELT), GPU),
        ((OF_JOB, OF_MOVED), GPU),  # which names no type of device
        ((LIFTING, OF_MOVED), CPU),
        ((), CPU),
    ],
)


def _capture_file(function: str, node: str, scopes: tuple[int, ...]) -> CaptureFile:
    definition = Definition(name=function, nodes=(node,), frames=(-1,), scopes=(scopes,))
    return replace(CAPTURE_FILE, definitions=(definition,))


def _graph(name: str, *, inlined_from: str = "", op: str = "Neg", device: str = CPU) -> Graph:
    return Graph(
        names=(f"call/{name}" if inlined_from else name,),
        ops=(op,),
        inputs=((),),
        devices=(device,),
        attributes=(-1,),
        origin_functions=(inlined_from,),
        origin_nodes=(name if inlined_from else "",),
    )


def _of_graph(capture_file: CaptureFile, graph: Graph) -> tuple[str, ...]:
    return _read(capture_file).of_graph("step", graph, CPU).devices


@asking
def test_an_eager_op_asks_for_where_its_owner_is(scopes: tuple[int, ...], device: str) -> None:
    assert _read(CAPTURE_FILE).of_eager(_signature("Neg", scopes)) == device


def test_what_nobody_knows_can_be_taken_as_it_was() -> None:
    read = _read(CAPTURE_FILE, unsure_as_recorded=True)
    assert read.of_eager(_signature("Neg", (OF_CALL,))) == CPU
    assert read.of_eager(_signature("Neg", (OF_MADE,))) == GPU


@asking
def test_a_node_asks_for_where_its_owner_is(scopes: tuple[int, ...], device: str) -> None:
    assert _of_graph(_capture_file("step", "x", scopes), _graph("x")) == (device,)


SHORT = "/device:CPU:0"


@pytest.mark.parametrize(
    ("scopes", "graph", "device"),
    [
        ((OF_MOVED,), _graph("x", op="_Arg"), CPU),  # a binding is no request
        ((OF_MOVED,), _graph("x", op="_Retval"), CPU),
        ((SPELT,), _graph("x/lowered/_3"), ""),  # what TensorFlow lowers asks for nothing
        ((SPELT,), _graph("x", device=SHORT), SHORT),  # what is written short is meant
        ((SPELT,), _graph("made", device=SHORT), SHORT),
        ((OF_ALL,), _graph("x", device=SHORT), GPU),  # a choice for want of a GPU
    ],
)
def test_other_nodes(scopes: tuple[int, ...], graph: Graph, device: str) -> None:
    assert _of_graph(_capture_file("step", "x", scopes), graph) == (device,)


def test_one_that_was_inlined_has_its_own_device_or_that_of_its_call() -> None:
    moved = _capture_file("inner", "x", (OF_MOVED,))
    assert _of_graph(moved, _graph("x", inlined_from="inner")) == (GPU,)
    inner = Definition(name="inner", nodes=("x",), frames=(-1,), scopes=(None,))
    capture_file = _capture_file("step", "call", (OF_MOVED,))
    capture_file = replace(capture_file, definitions=(*capture_file.definitions, inner))
    assert _of_graph(capture_file, _graph("x", inlined_from="inner")) == (GPU,)


@pytest.mark.parametrize(("scope", "device"), [(OF_MOVED, GPU), (SPELT, CPU)])
def test_what_is_colocated_has_the_request_of_the_other(scope: int, device: str) -> None:
    graph = Graph(
        names=("x", "beside"),
        ops=("Neg", "Neg"),
        inputs=((), ()),
        devices=(CPU, CPU),
        attributes=(-1, 0),
        origin_functions=("", ""),
        origin_nodes=("", ""),
    )
    definition = Definition(
        name="step", nodes=("x", "beside"), frames=(-1, -1), scopes=((scope,), None)
    )
    capture_file = replace(
        CAPTURE_FILE, definitions=(definition,), attributes=({"_class": [{"s": "loc:@x"}]},)
    )
    assert _of_graph(capture_file, graph) == (device, device)


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
        ((4, 0, 1), [1, 2]),  # what asks for no type leaves it to the scope around
        ((0, 2, 1), [1]),  # without the inner scope the op would be on a GPU
        ((0, 3, 1), [1]),  # tf.device(None)
        ((0, 1, 0), [1, 2]),  # a function that calls itself
    ],
)


@scopes_and_lines
def test_each_scope_around_a_call_blocks(around: tuple[int, ...], lines: list[int]) -> None:
    capture_file = capture_file_in_scopes(*around)
    program = ProgramPlacement(capture_file)
    way = only(program, "__f")
    (blocker,) = BlockerFinder(way.placement).of(0).found
    found = list(BlockerRecords(capture_file, program.kernels.registry).of_node(way, 0, blocker))
    assert [h.scope_frame and h.scope_frame.line for h in found] == lines
    assert {(h.kind, h.call) for h in found} == {
        (BlockerKind.DEFAULT_DEVICE, capture_file.signatures[1])
    }


@scopes_and_lines
def test_each_scope_that_a_resource_was_made_in_blocks_its_users(
    around: tuple[int, ...], lines: list[int]
) -> None:
    made = Resource(
        signature=0, name="w:0", dtype="float", shape=None, bytes=None, device="/device:CPU:0"
    )
    capture_file = replace(capture_file_in_scopes(*around), resources=(made,))
    reads = replace(
        capture_file.signatures[0],
        op="ReadVariableOp",
        scope="",
        scopes=(),
        inputs=(replace(tensor("resource"), device="/device:CPU:0", resource=0),),
    )
    finder = BlockerRecords(capture_file, ProgramPlacement(capture_file).kernels.registry)
    blocker = Blocker(kind=BlockerKind.RESOURCE, input=0, requested_device="/device:CPU:0")

    found = list(finder.of_eager(reads, blocker))

    assert [h.scope_frame and h.scope_frame.line for h in found] == lines
    assert {h.resource for h in found} == {made}


@pytest.mark.parametrize(
    ("own", "asking"),
    [
        ((), ["__inner"]),
        ((0, 1), ["", "", "__inner"]),
        ((2, 1), [""]),  # without the inner scope the outer one would ask for a GPU
        ((3, 1), [""]),  # tf.device(None)
    ],
)
def test_each_scope_that_requests_the_cpu_blocks(own: tuple[int, ...], asking: list[str]) -> None:
    capture_file = capture_file_of_an_inlined_call("call", *own)
    program = ProgramPlacement(capture_file)
    way = only(program, "__outer")
    (blocker,) = BlockerFinder(way.placement).of(1).found
    found = list(BlockerRecords(capture_file, program.kernels.registry).of_node(way, 1, blocker))
    assert [blocker.called_in for blocker in found] == asking
