"""`traceanalyzer check`, and `assert_placement`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.samples import REPORTS, Case
from traceanalyzer.check.breaches import breaches, notes
from traceanalyzer.check.budget import Budget, read_budget
from traceanalyzer.check.formats import FORMATS
from traceanalyzer.cli import cli, main
from traceanalyzer.compare.reports import read_report
from traceanalyzer.model import Health, Report, StepTime


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of an object without other properties."""
    closed = {"type": "object", "additionalProperties": False}
    return {**closed, "properties": properties, "required": list(required)}


ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "continuous-integration.md"
FILE = REPORTS / "recommender" / "report.json"
TODAY = date(2026, 1, 1)
TOPK = "4b278816b8"  # the finding about TopKV2, and its line to edit
TOPK_LINE = 100
#: The part of SARIF 2.1.0 (OASIS, section 3) that `check` writes; nothing else may occur.
SARIF = {
    "$defs": {
        "text": _closed({"text": {"type": "string", "minLength": 1}}, "text"),
        "place": _closed(
            {
                "artifactLocation": _closed({"uri": {"type": "string", "format": "uri-reference"}}),
                "region": _closed({"startLine": {"type": "integer", "minimum": 1}}),
            }
        ),
        "result": _closed(
            {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"$ref": "#/$defs/text"},
                "locations": {
                    "type": "array",
                    "items": _closed({"physicalLocation": {"$ref": "#/$defs/place"}}),
                },
                "partialFingerprints": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                },
            },
            "message",
        ),
        "rule": _closed(
            {"id": {"type": "string"}, "shortDescription": {"$ref": "#/$defs/text"}}, "id"
        ),
        "driver": _closed(
            {
                "name": {"type": "string"},
                "version": {"type": "string"},
                "rules": {"type": "array", "items": {"$ref": "#/$defs/rule"}, "uniqueItems": True},
            },
            "name",
        ),
        "notification": _closed(
            {
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"$ref": "#/$defs/text"},
            },
            "message",
        ),
        "invocation": _closed(
            {
                "executionSuccessful": {"type": "boolean"},
                "toolExecutionNotifications": {
                    "type": "array",
                    "items": {"$ref": "#/$defs/notification"},
                },
            },
            "executionSuccessful",
        ),
        "run": _closed(
            {
                "tool": _closed({"driver": {"$ref": "#/$defs/driver"}}, "driver"),
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "properties": {"type": "object"},
                "invocations": {"type": "array", "items": {"$ref": "#/$defs/invocation"}},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
            "tool",
        ),
    },
    **_closed(
        {
            "$schema": {"type": "string", "format": "uri"},
            "version": {"const": "2.1.0"},
            "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
        },
        "version",
        "runs",
    ),
}
#: Elements and attributes of JUnit XML, by the schema of Jenkins' xunit plugin (junit-10.xsd).
JUNIT = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {
        "name",
        "tests",
        "failures",
        "errors",
        "skipped",
        "time",
        "timestamp",
        "hostname",
    },
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "system-out": set(),
}


@pytest.fixture(scope="module")
def report() -> Report:
    return read_report(FILE)


@pytest.fixture(scope="module")
def on_a_gpu(report: Report) -> Report:
    """A report as of a run with a GPU: 300 µs of CPU ops and 700 µs of kernels."""
    (cpu,) = report.run.devices
    gpu = replace(cpu, name="GPU:0", kind="gpu", busy_us=700.0)
    summary = replace(
        report.summary,
        cpu_op_us=300.0,
        explained_share=0.8,
        exposed_us_per_step=50.0,
        step_us=StepTime(median=1_000.0, p95=None),
    )
    return replace(
        report, run=replace(report.run, devices=(cpu, gpu)), summary=summary, on_a_gpu=None
    )


def _budget(folder: Path, text: str) -> Budget:
    file = folder / "budget.toml"
    file.write_text(text, encoding="utf-8")
    return read_budget(file)


