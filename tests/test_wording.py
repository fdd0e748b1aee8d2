"""Figures as they stand in sentences."""

from __future__ import annotations

from traceanalyzer.wording import percent_text, size_text


def test_sizes_are_decimal_with_three_digits() -> None:
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


def test_shares_are_in_percent_and_rounded_to_neither_none_nor_all() -> None:
    shares = [0, 0.0001, 0.97, 0.9999, 1.0, 12.5]
    texts = ["0 %", "less than 1 %", "97 %", "more than 99 %", "100 %", "1250 %"]
    assert list(map(percent_text, shares)) == texts
