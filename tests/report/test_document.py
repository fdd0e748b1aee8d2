from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.report import schema
from tests.report.examples import EXAMPLES
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
    assert schema.loads(document.dumps(report)) == report


def test_text_is_inert_in_a_terminal() -> None:
    text = document.dumps(EXAMPLES["hostile"]())
    assert text.encode("utf-8")
    assert not any(character in text for character in "\x00\x1b\x9b\u2028\u202e\u200b\ud800")
    again = schema.loads(text)
    assert again.summary.verdict == EXAMPLES["hostile"]().summary.verdict
