"""Programs, captured: nothing of theirs is disturbed, and their ops are joined and right.

The programs run in forks of a process that has imported TensorFlow. With the TensorFlow of another
interpreter, whose environment needs nothing beside it, they start with `traceanalyzer capture`:

    python -m venv other
    other/bin/python -m pip install tensorflow==2.12.1
    CAPTURED_PYTHON=$PWD/other/bin/python python -m pytest tests/test_captured_programs.py
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.captured import PROGRAMS, Capture, Outcome, Program, mask, run_captured, run_plainly
from tests.emulator.captures import captured as captured_in_fork
from tests.emulator.oracle import the_oracle
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import read
from traceanalyzer.health import trace_health
from traceanalyzer.run import Host
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.host_tables import host_tables
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.trace.files import read_host

_PYTHON = os.environ.get("CAPTURED_PYTHON", sys.executable)
_IS_OURS = sys.executable == _PYTHON
# One for every test run; capturing all takes minutes.
_ALWAYS = {"session_v1"}
# Those of which all is captured at level 3 too: Keras, datasets and strings, no Keras, a session.
_AT_LEVEL_3 = {"keras_sequential_cnn", "lookup_tables", "pure_eager_optimisation", "session_v1"}
_MOST_BYTES = 20_000_000
_LEAST_JOINED = 0.99
_LEAST_TYPED = 0.99


def programs(names: Collection[str]) -> pytest.MarkDecorator:
    """Programs of these names; most of them are slow."""
    return pytest.mark.parametrize(
        "program",
        [
            pytest.param(p, marks=[] if p.name in _ALWAYS else pytest.mark.slow, id=p.name)
            for p in PROGRAMS
            if p.name in names
        ],
    )


each_program = programs({p.name for p in PROGRAMS})
at_level_3 = programs(_AT_LEVEL_3)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Capture]:
    """Capture each program once in a way, however many tests look at it."""

    @functools.cache
    def capture(program: Program, level: int = 2) -> Capture:
        folder = tmp_path_factory.mktemp("logs")
        if not _IS_OURS:
            options = () if level == 2 else ("--host-tracer-level", str(level))
            return run_captured(program, folder, "--python", _PYTHON, *options)
        made = captured_in_fork(program.path, level=level, gpus=0, may_fail=True)
        runs = sorted(made.logdir.glob("plugins/profile/*/"))
        ended = made.outcome
        outcome = Outcome(ended.stdout, ended.stderr, ended.exit_code)
        return Capture(outcome, runs[0] if len(runs) == 1 else None)

    return capture


@pytest.fixture(scope="module")
def watched(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Program], tuple[Outcome, dict[str, set[int]]]]:
    """Run each program without us, and return the lines that made its ops, by TensorFlow's tell."""

    @functools.cache
    def watch(program: Program) -> tuple[Outcome, dict[str, set[int]]]:
        if not _IS_OURS:
            return run_plainly(program, _PYTHON), program.marks()
        file = tmp_path_factory.mktemp("lines") / "lines.json"
        ended = the_oracle().run("tests.op_lines:main", str(file), str(program.path), gpus=0)
        lines = json.loads(file.read_text(encoding="utf-8"))
        outcome = Outcome(ended.stdout, ended.stderr, ended.exit_code)
        return outcome, {op_type: set(found) for op_type, found in lines.items()}

    return watch


def capture_file_of(capture: Capture) -> Path:
    assert capture.run is not None, capture.outcome.stderr
    (capture_file,) = capture.run.glob("*.placement.json.gz")
    return capture_file


def host_of(capture: Capture) -> Host:
    (host,) = ta.load(capture.run).hosts
    return host


def levels_in_force(capture_file: CaptureFile) -> set[int]:
    """The host tracer levels that were asked for.

    Where a program takes long, its start may have been dropped for what came later.
    """
    requested = set()
    for session in capture_file.sessions:
        if session.trace is not None:
            assert session.requested is not None
            requested.add(session.requested.host_tracer_level)
    return requested


@each_program
def test_the_program_does_what_it_does_without_us(
    program: Program,
    captured: Callable[[Program], Capture],
    watched: Callable[[Program], tuple[Outcome, object]],
) -> None:
    plain, outcome = watched(program)[0], captured(program).outcome

    assert outcome.exit_code == plain.exit_code == program.exit_code, outcome.stderr
    assert mask(outcome.stdout) == mask(plain.stdout)


