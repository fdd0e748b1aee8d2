"""Whole programs from handwritten capture files, placed on their own machine or with GPUs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from tests.capture_file.capture_files import capture_files
from tests.placement.graphs import Node, full, function, node, read, short, tanh, written
from traceanalyzer.capture_file.document import (
    SESSION,
    CaptureFile,
    RegisteredKernel,
    Resource,
    SessionConfig,
    Signature,
    Tensor,
)
from traceanalyzer.capture_file.function_records import Function, Instance
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.placer import Decision
from traceanalyzer.placement.program import (
    FunctionPlacement,
    ProgramPlacement,
    machine_of,
)


class Program:
    """Collects a program: what it made eagerly, the functions it called, their graphs."""

    def __init__(self) -> None:
        self.attributes: list[dict[str, Any]] = []
        self.signatures: list[Signature] = []
        self.resources: list[Resource] = []
        self.functions: dict[str, list[Instance]] = {}

    def eager(
        self,
        op: str,
        *inputs: Tensor,
        scope: str = "",
        outputs: tuple[Tensor, ...] = (),
        **by: Any,  # noqa: ANN401 - values of attributes
    ) -> int:
        """An eager op, or a call of a function, whose name begins with two underscores."""
        self.signatures.append(
            Signature(
                op=op,
                is_function=op.startswith("__"),
                scope=scope,
                scope_frame=-1,
                frame=-1,
                attributes=len(self.attributes),
                inputs=inputs,
                outputs=outputs,
            )
        )
        self.attributes.append(by)
        return len(self.signatures) - 1

    def variable(self, on: str = "CPU:0", dtype: str = "float", scope: str = "") -> Tensor:
        """A variable that the program made under a scope; the handle to use it."""
        made = self.eager("VarHandleOp", dtype=dtype, shape={"shape": []}, scope=scope)
        return self.resource(made, on, dtype)

    def resource(self, signature: int, on: str = "CPU:0", dtype: str = "float") -> Tensor:
        """A resource that a signature made."""
        self.resources.append(
            Resource(signature=signature, name="v", dtype=dtype, shape=(), bytes=4, device=full(on))
        )
        return replace(tensor("resource", on), resource=len(self.resources) - 1)

    def function(self, name: str, *lines: Node, assigned: tuple[str, ...] = ()) -> None:
        """A graph of a function, once more if it has one."""
        graph = written(*lines)
        shift = len(self.attributes)
        self.attributes += graph.attributes
        moved = replace(
            graph.graph,
            attributes=tuple(at + shift if at >= 0 else -1 for at in graph.graph.attributes),
        )
        made = Instance(
            input=moved,
            assigned=tuple(map(full, assigned)) or ("",) * len(lines),
            partitions=(),
        )
        self.functions.setdefault(name, []).append(made)

    def capture_file(
        self,
        *,
        gpus: int = 0,
        version: str | None = "2.21.0",
        **more: Any,  # noqa: ANN401 - fields of `CaptureFile`
    ) -> CaptureFile:
        """All that was collected, of a machine with so many GPUs."""
        logical = [{"name": d} for d in Machine.local(gpus=gpus).devices]
        held: dict[str, Any] = {
            "tool": "0",
            "host": "host",
            "complete": True,
            "environment": {"tensorflow": {"version": version}, "variables": {}},
            "devices": {"soft_device_placement": True, "logical": logical},
            "attributes": tuple(self.attributes),
            "signatures": tuple(self.signatures),
            "resources": tuple(self.resources),
            "functions": tuple(
                Function(name=name, instances=tuple(made)) for name, made in self.functions.items()
            ),
        }
        return CaptureFile(**held | more)


def tensor(dtype: str, on: str = "CPU:0", shape: tuple[int, ...] | None = ()) -> Tensor:
    return Tensor(dtype=dtype, device=full(on), backing_device=full(on), resource=None, shape=shape)


def arg(name: str, index: int = 0, T: str = "float", on: str = "") -> Node:  # noqa: N803
    return node(name, "_Arg", T=T, index=index, on=on)


def devices(placed: FunctionPlacement) -> dict[str, str]:
    names = placed.placement.nodes.graph.names
    return dict(zip(names, map(short, placed.placement.devices.values()), strict=True))


def doubtful(placed: FunctionPlacement) -> set[str]:
    doubts = placed.placement.doubts
    names = placed.placement.nodes.graph.names
    return {name for at, name in enumerate(names) if at in doubts}


def only(placed: ProgramPlacement, name: str) -> FunctionPlacement:
    (found,) = placed.functions[name]
    return found


ONE_GPU = Machine.local(gpus=1)

# ------------------------------------------------------------------------------ the machine


@pytest.mark.parametrize(
    ("logical", "gpus"),
    [
        ([{"name": "/device:CPU:0"}, {"name": "/device:GPU:0"}, {"name": 7}, "x", {}], 1),
        ([{"name": "nonsense"}, {"name": "/job:x y"}], 0),
        ([{"name": "/device:GPU:0"}], 0),  # without a CPU: of no machine
        (None, 1),  # TensorFlow 1 lists none without an eager context: those of its session
    ],
)
def test_the_machine_has_the_devices_that_a_program_lists(logical: Any, gpus: int) -> None:  # noqa: ANN401
    program = Program()
    if logical is None:
        nodes = (node("one", "NoOp"), node("two", "NoOp"))
        program.function(SESSION, *nodes, assigned=("GPU:0", "CPU:0"))
    found = machine_of(program.capture_file(devices={"logical": logical}))
    assert found == Machine.local(gpus=gpus)


# --------------------------------------------------------------------- eager ops, resources


def test_a_resource_of_which_nobody_knows_the_maker_is_in_doubt() -> None:
    program = Program()
    handle = program.resource(-1)
    program.eager("ReadVariableOp", handle, dtype="float")
    program.eager("__inference_f_1", handle)
    program.function("__inference_f_1", arg("v", T="resource"), read("r", "v"), tanh("t", "r"))
    placed = ProgramPlacement(program.capture_file(), ONE_GPU)
    assert placed.eager[0].doubt
    assert doubtful(only(placed, "__inference_f_1")) == {"v", "r"}


# ------------------------------------------------------------------------------- functions


def test_the_scope_of_a_call_is_the_default_device_and_two_calls_are_two_placements() -> None:
    program = Program()
    program.eager("__inference_f_1", tensor("float"))
    program.eager("__inference_f_1", tensor("float"), scope="/device:CPU:0")
    program.function("__inference_f_1", arg("x"), tanh("t", "x"))
    first, second = ProgramPlacement(program.capture_file(), ONE_GPU).functions["__inference_f_1"]
    assert (devices(first)["t"], first.call) == ("GPU:0", 0)
    assert (devices(second)["t"], second.call) == ("CPU:0", 1)
    decided = second.placement.decisions[1]
    assert decided is Decision.FIRST


def test_of_several_graphs_each_is_placed_under_the_call_that_it_is_of() -> None:
    program = Program()
    program.eager("__inference_f_1", tensor("float", "GPU:0"))
    program.eager("__inference_f_1", tensor("float", "GPU:0"), scope="/device:CPU:0")
    for where in ("CPU:0", "GPU:0"):
        program.function(
            "__inference_f_1", arg("x", on="GPU:0"), tanh("t", "x"), assigned=("GPU:0", where)
        )
    first, second = ProgramPlacement(program.capture_file(gpus=1)).functions["__inference_f_1"]
    assert (devices(first)["t"], first.call) == ("CPU:0", 1)
    assert (devices(second)["t"], second.call) == ("GPU:0", 0)


def call(name: str, callee: str, *inputs: str, T: list[str], **more: Any) -> Node:  # noqa: ANN401, N803
    return node(
        name, "StatefulPartitionedCall", *inputs, Tin=T, Tout=[], f=function(callee), **more
    )


def test_a_function_within_has_the_device_of_its_call_and_the_callers_resources() -> None:
    program = Program()
    handle = program.variable(scope="/device:CPU:0")
    program.eager("__inference_outer_2", handle, tensor("float"))
    program.function(
        "__inference_inner_1", arg("v", 0, "resource"), arg("x", 1), read("r", "v"), tanh("t", "x")
    )
    program.function(
        "__inference_outer_2",
        arg("v", 0, "resource"),
        arg("x", 1),
        call("there", "__inference_inner_1", "v", "x", T=["resource", "float"], asked="/cpu:0"),
        call("here", "__inference_inner_1", "v", "x", T=["resource", "float"]),
    )
    placed = ProgramPlacement(program.capture_file(), ONE_GPU)
    there, here = placed.functions["__inference_inner_1"]
    assert devices(there) == {"v": "CPU:0", "x": "CPU:0", "r": "CPU:0", "t": "CPU:0"}
    assert devices(here) == {"v": "CPU:0", "x": "GPU:0", "r": "CPU:0", "t": "GPU:0"}
    assert there.call is None


def test_a_function_that_grappler_made_for_one_call_is_where_that_call_is() -> None:
    """As of the functions of Keras 2's LSTM; the call in the dump still names the other."""
    program = Program()
    made = "__inference_inner_1_specialized_for_there_at___inference_outer_2"
    program.eager("__inference_outer_2", tensor("float"))
    program.function(made, arg("x"), tanh("t", "x"))
    program.function(
        "__inference_outer_2",
        arg("x"),
        call("there", "__inference_inner_1", "x", T=["float"], asked="/cpu:0"),
    )
    (there,) = ProgramPlacement(program.capture_file(), ONE_GPU).functions[made]
    assert devices(there)["t"] == "CPU:0"
    assert not there.doubt


