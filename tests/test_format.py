"""Figures as people read them."""

from __future__ import annotations

import pytest

from traceanalyzer.format import duration, percent_text, share, size, size_text


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0 µs"),
        (0.0004, "<0.001 µs"),
        (0.0005, "0.001 µs"),
        (-0.0004, "0.000 µs"),
        (0.512, "0.512 µs"),
        (1, "1.00 µs"),
        (9.994, "9.99 µs"),
        (9.996, "10.0 µs"),
        (99.96, "100 µs"),
        (999.4, "999 µs"),
        (999.6, "1.00 ms"),
        (12_412.339, "12.4 ms"),
        (999_500, "1.00 s"),
        (1_702_118.25, "1.70 s"),
        (4_000_000_000, "4,000 s"),
        (-12.5, "-12.5 µs"),
    ],
)
def test_durations(us: float, shown: str) -> None:
    assert str(duration(us)).replace("\xa0", " ") == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (491_520, "492 kB"),
        (999_999, "1.00 MB"),
        (2_411_724_800, "2.41 GB"),
        (5_000_000_000_000_000, "5,000 TB"),
    ],
)
def test_sizes(size_bytes: int, shown: str) -> None:
    assert str(size(size_bytes)).replace("\xa0", " ") == shown


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (0.0, "0 %"),
        (0.00001, "<0.1 %"),
        (0.0025, "0.2 %"),
        (0.643, "64.3 %"),
        (0.99949, "99.9 %"),
        (0.99999, ">99.9 %"),
        (1.0, "100 %"),
    ],
)
def test_only_nothing_is_0_percent_and_only_everything_100(part: float, shown: str) -> None:
    assert str(share(part)).replace("\xa0", " ") == shown


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