@each_program
def test_nearly_all_time_of_cpu_ops_is_joined_with_a_line(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    run = ta.load(captured(program).run)

    ops = run.ops
    on_cpu = ops[(ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)]
    took = on_cpu["host_self_ps"]
    joined = took[on_cpu["source_line"].notna()].sum() / took.sum()

    missing = on_cpu[on_cpu["source_line"].isna()].nlargest(5, "host_self_ps")
    assert joined >= _LEAST_JOINED, missing[["function", "name", "type", "host_self_ps"]]


@each_program
def test_the_marks_are_tensorflows_own_lines(
    program: Program, watched: Callable[[Program], tuple[object, dict[str, set[int]]]]
) -> None:
    _, lines = watched(program)
    marks = program.marks()

    assert {op_type: lines.get(op_type, set()) for op_type in marks} == marks


@each_program
def test_joined_ops_carry_the_right_line(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    ops = ta.load(captured(program).run).ops
    own = ops[ops["source_file"].astype(object) == str(program.path.resolve())]

    marks, loading = program.marks(), program.loading_lines()
    if not _IS_OURS:  # Keras 2 makes the weights of a layer where it is first called
        marks.pop("StatelessRandomUniformV2", None)
    elsewhere = {
        (row.type, int(row.source_line))
        for row in own.itertuples()
        if row.type in marks and int(row.source_line) not in marks[row.type] | loading
    }
    assert not elsewhere
    assert len(own)


@each_program
def test_the_capture_file_is_complete_and_small_and_quickly_read(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    path = capture_file_of(captured(program))

    begin = time.perf_counter()
    capture_file = read(path)

    assert time.perf_counter() - begin < 1.0
    assert path.stat().st_size <= _MOST_BYTES
    assert capture_file.complete
    assert levels_in_force(capture_file) == {2}


@each_program
def test_types_are_known_of_nearly_all_that_is_joined(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    """Without a tracer level that records them.

    What runs outside of functions does so for shapes, while Python makes a graph; but in a session
    everything does. TensorFlow 2.12 does not write down what ran, so of what was fused there only
    the outputs are known.
    """
    capture = captured(program)
    ops = ta.load(capture.run).ops
    compute = (ops["role"] == Role.COMPUTE) & (ops["placement"] == "cpu")
    joined = ops[compute & ops["source_line"].notna()]
    ran = joined[joined["is_eager"] | joined["function"].notna()]
    ran = joined if ran.empty else ran

    functions = read(capture_file_of(capture)).functions
    knows_what_ran = not functions or any(i.partitions for f in functions for i in f.instances)
    for column in ("input_types", "output_types") if knows_what_ran else ("output_types",):
        typed = ran[column].notna()
        untyped = ran[~typed].nlargest(5, "host_self_ps")
        share = ran.loc[typed, "host_self_ps"].sum() / ran["host_self_ps"].sum()
        assert share >= _LEAST_TYPED, untyped[["function", "name", "type", "host_self_ps"]]


@pytest.mark.slow
@at_level_3
def test_level_3_is_in_force_where_it_is_asked_for(
    program: Program, captured: Callable[..., Capture]
) -> None:
    capture = captured(program, level=3)

    assert levels_in_force(read(capture_file_of(capture))) == {3}
    assert capture.outcome.exit_code == program.exit_code
    tables = host_of(capture).tables
    assert tables.facts.host_level == 3
    assert not any(h.id == "tracer_level_ignored" for h in trace_health(ta.load(capture.run)))


@pytest.mark.slow
@at_level_3
def test_what_level_3_shows_of_types_is_what_attributes_tell(
    program: Program, captured: Callable[..., Capture]
) -> None:
    """The trace shows the types of tensors as they came in, but for resources and references."""
    host = host_of(captured(program, level=3))
    bare = host_tables(host.name, 0, read_host(host.file))
    seen = bare.ops.set_index("op_id")["input_types"].dropna()

    compared = 0
    for op_id, record in zip(host.tables.ops["op_id"], host.tables.joined.records, strict=True):
        if record is None or record.signatures or record.input_types is None or op_id not in seen:
            continue
        shown, told = seen[op_id].split(";"), record.input_types.split(";")
        assert len(shown) == len(told), (record.node, shown, told)
        agrees = [s in {"", UNKNOWN_TYPE, t} for s, t in zip(shown, told, strict=True)]
        assert all(agrees), (record.node, shown, told)
        compared += 1
    assert compared >= 10 or program.name == "pure_eager_optimisation"


@pytest.mark.slow
@pytest.mark.skipif(not _IS_OURS, reason="Keras has other functions in each version")
def test_steps_are_marked_where_the_program_does_not(
    captured: Callable[[Program], Capture],
) -> None:
    (program,) = (p for p in PROGRAMS if p.name == "keras_sequential_cnn")
    steps = ta.load(captured(program).run).steps

    # From one call of the train function to the next, the first two aside: they trace it.
    assert steps["step"].tolist() == list(range(3, 20))
    assert steps["name"].nunique() == 1
    assert (steps["duration_ps"] > 0).all()
