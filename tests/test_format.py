"""Figures as people read them: the page's script is tested with the same cases."""

import json
from pathlib import Path

import pytest

from traceanalyzer.format import duration, percent_text, share, size, size_text
from traceanalyzer.report.text import visible

CASES = json.loads(Path(__file__).with_name("format_cases.json").read_text(encoding="utf-8"))
WRITTEN_BY = {"duration": duration, "size": size, "share": share, "visible": visible}


@pytest.mark.parametrize("name", CASES)
def test_values_are_written_as_in_the_shared_table(name: str) -> None:
    for value, shown in CASES[name]:
        written = str(WRITTEN_BY[name](value))
        assert written.replace("\xa0", " ") == shown.replace("\xa0", " "), value


def test_sizes_in_sentences() -> None:
    sizes = [1, 999, 1000, 2_000_000, 99_960_000, 999_600_000, 17_179_869_184, 2_500 * 10**12]
    texts = [
        "1 byte",
        "999 bytes",
        "1.00 kB",
        "2.00 MB",
        "100 MB",
        "1.00 GB",
        "17.2 GB",
        "2,500 TB",
    ]
    assert list(map(size_text, sizes)) == texts


def test_shares_in_sentences_are_rounded_to_neither_none_nor_all() -> None:
    shares = [0, 0.0001, 0.97, 0.9999, 1.0, 12.5]
    texts = ["0 %", "less than 1 %", "97 %", "more than 99 %", "100 %", "1250 %"]
    assert list(map(percent_text, shares)) == texts
