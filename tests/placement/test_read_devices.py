"""Requests that a program read off a device are none on another machine."""

from __future__ import annotations

import pytest

from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.read_devices import without_read_devices
from traceanalyzer.sidecar.document import Definition, Frame, Graph, Scope, Sidecar

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
USER, KERAS, STRATEGY, UNKNOWN = 0, 1, 2, -1

SIDECAR = Sidecar(
    tool="0",
    host="h",
    complete=True,
    frames=(
        Frame(file="train.py", line=3, code="main", is_user=True),
        Frame(
            file="lib/keras/src/backend/tensorflow/optimizer.py",
            line=9,
            code="add_variable_from_reference",
            is_user=False,
        ),
        Frame(
            file="lib/tensorflow/python/distribute/one_device_strategy.py",
            line=9,
            code="scope",
            is_user=False,
        ),
    ),
    scopes=(
        Scope(device=CPU, frame=USER),
        Scope(device=CPU, frame=KERAS),
        Scope(device=CPU, frame=UNKNOWN),
        Scope(device=CPU, frame=STRATEGY),
    ),
    definitions=(
        Definition(
            name="step",
            nodes=("by_user", "by_keras", "by_nobody_known", "in_both", "in_none", "by_strategy"),
            frames=(-1,) * 6,
            scopes=((0,), (1,), (2,), (1, 0), None, (3,)),
        ),
    ),
)


def _graph(name: str, op: str, device: str, *, function: str = "") -> Graph:
    return Graph(
        names=(f"call/{name}" if function else name,),
        ops=(op,),
        inputs=((),),
        devices=(device,),
        attributes=(-1,),
        origin_functions=(function,),
        origin_nodes=(name if function else "",),
    )


def _asks(graph: Graph, function: str = "step") -> bool:
    machine = Machine.local()
    (device,) = without_read_devices(SIDECAR, function, graph, machine).devices
    return device == graph.devices[0]


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("by_user", True),
        ("by_keras", False),
        ("by_strategy", True),
        ("by_nobody_known", True),
        ("in_both", True),  # the user's is the inner one
        ("in_none", True),
        ("while/lowered/_3", False),  # which no code has made
    ],
)
@pytest.mark.parametrize("is_inlined", [False, True])
def test_of_full_names_those_are_read_off_that_a_library_is_known_to_read(
    name: str, *, stays: bool, is_inlined: bool
) -> None:
    graph = _graph(name, "VarHandleOp", CPU, function="step" if is_inlined else "")
    assert _asks(graph, "outer" if is_inlined else "step") is stays


def test_what_is_written_short_is_meant() -> None:
    assert _asks(_graph("by_keras", "VarHandleOp", "/device:CPU:0"))


@pytest.mark.parametrize("op", ["_Arg", "_Retval"])
def test_bindings_are_no_requests(op: str) -> None:
    assert _asks(_graph("by_keras", op, CPU))


def test_where_the_function_is_not_recorded_nothing_is_known() -> None:
    assert _asks(_graph("by_keras", "VarHandleOp", CPU), function="another")
