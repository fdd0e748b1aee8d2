"""The oracle: what it records is what TensorFlow's placer was given and what it answered."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.emulator.oracle import Outcome, PlacerRun, the_oracle
from traceanalyzer.capture_file.document import Attributes
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"


def run(program: str, *arguments: object, **options: Any) -> Outcome:  # noqa: ANN401 - `Oracle.run`'s
    outcome = the_oracle().run(f"tests.emulator.programs:{program}", *arguments, **options)
    assert outcome.exit_code == 0, outcome.stderr[-3000:]
    return outcome


def only(runs: tuple[PlacerRun, ...]) -> PlacerRun:
    (found,) = runs
    return found


# ------------------------------------------------------------------------ what is recorded


@pytest.mark.parametrize(
    "program",
    [
        "called_in_scopes",
        "called_by_dataset",
        "called_in_function",
        pytest.param("fitted", marks=pytest.mark.slow),
    ],
)
def test_the_record_is_tensorflows_own_dump(program: str, tmp_path: Path) -> None:
    asked = {
        "TF_DUMP_GRAPH_FMT": "BIN",
        "TF_DUMP_GRAPH_NAME_FILTER": "*",
        "TF_DUMP_GRAPH_PREFIX": str(tmp_path),
    }

    outcome = run(program, gpus=2, environment=asked)

    def dumped(stage: str) -> list[tuple[Any, ...]]:
        pool = AttributePool()
        files = tmp_path.glob(f"*.{stage}.pb")
        return sorted(columns(parse_graph(file.read_bytes(), pool), pool.sets) for file in files)

    runs = [placed for placed in outcome.runs if not placed.is_eager_op]  # those are not dumped
    given = [columns(placed.graph, placed.attributes) for placed in runs]
    functions = [g for g, placed in zip(given, runs, strict=True) if placed.function]
    assert functions
    assert sorted(functions) == dumped("before_placer")
    assert sorted(given) == dumped("after_opt_group_pre_placement")
    chosen = [(*g[:3], placed.assigned) for g, placed in zip(given, runs, strict=True)]
    assert sorted(chosen) == [d[:4] for d in dumped("before_opt_group_post_placement")]


def columns(graph: Graph, sets: Sequence[Attributes]) -> tuple[Any, ...]:
    attributes = tuple(repr(sorted(sets[k].items())) for k in graph.attributes)
    return (graph.names, graph.ops, graph.inputs, graph.devices, attributes)


def test_a_session_has_no_default_and_no_name() -> None:
    outcome = run("run_in_session")
    placed = only(tuple(p for p in outcome.runs if not p.is_eager_op))

    assert (placed.function, placed.default_device) == ("", "")
    assert placed.device_of("y") == CPU
    assert placed.device_of("z") == GPU
    assert placed.soft_placement is False


def test_a_run_that_is_refused_has_no_answer() -> None:
    outcome = run("refused")
    placed = only(outcome.runs_of("impossible"))

    assert "Cannot assign a device for operation" in outcome.value
    assert placed.assigned == ()
    assert placed.soft_placement is False
    with pytest.raises(LookupError):
        placed.device_of("shout")


# ------------------------------------------------------------------------- how programs run


def test_a_crash_leaves_what_was_placed_before() -> None:
    outcome = the_oracle().run("tests.emulator.programs:killed")

    assert outcome.exit_code == -11
    assert len(only(outcome.runs_of("looped")).assigned) > 10