@pytest.mark.parametrize(
    ("limit", "is_breached"),
    [
        ('step_time = "0.9 ms"', True),
        ('step_time = "1 ms"', False),
        ('exposed_time_per_step = "49 us"', True),
        ('exposed_time_per_step = "51us"', False),
        ('cpu_op_share = "29 %"', True),
        ('cpu_op_share = "30.1%"', False),
        ('explained_share = "81 %"', True),
        ('explained_share = "80 %"', False),
    ],
)
def test_each_limit_trips_and_passes(
    on_a_gpu: Report, tmp_path: Path, limit: str, *, is_breached: bool
) -> None:
    budget = _budget(tmp_path, f"[limits]\n{limit}")
    found = breaches(on_a_gpu, budget, None, TODAY)
    rules = [f"limits.{limit.split(' =', maxsplit=1)[0]}"] if is_breached else []
    assert [each.rule for each in found] == rules


@pytest.mark.parametrize(
    ("forbidden", "lines"),
    [
        ("harmful = true", {TOPK_LINE, 42, 49}),
        ('causes = ["explicit_cpu_placement"]', {TOPK_LINE}),
        ('cpu_ops = ["^TopK"]', {101}),
        ('cpu_ops = ["^MatMul$"]', set()),
        ("causes = []", set()),
    ],
)
def test_what_is_forbidden_is_named_with_its_line(
    report: Report, tmp_path: Path, forbidden: str, lines: set[int]
) -> None:
    budget = _budget(tmp_path, f"[forbidden]\n{forbidden}")
    found = breaches(report, budget, None, TODAY)
    assert lines <= {each.line for each in found}
    assert bool(found) == bool(lines)


@pytest.mark.parametrize(("expires", "counts"), [("2026-01-01", False), ("2025-12-31", True)])
def test_an_accepted_finding_counts_again_when_it_expires(
    report: Report, tmp_path: Path, expires: str, *, counts: bool
) -> None:
    accepted = f'[[accepted]]\nid = "{TOPK}"\nreason = "small"\nexpires = {expires}'
    text = f'[forbidden]\nharmful = true\ncpu_ops = ["TopK"]\n{accepted}'
    found = breaches(report, _budget(tmp_path, text), None, TODAY)
    assert (TOPK in {each.finding_id for each in found}) == counts
    assert any("2025-12-31" in each.message for each in found) == counts


def test_what_cannot_be_checked_does_not_pass(report: Report, tmp_path: Path) -> None:
    bare = replace(report, summary=replace(report.summary, step_us=None))
    limits = '[limits]\nstep_time = "1 s"\nexplained_share = "1 %"'
    found = breaches(bare, _budget(tmp_path, limits), None, TODAY)
    assert [each.is_unknown for each in found] == [True, True]
    ops = replace(report.tables.ops, rows=())
    bare = replace(bare, on_a_gpu=None, findings=())
    empty = replace(bare, tables=replace(bare.tables, ops=ops))
    found = breaches(empty, _budget(tmp_path, "[forbidden]\nharmful = true"), None, TODAY)
    assert [each.is_unknown for each in found] == [True]


@pytest.mark.parametrize(
    ("slower", "rules"), [(1.0, []), (1.03, []), (1.5, ["baseline"]), (0.5, [])]
)
def test_only_slower_steps_and_new_findings_are_worse_than_a_baseline(
    report: Report, slower: float, rules: list[str]
) -> None:
    assert report.on_a_gpu is not None
    fewer = replace(report.on_a_gpu, findings=report.on_a_gpu.findings[1:])
    found = breaches(_timed(report, slower), Budget(), _timed(report), TODAY)
    assert [each.rule for each in found] == rules
    new = breaches(report, Budget(), replace(report, on_a_gpu=fewer), TODAY)
    assert [each.finding_id for each in new] == [report.on_a_gpu.findings[0].id]


def test_a_baseline_of_another_program_does_not_pass(report: Report) -> None:
    other = read_report(REPORTS / "eager_ops" / "report.json")
    (only,) = breaches(report, Budget(), other, TODAY)
    assert (only.rule, only.is_unknown) == ("baseline", True)


