"""Each diff that reports on labelled, twin, and sample programs show applies and runs.

The edited program prints the same on an emulated GPU, and TensorFlow moves the ops there.
"""

import sys
from pathlib import Path
from typing import Final

import pytest

import traceanalyzer as ta
from tests.changes.applied import left_on_cpu, patched
from tests.emulator.captures import Captured, captured
from tests.labelled import BARE, HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.scoring import recorded
from tests.samples import CASES, Case
from traceanalyzer.changes import changes_of
from traceanalyzer.run import Run

_TWINS: Final = sorted((Path(__file__).parents[1] / "twin" / "programs").glob("*.py"))
_LABELLED: Final = (*PROGRAMS, *HELD_OUT, *QUESTIONS, *BARE)
_SHOWN: Final[dict[str, int]] = {}  #: the number of diffs of each report
_PROVEN: Final[dict[str, int]] = {}


def _as_twin(program: Path, gpus: int) -> Captured:
    environment = {"HAS_GPU": "1"} if gpus else None  # as `test_twin` does, to share its captures
    return captured(program, gpus=gpus, environment=environment, may_fail=True)


def _check(name: str, program: Path, run: Run, before: Captured | None = None) -> None:
    """Apply all diffs of a report to its program, and run it on the emulated GPU."""
    every = changes_of(ta.diagnose(run))
    changes = [change for change in every if change.edits]
    _SHOWN[name] = len({edit for change in changes for edit in change.edits})
    if not changes:
        return
    before = before or _as_twin(program, 1)

    after = _as_twin(patched(program, changes), 1)

    assert after.outcome.exit_code == before.outcome.exit_code, after.outcome.stderr
    assert after.outcome.stdout == before.outcome.stdout
    moved = [change for change in changes if change.kind != "gpu"]
    assert left_on_cpu(every, moved, run, after.run()) == {}
    _PROVEN[name] = _SHOWN[name]


@pytest.mark.slow
@pytest.mark.parametrize("program", _LABELLED, ids=lambda program: program.name)
def test_the_diffs_of_a_labelled_program_are_proven(program: LabelledProgram) -> None:
    before = recorded(program)
    _check(program.name, program.path, before.run(), before)


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("program", _TWINS, ids=lambda program: program.stem)
def test_the_diffs_of_a_twin_program_are_proven(program: Path, gpus: int) -> None:
    _check(f"{program.stem} {gpus}", program, _as_twin(program, gpus).run())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_diffs_of_a_sample_are_proven(case: Case) -> None:
    _check(f"sample {case.name}", case.program, ta.load(case.logs))


@pytest.mark.slow
def test_all_diffs_are_proven(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the tests above, as far as they were selected."""
    shown, proven = sum(_SHOWN.values()), sum(_PROVEN.values())
    with capsys.disabled():
        sys.stdout.write(f"\n{proven} of {shown} diffs of {len(_SHOWN)} reports are proven\n")
    assert proven == shown
