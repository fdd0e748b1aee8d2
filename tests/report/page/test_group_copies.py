from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.examples import EXAMPLES, PY_FUNC, cpu_only_run, empty_run, gpu_run
from traceanalyzer.model import CopyGraph, CopyGroup, CopyGroups, GroupCopies, Report
from traceanalyzer.report.page.copy_measures import MEASURES
from traceanalyzer.report.page.group_copies import (
    GroupPicture,
    Node,
    group_pictures,
    group_rows,
)
from traceanalyzer.report.views import homes

BYTES, *_ = MEASURES


def group(name: str, **more: object) -> CopyGroup:
    return CopyGroup(kind="op", label=name, ops=1, node=name, name=name, **more)  # type: ignore[arg-type]


def flow(source: int, target: int, size: int | None, memories: str = "host gpu:0") -> GroupCopies:
    here, there = memories.split()
    return GroupCopies(
        source=source,
        target=target,
        source_memory=here,
        target_memory=there,
        direction="h2d",
        bytes=size,
        unknown_bytes=0 if size is not None else 2,
        count=2,
        total_us=1.0,
        exposed_us=None,
    )


def of(groups: CopyGroups) -> Report:
    graph = CopyGraph(nodes=(), edges=(), devices=(), groups=groups)
    return replace(gpu_run(), copy_graph=graph)


def node(picture: GroupPicture, key: str) -> Node:
    (found,) = [n for n in picture.nodes if n.key == key]
    return found


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
    report = of(CopyGroups(sources=every, targets=every, flows=tuple(flows)))
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


def test_what_is_drawn_of_the_example() -> None:
    picture = group_pictures(gpu_run())[0]
    assert picture.directions == ("h2d", "d2h", "p2p")
    host = node(picture, "f0")
    assert (host.name.text, host.told.text) == (
        "host, op unknown",
        "2.41\N{NO-BREAK SPACE}GB · 240 copies",
    )
    assert node(picture, "f3").name.text == "model/head (12)"
    assert node(picture, "f3").told.text == "size unknown"
    assert node(picture, "f4").name.text == "31 others"
    assert node(picture, "t2").told.text == "≥ 94.4\N{NO-BREAK SPACE}MB · 132 copies"
    between = [n.name.text for n in picture.nodes if n.side == "between"]
    assert sorted(between) == [
        "gpu:0 → gpu:1",
        "gpu:0 → host",
        "host → gpu:0",
        "host → gpu:1",
    ]
    unsized = [band for band in picture.bands if not band.is_measured]
    assert len(unsized) == 2
    assert all("size unknown, 12 copies" in band.title for band in unsized)
    assert any("2,411,724,800 bytes, 240 copies" in band.title for band in picture.bands)


def test_ops_lead_to_their_rows_and_groups_to_theirs() -> None:
    picture = group_pictures(gpu_run())[0]
    assert PY_FUNC.op_id in homes(gpu_run())
    assert node(picture, "f2").anchor == f"op-{PY_FUNC.op_id}"
    assert node(picture, "f3").anchor == "copies-from-3"
    assert node(picture, "t0").anchor == "copies-to-0"
    ids = {row.id for row in group_rows(gpu_run())}
    assert {band.anchor for band in picture.bands} <= ids


def test_ops_of_a_round_trip_lead_to_it() -> None:
    picture = group_pictures(gpu_run())[0]
    assert [(b.text, b.anchor) for b in node(picture, "f2").badges] == [
        ("R1", "island-1"),
        ("R2", "island-2"),
    ]
    assert node(picture, "f1").badges == ()
    without = replace(gpu_run(), islands=())
    assert not any(n.badges for n in group_pictures(without)[0].nodes)
    many = CopyGroups(
        sources=(group("a", islands=(1, 2, 3, 4)),), targets=(group("b"),), flows=(flow(0, 0, 1),)
    )
    assert [(b.text, b.anchor) for b in node(group_pictures(of(many))[0], "f0").badges] == [
        ("R1", "island-1"),
        ("R2", "island-2"),
        ("+2", "islands"),
    ]


def test_a_node_knows_what_it_has_to_do_with() -> None:
    groups = CopyGroups(
        sources=(group("a"), group("b")),
        targets=(group("c"), group("d")),
        flows=(flow(0, 0, 5), flow(1, 1, 5), flow(0, 1, 5, "gpu:0 host")),
    )
    picture = group_pictures(of(groups))[0]
    kin = {key for key in node(picture, "t0").lit.split() if "-" not in key}
    assert kin == {"f0", "t0", "b0"}
    kin = {key for key in node(picture, "f0").lit.split() if "-" not in key}
    assert kin == {"f0", "t0", "t1", "b0", "b1"}


def test_very_many_bands_are_drawn_by_one_measure() -> None:
    every = tuple(group(f"op{k}") for k in range(24))
    flows = tuple(
        flow(a, b, a + b, f"gpu:{(a + b) % 24} host") for a in range(24) for b in range(24)
    )
    (picture,) = group_pictures(of(CopyGroups(sources=every, targets=every, flows=flows)))
    assert len(picture.bands) == 2 * 24 * 24
    assert not any(n.lit for n in picture.nodes)


def test_pairs_of_memories_with_few_copies_are_one() -> None:
    flows = tuple(flow(0, 0, 1000 - k, f"gpu:{k} gpu:{k + 1}") for k in range(56))
    both = (group("op"),)
    picture = group_pictures(of(CopyGroups(sources=both, targets=both, flows=flows)))[0]
    between = [n.name.text for n in picture.nodes if n.side == "between"]
    assert len(between) == 24
    assert "gpu:0 → gpu:1" in between
    assert "33 other pairs" in between


def test_nothing_known_or_nothing_copied() -> None:
    assert group_pictures(empty_run()) == ()
    assert group_pictures(of(CopyGroups(sources=(), targets=(), flows=()))) == ()
    assert group_rows(replace(gpu_run(), copy_graph=None)) == ()
    assert group_pictures(cpu_only_run()) == ()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_labels_take_no_more_than_their_room(name: str) -> None:
    for picture in group_pictures(EXAMPLES[name]()):
        assert len({n.key for n in picture.nodes}) == len(picture.nodes)
        for one in picture.nodes:
            for label in (one.name, one.told):
                assert len(label.text) < 40
                assert label.length is None or label.length <= 200