def test_functions_that_call_one_another_come_to_an_end() -> None:
    program = Program()
    program.eager("__inference_a_1")
    for name, other in (("a_1", "b_2"), ("b_2", "a_1")):
        program.function(f"__inference_{name}", call("c", f"__inference_{other}", T=[]))
    placed = ProgramPlacement(program.capture_file(), ONE_GPU)
    assert set(placed.functions) == {"__inference_a_1", "__inference_b_2"}


def test_a_function_whose_call_was_not_recorded_is_in_doubt() -> None:
    program = Program()
    program.function("__inference_f_1", arg("x"), tanh("t", "x"))
    found = only(ProgramPlacement(program.capture_file(), ONE_GPU), "__inference_f_1")
    assert devices(found)["t"] == "GPU:0"
    assert found.doubt == "the call of its function was not recorded"


def test_a_program_without_a_list_of_devices_has_those_of_its_ops() -> None:
    """As of a program that was killed: the list is written at its end."""
    program = Program()
    program.function("__inference_f_1", arg("x"), tanh("t", "x"), assigned=("GPU:0", "GPU:0"))
    assert machine_of(program.capture_file(devices=None)).types == ("GPU", "CPU")


@pytest.mark.parametrize("how", ["not recorded", "handed on"])
def test_a_resource_whose_device_is_unknown_keeps_no_op_on_the_cpu(how: str) -> None:
    program = Program()
    if how == "handed on":  # by another function, which returned the handle
        program.eager("__inference_f_1", tensor("resource"))
    handle = arg("v", T="resource", on="CPU:0")
    read_it = node("r", "ReadVariableOp", "v", dtype="float")
    returned = node("v_RetVal", "_Retval", "v", T="resource", index=0, on="CPU:0")
    program.function("__inference_f_1", handle, read_it, tanh("t", "r"), returned)
    found = only(ProgramPlacement(program.capture_file(), ONE_GPU), "__inference_f_1")
    assert set(devices(found).values()) == {"GPU:0"}
    assert "r" in doubtful(found)


