"""The ops of a run as tables of the document."""

from __future__ import annotations

import base64
import functools
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import traceanalyzer
from tests.report.page.made_ops import made_rows
from traceanalyzer.report.ops import all_ops, pack_ops
from traceanalyzer.report.packed import unpack

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import PackedTable

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@functools.cache
def diagnosed(name: str) -> Diagnosis:
    return traceanalyzer.diagnose(traceanalyzer.load(SAMPLES / name / "logs"))


def packed(rows: list[dict[str, Any]]) -> PackedTable:
    return pack_ops(pd.DataFrame(rows, dtype=object), len(rows))


def opened(diagnosis: Diagnosis) -> pd.DataFrame:
    table = all_ops(diagnosis)
    assert table is not None
    assert table.rows == table.total_rows == len(diagnosis.run.ops)
    return pd.DataFrame(unpack(table), dtype=object).set_index("op_id")


@pytest.mark.parametrize("name", ["keras_fit", "recommender", "eager_ops"])
def test_every_op_is_in_it_as_it_was_recorded(name: str) -> None:
    diagnosis = diagnosed(name)
    found = opened(diagnosis)
    ops = diagnosis.run.ops.set_index("op_id").loc[found.index]
    for column in ("name", "type", "placement", "host", "function", "role", "input_types"):
        recorded = ops[column].astype(object)
        assert found[column].tolist() == recorded.where(recorded.notna(), None).tolist()
    for column in ("occurrences", "kernels", "h2d_bytes", "d2h_bytes"):
        assert found[column].tolist() == ops[column].tolist()
    for column in ("host_self", "kernel", "copy"):
        us = found[f"{column}_us"].astype(float).to_numpy()
        np.testing.assert_allclose(us, ops[f"{column}_ps"] / 1e6, atol=0.0005)
    total = (found["host_self_us"] + found["host_nested_us"]).astype(float).to_numpy()
    np.testing.assert_allclose(total, ops["host_total_ps"] / 1e6, atol=0.001)
    assert (found["exposed_us"].isna().to_numpy() == ops["exposed_ps"].isna().to_numpy()).all()
    assert found["is_eager"].tolist() == ["yes" if eager else "no" for eager in ops["is_eager"]]


def test_each_op_has_the_causes_that_findings_give_it() -> None:
    diagnosis = diagnosed("recommender")
    found = opened(diagnosis)
    for finding in diagnosis.findings:
        for op_id in finding.op_ids:
            at = found.loc[op_id, "findings"].split(" | ").index(finding.id)
            assert found.loc[op_id, "cause"].split(" | ")[at] == finding.cause
            assert found.loc[op_id, "certainty"].split(" | ")[at] == finding.certainty
    named = {op_id for finding in diagnosis.findings for op_id in finding.op_ids}
    assert len(named) > 50
    assert set(found.loc[~found.index.isin(named), "cause"]) <= {"", "unexplained"}


def test_an_op_without_a_cause_says_so_where_it_needs_one() -> None:
    diagnosis = diagnosed("recommender")
    (dragging, *_) = [f for f in diagnosis.findings if f.cause == "python_callback"]
    left = diagnosis.run.ops[diagnosis.run.ops["name"] == "TopKV2"]
    (dragged,) = diagnosis.run.ops.loc[diagnosis.run.ops["name"] == "concat", "op_id"]
    changed = replace(
        diagnosis,
        findings=(replace(dragging, dragged_along=(dragged,)),),
        unexplained=left,
    )
    found = opened(changed)
    assert set(found.loc[left["op_id"], "cause"]) == {"unexplained"}
    assert found.loc[dragged, ["cause", "certainty", "findings"]].tolist() == [
        "dragged_along_by_python_callback",
        dragging.certainty,
        dragging.id,
    ]
    others = found.drop([*left["op_id"], dragged, *dragging.op_ids])
    assert set(others["cause"]) == {""}


def test_texts_stand_as_readers_sort_them() -> None:
    rows = made_rows(40)
    for row, name in zip(rows, ("b_10", "B_9", "a", "b_9", "b_x", "10", "9"), strict=False):
        row["name"] = name
    table = packed(rows[:7])
    assert unpack(table)["name"] == ["b_10", "B_9", "a", "b_9", "b_x", "10", "9"]
    # The places of texts are their order: what the page sorts by.
    plain = zlib.decompress(base64.b64decode(table.data))
    (length,) = struct.unpack_from("<I", plain)
    columns = json.loads(plain[4 : 4 + length])["columns"]
    (texts,) = (column["texts"] for column in columns if column["name"] == "name")
    assert texts == ["9", "10", "a", "B_9", "b_9", "b_10", "b_x"]


@pytest.mark.slow
def test_a_table_that_is_too_large_loses_its_last_rows() -> None:
    rows = made_rows(50_000)
    for k, row in enumerate(rows):
        row["name"] = f"{k * 2654435761 % 2**32:08x}" * 40  # no two alike, and cut
    table = packed(rows)
    assert len(table.data) <= 1_900_000
    assert 20_000 < table.rows < table.total_rows == 50_000
    found = unpack(table)
    assert found["op_id"] == [row["op_id"] for row in rows[: table.rows]]
    assert found["occurrences"] == [row["occurrences"] for row in rows[: table.rows]]
