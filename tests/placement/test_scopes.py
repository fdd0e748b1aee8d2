"""A request for the device of something else follows that to another machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from traceanalyzer.capture_file.document import (
    OF_ANOTHER,
    OF_MACHINE,
    OF_OP,
    CaptureFile,
    Frame,
    Scope,
    Signature,
)
from traceanalyzer.capture_file.function_records import Definition, Graph
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.scopes import ReadDevices

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
        capture_file,
        Machine.local(gpus=1),
        RESOURCES,
        lambda _: GPU,
        unsure_as_recorded=unsure_as_recorded,
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


@asking
def test_so_does_one_that_was_inlined(scopes: tuple[int, ...], device: str) -> None:
    graph = _graph("x", inlined_from="inner")
    assert _of_graph(_capture_file("inner", "x", scopes), graph) == (device,)


def test_one_that_was_inlined_has_the_device_of_its_call() -> None:
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


def test_what_tensorflow_lowers_asks_for_nothing() -> None:
    assert _of_graph(_capture_file("step", "while", (SPELT,)), _graph("while/lowered/_3")) == ("",)


def test_what_is_written_short_is_meant() -> None:
    short = "/device:CPU:0"
    assert _of_graph(_capture_file("step", "x", (SPELT,)), _graph("x", device=short)) == (short,)
    assert _of_graph(_capture_file("step", "y", (SPELT,)), _graph("x", device=short)) == (short,)


def test_a_choice_for_want_of_a_gpu_is_another_with_one() -> None:
    graph = _graph("x", device="/device:CPU:0")
    assert _of_graph(_capture_file("step", "x", (OF_ALL,)), graph) == (GPU,)


@pytest.mark.parametrize("op", ["_Arg", "_Retval"])
def test_bindings_are_no_requests(op: str) -> None:
    assert _of_graph(_capture_file("step", "x", (OF_MOVED,)), _graph("x", op=op)) == (CPU,)


def test_where_the_function_is_not_recorded_nothing_is_known() -> None:
    assert _of_graph(_capture_file("another", "x", (OF_MOVED,)), _graph("x")) == (CPU,)
