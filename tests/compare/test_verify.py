"""`traceanalyzer verify`: fixes that help, and fixes that do not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.check.test_check import PROGRAM
from tests.labelled import PROGRAMS
from tests.labelled.scoring import captured
from tests.performance.predict_gain import FIXES, reported
from tests.samples import REPORTS
from traceanalyzer.compare.reports import read_report
from traceanalyzer.compare.verification import finding_of, verified
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.model import Finding, Report
from traceanalyzer.report.assemble import assemble

ROOT = Path(__file__).parents[2]
BY_NAME = {program.name: program for program in PROGRAMS}
#: Programs, the cause to fix, and the argument that fixes it.
PLACEMENT = [
    ("gan_gradient_penalty", "explicit_cpu_placement", "explicit_cpu_placement"),
    ("word_scores", "dtype_unsupported", "dtype_unsupported"),
    ("item_recommender", "resource_on_cpu", "resource_on_cpu"),
    ("trial_sampler", "no_gpu_kernel", "no_gpu_kernel"),
    ("shop_partners", "python_callback", "python_callback"),
]


def _harmful(report: Report, cause: str) -> Finding:
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
    base, fixed = reported(name, 40), reported(name, 40, "--fixed")
    finding = next(f for f in base.findings if "too slow" in f.title)
    assert not verified(base, finding, base).is_fixed
    verdict = verified(base, finding, fixed)
    change = verdict.step_time
    assert change is not None
    assert verdict.is_fixed or (change.is_seen and change.high < 0), str(verdict)


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
    assert run("verify", "logs", "--finding", finding.id).returncode == 0
    script.write_text("raise SystemExit(3)", encoding="utf-8")
    failed = run("verify", "logs", "--finding", finding.id)
    assert (failed.returncode, "exit code 3" in failed.stderr) == (2, True)
    assert len(list((tmp_path / "logs").rglob("*.xplane.pb"))) == 1


def test_an_unknown_finding_is_refused(report: Report) -> None:
    with pytest.raises(TraceAnalyzerError, match="4b278816b8"):
        finding_of(report, "nope")


@pytest.fixture
def report() -> Report:
    return read_report(REPORTS / "recommender" / "report.json")
