"""The same program, recorded twice by a real TensorFlow, gives the same ids.

The recordings are made in forks of one process; those that are committed were made by others.
At host tracer level 2 TensorFlow records an op on the CPU only while its running estimate of the
op's cost is high, so a cheap op comes and goes between recordings. Ops are therefore compared where
both recordings have them, which must include all that the sample's `case.toml` expects; what only
one has must be a cheap op of a graph, never an eager op. Findings are not compared by the ops they
name but by their ids, which do not hang on these.
"""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle
from tests.tables.reading import rows
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.run import Run

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"
CASES: Final = ("eager_ops", "tf_function")
# The same program after an edit elsewhere: another function is traced before its own, which moves
# the counter in every function's name on.
EDITED: Final = """
import runpy, sys
import tensorflow as tf
tf.function(lambda x: tf.function(lambda y: y + 1)(x) * 2)(1.0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Each case twice, and once after an edit elsewhere in the program."""
    folder = tmp_path_factory.mktemp("recordings")
    edited = folder / "edited.py"
    edited.write_text(EDITED)
    commands = {f"{case} {n}": [program(case)] for case in CASES for n in (1, 2)}
    commands["tf_function edited"] = [edited, program("tf_function")]

    def record(name: str) -> Run:
        logs = folder / name.replace(" ", "-")
        first, *more = commands[name]
        outcome = the_oracle().run(first, *map(str, more), str(logs), gpus=0)
        assert outcome.exit_code == 0, outcome.stderr
        return ta.load(logs)

    return {name: record(name) for name in commands}


def program(case: str) -> Path:
    return SAMPLES / case / "program.py"


@lru_cache
def expected(case: str) -> dict[str, Any]:
    told = tomllib.loads((SAMPLES / case / "case.toml").read_text(encoding="utf-8"))
    return told["expect"]


def ids(run: Run) -> dict[tuple[Any, ...], str]:
    """Id of each op, by all that tells one op from another."""
    what = rows(run.ops, "function", "name", "type", "is_eager", "signature", "device")
    assert len(set(what)) == len(what)
    return dict(zip(what, rows(run.ops, "op_id"), strict=True))


def compare(case: str, first: Run, second: Run) -> None:
    one, other = ids(first), ids(second)
    both = one.keys() & other.keys()

    assert {key: one[key] for key in both} == {key: other[key] for key in both}
    assert len(set(one.values())) == len(one)
    seen = {f"{name}:{kind}" for _, name, kind, *_ in both}
    assert set(expected(case)["graph_ops"]) <= seen
    assert {f"{kind}:{kind}" for kind in expected(case)["eager_ops"]} <= seen
    in_one = [key for key in one.keys() ^ other.keys() if key[3]]
    assert in_one == [], "an eager op was seen in one recording alone"


@pytest.mark.parametrize("case", CASES)
def test_ops_seen_twice_have_the_same_ids(case: str, recordings: dict[str, Run]) -> None:
    compare(case, recordings[f"{case} 1"], recordings[f"{case} 2"])


@pytest.mark.parametrize("case", CASES)
def test_findings_have_the_same_ids(case: str, recordings: dict[str, Run]) -> None:
    one, other = (diagnose(recordings[f"{case} {n}"]).findings for n in (1, 2))

    assert {f.id: f.cause for f in one} == {f.id: f.cause for f in other}
    assert {f.cause for f in one} >= set(expected(case)["causes"])


@pytest.mark.parametrize("case", CASES)
def test_the_committed_recording_has_these_ids_too(case: str, recordings: dict[str, Run]) -> None:
    """It was made on another day; a newer TensorFlow may fuse other ops, so some suffice."""
    one, other = ids(ta.load(SAMPLES / case)), ids(recordings[f"{case} 1"])
    both = one.keys() & other.keys()

    assert len(both) > len(one) / 2
    assert {key: one[key] for key in both} == {key: other[key] for key in both}


def test_an_edit_elsewhere_in_the_program_changes_no_id(recordings: dict[str, Run]) -> None:
    compare("tf_function", recordings["tf_function 1"], recordings["tf_function edited"])
    one, other = (
        {f.id for f in diagnose(recordings[f"tf_function {which}"]).findings}
        for which in ("1", "edited")
    )
    assert one == other
