import sys
import unicodedata

import pytest

from traceanalyzer.report import text


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


@pytest.mark.parametrize("said", ["train.py:3 looks for GPUs", "train.py:3 looks for GPUs."])
def test_a_sentence_that_begins_with_a_name_ends_with_one_stop(said: str) -> None:
    assert text.sentence(said) == "train.py:3 looks for GPUs."
