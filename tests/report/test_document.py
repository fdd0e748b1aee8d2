"""``report.json``: it has the schema that the package ships, and its text is inert."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import pytest

from tests.report import schema
from tests.report.bad_input import HOSTILE
from tests.samples import SAMPLES, sample_report
from traceanalyzer.compare.reports import read_report
from traceanalyzer.report.document import dumps

VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema.FILE.read_text()))


def test_the_schema_is_that_of_the_records() -> None:
    assert schema.text() == schema.FILE.read_text(), "run python -m tests.report.schema"


@pytest.mark.parametrize("name", SAMPLES)
def test_reports_are_valid_and_read_back_as_they_were_written(name: str, tmp_path: Path) -> None:
    report = sample_report(name)

    VALIDATOR.validate(json.loads(dumps(report)))
    (tmp_path / "report.json").write_text(dumps(report), encoding="utf-8")
    again = read_report(tmp_path / "report.json")
    assert report.page is not None
    assert again == replace(report, page=msgspec.structs.replace(report.page, details={}))


def test_text_is_inert_in_a_terminal() -> None:
    report = sample_report("recommender")
    hostile = replace(report, summary=replace(report.summary, verdict=HOSTILE))

    text = dumps(hostile)

    assert text.encode("utf-8")
    assert not any(character in text for character in "\x00\x1b\x9b\u2028\u202e\u200b\ud800")
    assert json.loads(text)["summary"]["verdict"] == HOSTILE.replace("\ud800", "\ufffd")
