"""The first screen says of other people's recordings what an expert says of them."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.text import plain

_FILE = Path(__file__).with_name("corpus_expectations.toml")
EXPECTED = tomllib.loads(_FILE.read_text(encoding="utf-8"))["run"]


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("expected", EXPECTED, ids=lambda each: f"{each['folder']}-{each['run']}")
def test_the_first_screen_says_what_an_expert_says(expected: dict[str, Any]) -> None:
    report = assemble(ta.diagnose(ta.load(CORPUS / expected["folder"], expected["run"])))
    page = report.page
    assert page is not None
    assert page.kind == expected["kind"]
    happened = plain(page.happened).replace("\N{NO-BREAK SPACE}", " ")
    assert [e for e in expected["happened"] if not re.search(e, happened)] == [], happened
    first = report.changes[0].title if report.changes else ""
    assert re.fullmatch(expected["first"], first)