def test_a_step_that_is_too_long_says_that_other_processes_took_the_cpus(
    on_a_gpu: Report, tmp_path: Path
) -> None:
    remark = Health(severity="warning", id="cpus_taken", message="other processes took 60%")
    budget = _budget(tmp_path, '[limits]\nstep_time = "0.9 ms"')
    (only,) = breaches(replace(on_a_gpu, health=(remark,)), budget, None, TODAY)
    assert remark.message in only.message


def _timed(report: Report, factor: float = 1.0) -> Report:
    """Give a report thirty regular steps of 3 ms each, give or take 0.2 ms."""
    steps = report.tables.steps
    row = steps.records()[-1]
    rows = [
        tuple({**row, "duration_us": factor * (3_000 + 97 * k % 200)}.values()) for k in range(30)
    ]
    table = replace(steps, rows=tuple(rows), total_rows=30)
    return replace(report, tables=replace(report.tables, steps=table))


# --- formats ---------------------------------------------------------------------------------


def _printed(form: str, *options: str) -> str:
    done = CliRunner().invoke(cli, ["check", str(FILE), "--format", form, *options])
    assert done.exit_code == (0 if options else 1)
    if form == "sarif":
        jsonschema.validate(json.loads(done.stdout), SARIF)
    if form == "junit":
        for element in ET.fromstring(done.stdout.encode()).iter():  # noqa: S314 - our own
            assert set(element.attrib) <= JUNIT[element.tag]
    return done.stdout


@pytest.mark.parametrize("form", FORMATS)
def test_a_remark_that_is_no_breach_is_in_every_format(tmp_path: Path, form: str) -> None:
    file = tmp_path / "budget.toml"
    accepted = '[[accepted]]\nid = "gone"\nreason = "small"\nexpires = 2099-12-31'
    file.write_text(f'[forbidden]\ncauses = ["custom_op"]\n{accepted}', encoding="utf-8")
    assert "the accepted finding gone" in _printed(form, "--budget", str(file))


def test_sarif_is_valid_and_points_at_the_lines_to_edit() -> None:
    log: dict[str, Any] = json.loads(_printed("sarif"))
    results = log["runs"][0]["results"]
    places = [result["locations"][0]["physicalLocation"] for result in results]
    assert TOPK_LINE in {place["region"]["startLine"] for place in places}
    # The only program.py below the repository that the name fits is not unique: it stays.
    assert {place["artifactLocation"]["uri"] for place in places} == {"program.py"}


def test_junit_has_one_case_per_rule() -> None:
    (suite,) = ET.fromstring(_printed("junit").encode())  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("1", "1", 1)


def test_a_hostile_name_starts_no_command_of_github(report: Report, tmp_path: Path) -> None:
    assert report.on_a_gpu is not None
    hostile = replace(report.on_a_gpu.findings[0], title="x\n::stop-commands::y")
    there = replace(report.on_a_gpu, findings=(hostile,))
    from traceanalyzer.report.document import dumps  # noqa: PLC0415

    file = tmp_path / "report.json"
    file.write_text(dumps(replace(report, on_a_gpu=there)), encoding="utf-8")
    done = CliRunner().invoke(cli, ["check", str(file), "--format", "github"])
    assert all(line.startswith("::error ") for line in done.stdout.splitlines())


def test_a_file_is_named_by_its_path_in_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "program.py").touch()
    monkeypatch.chdir(tmp_path)
    data = json.loads(_printed("json"))
    assert {each["file"] for each in data["breaches"]} == {str(Path("src", "program.py"))}


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "named"),
    [
        ("[limits]\nsteptime = '1 ms'", "steptime"),
        ("[limits]\nstep_time = 12", "12"),
        ("[limits]\nstep_time = " + "9" * 5000, "digits"),
        ("[limits]\nstep_time = '12 %'", "ms"),
        ("[limits]\ncpu_op_share = '12 ms'", "%"),
        ("[limits]\ncpu_op_share = '120 %'", "100 %"),
        ("[forbidden]\ncauses = ['cosmic_rays']", "cosmic_rays"),
        ("[forbidden]\ncpu_ops = ['(']", "'('"),
        ("[[accepted]]\nid = 'a'\nexpires = 2026-01-01", "reason"),
        ("[[accepted]]\nid = 'a'\nreason = ' '\nexpires = 2026-01-01", "reason"),
        ("[[accepted]]\nid = 'a'\nreason = 'b'\nexpires = 'soon'", "expires"),
        ("[[accepted]]\nid = 'a'\nreason = 'b'\nexpires = 2099-01-01", "no limit"),
        ("limits", "key"),
    ],
)
def test_a_wrong_budget_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], budget: str, named: str
) -> None:
    file = tmp_path / "budget.toml"
    file.write_text(budget, encoding="utf-8")
    _fails(capfd, named, "check", FILE, "--budget", file)


