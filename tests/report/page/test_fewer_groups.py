from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.report.examples import gpu_run
from tests.report.markup import read
from traceanalyzer.model import CopyGraph, CopyGroup, CopyGroups, GroupCopies, Report
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.fewer_groups import between, fewer_groups
from traceanalyzer.report.page.group_copies import group_pictures, group_rows


def group(name: str, kind: str = "op") -> CopyGroup:
    return CopyGroup(kind=kind, label=name, ops=2, node=name, name=name, islands=(1,))  # type: ignore[arg-type]


def flow(source: int, target: int, size: int | None, memory: str = "gpu:0") -> GroupCopies:
    return GroupCopies(
        source=source,
        target=target,
        source_memory="host",
        target_memory=memory,
        direction="h2d",
        bytes=size,
        unknown_bytes=0 if size is not None else 3,
        count=3,
        total_us=2.0,
        exposed_us=None,
    )


def many(number: int, memories: int = 1) -> CopyGroups:
    """Groups of which the later ones copy more."""
    return CopyGroups(
        sources=tuple(group(f"from{k}") for k in range(number)),
        targets=tuple(group(f"to{k}") for k in range(number)),
        flows=tuple(
            flow(k, k, 10 * k if k % 7 else None, f"gpu:{m}")
            for k in range(number)
            for m in range(memories)
        ),
    )


def of(groups: CopyGroups) -> Report:
    graph = CopyGraph(nodes=(), edges=(), devices=(), groups=groups)
    return replace(gpu_run(), copy_graph=graph)


def test_what_a_picture_holds_stays_as_it_is() -> None:
    groups = many(24)
    assert fewer_groups(groups) == groups


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


def test_others_that_there_are_take_in_the_rest() -> None:
    groups = many(30)
    groups = replace(groups, sources=(group("large", "others"), *groups.sources[1:]))
    groups = replace(groups, flows=(flow(0, 0, 10**9), *groups.flows))
    kinds = [one.kind for one in fewer_groups(groups).sources]
    assert kinds == ["op"] * 23 + ["others"]


def test_very_many_bands_leave_fewer_groups() -> None:
    groups = many(300, memories=40)
    back = tuple(replace(one, direction="d2h") for one in groups.flows)
    fewer = fewer_groups(replace(groups, flows=(*groups.flows, *back)))
    assert len(set(between(fewer.flows).values())) == 24
    assert len(fewer.sources) == len(fewer.targets) == 12


def test_thousands_of_groups_are_drawn_soon_and_the_rest_is_counted() -> None:
    report = of(many(5_000))
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
    few = read(render_page(of(many(20)))).one("section", id="copies")
    assert "are shown by themselves" not in few.text
