from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report.page.svg_text import label


def test_plain_words_are_left_alone_where_they_fit() -> None:
    assert label("model/dense/MatMul", 200).text == "model/dense/MatMul"
    assert label("host → gpu:0 …", 200).length is None


def test_a_long_name_keeps_both_ends() -> None:
    short = label("model/" + "x" * 100_000 + "/MatMul", 100).text
    assert short.startswith("model")
    assert short.endswith("MatMul")
    assert len(short) == 13


def test_wide_characters_take_more_room_and_are_held_to_it() -> None:
    wide = label("模型編碼器" * 9, 100)
    assert len(wide.text) < 10
    assert wide.length is not None
    assert wide.length <= 100


@given(st.text(), st.floats(8, 400))
def test_no_more_than_the_room(text: str, room: float) -> None:
    made = label(text, room)
    assert made.text.isprintable() or not made.text.isascii()
    if made.length is None:
        assert 7.3 * len(made.text) <= max(room, 8)
    else:
        assert made.length <= room
