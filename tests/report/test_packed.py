"""Tables packed and opened again: what was put in comes out."""

from __future__ import annotations

import base64
import math
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.report.packed import Numbers, Texts, pack, unpack

NANOSECONDS = st.integers(0, 2**32 - 2)
ANY_TEXT = st.text(st.characters(codec=None), max_size=20)


@given(st.lists(NANOSECONDS, min_size=1, max_size=50))
def test_rising_times_are_exact_to_the_nanosecond(values: list[int]) -> None:
    us = np.sort(np.array(values, np.int64)) / 1000
    table = pack({"start_us": Numbers(us, per=1000, delta=True)}, len(us))
    assert unpack(table)["start_us"] == us.tolist()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_any_numbers_come_back_as_near_as_their_steps(values: list[float]) -> None:
    found = unpack(pack({"a": Numbers(np.array(values), per=10)}, 0))["a"]
    for value, back in zip(values, found, strict=True):
        if math.isfinite(value):
            assert back is not None
            assert back == pytest.approx(value, abs=0.0501, rel=1e-9)
        else:
            assert back is None


@given(st.lists(ANY_TEXT, min_size=1, max_size=300), st.data())
def test_texts_come_back(texts: list[str], data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(-1, len(texts) - 1), max_size=30))
    found = unpack(pack({"name": Texts(np.array(codes, np.int64), texts)}, len(codes)))
    assert found["name"] == [None if code < 0 else texts[code] for code in codes]


@pytest.mark.parametrize("count", [254, 255, 256, 257, 65534, 65535, 65536])
def test_the_last_text_of_a_type_is_not_taken_for_none(count: int) -> None:
    codes = np.array([count - 1, -1])
    texts = [str(k) for k in range(count)]
    assert unpack(pack({"t": Texts(codes, texts)}, 2))["t"] == [str(count - 1), None]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-8],
        lambda data: data[:40],
        lambda data: "!" + data[1:],
        lambda _data: base64.b64encode(zlib.compress(b"\xff\xff\xff\xff")).decode(),
        lambda _data: base64.b64encode(zlib.compress(b"\x02\0\0\0{}")).decode(),
        lambda _data: "",
    ],
)
def test_damage_is_told(damage: object) -> None:
    table = pack({"a": Numbers(np.arange(100))}, 100)
    with pytest.raises(TraceFormatError, match="packed table is damaged"):
        unpack(replace(table, data=damage(table.data)))  # type: ignore[operator]
