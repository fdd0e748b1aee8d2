"""Properties of stages and waits in every trace: samples and random ones."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer as ta
from tests.tables.reading import tables_of
from tests.traces import Event, host, iterator, line, us
from traceanalyzer.input_pipeline.verdict import HostInput, host_input
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.timeline.intervals import union

_SAMPLES = sorted((Path(__file__).parents[2] / "sample_traces").glob("*/logs"))
_ROUNDING_PS = 2_000  # trace.json has nanoseconds: events that touch may overlap by as much


def check(tables: HostTables, use: HostInput | None) -> None:
    stages = tables.stages
    whole = stages["total_ps"]
    assert (stages["self_ps"] >= 0).all()
    assert (stages["self_ps"] <= whole).all()
    assert (stages["first_ps"] <= whole).all()
    assert (stages["iterators"] <= stages["elements"]).all()
    assert not stages.duplicated(["pipeline", "stage"]).any()
    inside = stages[stages["parent"].notna()]
    places = set(zip(stages["pipeline"], stages["stage"].astype(str), strict=True))
    assert {*zip(inside["pipeline"], inside["parent"].astype(str), strict=True)} <= places
    work = tables.pipelines.work
    assert (work.end_ps >= work.start_ps).all()
    # The time that a stage on one thread worked alone is its own time, to the picosecond.
    alone = np.bincount(
        work.row, weights=work.end_ps - work.start_ps, minlength=len(stages)
    ).astype(np.int64)
    on_thread = ~stages["is_async"].to_numpy(bool)
    slack = _ROUNDING_PS * stages["elements"].to_numpy()
    assert (abs(alone - stages["self_ps"].to_numpy()) <= slack)[on_thread].all()
    if use is None or use.waits is None:
        return
    table = use.waits.table
    assert (table["wait_ps"] >= 0).all()
    assert (table["wait_ps"] <= table["duration_ps"]).all()
    assert (table["since_ps"] <= table["start_ps"]).all()
    assert (table["wait_before_ps"] <= table["start_ps"] - table["since_ps"]).all()
    asked = tables.pipelines.requests
    waited = union(asked.start_ps, asked.end_ps - asked.start_ps).total_ps
    assert int((table["wait_ps"] + table["wait_before_ps"]).sum()) <= waited
    assert 0 <= use.waits.share <= 1
    for fix in use.fixes:
        assert 0 <= fix.high_ps <= use.waits.mean_ps


@pytest.mark.parametrize("logs", [pytest.param(p, id=p.parent.name) for p in _SAMPLES])
def test_samples(logs: Path) -> None:
    for found in ta.load(logs).hosts:
        check(found.tables, found.input_pipeline)


_TYPES = ("Map", "ParallelMapV2", "Prefetch", "Batch", "Zip[0]", "Zip[1]", "FlatMap[3]", "Range")


@st.composite
def nested(draw: st.DrawFn, path: str, start: int, length: int, depth: int = 0) -> Event:
    """A stage's event, with events of its inputs within."""
    inner = []
    at = start
    while depth < 3 and draw(st.booleans()):
        room = start + length - at
        if room < 2:
            break
        begin = draw(st.integers(at, at + room - 1))
        took = draw(st.integers(1, start + length - begin))
        below = draw(st.sampled_from(_TYPES))
        inner.append(draw(nested(f"{path}::{below}", begin, took, depth + 1)))
        at = begin + took
    stats = {"id": draw(st.integers(1, 4)), "parent_id": draw(st.integers(1, 4))}
    return iterator(path, us(start, length), **stats)(*inner)


@given(st.data())
def test_whatever_a_trace_holds(data: st.DataObject) -> None:
    roots = [
        data.draw(nested("Root", 100 * k, data.draw(st.integers(1, 100))))
        for k in range(data.draw(st.integers(1, 4)))
    ]
    tables = tables_of(host(line("python")(roots), line("tf_data_x")(roots[:1])))
    use = host_input("h", tables.stages, tables.pipelines, tables.steps)
    check(tables, use)
