"""Transfers by groups of ops: each is in one flow, and large groups are divided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces import Event, copy, executor, gpu, host, old_copy, op, stream, thread, us
from tests.transfers.made import made
from traceanalyzer.model.blocks import FlowNode, Flows
from traceanalyzer.transfers.groups import transfer_flows

NAMES = st.lists(st.sampled_from(["a", "b", "c", "long/er", ""]), min_size=1, max_size=4).map(
    "/".join
)


def between(pairs: list[tuple[str, str, int]], *more: Event) -> Flows:
    """The groups of copies to the device, by the names at both ends and the bytes."""
    copies = [
        old_copy("H2D", size, us(k, 1), f"{a}/_{k}:_Send", producer=a, consumer=b)
        for k, (a, b, size) in enumerate(pairs)
    ]
    found = made(gpu(0)(stream(9)(*copies, *more)))
    return transfer_flows(found.traffic, found.ops)


def sources(found: Flows) -> list[FlowNode]:
    return [found.nodes[at] for at in dict.fromkeys(flow.source for flow in found.flows)]


@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**9)), min_size=1, max_size=40))
def test_every_copy_is_in_one_flow(pairs: list[tuple[str, str, int]]) -> None:
    found = between(pairs)
    assert sum(flow.bytes or 0 for flow in found.flows) == sum(size for _, _, size in pairs)
    assert sum(flow.count for flow in found.flows) == len(pairs)
    for side in ("source", "target"):
        assert 0 < len({getattr(flow, side) for flow in found.flows}) <= 24


def test_heavy_scopes_are_divided_and_light_ones_are_not() -> None:
    heavy = [(f"model/block_{k}/MatMul", "x", 10**6) for k in range(20)]
    light = [(f"other/layer/Op_{k}", "x", 1) for k in range(30)]
    found = {node.label: node.ops for node in sources(between([*heavy, *light]))}
    assert found == {"other/layer": 30, **{f"model/block_{k}/MatMul": 1 for k in range(20)}}


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
    flows = transfer_flows(found.traffic, found.ops)
    unknown = FlowNode(label="unknown op", memory="host")
    assert {node.label: node for node in sources(flows)} == {
        "unknown op": unknown,
        "Cast": FlowNode(label="Cast", memory="host", ops=40),
    }
    (flow,) = [f for f in flows.flows if flows.nodes[f.source] == unknown]
    assert (flows.nodes[flow.target].memory, flow.bytes) == ("gpu:0", 64)


@pytest.mark.parametrize("name", ["//a", "a//", "/".join("a" * 200), "a" * 100_000])
def test_odd_names(name: str) -> None:
    found = between([(name, name, 1), (f"{name}2", name, 2)])
    assert sum(flow.bytes or 0 for flow in found.flows) == 3