@pytest.mark.parametrize(
    ("of_sessions", "device"),
    [((), "CPU:0"), ((True,), "CPU:0"), ((False,), ""), ((False, True), "CPU:0")],
)
def test_soft_placement_of_a_session_is_its_own(of_sessions: tuple[bool, ...], device: str) -> None:
    program = Program()
    program.function(SESSION, node("s", "RandomShuffle", T="float", asked="/device:GPU:0"))
    program.function(
        "__inference_f_1", node("s", "RandomShuffle", T="float", asked="/device:GPU:0")
    )
    configs = tuple(
        SessionConfig(is_own=True, is_local=True, soft_placement=soft) for soft in of_sessions
    )
    placed = ProgramPlacement(program.capture_file(session_configs=configs), ONE_GPU)
    assert devices(only(placed, SESSION)) == {"s": device}
    assert devices(only(placed, "__inference_f_1")) == {"s": "CPU:0"}


@pytest.mark.parametrize(
    ("kernels", "device", "is_sure"),
    [
        ({}, "GPU:0", False),  # nothing is known of them
        ({"CPU": ()}, "CPU:0", True),
        ({"CPU": (), "GPU": ()}, "GPU:0", True),
        ({"CPU": (), "GPU": ("float",)}, "GPU:0", True),
        ({"CPU": (), "GPU": ("half",)}, "CPU:0", True),
        ({"CPU": (), "XLA_GPU_JIT": ()}, "CPU:0", True),
    ],
)
def test_an_op_of_another_library_has_the_kernels_that_it_registered(
    kernels: dict[str, tuple[str, ...]], device: str, *, is_sure: bool
) -> None:
    program = Program()
    program.eager("SoftClip", tensor("float"), T="float")
    program.function(SESSION, node("s", "SoftClip", T="float"))
    registered = tuple(
        RegisteredKernel(op="SoftClip", device_type=kind, constraints={"T": types} if types else {})
        for kind, types in kernels.items()
    )
    placed = ProgramPlacement(program.capture_file(kernels=registered), ONE_GPU)
    assert (short(placed.eager[0].device), not placed.eager[0].doubt) == (device, is_sure)
    assert devices(only(placed, SESSION)) == {"s": device}
    assert doubtful(only(placed, SESSION)) == (set() if is_sure else {"s"})


# -------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("version", [None, "1.15.0", "9.9.9", "2.21.0+nv25", "nonsense"])
def test_the_kernels_of_another_version_prove_nothing(version: str | None) -> None:
    placed = ProgramPlacement(Program().capture_file(version=version), ONE_GPU)
    assert not placed.kernels.exact
    assert placed.kernels.certainty == "likely"


@given(capture_files())
def test_any_capture_file_is_placed(capture_file: CaptureFile) -> None:
    for machine in (None, ONE_GPU):
        placed = ProgramPlacement(capture_file, machine)
        assert len(placed.eager) == len(capture_file.signatures)
        for found in placed.functions.values():
            for each in found:
                assert each.placement.doubts.keys() <= {*range(len(each.placement.devices))}


def test_a_result_of_what_asks_for_no_device_is_in_doubt_with_all() -> None:
    program = Program()
    program.eager("__inference_f_1", tensor("float"))
    program.function(
        "__inference_f_1",
        arg("x"),
        tanh("t", "x", asked="/nonsense"),
        node("out", "_Retval", "t", T="float", index=0, on="CPU:0"),
    )
    found = only(ProgramPlacement(program.capture_file(), ONE_GPU), "__inference_f_1")
    assert doubtful(found) == {"x", "t", "out"}
