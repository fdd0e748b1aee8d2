"""Tables packed and opened again: what was put in comes out."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report.packed import Numbers, Texts, pack, unpack


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=30))
def test_any_numbers_come_back_as_near_as_their_steps(values: list[float]) -> None:
    found = unpack(pack({"a": Numbers(np.array(values), per=10)}, 0))["a"]
    for value, back in zip(values, found, strict=True):
        if math.isfinite(value):
            assert back is not None
            assert back == pytest.approx(value, abs=0.0501, rel=1e-9)
        else:
            assert back is None


def test_the_table_that_the_page_s_script_is_tested_with_is_current() -> None:
    file = Path(__file__).parent / "documents" / "packed.json"
    known = json.loads(file.read_text(encoding="utf-8"))
    columns = {
        "name": Texts(np.array([0, 1, -1, 0]), ("MatMul", '=HYPERLINK("x")')),
        "host_us": Numbers(np.array([1500.25, 2.0, np.nan, 0.001]), per=1000),
        "bytes": Numbers(np.array([7.0, 2.0**40, np.nan, 0.0])),
        "at": Numbers(np.array([-5, 3, 70_000, 70_001])),
    }
    table = pack(columns, 4)
    assert known == {"data": table.data, "values": unpack(table)}
