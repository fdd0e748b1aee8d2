"""The programs that tests of captures run: that they are what those tests take them for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import captured
from tests.captured import PROGRAMS, Program

OP_LINES = Path(__file__).with_name("op_lines.py")

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def test_there_are_thirty_different_programs() -> None:
    assert len(PROGRAMS) >= 30
    assert len({program.title for program in PROGRAMS}) == len(PROGRAMS)
    assert len({program.source for program in PROGRAMS}) == len(PROGRAMS)


def test_the_endings_are_those_of_programs() -> None:
    assert set(captured.ENDINGS) <= {program.name for program in PROGRAMS}


@each_program
def test_a_program_says_what_it_is(program: Program) -> None:
    assert re.fullmatch(r"\S.*\.", program.title)


@each_program
def test_a_program_compiles(program: Program) -> None:
    compile(program.source, str(program.path), "exec", dont_inherit=True)


@each_program
def test_a_program_marks_at_least_three_lines(program: Program) -> None:
    marks = program.marks()

    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", op_type) for op_type in marks)
    assert len(set().union(*marks.values())) >= 3


def test_marks_are_read_from_comments_alone(tmp_path: Path) -> None:
    path = tmp_path / "marked.py"
    path.write_text(
        'a = b @ c  # op: MatMul\nd = "# op: Add"\ne = f(a)  # noqa: X1  # op: Mul, MatMul\n'
    )

    assert Program(path).marks() == {"MatMul": {1, 3}, "Mul": {3}}


@pytest.mark.parametrize(
    ("printed", "masked"),
    [
        ("10/10 - 1s - 123ms/step - loss: 0.6931", "10/10 - <time> - <time> - loss: 0.6931"),
        ("4/4 - loss: 2.1 - 1s/epoch - 2e-3s/step", "4/4 - loss: 2.1 - <time> - <time>"),
        ("40 steps in 0.25 s (6.2 ms/step)", "40 steps in <time> (<time>)"),
        ("7 samples, 3 steps, 2 sets of 5", "7 samples, 3 steps, 2 sets of 5"),
    ],
)
def test_only_timings_are_masked(printed: str, masked: str) -> None:
    assert captured.mask(printed) == masked


@pytest.mark.slow
@each_program
def test_the_marks_are_tensorflows_own_lines(program: Program, tmp_path: Path) -> None:
    out = tmp_path / "lines.json"
    command = [sys.executable, str(OP_LINES), str(out), str(program.path)]

    done = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == program.exit_code, done.stderr
    lines = json.loads(out.read_text(encoding="utf-8"))
    marks = program.marks()
    assert {op_type: set(lines.get(op_type, ())) for op_type in marks} == marks


@pytest.mark.slow
@each_program
def test_a_program_prints_the_same_again(program: Program) -> None:
    first, again = captured.run_plainly(program), captured.run_plainly.__wrapped__(program)

    assert first.exit_code == program.exit_code, first.stderr
    assert captured.mask(first.stdout) == captured.mask(again.stdout) != ""
