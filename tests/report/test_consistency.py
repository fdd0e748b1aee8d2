"""No page contradicts its own figures: headline, bar, advice, changes, and input section."""

import re
from pathlib import Path
from typing import Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, recorded_runs, slow_but
from tests.emulator.captures import captured
from tests.labelled import BARE, HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.scoring import captured as labelled
from tests.page_kinds import KINDS
from tests.report.test_first_screen import every, said, waiting
from tests.samples import SAMPLES, sample
from tests.test_every_recorded_run import UNREADABLE
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.text import plain
from traceanalyzer.step_parts import mean_step

_LARGE: Final = 0.1  # of a step
_SMALL: Final = 0.01
_NOTICEABLE: Final = 0.05
_CAPTURED: Final = "word_scores"  # by other quick tests, too
_TWINS: Final = Path(__file__).parents[1] / "twin" / "programs"
_GENERAL: Final = re.compile("several steps per call|step with XLA|step with @tf.function")
_CALMING: Final = re.compile(r"not your bottleneck|needs no change|hardly matters")
_TOTAL: Final = re.compile(r"in total|, once")
_QUICK: Final = {
    ("tfgpu-fatma-cnn-sandor", "2021_02_02_12_57_01"),
    ("tfgpu-e4040-2023-hd2551", "2023_11_07_18_18_59"),
    ("tfcpu-win-ahettiarac", ""),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    check(sample(name))


@pytest.mark.parametrize("kind", ["A", "B"])
def test_pages_of_gpus(kind: str, tmp_path: Path) -> None:
    check(ta.diagnose(ta.load(KINDS[kind](tmp_path))))


def test_a_gpu_that_waits() -> None:
    check(waiting())


@needs_corpus
@pytest.mark.parametrize(("folder", "name"), slow_but(_QUICK.__contains__, recorded_runs()))
def test_recorded_runs(folder: str, name: str) -> None:
    if folder not in UNREADABLE:
        check(ta.diagnose(ta.load(CORPUS / folder, run=name or None)))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, marks=[] if p.name == _CAPTURED else pytest.mark.slow, id=p.name)
        for p in (*PROGRAMS, *HELD_OUT, *QUESTIONS, *BARE)
    ],
)
def test_labelled_programs(program: LabelledProgram) -> None:
    for run in (labelled(program), labelled(program, gpus=0)):
        check(ta.diagnose(run))


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(_TWINS.glob("*.py")), ids=lambda file: file.stem)
def test_twin_programs(file: Path) -> None:
    for gpus in (0, 1):
        check(ta.diagnose(captured(file, gpus=gpus, may_fail=True).run()))


def check(diagnosis: Diagnosis) -> Report:
    """Check that a run's report agrees with itself, and return it."""
    report = assemble(diagnosis)
    page = report.page
    assert page is not None
    step = mean_step(diagnosis.run)
    if step.has_steps and _CALMING.search(said(page)):
        assert step.part_share("cpu_op") < _LARGE, said(page)
    facts = PageFacts(diagnosis=diagnosis, changes=report.changes)
    if "needs no change." in said(page):
        assert facts.is_explained
    for change in report.changes:  # a title alone does not say what to do
        assert change.edits or change.instead or change.around or change.candidates, change.title
    _check_general_advice(report)
    _check_input(diagnosis, report)
    _check_order(report)
    _check_tables(page)
    return report


def _check_general_advice(report: Report) -> None:
    """General advice is about a large part of the step."""
    general = [c for c in report.changes if _GENERAL.search(c.title)]
    assert all((change.saving.share or 0.0) >= _LARGE for change in general), general


def _check_input(diagnosis: Diagnosis, report: Report) -> None:
    """A pipeline that keeps up has a small part of the bar."""
    step, found = mean_step(diagnosis.run), report.input_pipeline
    if found is not None and step.has_steps and len(diagnosis.run.hosts) == 1:
        assert "it keeps up" not in found.text or step.part_share("input") < _NOTICEABLE
        (of_host,) = found.hosts
        shown = of_host.wait_mean_us
        assert shown is None or shown >= step.part_us("input") - 0.01


def _check_order(report: Report) -> None:
    """Changes are in the order of their share of the step; those without a share come last.

    Only a GPU that the program hides comes before what helps only with it.
    """
    per_step = [c for c in report.changes if c.saving.per == "step" and c.saving.high_us]
    needed = {need for change in report.changes for need in change.needs}
    per_step = [c for c in per_step if c.kind != "gpu" or c.id not in needed]
    shares = [change.saving.share or 0.0 for change in per_step]
    assert shares == sorted(shares, reverse=True)
    first = report.changes[0] if report.changes else None
    if first is not None and first.kind == "gpu" and first.saving.share is not None:
        assert first.saving.share >= _LARGE or f"next: {first.title}" not in report.summary.verdict


def _check_tables(page: b.Page) -> None:
    """No column mixes totals and times per step; small changes are folded."""
    tables = [*every(page, b.Changes)]
    cells = [plain(row.saves) for table in tables for row in table.rows]
    if any("per step" in cell for cell in cells):
        assert not [cell for cell in cells if _TOTAL.search(cell)]
    folded = [
        row
        for fold in every(page, b.Fold)
        if fold.id == "small-changes"
        for table in fold.blocks
        for row in table.rows
    ]
    assert all(row.share is None or row.share < _SMALL for row in folded)
    if folded:
        assert not [r for r in tables[0].rows if r.share is not None and r.share < _SMALL]
