"""`traceanalyzer verify`: fixes that help, and fixes that do not."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.check.test_check import PROGRAM
from tests.compare.test_compare import on_free_cpus
from tests.emulator.oracle import the_oracle
from tests.labelled import PROGRAMS
from tests.labelled.scoring import captured
from tests.performance.predict_gain import FIXES, reported
from tests.samples import REPORTS
from traceanalyzer.capturing.script import EDITED_PROGRAM
from traceanalyzer.cli import main
from traceanalyzer.compare.reports import read_report, report_of
from traceanalyzer.compare.verification import changes_for, edited_files, finding_of, verified
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.model import FindingRecord, Report
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_traces" / "recommender"
BY_NAME = {program.name: program for program in PROGRAMS}
#: Programs, the cause to fix, and the argument that fixes it.
PLACEMENT = [
    ("gan_gradient_penalty", "explicit_cpu_placement", "explicit_cpu_placement"),
    ("word_scores", "dtype_unsupported", "dtype_unsupported"),
    ("item_recommender", "resource_on_cpu", "resource_on_cpu"),
    ("trial_sampler", "no_gpu_kernel", "no_gpu_kernel"),
    ("shop_partners", "python_callback", "python_callback"),
]


def _harmful(report: Report, cause: str) -> FindingRecord:
    return next(f for f in report.findings if f.cause == cause and f.harm == "harmful")


@pytest.mark.slow  # captures five programs with and without a fix, on an emulated GPU
@pytest.mark.parametrize(("name", "cause", "fix"), PLACEMENT)
def test_a_fixed_placement_is_told_from_an_unfixed_one(name: str, cause: str, fix: str) -> None:
    program = BY_NAME[name]
    base, fixed = (assemble(ta.diagnose(captured(program, *fixes))) for fixes in ((), (fix,)))
    finding = _harmful(base, cause)
    assert not verified(base, finding, base).is_fixed
    verdict = verified(base, finding, fixed)
    assert verdict.is_fixed, str(verdict)
    assert verdict.on_gpu + verdict.gone == verdict.ops > 0


@pytest.mark.slow  # captures four programs with and without a fix
@pytest.mark.parametrize("name", FIXES)
def test_a_faster_input_pipeline_is_measured(name: str) -> None:
    base, fixed = (on_free_cpus(reported(name, 40, *words)) for words in ((), ("--fixed",)))
    finding = next(f for f in base.findings if "too slow" in f.title)
    assert not verified(base, finding, base).is_fixed
    verdict = verified(base, finding, fixed)
    change = verdict.step_time
    assert change is not None
    assert verdict.is_fixed or (change.is_seen and change.high < 0), str(verdict)


#: A program whose function AutoGraph converts, in a module of its own.
HELPER = """
import tensorflow as tf

@tf.function
def positive(x, n):
    with tf.device("/CPU:0"):
        if n > 0:
            x = tf.nn.relu(x)
    return x
"""
TRAIN = """
import sys
import tensorflow as tf
import helper

assert sys.argv[1:] == ["--epochs", "1 2"] and __file__.endswith("train.py")
for n in range(3):
    helper.positive(tf.ones((8, 8)), tf.constant(n))
