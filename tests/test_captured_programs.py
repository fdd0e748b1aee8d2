"""Thirty programs, captured: nothing of theirs is disturbed, and their ops are joined and right.

With the TensorFlow of this environment, or that of another interpreter, whose environment needs
nothing beside it:

    python -m venv other
    other/bin/python -m pip install tensorflow==2.12.1
    CAPTURED_PYTHON=$PWD/other/bin/python python -m pytest tests/test_captured_programs.py

Last run so on 2026-11-23 with TensorFlow 2.12.1 and 2.18.1, Python 3.11, two cores, no GPU: of each
version 188 tests pass, and the one about the names of Keras' own functions is left out.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.captured import PROGRAMS, Capture, Program, mask, run_captured, run_plainly
from traceanalyzer.health import trace_health
from traceanalyzer.sidecar.files import read
from traceanalyzer.tables.host_ops import UNTOLD_TYPE
from traceanalyzer.tables.host_tables import host_tables
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.trace.files import read_host

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from traceanalyzer.run import Host
    from traceanalyzer.sidecar.document import Sidecar

_PYTHON = os.environ.get("CAPTURED_PYTHON", sys.executable)
# A few of different kinds for every test run; capturing all thirty takes minutes.
_ALWAYS = {"keras_sequential_cnn", "session_v1"}
# Those of which all is captured at level 3 too: Keras, datasets and strings, no Keras, a session.
_AT_LEVEL_3 = {"keras_sequential_cnn", "lookup_tables", "pure_eager_optimisation", "session_v1"}
_ALWAYS_AT_LEVEL_3 = {"keras_sequential_cnn"}
_MOST_BYTES = 20_000_000
_LEAST_JOINED = 0.99
_LEAST_TYPED = 0.99


def programs(names: Collection[str], always: Collection[str]) -> pytest.MarkDecorator:
    """Programs of these names; but for some they are slow."""
    return pytest.mark.parametrize(
        "program",
        [
            pytest.param(p, marks=[] if p.name in always else pytest.mark.slow, id=p.name)
            for p in PROGRAMS
            if p.name in names
        ],
    )


each_program = programs({p.name for p in PROGRAMS}, _ALWAYS)
at_level_3 = programs(_AT_LEVEL_3, _ALWAYS_AT_LEVEL_3)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Capture]:
    """Capture each program once in a way, however many tests look at it."""

    @functools.cache
    def capture(program: Program, *options: str) -> Capture:
        folder = tmp_path_factory.mktemp("logs")
        return run_captured(program, folder, "--python", _PYTHON, *options)

    return capture


def sidecar_of(capture: Capture) -> Path:
    assert capture.run is not None, capture.outcome.stderr
    (sidecar,) = capture.run.glob("*.placement.json.gz")
    return sidecar


def host_of(capture: Capture) -> Host:
    (host,) = ta.load(capture.run).hosts
    return host


def levels_in_force(sidecar: Sidecar) -> set[int]:
    """The host tracer levels that were asked for; each must have been in force.

    Where a program takes long, its start may have been dropped for what came later.
    """
    requested = set()
    for session in sidecar.sessions:
        if session.trace is not None:
            assert session.requested is not None
            assert session.effective == session.requested
            requested.add(session.requested.host_tracer_level)
    return requested


@each_program
def test_the_program_does_what_it_does_without_us(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    plain, outcome = run_plainly(program, _PYTHON), captured(program).outcome

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
def test_joined_ops_carry_the_right_line(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    ops = ta.load(captured(program).run).ops
    own = ops[ops["source_file"].astype(object) == str(program.path.resolve())]

    marks, loading = program.marks(), program.loading_lines()
    if sys.executable != _PYTHON:  # Keras 2 makes the weights of a layer where it is first called
        marks.pop("StatelessRandomUniformV2", None)
    elsewhere = {
        (row.type, int(row.source_line))
        for row in own.itertuples()
        if row.type in marks and int(row.source_line) not in marks[row.type] | loading
    }
    assert not elsewhere
    assert len(own)


@each_program
def test_the_sidecar_is_complete_and_the_level_was_in_force(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    sidecar = read(sidecar_of(captured(program)))

    assert sidecar.complete
    assert levels_in_force(sidecar) == {2}


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

    functions = read(sidecar_of(capture)).functions
    knows_what_ran = not functions or any(i.partitions for f in functions for i in f.instances)
    for column in ("input_types", "output_types") if knows_what_ran else ("output_types",):
        typed = ran[column].notna()
        untyped = ran[~typed].nlargest(5, "host_self_ps")
        share = ran.loc[typed, "host_self_ps"].sum() / ran["host_self_ps"].sum()
        assert share >= _LEAST_TYPED, untyped[["function", "name", "type", "host_self_ps"]]


@at_level_3
def test_level_3_is_in_force_where_it_is_asked_for(
    program: Program, captured: Callable[..., Capture]
) -> None:
    capture = captured(program, "--host-tracer-level", "3")

    assert levels_in_force(read(sidecar_of(capture))) == {3}
    assert capture.outcome.exit_code == program.exit_code
    tables = host_of(capture).tables
    assert tables.facts.host_level == 3
    assert not any(h.id == "tracer_level_ignored" for h in trace_health(ta.load(capture.run)))


@at_level_3
def test_what_level_3_shows_of_types_is_what_attributes_tell(
    program: Program, captured: Callable[..., Capture]
) -> None:
    """The trace shows the types of tensors as they came in, but for resources and references."""
    host = host_of(captured(program, "--host-tracer-level", "3"))
    bare = host_tables(host.name, 0, read_host(host.file))
    seen = bare.ops.set_index("op_id")["input_types"].dropna()

    compared = 0
    for op_id, record in zip(host.tables.ops["op_id"], host.tables.joined.records, strict=True):
        if record is None or record.signatures or record.input_types is None or op_id not in seen:
            continue
        shown, told = seen[op_id].split(";"), record.input_types.split(";")
        assert len(shown) == len(told), (record.node, shown, told)
        agrees = [s in {"", UNTOLD_TYPE, t} for s, t in zip(shown, told, strict=True)]
        assert all(agrees), (record.node, shown, told)
        compared += 1
    assert compared >= 10 or program.name == "pure_eager_optimisation"


@each_program
def test_the_sidecar_is_small_and_quickly_read(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    path = sidecar_of(captured(program))

    begin = time.perf_counter()
    read(path)

    assert time.perf_counter() - begin < 1.0
    assert path.stat().st_size <= _MOST_BYTES


@pytest.mark.skipif(sys.executable != _PYTHON, reason="Keras has other functions in each version")
def test_steps_are_marked_where_the_program_does_not(
    captured: Callable[[Program], Capture],
) -> None:
    (program,) = (p for p in PROGRAMS if p.name == "keras_sequential_cnn")
    steps = ta.load(captured(program).run).steps

    # From one call of the train function to the next, the first two aside: they trace it.
    assert steps["step"].tolist() == list(range(3, 20))
    assert steps["name"].nunique() == 1
    assert (steps["duration_ps"] > 0).all()
