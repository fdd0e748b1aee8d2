"""The placer's replay against TensorFlow's placer, on programs it was not written for.

TensorFlow answers with emulated GPUs (`tests/emulator`). The score is printed, whatever pytest
captures, by the last test: that of all workloads where the slow ones run too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pytest

from tests.placement.scoring import (
    BOUND,
    Miss,
    Score,
    asked_for,
    emulated,
    functions_of,
    on_host,
    skip_without_half_precision,
    table,
    totals,
)
from tests.workloads import FAST, WORKLOADS, Workload
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.nodes import describe
from traceanalyzer.placement.placer import Placement, Setting, place
from traceanalyzer.placement.registry import Registry, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.emulator.oracle import PlacerRun

PLACED_ANEW: Final = (
    "a session's graph that grew is placed anew, its stateful nodes being assigned: what they ask"
    " for is not in the graph any more, and an Identity beside one follows it if that is equal"
)
KNOWN_LIMITS: Final = {("session_variables_v1", "Identity"): PLACED_ANEW}
"""By workload and op type: why TensorFlow places such nodes elsewhere."""

each_workload = pytest.mark.parametrize(
    "workload",
    [
        pytest.param(w, marks=[] if w.name in FAST else pytest.mark.slow, id=w.name)
        for w in WORKLOADS
    ],
)


@lru_cache
def replayed(workload: Workload) -> tuple[tuple[PlacerRun, Placement], ...]:
    """Replay all runs of the placer that a workload led to."""
    runs = emulated(workload).runs
    kernels, functions = load("2.21"), functions_of(runs)
    return tuple((run, _placed(run, kernels, functions)) for run in runs)


def _placed(run: PlacerRun, kernels: Registry, functions: frozenset[str]) -> Placement:
    nodes = describe(run.graph, run.attributes, kernels, functions)
    setting = Setting(
        machine=Machine(run.devices),
        default_device=run.default_device,
        soft=run.soft_placement,
        assigned={at: device for at, device in enumerate(run.assigned_before) if device},
    )
    return place(nodes, setting)


def counted(workload: Workload) -> Iterator[tuple[PlacerRun, Placement, int]]:
    """Walk the nodes that are counted."""
    for run, placement in replayed(workload):
        if run.assigned:
            for at, op in enumerate(run.graph.ops):
                if op not in BOUND:
                    yield run, placement, at


def misses(workload: Workload) -> list[Miss]:
    """Return the nodes that are not where TensorFlow puts them."""
    return [
        Miss(
            workload=workload.name,
            function=run.function,
            node=run.graph.names[at],
            op=run.graph.ops[at],
            ours=placement.devices[at],
            theirs=run.assigned[at],
        )
        for run, placement, at in counted(workload)
        if placement.devices[at] != run.assigned[at]
    ]


def score(workload: Workload) -> Score:
    """Count."""
    runs = emulated(workload).runs
    nodes = Counter(on_host(run.assigned[at]) for run, _, at in counted(workload))
    return Score(
        workload=workload.name,
        runs=sum(not run.is_eager_op for run in runs),
        eager_ops=sum(run.is_eager_op for run in runs),
        refused=sum(not run.assigned for run in runs),
        nodes=nodes.total(),
        on_cpu=nodes[True],
        equal=nodes.total() - len(misses(workload)),
    )


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
    found = misses(workload)
    unknown = [m for m in found if (m.workload, m.op) not in KNOWN_LIMITS]
    assert not unknown, "\n".join(map(str, unknown[:20]))
    settled = {key for key in KNOWN_LIMITS if key[0] == workload.name} - {
        (m.workload, m.op) for m in found
    }
    assert not settled, "listed as a limit, and is none any more"


@each_workload
def test_what_tensorflow_refuses_is_refused_and_nothing_else(workload: Workload) -> None:
    for run, placement in replayed(workload):
        assert bool(placement.failures) is not bool(run.assigned), run.function


def test_the_score(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    """Runs last, and tells what was found by then."""
    scores = [score(workload) for workload in asked_for(request)]
    rows = [astuple(each) for each in scores]
    titles = [field.name.replace("_", " ") for field in fields(Score)]
    with capsys.disabled():
        print("\n" + table(titles, [*rows, totals(rows)]))  # noqa: T201 - the score is to be seen
    if len(scores) == len(WORKLOADS):
        assert len(scores) >= 14
        assert sum(each.on_cpu >= 10 for each in scores) >= 6
