from __future__ import annotations

import sys
import unicodedata

import pytest

from traceanalyzer.report import text


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
    assert str(text.duration(us)).replace("\xa0", " ") == shown


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
    assert str(text.size(size_bytes)).replace("\xa0", " ") == shown


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
    assert str(text.share(part)).replace("\xa0", " ") == shown


def test_what_does_not_show_is_made_visible() -> None:
    assert text.visible("a\u202eb\x00\n\u2028") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+000A⟩⟨U+2028⟩"
    assert text.visible("Ärger 日本 naïve µs 😀") == "Ärger 日本 naïve µs 😀"
    assert text.visible("no\xa0break") == "no\xa0break"


@pytest.mark.slow
def test_no_character_that_acts_is_left() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    left = {unicodedata.category(character) for character in text.visible(everything)}
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    again = text.visible(everything)
    assert text.visible(again) == again


def test_the_middle_is_cut_and_both_ends_are_kept() -> None:
    name = "model/" + "x" * 100_000 + "/MatMul"
    assert text.cut(name, 21) == "model/xxxx…xxx/MatMul"
    assert len(text.cut(name, 21)) == 21
    assert text.cut("MatMul", 21) == "MatMul"
    long = text.cut_long(name)
    assert "98,013 characters left out" in long
    assert len(long) < 2_100
