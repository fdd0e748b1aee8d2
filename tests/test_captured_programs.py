"""Thirty programs, captured: nothing of theirs is disturbed, and their ops are joined and right.

With the TensorFlow of this environment, or that of another interpreter:

    CAPTURED_PYTHON=/path/to/python python -m pytest tests/test_captured_programs.py
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
from traceanalyzer.sidecar.files import read
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PYTHON = os.environ.get("CAPTURED_PYTHON", sys.executable)
# A few of different kinds for every test run; capturing all thirty takes minutes.
_ALWAYS = {"keras_sequential_cnn", "lookup_tables", "pure_eager_optimisation", "session_v1"}
_MOST_BYTES = 20_000_000
_LEAST_JOINED = 0.99

each_program = pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, marks=[] if p.name in _ALWAYS else pytest.mark.slow, id=p.name)
        for p in PROGRAMS
    ],
)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Program], Capture]:
    """Capture each program once, however many tests look at it."""

    @functools.cache
    def capture(program: Program) -> Capture:
        return run_captured(program, tmp_path_factory.mktemp("logs"), "--python", _PYTHON)

    return capture


def sidecar_of(capture: Capture) -> Path:
    assert capture.run is not None, capture.outcome.stderr
    (sidecar,) = capture.run.glob("*.placement.json.gz")
    return sidecar


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
def test_the_levels_asked_for_were_in_force_and_types_are_known(
    program: Program, captured: Callable[[Program], Capture]
) -> None:
    capture = captured(program)
    sidecar = read(sidecar_of(capture))
    ops = ta.load(capture.run).ops
    compute = ops[(ops["role"] == Role.COMPUTE) & (ops["placement"] == "cpu")]

    assert sidecar.complete
    for session in sidecar.sessions:
        assert session.effective.host_tracer_level == session.requested.host_tracer_level == 3
    assert compute["input_types"].notna().any()


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
