from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.report.examples import EXAMPLES, gpu_run
from traceanalyzer.errors import TraceFormatError
from traceanalyzer.report import document

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer import model

SCHEMA = json.loads(
    resources.files("traceanalyzer.report").joinpath("schema.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def as_read(report: model.Report) -> Any:  # noqa: ANN401
    return json.loads(document.dumps(report))


@pytest.fixture(params=sorted(EXAMPLES))
def report(request: pytest.FixtureRequest) -> model.Report:
    return EXAMPLES[request.param]()


def test_examples_are_valid(report: model.Report) -> None:
    VALIDATOR.validate(as_read(report))


def test_round_trip(report: model.Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    document.write(report, path)
    again = document.load(path)
    assert again == report
    assert document.dumps(again) == document.dumps(report)


def set_at(plain: Any, path: str, value: object) -> None:  # noqa: ANN401
    *parents, last = path.split(".")
    for key in parents:
        plain = plain[int(key) if key.isdigit() else key]
    plain[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema_version", 2),
        ("summary.verdict", ""),
        ("summary.explained_share", 1.2),
        ("summary.extra", 1),
        ("findings.0.certainty", "sure"),
        ("findings.0.harm", "bad"),
        ("findings.0.evidence", []),
        ("findings.0.evidence.1.where", {"file": "a.py", "line": 1, "plane": "x"}),
        ("findings.0.cost.copy_bytes", 1.5),
        ("findings.0.ops.0.op_id", None),
        ("unexplained.ops.0.cost", None),
        ("rules.0.status", "skipped"),
        ("health.0.severity", "fatal"),
        ("steps.source", "guessed"),
        ("copy_graph.edges.0.direction", "up"),
        ("tables.ops.total_rows", -1),
        ("tables.ops.rows.0", "row"),
    ],
)
def test_schema_refuses_what_the_contract_does_not_allow(path: str, value: object) -> None:
    plain = as_read(gpu_run())
    set_at(plain, path, value)
    assert not VALIDATOR.is_valid(plain)


def test_text_is_inert_in_a_terminal() -> None:
    text = document.dumps(EXAMPLES["hostile"]())
    assert text.encode("utf-8")
    assert not any(character in text for character in "\x00\x1b\x9b\u2028\u202e\u200b\ud800")
    again = document.loads(text)
    assert again.summary.verdict == EXAMPLES["hostile"]().summary.verdict


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a report"),
        ("[]", "schema_version is None"),
        ('{"schema_version": 2}', "schema_version is 2"),
        ('{"schema_version": 1}', "report lacks findings, health"),
        ("{" * 100_000, "not a report"),
        ("[" * 100_000, "not a report"),
    ],
)
def test_what_is_no_report_is_one_line_of_error(text: str, said: str) -> None:
    with pytest.raises(TraceFormatError, match=r"r\.json: not a report") as caught:
        document.loads(text, source="r.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("findings.0.certainty", "sure", "report.findings[0].certainty should be one of certain"),
        ("summary.cpu_ops", "5", "report.summary.cpu_ops should be int"),
        ("summary.cpu_ops", True, "report.summary.cpu_ops should be int"),
        ("run.hosts", "h", "report.run.hosts should be a list"),
        ("run", 3, "report.run should be an object"),
        ("findings.0.evidence.1.where", {"x": 1}, "should be TraceWhere or SourceWhere"),
        ("findings.0.sub_reason", 4, "report.findings[0].sub_reason should be str or null"),
        ("tables.steps.rows.0", [1], "report.tables.steps"),
        ("tables.steps.rows.0.0", {}, "report.tables.steps.rows[0][0] should be str or int"),
    ],
)
def test_the_place_of_a_wrong_value_is_named(path: str, value: object, said: str) -> None:
    plain = as_read(gpu_run())
    set_at(plain, path, value)
    with pytest.raises(TraceFormatError) as caught:
        document.loads(json.dumps(plain))
    assert said in str(caught.value)


def test_keys_of_later_versions_are_passed_over() -> None:
    plain = as_read(gpu_run())
    plain["of_a_later_version"] = {}
    plain["findings"][0]["effort"] = "small"
    assert document.loads(json.dumps(plain)) == gpu_run()


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceFormatError, match="not UTF-8"):
        document.load(path)
