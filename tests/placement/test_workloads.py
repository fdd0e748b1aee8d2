"""The replay of the placer, compared with TensorFlow, on programs it was not written for.

Each workload runs on emulated GPUs (`tests/emulator`), and TensorFlow's runs of its placer are
replayed node by node. It is also captured without a GPU, as on a user's machine, and placed on a
machine with GPUs. A program can create other ops when it sees a GPU: such differences are listed
here, each with its reason.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import pytest

from tests.emulator.captures import captured
from tests.emulator.oracle import Outcome, PlacerRun, the_oracle
from tests.workloads import FAST, WORKLOADS, Workload
from traceanalyzer.capture_file.document import SESSION, Attributes, CaptureFile
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.placement.devices import Machine, machine_of, with_gpus
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS, describe
from traceanalyzer.placement.placer import Placement, Setting
from traceanalyzer.placement.program import FunctionPlacement, ProgramPlacement
from traceanalyzer.placement.registry import load

_BOUND: Final = ARGUMENTS | RESULTS  # they have a device before the placer runs: not counted
_NUMBER: Final = re.compile(r"_\d+$")
_OF_ONE_RUN: Final = frozenset({"shared_name", "container", "metadata"})

GROWN_GRAPH: Final = (
    "when a session's graph grows, TensorFlow places it again and keeps the devices of stateful"
    " nodes; the recorded graph lacks their requests, which decide whether an Identity follows them"
)
OTHER_PROGRAM: Final = "the program asks which GPUs exist, and behaves differently"
READ_DEVICE: Final = (
    "the program requests the device of a variable or tensor, which is the CPU without a GPU"
    " (Keras does so for an optimizer's slots, in `add_variable_from_reference` of"
    " keras/src/backend/tensorflow/optimizer.py; tf.data does so for the ops of an optional)"
)
LOWERED_ARGUMENT: Final = (
    "TensorFlow lowers a loop to ops that request the device of the loop's argument"
    " (core/common_runtime/lower_while_op.cc), which is the CPU without a GPU"
)

REPLAY_LIMITS: Final = {("session_variables_v1", "Identity"): GROWN_GRAPH}
"""By workload and op type: why the replay puts such nodes elsewhere."""

LIMITS: Final = {
    ("control_flow_v2", "__inference_go"): LOWERED_ARGUMENT,
    ("mirrored_gpus", "__inference__remote_finalize_func"): OTHER_PROGRAM,
    ("mirrored_gpus", "__inference__remote_init_func"): OTHER_PROGRAM,
    ("mirrored_gpus", "__inference_train_step"): OTHER_PROGRAM,
    ("strict_placement", "__inference_name_of"): OTHER_PROGRAM,
}
"""By workload and function: why a capture without a GPU has some of its nodes elsewhere."""

EAGER_LIMITS: Final = {
    "mirrored_gpus": OTHER_PROGRAM,
    "mixed_precision_model": READ_DEVICE,
}
"""By workload: why such a capture has some of its eager ops elsewhere."""

OTHER_NODES: Final = {
    "mirrored_gpus": "one replica instead of two",
    "recurrent_as_it_comes": "Keras runs a GRU as one op of cuDNN if there is a GPU",
}
"""By workload: why some of TensorFlow's nodes are not in such a capture."""

each_workload = pytest.mark.parametrize(
    "workload",
    [
        pytest.param(w, marks=[] if w.name in FAST else pytest.mark.slow, id=w.name)
        for w in WORKLOADS
    ],
)


@dataclass(frozen=True, slots=True)
class Miss:
    """A node that is not where TensorFlow puts it."""

    function: str
    node: str
    op: str
    ours: str
    theirs: str


@cache
def emulated(workload: Workload) -> Outcome:
    """Run a workload on emulated GPUs, once for all tests."""
    return the_oracle().run(workload.path, gpus=workload.gpus)


def skip_without_half_precision(workload: Workload) -> None:
    """Skip a test of a program that this machine's CPU cannot run to its end under the emulator."""
    if "Op does not support N5Eigen4halfE inputs" in emulated(workload).error:
        pytest.skip("without AVX-512, the CPU under the emulated GPU cannot convolve halves")


