"""Programs captured without a GPU, and placed as if there were one: against TensorFlow with one.

Each workload is captured as a user does, on a machine without a GPU; its sidecar is placed on the
GPUs that TensorFlow has when the same program runs in the emulator. Two runs of one program are
compared, which need not make the same ops: with a GPU in sight a program may choose others. Such
nodes are counted by themselves. The score is printed by the last test.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from tests.captured import Program, run_captured
from tests.placement.scoring import (
    BOUND,
    Miss,
    asked_for,
    emulated,
    on_host,
    skip_without_half_precision,
    table,
    totals,
)
from tests.workloads import FAST, WORKLOADS, Workload
from traceanalyzer.placement.program import machine_of, place_program, with_gpus
from traceanalyzer.sidecar.document import SESSION
from traceanalyzer.sidecar.files import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.emulator.oracle import PlacerRun
    from traceanalyzer.placement.program import FunctionPlacement, ProgramPlacement
    from traceanalyzer.sidecar.document import Attributes, Graph, Sidecar

_LEAST: Final = 0.98
_AT_ONCE: Final = 2  # captures: each keeps a core busy, most of it with the import of TensorFlow
_NUMBER: Final = re.compile(r"_\d+$")
_OF_ONE_RUN: Final = frozenset({"shared_name", "container", "metadata"})

each_workload = pytest.mark.parametrize(
    "workload",
    [
        pytest.param(w, marks=[] if w.name in FAST else pytest.mark.slow, id=w.name)
        for w in WORKLOADS
    ],
)


# Why a node is elsewhere.
OTHER_PROGRAM: Final = "the program looks which GPUs there are, and does something else"
READ_DEVICE: Final = (
    "the program asks for the device that a variable or a tensor turned out to be on: without"
    " a GPU that is the CPU (Keras makes an optimizer's slots so, in `add_variable_from_reference`"
    " of keras/src/backend/tensorflow/optimizer.py; tf.data the ops of an optional)"
)
LOWERED_ARGUMENT: Final = (
    "TensorFlow lowers a loop to ops that ask for the device of the argument which enters it"
    " (core/common_runtime/lower_while_op.cc): lowered without a GPU, they ask for the CPU"
)

LIMITS: Final = {
    ("control_flow_v2", "__inference_go"): LOWERED_ARGUMENT,
    ("mirrored_gpus", "__inference__remote_finalize_func"): OTHER_PROGRAM,
    ("mirrored_gpus", "__inference__remote_init_func"): OTHER_PROGRAM,
    ("mirrored_gpus", "__inference_train_step"): OTHER_PROGRAM,
    ("strict_placement", "__inference_name_of"): OTHER_PROGRAM,
}
"""By workload and function, without its number: why some of its nodes are elsewhere."""

EAGER_LIMITS: Final = {
    "checkpoint_and_export": READ_DEVICE,
    "keras_cnn": READ_DEVICE,
    "mirrored_gpus": OTHER_PROGRAM,
    "mixed_precision_model": READ_DEVICE,
    "recurrent": READ_DEVICE,
}
"""By workload: why some of its eager ops are elsewhere."""

OTHER_NODES: Final = {
    "mirrored_gpus": "one replica instead of two",
    "recurrent_as_it_comes": "Keras takes cuDNN's op for a GRU where there is a GPU",
}
"""By workload: why some of TensorFlow's nodes are not among ours."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A workload captured without a GPU and placed with some."""

    sidecar: Sidecar
    program: ProgramPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a program captured without a GPU agrees with what TensorFlow does with one.

    Attributes:
        workload: Its name.
        functions: Runs of TensorFlow's placer with GPUs, but for those of single eager ops and
            those that it refused.
        nodes: Their nodes.
        on_cpu: Of these, where TensorFlow puts them on the CPU.
        only_with_gpu: Of `nodes`, those that are not in what was placed for the capture.
        only_without: Nodes of the same functions that it makes without a GPU alone.
        equal: Of `nodes`, those that are where TensorFlow puts them.
        eager: Kinds of eager ops, by type and attributes, that ran with and without a GPU.
        eager_equal: Of these, those whose devices are TensorFlow's.
    """

    workload: str
    functions: int
    nodes: int
    on_cpu: int
    only_with_gpu: int
    only_without: int
    equal: int
    eager: int
    eager_equal: int


def definition_name(function: str) -> str:
    """Return a function's name without the number that makes it unique."""
    return _NUMBER.sub("", function)


