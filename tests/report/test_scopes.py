"""The tree of name scopes: what stands under what, whose time it is, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.traces import (
    executor,
    gpu,
    host,
    op,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.report import scopes as subject
from traceanalyzer.report.scopes import scopes

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model import Cell
    from traceanalyzer.model.times import Scopes


def at(found: Scopes | None) -> dict[str, dict[str, Cell]]:
    """Return the nodes by their path."""
    assert found is not None
    paths: list[str] = []
    for row in found.nodes.records():
        parent = row["parent"]
        above = "" if parent is None else f"{paths[int(str(parent))]} > "
        paths.append(f"{above}{row['name']}")
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, found.nodes.records(), strict=True))


def made(tmp_path: Path, *ops: object, device: tuple[object, ...] = ()) -> Scopes | None:
    planes = [host(thread("tf_Compute", 1)(executor(us(0, 100_000))(*ops)))]
    if device:
        planes.append(gpu(0)(stream(7)(*device)))
    return scopes(ta.load(write(tmp_path, xspace(*planes))))


def test_a_node_has_the_time_of_all_below_it(tmp_path: Path) -> None:
    found = at(
        made(
            tmp_path,
            op("model/dense/MatMul", "MatMul", us(0, 10)),
            op("model/dense/BiasAdd", "BiasAdd", us(10, 5)),
            op("model/Softmax", "Softmax", us(20, 2)),
        )
    )
    assert {path: row["cpu_us"] for path, row in found.items()} == {
        "model": 17.0,
        "model > dense": 15.0,
        "model > dense > MatMul": 10.0,
        "model > dense > BiasAdd": 5.0,
        "model > Softmax": 2.0,
    }
    assert found["model"]["ops"] == 3
    assert [found[path]["kind"] for path in ("model > dense", "model > Softmax")] == ["scope", "op"]


def test_the_call_that_was_inlined_is_no_scope(tmp_path: Path) -> None:
    found = at(made(tmp_path, op("StatefulPartitionedCall/model/Relu", "Relu", us(0, 10))))
    assert list(found) == ["model", "model > Relu"]
    # A call alone is an op like any other, and not nothing.
    found = at(made(tmp_path, op("PartitionedCall/", "Relu", us(0, 10))))
    assert [path.split(" > ")[-1] for path in found][-1] == "PartitionedCall"


def test_what_is_kept_is_a_tree_whatever_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a{k % 3}/b{k % 5}/c{k % 2}/d{k}" for k in range(40)]
    ops = [op(name, "Relu", us(10 * k, 1 + k % 7)) for k, name in enumerate(names)]
    whole = at(made(tmp_path, *ops))
    for limit in range(1, len(whole) + 2):
        monkeypatch.setattr(subject, "_MAX_NODES", limit)
        found = made(tmp_path, *ops)
        assert found is not None
        below: dict[Cell, float] = {}
        for index, row in enumerate(found.nodes.records()):
            parent = row["parent"]
            assert parent is None or int(str(parent)) < index
            below[parent] = below.get(parent, 0.0) + float(str(row["cpu_us"]))
        assert below[None] == pytest.approx(sum(1 + k % 7 for k in range(40)))
        for parent, took in below.items():
            if parent is not None:
                assert took == pytest.approx(found.nodes.rows[int(str(parent))][3])


@pytest.mark.parametrize("name", ["a//b", "a/", "/".join("x" * 5_000), "y" * 100_000])
def test_any_name_makes_a_tree_of_bounded_size(tmp_path: Path, name: str) -> None:
    found = made(tmp_path, op(name, "Relu", us(0, 10)))
    assert found is not None
    assert 1 <= len(found.nodes.rows) <= 17
    assert all(len(str(row[1])) <= 401 for row in found.nodes.rows)
    assert found.nodes.rows[0][3] == 10.0
