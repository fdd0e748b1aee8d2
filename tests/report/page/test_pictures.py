"""Pictures drawn without scripts: nothing is lost, lies upon another, or leaves its frame."""

from __future__ import annotations

import itertools
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
from traceanalyzer.report.page.fewer_groups import fewer_groups
from traceanalyzer.report.page.group_copies import (
    group_pictures,
    group_rows,
)
from traceanalyzer.report.page.icicle import BOXES, LEVELS, ROW_HEIGHT, icicle
from traceanalyzer.report.page.render import render_page
from traceanalyzer.report.page.sankey import Flow, Layout, Shape, lay_out
from traceanalyzer.report.page.svg_text import label

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

VALUES = st.one_of(st.none(), st.floats(0, 1e300), st.integers(0, 10**15).map(float))

FLOWS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(COLUMNS[0]), st.sampled_from(COLUMNS[1]), VALUES),
        st.tuples(st.sampled_from(COLUMNS[1]), st.sampled_from(COLUMNS[2]), VALUES),
    ),
    max_size=30,
    unique_by=lambda flow: flow[:2],
).map(lambda found: [Flow(f"{a}-{b}", a, b, value) for a, b, value in found])


def drawn(flows: list[Flow]) -> Layout:
    return lay_out(COLUMNS, flows, SHAPE, last=("f",))


@given(FLOWS)
def test_a_node_is_as_high_as_what_comes_or_leaves(flows: list[Flow]) -> None:
    picture = drawn(flows)
    comes: dict[str, float] = defaultdict(float)
    leaves: dict[str, float] = defaultdict(float)
    for band in picture.bands:
        leaves[band.source] += band.width
        comes[band.target] += band.width
    for node in picture.nodes:
        assert node.height == pytest.approx(max(comes[node.key], leaves[node.key]), abs=0.01)


@given(FLOWS)
def test_each_flow_is_a_band_as_wide_as_its_value(flows: list[Flow]) -> None:
    picture = drawn(flows)
    bands = {band.key: band for band in picture.bands}
    assert [*bands] == sorted(flow.key for flow in flows)
    assert all(bands[flow.key].is_measured == (flow.value is not None) for flow in flows)
    assert all(band.width >= SHAPE.thinnest for band in picture.bands)
    wide = [f for f in flows if f.value and bands[f.key].width > SHAPE.thinnest]
    for one, other in itertools.pairwise(wide):
        ratio = bands[one.key].width / bands[other.key].width
        # Widths are rounded to a hundredth of a pixel.
        assert ratio == pytest.approx((one.value or 0) / (other.value or 1), rel=0.02)


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


@pytest.mark.parametrize("number", [30, 400])
def test_the_small_ones_are_one_and_nothing_is_left_out(number: int) -> None:
    groups = many(number)
    fewer = fewer_groups(groups)
    assert len(fewer.sources) == len(fewer.targets) == 24
    *kept, others = fewer.sources
    largest = [k for k in range(number) if k % 7][-23:]
    assert [one.name for one in kept] == [f"from{k}" for k in largest]
    assert (others.kind, others.ops, others.islands) == ("others", 2 * (number - 23), (1,))
    for attribute in ("bytes", "unknown_bytes", "count", "total_us"):
        assert sum(getattr(f, attribute) or 0 for f in fewer.flows) == sum(
            getattr(f, attribute) or 0 for f in groups.flows
        )
    assert len(fewer.flows) == 24


def test_thousands_of_groups_are_drawn_soon_and_the_rest_is_counted() -> None:
    report = with_copies(groups=many(5_000))
    began = time.perf_counter()
    picture, *_ = group_pictures(report)
    assert time.perf_counter() - began < 5  # a fraction of a second; unbounded, minutes
    assert len([n for n in picture.nodes if n.side == "from"]) == 24
    assert len(group_rows(report)) == 48
    section = read(render_page(report)).one("section", id="copies")
    assert (
        "Of 5,000 groups that are copied from and 5,000 that are copied to, those with most bytes "
        "are shown by themselves, the others of each side as one."
    ) in section.text
    few = read(render_page(with_copies(groups=many(20)))).one("section", id="copies")
    assert "are shown by themselves" not in few.text


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


TREE = scopes_of(
    (None, "model", "scope", 20.0, 60.0, 9.0, 3),
    (0, "dense", "scope", 0.0, 60.0, 9.0, 2),
    (0, "lookup", "op", 20.0, 0.0, 0.0, 1),
    (None, "augment", "op", 20.0, 0.0, 0.0, 1),
)


def test_a_box_is_as_wide_as_its_time_and_lies_below_its_own_scope() -> None:
    picture = icicle(TREE)
    assert picture is not None
    assert [(box.node, box.x, box.width, box.y) for box in picture.boxes] == [
        (0, 0, 80, 0),
        (3, 80, 20, 0),
        (1, 0, 60, ROW_HEIGHT),
        (2, 60, 20, ROW_HEIGHT),
    ]
    assert picture.height == 2 * ROW_HEIGHT
    assert (picture.cpu_us, picture.device_us) == (40, 60)


def test_small_boxes_and_deep_ones_are_left_out_and_counted() -> None:
    deep = [(None if k == 0 else k - 1, f"s{k}", "scope", 10.0, 0.0, 0.0, 1) for k in range(9)]
    picture = icicle(scopes_of(*deep, total=50))
    assert picture is not None
    assert len(picture.boxes) == LEVELS
    assert (picture.named, picture.scopes) == (LEVELS, 50)
    many = [(None, f"s{k}", "op", 10.0, 0.0, 0.0, 1) for k in range(450)]
    picture = icicle(scopes_of(*many))
    assert picture is not None
    assert len(picture.boxes) == BOXES
    narrow = [(None, f"s{k}", "op", 10.0, 0.0, 0.0, 1) for k in range(900)]
    picture = icicle(scopes_of(*narrow))
    assert picture is not None
    assert len(picture.boxes) == BOXES


@pytest.mark.parametrize("parent", [7, 0, -3, 0.5, "x"])
def test_a_parent_that_is_none_breaks_nothing(parent: object) -> None:
    picture = icicle(
        scopes_of((parent, "a", "op", 1.0, 0.0, 0.0, 1), (None, "b", "op", 1.0, 0.0, 0.0, 1))
    )
    assert picture is not None
    assert any(box.title.startswith("b") for box in picture.boxes)


@given(st.text(), st.floats(8, 400))
def test_no_more_than_the_room(text: str, room: float) -> None:
    made = label(text, room)
    assert made.text.isprintable() or not made.text.isascii()
    if made.length is None:
        assert 7.3 * len(made.text) <= max(room, 8)
    else:
        assert made.length <= room
