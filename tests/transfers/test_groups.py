"""Transfers by groups of ops: each is in one flow, and large groups are divided."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import Event, copy, executor, gpu, host, old_copy, op, stream, thread, us
from tests.transfers.made import made
from traceanalyzer.transfers.groups import Groups, transfer_groups

NAMES = st.lists(st.sampled_from(["a", "b", "c", "long/er", ""]), min_size=1, max_size=4).map(
    "/".join
)


def between(pairs: list[tuple[str, str, int]], *more: Event) -> Groups:
    """The groups of copies to the device, by the names at both ends and the bytes."""
    copies = [
        old_copy("H2D", size, us(k, 1), f"{a}/_{k}:_Send", producer=a, consumer=b)
        for k, (a, b, size) in enumerate(pairs)
    ]
    found = made(gpu(0)(stream(9)(*copies, *more)))
    return transfer_groups(found.traffic, found.ops)


def labels(groups: Groups) -> list[tuple[str, str, int]]:
    return [(group.kind, group.label, len(group.nodes)) for group in groups.sources]


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**9)), min_size=1, max_size=40))
def test_every_copy_is_in_one_flow(pairs: list[tuple[str, str, int]]) -> None:
    groups = between(pairs)
    assert sum(flow.sums["bytes"] for flow in groups.flows) == sum(size for _, _, size in pairs)
    assert sum(flow.sums["count"] for flow in groups.flows) == len(pairs)
    for side, ends in ((groups.sources, "source"), (groups.targets, "target")):
        assert 0 < len(side) <= 24
        held = Counter(node for group in side for node in group.nodes)
        assert set(held.values()) == {1}
        assert {getattr(flow, ends) for flow in groups.flows} == set(range(len(side)))


def test_heavy_scopes_are_divided_and_light_ones_are_not() -> None:
    heavy = [(f"model/block_{k}/MatMul", "x", 10**6) for k in range(20)]
    light = [(f"other/layer/Op_{k}", "x", 1) for k in range(30)]
    found = labels(between([*heavy, *light]))
    assert ("scope", "other/layer", 30) in found
    assert [entry for entry in found if entry[0] == "op"] == [
        ("op", f"model/block_{k}/MatMul", 1) for k in sorted(range(20), key=str)
    ]


def test_ops_without_a_scope_are_grouped_by_type_and_unknown_ones_by_memory() -> None:
    ops = [op(f"Cast_{k}", "Cast", us(k, 1)) for k in range(40)]
    copies = [
        *(
            old_copy("H2D", 8, us(50 + k, 1), f"Cast_{k}/_{k}:_Send", producer=f"Cast_{k}")
            for k in range(40)
        ),
        copy("H2D", 64, us(200, 1)),
    ]
    found = made(
        host(thread("tf_Compute", 1)(executor(us(0, 300))(*ops))), gpu(0)(stream(9)(*copies))
    )
    groups = transfer_groups(found.traffic, found.ops)
    assert sorted(labels(groups)) == [("memory", "host", 1), ("type", "Cast", 40)]
    (flow,) = [f for f in groups.flows if groups.sources[f.source].kind == "memory"]
    assert (flow.source_memory, flow.target_memory, flow.direction) == ("host", "gpu:0", "h2d")
    assert flow.sums["bytes"] == 64


@pytest.mark.parametrize("name", ["/", "//a", "a//", "/".join("a" * 200), "a" * 100_000])
def test_odd_names(name: str) -> None:
    groups = between([(name, name, 1), (f"{name}2", name, 2)])
    assert sum(flow.sums["bytes"] for flow in groups.flows) == 3
