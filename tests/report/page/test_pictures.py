"""Pictures drawn without scripts: nothing is lost, lies upon another, or leaves its frame."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.examples import SCOPES_COLUMNS
from tests.report.markup import read
from tests.report.page.copies import copies, flow, group, with_copies
from traceanalyzer.model import Table
from traceanalyzer.model.times import Scopes
from traceanalyzer.model.transfers import CopyGroups, GroupCopies
from traceanalyzer.report.page.device_copies import device_pictures
from traceanalyzer.report.page.group_copies import (
    group_pictures,
    group_rows,
)
from traceanalyzer.report.page.icicle import icicle
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.sankey import Flow, Layout, Shape, lay_out

SHAPE = Shape(
    lefts=(100.0, 300.0, 500.0),
    node_width=10.0,
    thickest=200.0,
    thinnest=1.5,
    rows=(30.0, 2.0, 30.0),
    heads=(0.0, 34.0, 0.0),
    gap=8.0,
    margin=4.0,
)

COLUMNS = (tuple("abcdef"), tuple("klm"), tuple("uvwxyz"))


def drawn(flows: list[Flow]) -> Layout:
    return lay_out(COLUMNS, flows, SHAPE, last=("f",))


@given(
    st.lists(
        st.builds(
            flow,
            st.integers(0, 23),
            st.integers(0, 23),
            st.one_of(st.none(), st.integers(0, 10**15)),
            st.sampled_from(["host gpu:0", "gpu:0 host", "gpu:1 gpu:0", "a b", "b a"]),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_all_that_is_copied_is_in_bands_on_either_side(flows: list[GroupCopies]) -> None:
    every = tuple(group(f"op{k}") for k in range(24))
    report = with_copies(groups=CopyGroups(sources=every, targets=every, flows=tuple(flows)))
    picture = group_pictures(report)[0]
    nodes = {n.key: n for n in picture.nodes}
    sides: dict[str, float] = defaultdict(float)
    for band in picture.bands:
        source, target = band.lit.split()
        assert {source, target} <= set(nodes)
        assert (nodes[source].side, nodes[target].side) in {("from", "between"), ("between", "to")}
        sides[nodes[source].side] += 1
    assert sides["from"] >= 1
    assert sides["between"] >= 1
    rows = group_rows(report)
    for side in ("from", "to"):
        known = [row.amount.bytes for row in rows if row.side == side]
        assert sum(b for b in known if b is not None) == sum(f.bytes or 0 for f in flows)
        assert sum(row.amount.count for row in rows if row.side == side) == 2 * len(flows)


def many(number: int, memories: int = 1) -> CopyGroups:
    """Groups of which the later ones copy more."""
    return CopyGroups(
        sources=tuple(group(f"from{k}", islands=(1,)) for k in range(number)),
        targets=tuple(group(f"to{k}", islands=(1,)) for k in range(number)),
        flows=tuple(
            flow(k, k, 10 * k if k % 7 else None, f"host gpu:{m}")
            for k in range(number)
            for m in range(memories)
        ),
    )


def test_thousands_of_groups_are_drawn_soon_and_the_rest_is_counted() -> None:
    report = with_copies(groups=many(5_000))
    began = time.perf_counter()
    picture, *_ = group_pictures(report)
    assert time.perf_counter() - began < 5  # a fraction of a second; unbounded, minutes
    assert len([n for n in picture.nodes if n.side == "from"]) == 24
    assert len(group_rows(report)) == 48
    section = read(render_page(report)).one("section", id="copies")
    assert "of 5,000 sources and 5,000 targets" in section.text
    few = read(render_page(with_copies(groups=many(20)))).one("section", id="copies")
    assert "the others of each side" not in few.text


def test_times_of_broken_traces() -> None:
    nan = replace(copies("host", "gpu:0", None), total_us=float("nan"))
    negative = replace(copies("gpu:0", "host", None), total_us=-5.0)
    pictures = device_pictures(with_copies(nan, negative))
    assert [p.measure.id for p in pictures] == ["time", "count"]
    assert {lane.width for lane in pictures[0].lanes} == {2.0}
    assert [lane.is_measured for lane in pictures[0].lanes] == [False, True]


def scopes_of(*rows: tuple[object, ...], total: int | None = None) -> Scopes:
    table = Table(columns=SCOPES_COLUMNS, rows=rows, total_rows=total or len(rows))  # type: ignore[arg-type]
    return Scopes(nodes=table)


@pytest.mark.parametrize("parent", [7, 0, -3, 0.5, "x"])
def test_a_parent_that_is_none_breaks_nothing(parent: object) -> None:
    picture = icicle(
        scopes_of((parent, "a", "op", 1.0, 0.0, 0.0, 1), (None, "b", "op", 1.0, 0.0, 0.0, 1))
    )
    assert picture is not None
    assert any(box.title.startswith("b") for box in picture.boxes)