def counterpart(run: PlacerRun, program: ProgramPlacement) -> FunctionPlacement | None:
    """Return our placement of the function that TensorFlow placed in a run, or None.

    By its name; if the numbering differs, by that of its definition. Of several, the one whose
    nodes, default device and arguments are most like those of the run.
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
        if op in BOUND and name in at_home
    )
    return -apart, run.default_device == way.placement.setting.default_device, bound


def of_functions(workload: Workload) -> list[PlacerRun]:
    """Return TensorFlow's placements of functions and sessions that succeeded."""
    return [r for r in emulated(workload).runs if r.assigned and not r.is_eager_op]


def nodes_of(graph: Graph) -> dict[tuple[str, str], int]:
    """Return the nodes that are counted, by name and op type."""
    named = zip(graph.names, graph.ops, strict=True)
    return {(name, op): at for at, (name, op) in enumerate(named) if op not in BOUND}


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload's placement without a GPU beside TensorFlow's with some.

    Attributes:
        score: The counts.
        misses: The nodes that TensorFlow puts elsewhere.
        eager_misses: The kinds of eager ops that it does.
    """

    score: Score
    misses: list[Miss]
    eager_misses: list[str]


def compare(workload: Workload, replay: Replayed) -> Compared:
    """Compare all that both have."""
    counts: Counter[str] = Counter()
    misses: list[Miss] = []
    for run in of_functions(workload):
        way = counterpart(run, replay.program)
        theirs = nodes_of(run.graph)
        ours = nodes_of(way.placement.nodes.graph) if way else {}
        counts["functions"] += 1
        counts["nodes"] += len(theirs)
        counts["on_cpu"] += sum(on_host(run.assigned[at]) for at in theirs.values())
        counts["only_with_gpu"] += len(theirs.keys() - ours.keys())
        counts["only_without"] += len(ours.keys() - theirs.keys())
        if way:
            of_both = [key for key in theirs if key in ours]
            elsewhere = [
                Miss(
                    workload=workload.name,
                    function=run.function,
                    node=name,
                    op=op,
                    ours=way.placement.devices[ours[name, op]],
                    theirs=run.assigned[theirs[name, op]],
                )
                for name, op in of_both
                if way.placement.devices[ours[name, op]] != run.assigned[theirs[name, op]]
            ]
            counts["equal"] += len(of_both) - len(elsewhere)
            misses += elsewhere
    theirs_eager, ours_eager = eager_devices(workload), predicted_eager_devices(replay)
    kinds = theirs_eager.keys() & ours_eager.keys()
    eager_misses = [k for k in sorted(kinds) if theirs_eager[k] != ours_eager[k]]
    counts["eager"] = len(kinds)
    counts["eager_equal"] = len(kinds) - len(eager_misses)
    numbers = {field.name: counts[field.name] for field in fields(Score)[1:]}
    return Compared(
        Score(workload=workload.name, **numbers), misses, [op for op, _ in eager_misses]
    )


Kind: TypeAlias = "tuple[str, str]"  # op type, attributes


def _kind(op: str, attributes: Attributes) -> Kind:
    kept = {k: v for k, v in attributes.items() if k not in _OF_ONE_RUN and k[0] != "_"}
    return op, re.sub(r"_[0-9]+\b", "", json.dumps(kept, sort_keys=True))


def eager_devices(workload: Workload) -> dict[Kind, frozenset[str]]:
    """Return where TensorFlow ran each kind of eager op."""
    found: dict[Kind, set[str]] = defaultdict(set)
    for run in emulated(workload).runs:
        if run.is_eager_op and run.assigned:
            for (_, op), at in nodes_of(run.graph).items():
                kind = _kind(op, run.attributes[run.graph.attributes[at]])
                found[kind].add(run.assigned[at])
    return {kind: frozenset(devices) for kind, devices in found.items()}


def predicted_eager_devices(replay: Replayed) -> dict[Kind, frozenset[str]]:
    """Return where we say that each kind of eager op runs."""
    found: dict[Kind, set[str]] = defaultdict(set)
    signatures = zip(replay.sidecar.signatures, replay.program.eager, strict=True)
    for signature, placement in signatures:
        if not signature.is_function and placement.device:
            attributes = replay.sidecar.attribute_set(signature.attributes)
            found[_kind(signature.op, attributes)].add(placement.device)
    return {kind: frozenset(devices) for kind, devices in found.items()}


@pytest.fixture(scope="module")
def look(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[Workload], Compared]]:
    """Capture, place and compare each workload once, however many tests look at it."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    captures = {
        workload: pool.submit(
            run_captured,
            Program(workload.path),
            tmp_path_factory.mktemp(workload.name),
            environment={"CUDA_VISIBLE_DEVICES": "-1"},
        )
        for workload in asked_for(request)
    }

    @functools.cache
    def compared(workload: Workload) -> Compared:
        capture = captures[workload].result()
        assert capture.run is not None, capture.outcome.stderr
        assert capture.outcome.exit_code == 0, capture.outcome.stderr
        (file,) = capture.run.glob("*.placement.json.gz")
        sidecar = read(file)
        assert sidecar is not None
        machine = with_gpus(machine_of(sidecar), workload.gpus)
        return compare(workload, Replayed(sidecar, place_program(sidecar, machine)))

    yield compared
    pool.shutdown(cancel_futures=True)


