"""Figures as they stand in sentences."""

from __future__ import annotations

import pytest

from traceanalyzer.wording import percent_text, size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (2_000_000, "2.00 MB"),
        (99_960_000, "100 MB"),
        (999_600_000, "1.00 GB"),
        (17_179_869_184, "17.2 GB"),
        (2_500 * 10**12, "2,500 TB"),
    ],
)
def test_sizes_are_decimal_with_three_digits(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0, "0 %"),
        (0.0001, "less than 1 %"),
        (0.97, "97 %"),
        (0.9999, "more than 99 %"),
        (1.0, "100 %"),
        (12.5, "1250 %"),
    ],
)
def test_shares_are_in_percent(part: float, text: str) -> None:
    assert percent_text(part) == text