def test_a_budget_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert _budget(tmp_path, "\ufeff[forbidden]\nharmful = true").forbidden.harmful


@pytest.mark.parametrize(
    "data", ["{", "[]", "{}", '{"schema_version": 1}', '{"schema_version": 2}']
)
def test_a_file_that_is_no_report_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], data: str
) -> None:
    file = tmp_path / "base.json"
    file.write_text(data, encoding="utf-8")
    _fails(capfd, "base.json", "check", FILE, "--baseline", file)
    _fails(capfd, "gone.json", "check", tmp_path / "gone.json")


def _fails(capfd: pytest.CaptureFixture[str], named: str, *arguments: str | Path) -> None:
    capfd.readouterr()
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    assert (exit_.value.code, out, err.count("\n")) == (2, "", 1)
    assert named in err


# --- assert_placement ------------------------------------------------------------------------


def test_a_placement_is_asserted_with_its_reason() -> None:
    diagnosis = ta.diagnose(ta.load(Case("recommender").logs))
    ta.assert_placement(diagnosis, "^MatMul$")
    ta.assert_placement(diagnosis, "^TopKV2$", on="cpu")
    with pytest.raises(AssertionError, match=r"program\.py:100.*To fix it"):
        ta.assert_placement(diagnosis, "^TopKV2$")
    with pytest.raises(AssertionError, match="Conv9D"):
        ta.assert_placement(diagnosis, "Conv9D")


def test_an_unknown_placement_is_no_success() -> None:
    with pytest.raises(AssertionError, match="unknown"):
        ta.assert_placement(Case("keras_fit").logs, "MatMul")


# --- the guide -------------------------------------------------------------------------------

PROGRAM = """
import tensorflow as tf

@tf.function
def step(x):
    with tf.device("/CPU:0"):
        return tf.matmul(x, x)

for _ in range(3):
    step(tf.ones((8, 8)))
"""


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.slow  # captures a program with TensorFlow, twice
def test_the_guide_works_step_by_step(tmp_path: Path) -> None:
    (budget,), (workflow,), (example,) = map(_blocks, ("toml", "yaml", "python"))
    (tmp_path / "budget.toml").write_text(budget, encoding="utf-8")
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "test_example.py").write_text(example, encoding="utf-8")
    install, *steps = re.findall(r"- run: (.*)", workflow)
    assert install.startswith("pip install")
    run = _runner(tmp_path)
    capture, annotate, scan = map(run, steps)
    assert (capture.returncode, annotate.returncode, scan.returncode) == (0, 1, 1)
    assert "file=train.py,line=6," in annotate.stdout
    log = json.loads((tmp_path / "check.sarif").read_text(encoding="utf-8"))
    jsonschema.validate(log, SARIF)
    assert run("python -m pytest -q test_example.py").returncode == 0


def _runner(folder: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:

    def run(step: str) -> subprocess.CompletedProcess[str]:
        step = re.sub("^traceanalyzer", "python -m traceanalyzer", step)
        step = re.sub("^python", sys.executable, step)
        return subprocess.run(  # noqa: S602 - as a shell runs the workflow
            step,
            shell=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_an_unused_capture_file_is_a_remark(report: Report) -> None:
    unread = Health(id="capture_file_unreadable", severity="warning", message="h: cut short")
    (remark,) = notes(replace(report, health=(unread,)), Budget(), None)
    assert "cut short" in remark
