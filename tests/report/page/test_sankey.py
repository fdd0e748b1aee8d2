from __future__ import annotations

import itertools
import re
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(FLOWS)
def test_nodes_lie_apart_and_within_the_picture(flows: list[Flow]) -> None:
    picture = drawn(flows)
    for column, own in itertools.groupby(picture.nodes, key=lambda node: node.column):
        room = SHAPE.rows[column]
        edges = [
            (node.middle - max(node.height, room) / 2, node.middle + max(node.height, room) / 2)
            for node in own
        ]
        head = SHAPE.heads[column]
        assert edges[0][0] - head >= SHAPE.margin - 0.1
        assert edges[-1][1] <= picture.height - SHAPE.margin + 0.1
        for (_, end), (start, _) in itertools.pairwise(edges):
            assert start - head - end >= SHAPE.gap - 0.2


@given(FLOWS)
def test_bands_end_in_their_nodes_one_below_the_other(flows: list[Flow]) -> None:
    picture = drawn(flows)
    nodes = {node.key: node for node in picture.nodes}
    ends: dict[tuple[str, bool], list[tuple[float, float]]] = defaultdict(list)
    for band in picture.bands:
        ends[band.source, True].append((band.y_from, band.width))
        ends[band.target, False].append((band.y_to, band.width))
    for (key, _), own in ends.items():
        own.sort()
        first, last = own[0], own[-1]
        assert first[0] - first[1] / 2 >= nodes[key].y - 0.1
        assert last[0] + last[1] / 2 <= nodes[key].y + nodes[key].height + 0.1
        for (y, width), (below, its) in itertools.pairwise(own):
            assert below - its / 2 >= y + width / 2 - 0.1


@given(FLOWS, st.randoms(use_true_random=False))
def test_the_same_flows_come_out_the_same(flows: list[Flow], random: object) -> None:
    again = [*flows]
    random.shuffle(again)  # type: ignore[attr-defined]  # Hypothesis's own kind of random.Random
    assert drawn(again) == drawn(flows) == drawn(flows)


def test_columns_are_put_in_an_order_without_crossings() -> None:
    flows = [
        *(Flow(f"{a}-{b}", a, b, 1.0) for a, b in zip("abc", "mlk", strict=True)),
        *(Flow(f"{a}-{b}", a, b, 1.0) for a, b in zip("klm", "vwu", strict=True)),
    ]
    picture = lay_out(("abc", "klm", "uvw"), flows, SHAPE)
    for from_column, to_column in ((0, 1), (1, 2)):
        nodes = {n.key: n for n in picture.nodes}
        here = [b for b in picture.bands if nodes[b.source].column == from_column]
        assert {nodes[b.target].column for b in here} == {to_column}
        here.sort(key=lambda b: b.y_from)
        assert [b.y_to for b in here] == sorted(b.y_to for b in here)


def test_what_stays_last_is_last() -> None:
    flows = [Flow("f-k", "f", "k", 9.0), Flow("a-m", "a", "m", 1.0)]
    own = [node for node in drawn(flows).nodes if node.column == 0]
    assert max(own, key=lambda node: node.y).key == "f"


def test_a_node_stands_beside_what_it_is_linked_with() -> None:
    flows = [Flow("a-k", "a", "k", 1.0), Flow("k-u", "k", "u", 1.0)]
    picture = lay_out((("a",), ("k",), ("u",)), flows, SHAPE)
    middles = {round(node.middle) for node in picture.nodes}
    assert len(middles) == 1
    (path,) = {len(re.findall("[MCLZ]", band.path)) for band in picture.bands}
    assert path == 6


def test_nothing_flows() -> None:
    assert lay_out((), [], SHAPE) == Layout((), (), 2 * SHAPE.margin)
    assert len(drawn([]).nodes) == 15