# ------------------------------------------------------- the replay of TensorFlow's own runs


@cache
def replayed(workload: Workload) -> tuple[tuple[PlacerRun, Placement], ...]:
    """Replay all runs of the placer that a workload led to."""
    runs = emulated(workload).runs
    functions = frozenset(_functions_of(runs))
    return tuple((run, _placed(run, functions)) for run in runs)


def _placed(run: PlacerRun, functions: frozenset[str]) -> Placement:
    nodes = describe(run.graph, run.attributes, load("2.21"), functions)
    setting = Setting(
        machine=Machine(run.devices),
        default_device=run.default_device,
        soft=run.soft_placement,
        assigned={at: device for at, device in enumerate(run.assigned_before) if device},
    )
    return Placement(nodes, setting)


def _functions_of(runs: Iterable[PlacerRun]) -> Iterator[str]:
    """Return the names of all functions in runs of the placer."""
    runs = tuple(runs)
    yield from (run.function for run in runs)
    for pool in {id(run.attributes): run.attributes for run in runs}.values():
        for attributes in pool:
            yield from _named_in(list(attributes.values()))


def _named_in(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _named_in(each)
    elif isinstance(value, dict) and isinstance(name := value.get("func"), str):
        yield name


@each_workload
def test_the_program_ran_to_its_end_under_tensorflow(workload: Workload) -> None:
    outcome = emulated(workload)
    if workload.stops:
        assert f"cannot compute {workload.stops}" in outcome.error
    else:
        skip_without_half_precision(workload)
        assert outcome.exit_code == 0, outcome.error or outcome.stderr
    assert any(not run.is_eager_op for run in outcome.runs)


@each_workload
def test_every_node_is_where_tensorflow_puts_it(workload: Workload) -> None:
    found = [
        Miss(run.function, run.graph.names[at], op, placement.devices[at], run.assigned[at])
        for run, placement in replayed(workload)
        for at, op in enumerate(run.graph.ops if run.assigned else ())
        if op not in _BOUND and placement.devices[at] != run.assigned[at]
    ]
    unknown = [m for m in found if (workload.name, m.op) not in REPLAY_LIMITS]
    assert not unknown
    known = {op for name, op in REPLAY_LIMITS if name == workload.name}
    assert known == {m.op for m in found}, "a listed limit is gone"


@each_workload
def test_what_tensorflow_refuses_is_refused_and_nothing_else(workload: Workload) -> None:
    for run, placement in replayed(workload):
        assert bool(placement.failures) is not bool(run.assigned), run.function


# ------------------------------------------------------- captures without a GPU


Kind: TypeAlias = "tuple[str, str]"  # of an eager op: type, attributes


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload's placement, by a capture without a GPU, beside TensorFlow's with some."""

    misses: list[Miss]
    nodes: int
    only_with_gpu: int
    eager_misses: list[str]


@cache
def compared(workload: Workload) -> Compared:
    """Capture, place and compare a workload."""
    capture_file = captured(workload.path, gpus=0).capture_file()
    program = ProgramPlacement(capture_file, with_gpus(machine_of(capture_file), workload.gpus))
    misses, nodes, only_with_gpu = [], 0, 0
    for run in emulated(workload).runs:
        if run.is_eager_op or not run.assigned:
            continue
        way = _counterpart(run, program)
        theirs = _nodes_of(run.graph)
        ours = _nodes_of(way.placement.nodes.graph) if way else {}
        nodes += len(theirs)
        only_with_gpu += len(theirs.keys() - ours.keys())
        for name, op in theirs.keys() & ours.keys() if way else ():
            we, they = way.placement.devices[ours[name, op]], run.assigned[theirs[name, op]]
            if we != they:
                misses.append(Miss(definition_name(run.function), name, op, we, they))
    theirs_eager, ours_eager = _eager_devices(workload), _predicted_eager(capture_file, program)
    common = sorted(theirs_eager.keys() & ours_eager.keys())
    eager_misses = [kind[0] for kind in common if theirs_eager[kind] != ours_eager[kind]]
    return Compared(misses, nodes, only_with_gpu, eager_misses)


def definition_name(function: str) -> str:
    """Return a function's name without the number that makes it unique."""
    return _NUMBER.sub("", function)


def _counterpart(run: PlacerRun, program: ProgramPlacement) -> FunctionPlacement | None:
    """Return our placement of the function that TensorFlow placed in a run, or None.

    It has the function's name, or that of its definition if the numbering differs. Of several, it
    has the most similar nodes, default device, and arguments.
    """
    name = run.function or SESSION
    ways: Iterable[FunctionPlacement] = program.functions.get(name, ())
    if not ways:
        ways = [
            way
            for function, placed in program.functions.items()
            if definition_name(function) == definition_name(name)
            for way in placed
        ]
    return max(ways, key=lambda way: _likeness(run, way), default=None)


def _likeness(run: PlacerRun, way: FunctionPlacement) -> tuple[int, bool, int]:
    theirs, ours = run.graph, way.placement.nodes.graph
    at_home = {name: at for at, name in enumerate(ours.names)}
    apart = len(set(theirs.names) ^ at_home.keys())
    bound = sum(
        run.assigned[at] == way.placement.devices[at_home[name]]
        for at, (name, op) in enumerate(zip(theirs.names, theirs.ops, strict=True))
        if op in _BOUND and name in at_home
    )
    return -apart, run.default_device == way.placement.setting.default_device, bound


def _nodes_of(graph: Graph) -> dict[tuple[str, str], int]:
    """Return the nodes that are counted, by name and op type."""
    named = zip(graph.names, graph.ops, strict=True)
    return {(name, op): at for at, (name, op) in enumerate(named) if op not in _BOUND}


def _kind(op: str, attributes: Attributes) -> Kind:
    kept = {k: v for k, v in attributes.items() if k not in _OF_ONE_RUN and k[0] != "_"}
    return op, re.sub(r"_[0-9]+\b", "", json.dumps(kept, sort_keys=True))


def _eager_devices(workload: Workload) -> dict[Kind, set[str]]:
    """Return where TensorFlow ran each kind of eager op."""
    found: dict[Kind, set[str]] = defaultdict(set)
    for run in emulated(workload).runs:
        if run.is_eager_op and run.assigned:
            for (_, op), at in _nodes_of(run.graph).items():
                kind = _kind(op, run.attributes[run.graph.attributes[at]])
                found[kind].add(run.assigned[at])
    return found


def _predicted_eager(capture_file: CaptureFile, program: ProgramPlacement) -> dict[Kind, set[str]]:
    """Return where we say that each kind of eager op runs."""
    found: dict[Kind, set[str]] = defaultdict(set)
    for signature, placement in zip(capture_file.signatures, program.eager, strict=True):
        if not signature.is_function and placement.device:
            attributes = capture_file.attribute_set(signature.attributes)
            found[_kind(signature.op, attributes)].add(placement.device)
    return found


@each_workload
def test_captured_without_a_gpu_each_node_elsewhere_is_explained(workload: Workload) -> None:
    found = compared(workload).misses
    unknown = [m for m in found if (workload.name, m.function) not in LIMITS]
    assert not unknown
    known = {function for name, function in LIMITS if name == workload.name}
    assert known == {m.function for m in found}, "a listed limit is gone"


@each_workload
def test_captured_without_a_gpu_each_eager_op_elsewhere_is_explained(workload: Workload) -> None:
    skip_without_half_precision(workload)
    elsewhere = compared(workload).eager_misses
    assert bool(elsewhere) is (workload.name in EAGER_LIMITS), elsewhere


@each_workload
def test_captured_without_a_gpu_nearly_all_nodes_are_there(workload: Workload) -> None:
    found = compared(workload)
    assert found.nodes > found.only_with_gpu
    assert bool(found.only_with_gpu) is (workload.name in OTHER_NODES), found
