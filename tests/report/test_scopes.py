"""The tree of name scopes: what is below what, whose time it is, and what is left out."""

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.report.reading import only
from tests.traces import Event, executor, gpu, host, kernel, op, stream, thread, us, write, xspace
from traceanalyzer.model.blocks import Icicle, IcicleNode
from traceanalyzer.report import scopes as subject
from traceanalyzer.report.scopes import scopes_tab

CPU = 1  # after the sum of both


def made(tmp_path: Path, *ops: Event, device: tuple[Event, ...] = ()) -> tuple[IcicleNode, ...]:
    return nodes_of(loaded(tmp_path, *ops, device=device))


def loaded(tmp_path: Path, *ops: Event, device: tuple[Event, ...] = ()) -> ta.Run:
    planes = [host(thread("tf_Compute", 1)(executor(us(0, 100_000))(*ops)))]
    if device:
        planes.append(gpu(0, stream(7)(*device)))
    return ta.load(write(tmp_path, xspace(*planes)))


def nodes_of(run: ta.Run) -> tuple[IcicleNode, ...]:
    tab = scopes_tab(run)
    assert tab is not None
    return only(tab.blocks, Icicle).nodes


def by_path(nodes: tuple[IcicleNode, ...]) -> dict[str, IcicleNode]:
    paths: list[str] = []
    for node in nodes:
        paths.append(node.label if node.parent < 0 else f"{paths[node.parent]} > {node.label}")
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, nodes, strict=True))


def test_a_node_has_the_time_of_all_below_it(tmp_path: Path) -> None:
    found = by_path(
        made(
            tmp_path,
            op("model/dense/MatMul", "MatMul", us(0, 10)),
            op("model/dense/BiasAdd", "BiasAdd", us(10, 5)),
            op("model/Softmax", "Softmax", us(20, 2)),
        )
    )
    assert {path: node.values[CPU] for path, node in found.items()} == {
        "model": 17.0,
        "model > dense": 15.0,
        "model > dense > MatMul": 10.0,
        "model > dense > BiasAdd": 5.0,
        "model > Softmax": 2.0,
    }
    assert found["model"].values[-1] == 3
    assert [found[path].kind for path in ("model > dense", "model > Softmax")] == ["scope", "op"]
    assert [path for path, node in found.items() if node.op_id] == [
        path for path, node in found.items() if node.kind == "op"
    ]


def test_kernels_count_as_device_time(tmp_path: Path) -> None:
    on_gpu = (kernel("gemm", us(50, 30), "model/MatMul:MatMul"),)

    found = by_path(made(tmp_path, op("model/Unique", "Unique", us(0, 10)), device=on_gpu))

    assert found["model"].values[:3] == (40.0, 10.0, 30.0)


def test_the_call_that_was_inlined_is_no_scope(tmp_path: Path) -> None:
    found = by_path(made(tmp_path, op("StatefulPartitionedCall/model/Relu", "Relu", us(0, 10))))
    assert list(found) == ["model", "model > Relu"]
    # A call alone is an op like any other, and not nothing.
    found = by_path(made(tmp_path, op("PartitionedCall/", "Relu", us(0, 10))))
    assert [path.split(" > ")[-1] for path in found][-1] == "PartitionedCall"


def test_no_time_is_lost_whatever_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"a{k % 3}/b{k % 5}/c{k % 2}/d{k}" for k in range(40)]
    ops = [op(name, "Relu", us(10 * k, 1 + k % 7)) for k, name in enumerate(names)]
    run = loaded(tmp_path, *ops)
    most = len(nodes_of(run))
    for limit in (1, 2, 3, 5, 8, most // 2, most - 1, most, most + 1):
        monkeypatch.setattr(subject, "_MAX_NODES", limit)
        nodes = nodes_of(run)
        below: dict[int, float] = {}
        for index, node in enumerate(nodes):
            assert node.parent < index
            below[node.parent] = below.get(node.parent, 0.0) + node.values[CPU]
        assert below.pop(-1) == pytest.approx(sum(1 + k % 7 for k in range(40)))
        assert below == {k: pytest.approx(nodes[k].values[CPU]) for k in below}


@pytest.mark.parametrize("name", ["a//b", "a/", "/".join("x" * 5_000), "y" * 100_000])
def test_any_name_makes_a_tree_of_bounded_size(tmp_path: Path, name: str) -> None:
    nodes = made(tmp_path, op(name, "Relu", us(0, 10)))
    assert 1 <= len(nodes) <= 17
    assert all(len(node.label) <= 201 for node in nodes)
    assert nodes[0].values[CPU] == 10.0
