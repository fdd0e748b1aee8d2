"""A TensorFlow 1 session's graph that grew: which nodes keep a device, and where that leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.placement.graphs import Node, full, node
from tests.placement.test_program import ONE_GPU, Program, devices, doubtful, tanh
from traceanalyzer.evidence.cases import ReplayedCases
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.placement.grown_graphs import newest, with_requests
from traceanalyzer.placement.program import place_program
from traceanalyzer.sidecar.document import SESSION
from traceanalyzer.tables.joined import OpRecord

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Instance

KEPT = full("CPU:0")
CPU = "CPU:0"


def variable(name: str, asked: str = "", dtype: str = "float") -> Node:
    return node(name, "VariableV2", dtype=dtype, asked=asked)


def queue(name: str, asked: str = "") -> Node:
    return node(name, "FIFOQueueV2", component_types=["float"], asked=asked)


def take(name: str, queue: str, asked: str = "") -> Node:
    return node(name, "QueueDequeueV2", queue, component_types=["float"], asked=asked)


def record(name: str) -> OpRecord:
    return OpRecord(frame=None, requested_device=None, function=SESSION, node=name)


def grown(*graphs: tuple[Node, ...]) -> Program:
    """A session captured without a GPU."""
    program = Program()
    for nodes in graphs:
        program.function(SESSION, *nodes, assigned=(CPU,) * len(nodes))
    return program


def instances(program: Program) -> tuple[Instance, ...]:
    return tuple(program.functions[SESSION])


def test_a_kept_device_is_no_request() -> None:
    first = (variable("v"), variable("held", "/cpu:0"))
    second = (variable("v", KEPT), variable("held", KEPT), tanh("t", "v"))
    third = (*second, tanh("u", "t"))
    _, *later = with_requests(instances(grown(first, second, third)))
    assert [each.input.devices[:2] for each in later] == [("", "/cpu:0"), ("", "/cpu:0")]


def test_a_request_that_names_the_device_in_full_stays_one() -> None:
    program = grown((variable("v", KEPT),), (variable("v", KEPT), tanh("t", "v")))
    assert with_requests(instances(program))[1].input.devices == (KEPT, "")


def test_what_was_placed_earlier_keeps_the_device_that_it_has_with_a_gpu() -> None:
    first = (variable("free"), variable("held", "/cpu:0"))
    second = (
        variable("free", KEPT),
        variable("held", KEPT),
        tanh("a", "free"),
        node("more", "AssignAdd", "held", "a", T="float"),
    )
    program = grown(first, second)
    _, way = place_program(program.sidecar(), ONE_GPU).functions[SESSION]
    assert devices(way) == {"free": "GPU:0", "held": CPU, "a": "GPU:0", "more": CPU}

    cases = ReplayedCases(program.sidecar(), ONE_GPU)
    assert cases.of("VariableV2", record("free")) is None
    assert cases.of("Tanh", record("a")) is None
    found = {name: cases.of("", record(name)) for name in ("held", "more")}
    told = {n: (c.certainty, [(h.hold, h.link) for h in c.held]) for n, c in found.items() if c}
    assert told == {
        "held": ("certain", [(Hold.RESOURCE, "own")]),
        "more": ("certain", [(Hold.RESOURCE, "resource")]),
    }


def test_an_identity_compares_requests_not_kept_devices() -> None:
    """It follows its input only where both ends of it ask for the same."""
    first = (queue("q"), take("x", "q", "/cpu:0"))
    second = (queue("q", KEPT), take("x", "q", KEPT), node("i", "Identity", "x", T="float"))
    program = grown(first, (*second, tanh("t", "i")))
    _, way = place_program(program.sidecar(), ONE_GPU).functions[SESSION]
    assert devices(way) == {"q": CPU, "x": CPU, "i": "GPU:0", "t": "GPU:0"}


def test_an_op_counts_in_the_graphs_that_hold_it() -> None:
    first = (variable("v"),)
    second = (variable("v", KEPT), node("s", "AsString", "v", T="float"))
    cases = ReplayedCases(grown(first, second).sidecar(), ONE_GPU)
    case = cases.of("AsString", record("s"))
    assert case is not None
    assert (case.basis, case.certainty) == ("replay", "certain")
    missing = cases.of("Tanh", record("t"))
    assert missing is not None
    assert missing.basis == "none"


def test_a_doubt_about_an_earlier_graph_stays_with_what_it_placed() -> None:
    first = (node("s", "SomeoneElsesVariable"),)
    second = (node("s", "SomeoneElsesVariable", asked=KEPT), tanh("t", "s"))
    _, way = place_program(grown(first, second).sidecar(), ONE_GPU).functions[SESSION]
    assert "s" in doubtful(way)


def test_a_graph_that_grew_is_left_out_and_another_is_not() -> None:
    other = (variable("other"),)
    program = grown((variable("v"),), other, (variable("v"), tanh("t", "v")))
    assert newest([each.input for each in instances(program)]) == [1, 2]
