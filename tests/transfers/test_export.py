"""The transfer graph as a file, with any names of ops."""

from __future__ import annotations

import io
import json
from pathlib import Path

import networkx as nx
import pytest
from click.testing import CliRunner

from tests.traces import copy, gpu, kernel, old_copy, stream, us, write, xspace
from tests.transfers.made import made
from traceanalyzer.cli import cli
from traceanalyzer.transfers.graph import as_graphml, as_json, transfer_graph

COPIES = gpu(0)(
    stream(9)(
        kernel("k", us(0, 4), "b:Neg"),
        old_copy("H2D", 64, us(1, 2), "a/_1:_Send", producer="a", consumer="b"),
        copy("D2H", 8, us(5, 1), source="device", target="pinned"),
    )
)


def graph() -> nx.MultiDiGraph[str]:
    found = made(COPIES)
    return transfer_graph(found.traffic, found.ops)


def read_graphml(text: str) -> nx.MultiDiGraph[str]:
    read: nx.MultiDiGraph[str] = nx.read_graphml(io.BytesIO(text.encode()), force_multigraph=True)
    return read


def test_graphml_has_all_that_is_known() -> None:
    read = read_graphml(as_graphml(graph()))

    b = made(COPIES).op_id("b")
    nodes = {d["node"]: d for _, d in read.nodes(data=True)}
    assert nodes["name:a"] == {"node": "name:a", "label": "a", "placement": "host"}
    assert nodes[b] == {"node": b, "label": "b:Neg", "placement": "gpu:0"}
    names = nx.get_node_attributes(read, "node")
    edges = {(names[s], names[t]): d for s, t, d in read.edges(data=True)}
    assert set(edges) == {("name:a", b), ("gpu:0", "host")}
    there = edges["name:a", b]
    assert (there["direction"], there["bytes"], there["count"]) == ("h2d", 64, 1)
    assert (there["total_ps"], there["hidden_ps"]) == (2_000_000, 2_000_000)
    assert there["bytes_per_s"] == 3.2e7
    assert "exposed_ps" not in there  # unknown
    assert "link_source" not in there


def test_what_xml_refuses_is_spelled_out() -> None:
    hostile = "a\x00\x1b[2J<b>&\"'\r\n\t\ufffe\ud800\u202e\x85"
    plain: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    plain.add_node(hostile, label=hostile, placement="host")

    ((_, node),) = read_graphml(as_graphml(plain)).nodes(data=True)
    assert node["label"] == "a\\x00\\x1b[2J<b>&\"'\\r\\n\\t\\ufffe\\ud800\u202e\x85"
    assert json.loads(as_json(plain))["nodes"][0]["id"] == hostile


@pytest.mark.parametrize("name", ["graph.json", "graph.GraphML"])
def test_the_command_writes_the_format_that_the_name_says(tmp_path: Path, name: str) -> None:
    logs = write(tmp_path / "logs", xspace(COPIES))
    arguments = ["export", str(logs), "--transfer-graph", "-o", str(tmp_path / name)]
    done = CliRunner().invoke(cli, arguments)

    assert (done.exit_code, done.output) == (0, f"wrote {tmp_path / name}\n")
    text = (tmp_path / name).read_text(encoding="utf-8")
    assert len(json.loads(text)["nodes"] if name.endswith("json") else read_graphml(text)) == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, "logs"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "graph.json"], "--transfer-graph"),
        (["--transfer-graph", "-o", "graph.dot"], ".graphml or .json"),
        (["--transfer-graph", "-o", "nowhere/graph.json"], "does not exist"),
    ],
)
def test_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    logs = write(tmp_path / "logs", xspace(COPIES))
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["export", str(logs), *arguments])

    assert [p.name for p in tmp_path.iterdir()] == ["logs"]
    assert (done.exit_code, words in done.output) == (2, True)