@each_workload
def test_each_node_elsewhere_is_explained(
    workload: Workload, look: Callable[[Workload], Compared]
) -> None:
    compared = look(workload)
    found = {(m.workload, definition_name(m.function)) for m in compared.misses}
    unknown = [
        m for m in compared.misses if (m.workload, definition_name(m.function)) not in LIMITS
    ]
    assert not unknown, "\n".join(map(str, unknown[:20]))
    settled = {key for key in LIMITS if key[0] == workload.name} - found
    assert not settled, "listed as a limit, and is none any more"


@each_workload
def test_each_eager_op_elsewhere_is_explained(
    workload: Workload, look: Callable[[Workload], Compared]
) -> None:
    skip_without_half_precision(workload)
    elsewhere = look(workload).eager_misses
    assert bool(elsewhere) is (workload.name in EAGER_LIMITS), elsewhere


@each_workload
def test_nodes_that_only_tensorflow_placed_are_explained(
    workload: Workload, look: Callable[[Workload], Compared]
) -> None:
    score = look(workload).score
    assert score.nodes > score.only_with_gpu
    assert bool(score.only_with_gpu) is (workload.name in OTHER_NODES), score


def test_the_score(
    look: Callable[[Workload], Compared],
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    """Runs last, and tells what was found by then: of all workloads 98 % are equal."""
    found = [look(workload) for workload in asked_for(request)]
    rows = [astuple(each.score) for each in found]
    total = totals(rows)
    reasons = Counter(
        LIMITS[m.workload, definition_name(m.function)]
        for each in found
        for m in each.misses
        if (m.workload, definition_name(m.function)) in LIMITS
    )
    with capsys.disabled():
        words = [table([f.name.replace("_", " ") for f in fields(Score)], [*rows, total])]
        words += [f"{count} nodes elsewhere: {why}" for why, count in reasons.most_common()]
        words += [
            f"{each.score.only_with_gpu} nodes of {each.score.workload} only TensorFlow placed: "
            f"{OTHER_NODES[each.score.workload]}"
            for each in found
            if each.score.workload in OTHER_NODES
        ]
        print("\n" + "\n".join(words))  # noqa: T201 - the score is to be seen
    equal = sum(each.score.equal for each in found)
    both = sum(each.score.nodes - each.score.only_with_gpu for each in found)
    if len(found) == len(WORKLOADS):
        assert equal >= _LEAST * both
