from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.report import schema
from tests.report.examples import EXAMPLES, gpu_run
from traceanalyzer.errors import TraceFormatError
from traceanalyzer.report import document

if TYPE_CHECKING:
    from traceanalyzer import model

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_text()))


def as_read(report: model.Report) -> Any:  # noqa: ANN401
    return json.loads(document.dumps(report))


@pytest.fixture(params=sorted(EXAMPLES))
def report(request: pytest.FixtureRequest) -> model.Report:
    return EXAMPLES[request.param]()


def test_the_schema_is_that_of_the_records() -> None:
    assert schema.text() == schema.FILE.read_text(), "run python -m tests.report.schema"


def test_examples_are_valid(report: model.Report) -> None:
    VALIDATOR.validate(as_read(report))


def test_a_report_that_is_read_is_the_one_that_was_written(report: model.Report) -> None:
    assert document.loads(document.dumps(report)) == report


def set_at(plain: Any, path: str, value: object) -> None:  # noqa: ANN401
    *parents, last = path.split(".")
    for key in parents:
        plain = plain[int(key) if key.isdigit() else key]
    plain[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("summary.cpu_ops", "5", "$.summary.cpu_ops"),
        ("summary.cpu_ops", True, "$.summary.cpu_ops"),
        ("summary.explained_share", 1.2, "$.summary.explained_share"),
        ("run.hosts", "h", "$.run.hosts"),
        ("run", 3, "$.run"),
        ("findings.0.certainty", "sure", "$.findings[0].certainty"),
        ("findings.0.cost.copy_bytes", 1.5, "$.findings[0].cost.copy_bytes"),
        ("findings.0.evidence.1.where", {"x": 1}, "$.findings[0].evidence[1].where"),
        ("unexplained.ops.0.cost", None, "$.unexplained.ops[0].cost"),
        ("transfer_graph.edges.0.direction", "up", "$.transfer_graph.edges[0].direction"),
        ("tables.ops.total_rows", -1, "$.tables.ops.total_rows"),
        ("tables.steps.rows.0.0", {}, "$.tables.steps.rows[0][0]"),
    ],
)
def test_a_wrong_value_is_refused_and_named(path: str, value: object, place: str) -> None:
    plain = as_read(gpu_run())
    set_at(plain, path, value)
    assert not VALIDATOR.is_valid(plain)
    with pytest.raises(TraceFormatError) as caught:
        document.loads(json.dumps(plain))
    assert place in str(caught.value)


def test_text_is_inert_in_a_terminal() -> None:
    text = document.dumps(EXAMPLES["hostile"]())
    assert text.encode("utf-8")
    assert not any(character in text for character in "\x00\x1b\x9b\u2028\u202e\u200b\ud800")
    again = document.loads(text)
    assert again.summary.verdict == EXAMPLES["hostile"]().summary.verdict


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 2}', "{" * 10**5, "[" * 10**5])
def test_what_is_no_report_is_one_line_of_error(text: str) -> None:
    with pytest.raises(TraceFormatError, match=r"r\.json: not a report") as caught:
        document.loads(text, source="r.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("version", [1, 3])
def test_a_report_of_another_version_is_one_line_of_error(version: int) -> None:
    plain = as_read(gpu_run()) | {"schema_version": version}

    with pytest.raises(TraceFormatError) as caught:
        document.loads(json.dumps(plain), source="r.json")
    assert str(caught.value) == (
        f"r.json: not a report of schema version 2: it has version {version}; write it again with "
        "`traceanalyzer report --json`"
    )


def test_keys_of_later_versions_are_ignored() -> None:
    plain = as_read(gpu_run())
    plain["of_a_later_version"] = {}
    plain["findings"][0]["effort"] = "small"
    assert document.loads(json.dumps(plain)) == gpu_run()