"""


@pytest.mark.slow  # captures a program on an emulated GPU, twice
def test_the_diff_of_a_finding_is_tried_without_editing_the_program(tmp_path: Path) -> None:
    for name, text in (("helper", HELPER), ("train", TRAIN)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")

    def capture(*program: object) -> Report:
        words = [*map(str, program), "--epochs", "1 2"]
        logs = tmp_path / "logs" / Path(words[0]).stem
        task = "tests.labelled.captured_in_fork:capture"
        outcome = the_oracle().run(task, words[0], str(logs), 3, *words[1:])
        assert outcome.exit_code == 0, outcome.error or outcome.stderr
        return assemble(ta.diagnose(ta.load(logs)))

    script, edited = tmp_path / "train.py", tmp_path / "edited.json"
    base = capture(script)
    finding = _harmful(base, "explicit_cpu_placement")
    (change,) = changes_for(base, finding)
    edited.write_text(json.dumps(edited_files(change.edits, [tmp_path])), encoding="utf-8")
    verdict = verified(base, finding, capture(EDITED_PROGRAM, edited, script))
    assert (verdict.is_fixed, verdict.on_gpu) == (True, verdict.ops), str(verdict)
    assert (tmp_path / "helper.py").read_text(encoding="utf-8") == HELPER


def test_a_diff_is_not_applied_to_a_program_that_has_changed(
    report: Report, tmp_path: Path
) -> None:
    (change,) = changes_for(report, finding_of(report, "4b278816b8"))
    text = (SAMPLE / "program.py").read_text(encoding="utf-8")
    (edit,) = change.edits
    copy = tmp_path / "program.py"

    with pytest.raises(TraceAnalyzerError, match=r"program\.py: not found"):
        edited_files([edit], [tmp_path])
    for changed in (f"# moved\n{text}", ""):
        copy.write_text(changed, encoding="utf-8")
        with pytest.raises(TraceAnalyzerError, match=r"program\.py:100: changed"):
            edited_files([edit], [tmp_path])
    copy.write_bytes(b"# \xff\n")
    with pytest.raises(TraceAnalyzerError, match=r"program\.py: cannot be read"):
        edited_files([edit], [tmp_path])
    other = replace(edit, new=("pass",))
    with pytest.raises(TraceAnalyzerError, match=r"program\.py:100: two diffs"):
        edited_files([edit, other], [SAMPLE])
    (new,) = edited_files(change.edits, [SAMPLE]).values()
    assert [edit.new[0] in new and edit.old[0] in text for edit in change.edits] == [True]


def test_the_wrong_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = REPORTS / "recommender" / "report.json"
    with pytest.raises(SystemExit):
        main(["verify", str(file), "--finding", "4b278816b8"])
    assert "program.py: not in this folder" in capsys.readouterr().err


def test_an_option_that_capture_no_longer_has_is_named(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "traceanalyzer capture --python-tracer program.py"
    file = tmp_path / "report.json"
    file.write_text(dumps(replace(report, run=replace(report.run, command=command))), "utf-8")
    with pytest.raises(SystemExit):
        main(["verify", str(file), "--finding", "4b278816b8"])
    assert "--python-tracer" in capsys.readouterr().err


@pytest.mark.slow  # captures a program three times
def test_the_command_repeats_the_capture(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM, encoding="utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "traceanalyzer", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("capture", "--no-report", "--logdir", "logs", "train.py").returncode == 0
    found = assemble(ta.diagnose(ta.load(tmp_path / "logs"))).on_a_gpu
    assert found is not None
    (finding,) = found.findings
    script.write_text(PROGRAM.replace("/CPU:0", "/GPU:0"), encoding="utf-8")
    done = run("verify", "logs", "--finding", finding.id)
    assert (done.returncode, "traceanalyzer: recorded" in done.stderr) == (0, False)
    script.write_text("raise SystemExit(3)", encoding="utf-8")
    failed = run("verify", "logs", "--finding", finding.id)
    assert (failed.returncode, "exit code 3" in failed.stderr) == (2, True)
    assert len(list((tmp_path / "logs").rglob("*.xplane.pb"))) == 1


@pytest.mark.parametrize("finding_id", ["nope", None])
def test_the_findings_to_choose_from_are_listed(report: Report, finding_id: str | None) -> None:
    with pytest.raises(TraceAnalyzerError, match=r"4b278816b8 \(.*TopKV2"):
        finding_of(report, finding_id)


def test_a_page_is_refused_with_what_to_name_instead(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("<!DOCTYPE html>")
    with pytest.raises(TraceAnalyzerError, match="report in JSON"):
        report_of(tmp_path / "report.html")


@pytest.fixture
def report() -> Report:
    return read_report(REPORTS / "recommender" / "report.json")
