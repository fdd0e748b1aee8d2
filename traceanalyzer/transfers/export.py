"""The transfer graph as a file: GraphML for programs that draw graphs, JSON for all others."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import networkx as nx

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What XML 1.0 cannot hold (section 2.2), and what its readers change: line ends and tabs.
_NOT_IN_XML = re.compile("[^\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_graphml(graph: nx.MultiDiGraph[str]) -> str:
    r"""Return a transfer graph as GraphML.

    Nodes and edges are numbered; a node's own name is its attribute `node`, an edge's key its
    attribute `direction`. Unknown values are left out. Characters that XML cannot hold are written
    as in Python, `\x07`.
    """
    plain: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    number = {node: f"n{k}" for k, node in enumerate(graph)}
    for node, attributes in graph.nodes(data=True):
        plain.add_node(number[node], **_known({"node": node, **attributes}))
    edges = graph.edges(keys=True, data=True)
    for k, (source, target, direction, attributes) in enumerate(edges):
        known = _known({"direction": direction, **attributes})
        plain.add_edge(number[source], number[target], key=f"e{k}", edge=f"e{k}", **known)
    stream = io.BytesIO()
    nx.write_graphml_xml(plain, stream, named_key_ids=True, edge_id_from_attribute="edge")
    return stream.getvalue().decode("utf-8") + "\n"


def as_json(graph: nx.MultiDiGraph[str]) -> str:
    """Return a transfer graph as JSON: what `networkx.node_link_graph(data, edges="edges")` reads.

    Keys of edges are the attributes of `transfer_graph`, unknown values null.
    """
    plain = {
        "directed": True,
        "multigraph": True,
        "graph": {},
        "nodes": [{"id": node, **attributes} for node, attributes in graph.nodes(data=True)],
        "edges": [
            {"source": source, "target": target, "key": direction, **attributes}
            for source, target, direction, attributes in graph.edges(keys=True, data=True)
        ],
    }
    return json.dumps(plain, allow_nan=False, indent=1) + "\n"


FORMATS: Mapping[str, Callable[[nx.MultiDiGraph[str]], str]] = {
    ".graphml": as_graphml,
    ".json": as_json,
}
"""Writers by the ending of the file name."""


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _safe(value) if isinstance(value, str) else value
        for name, value in attributes.items()
        if value is not None
    }


def _safe(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
